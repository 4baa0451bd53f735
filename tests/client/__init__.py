"""The clients of the API."""

"""The API: FastAPI over `service`, stateless, any number of replicas."""

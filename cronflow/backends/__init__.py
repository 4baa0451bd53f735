"""The adapters for MongoDB and Redis: the only code that imports a driver."""

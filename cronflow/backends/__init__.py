"""The stores and the coordination: the only code that imports a driver."""

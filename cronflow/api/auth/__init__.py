"""The routes and the gate of those who log in, and of those who manage who may."""

"""Importers of other schedulers, compared with their engines."""

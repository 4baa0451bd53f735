"""Rehearsals: every expected outcome was computed by hand."""

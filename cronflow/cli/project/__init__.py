"""The files that `cronflow init` writes."""

"""The ledger: what became of each instant, and the files that prove it."""

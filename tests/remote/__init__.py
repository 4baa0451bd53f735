"""Tests of `cronflow.remote`: what shapes become, and the login that is kept."""

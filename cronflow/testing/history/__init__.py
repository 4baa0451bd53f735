"""Histories of a cluster, and the rules that each of them must keep: see `checker`."""

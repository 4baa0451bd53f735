"""Monitoring: the figures of a process as Prometheus reads them. The only package that imports its client."""

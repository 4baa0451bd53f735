"""The composition root: it chooses the adapter for each port, and opens and closes connections in order.

Only this package imports all the others. It has a module per kind of process, and turns settings into plain values.
"""

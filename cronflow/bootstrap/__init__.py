"""The composition root: which adapter stands behind which port, and in which order things are opened and closed.

The only package that knows all the others; a module for each kind of process. Settings become plain values here;
nothing below reads them.
"""

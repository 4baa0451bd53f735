"""Simulations: stories of whole nodes on virtual time, in which everything goes wrong and people change everything.

`stories` draws them, `world` lives them, `jobs` has the jobs, and `loop` the event loop that can stop one node.
"""

"""Redis: motion. Election, heartbeats, the nodes' lists and locks, doorbells; nothing here is ever the only copy of
anything.
"""

"""A watcher: a small process that knows the schedules, and notices from outside when due runs do not exist.

It needs neither leader nor nodes, takes part in no election, and writes to no server.
"""

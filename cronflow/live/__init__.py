"""The live stream, as an API replica serves it: who builds the ticks, who hands them out, and the lines of runs.

One replica at a time builds a tick each second and appends it to a capped stream in Redis; every replica reads that
stream and hands it to its own sockets. So the id of a tick is the place to go on from, on any replica. A tick holds
absolute values: one that is passed over costs nothing but smoothness. What is read here is bounded whatever the number
of jobs and runs: heartbeats, roll-ups, and counts from indexes.
"""

"""The live stream of an API replica: builds ticks, sends them to sockets, and follows the log lines of runs.

One replica at a time builds a tick each second and appends it to a capped stream in Redis. Every replica reads that
stream and forwards it to its own sockets, so a client can continue from a tick id on any replica. A tick holds absolute
values; skipping one only makes the display less smooth. All reads are bounded regardless of the number of jobs and
runs: heartbeats, rollups, and counts from indexes.
"""

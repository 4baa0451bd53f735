"""`cronflow chaos`: a cluster that is broken on purpose, and a judgement of what it did.

`cluster` starts servers and nodes, with a proxy on each connection; `faults` has everything that can be broken; `jobs`
are the jobs, whose handlers report each start and end to the `sink`; `experiment` injects the faults and collects the
history, which `cronflow.testing.history` judges; `result` counts what it showed.
"""

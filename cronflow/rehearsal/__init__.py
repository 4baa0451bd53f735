"""Rehearsals: the cluster's own jobs on real nodes, on the memory backend and a virtual clock.

The nodes are those of production: elector, planner, recovery, reconciler and worker. What is simulated is the time, the
servers, and the handlers: a handler only occupies its slot for as long as the job usually runs. Rule: nothing of a job
is executed, and no server is reached.

    result = rehearse(jobs, Scenario(first, until))

`stage` has the cluster, `director` moves its time, `report` makes a result out of what was observed.
"""

from __future__ import annotations

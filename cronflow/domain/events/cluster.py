"""Events of leaders and nodes."""

from __future__ import annotations

from cronflow.domain.events.base import Event, Severity, event


@event
class LeaderElected(Event):
    """`after` is the previous leader, and `renewed` the instant at which it last renewed its lease; both are empty if
    there was none, and in events of earlier versions.
    """

    node: str
    term: int
    after: str = ""
    renewed: str = ""
    message = "{node} is the leader, term {term}"


@event
class LeaderSteppedDown(Event):
    """A leader stepped down, or found out that it had lost the lead."""

    node: str
    term: int
    reason: str
    severity = Severity.WARN
    message = "{node} is no longer the leader, term {term}: {reason}"


@event
class RoleFailed(Event):
    """A role of a node or of the API met an unexpected error: a bug, or a record that this version cannot read."""

    node: str
    role: str
    error: str
    severity = Severity.ERROR
    message = "the {role} of {node} failed with an unexpected error: {error}"


@event
class StepdownRequested(Event):
    leader: str
    by: str
    message = "a step-down of {leader} was requested"


@event
class MaintenanceStarted(Event):
    """`note` and `until` are empty if there are none; `until` is an instant."""

    by: str
    note: str = ""
    until: str = ""
    severity = Severity.WARN
    message = "maintenance started: no new runs start"


@event
class MaintenanceEnded(Event):
    by: str
    message = "maintenance ended"


@event
class RecoveryWaiting(Event):
    """More runs were missed in an outage than RECOVERY_LIMIT. They wait for a person."""

    runs: int
    jobs: int
    cause: str
    severity = Severity.WARN
    message = "{runs:missed run|missed runs} of {jobs:job|jobs} {runs:=is|are} waiting for approval ({cause})"


@event
class RecoveryApproved(Event):
    """`only` is the pattern of the jobs that it concerns, and empty for all; `rate` is empty without one."""

    by: str
    runs: int
    only: str = ""
    rate: str = ""
    message = "{runs:missed run|missed runs} may start"


@event
class RecoverySkipped(Event):
    """`only` is the pattern of the jobs that it concerns, and empty for all."""

    by: str
    runs: int
    only: str = ""
    note: str = ""
    severity = Severity.WARN
    message = "{runs:missed run|missed runs} will be skipped"


@event
class RecoveryWithdrawn(Event):
    """Fewer missed runs are left than need an approval, so they start."""

    runs: int
    message = "{runs:missed run|missed runs} no longer {runs:=needs|need} approval"


@event
class RecoveryEnded(Event):
    """No more missed runs are held. `runs` and `jobs` were counted at its beginning."""

    runs: int
    jobs: int
    message = "the recovery of {runs:missed run|missed runs} of {jobs:job|jobs} ended"


@event
class CursorsCorrected(Event):
    """The time zone data of the leader are others than those by which the next fires of these jobs were computed."""

    jobs: int
    zones: str
    message = "the next fires of {jobs:job|jobs} moved because the time zone data changed"


@event
class NodeJoined(Event):
    """`code` is a digest of the modules that it loads; it is empty in events of earlier versions."""

    node: str
    version: str
    slots: int
    code: str = ""
    message = "{node} joined with {slots:slot|slots}"


@event
class NodeLeft(Event):
    node: str
    message = "{node} left"


@event
class NodeLost(Event):
    """A node's heartbeat stopped without a clean exit. Its next process may have joined already."""

    node: str
    in_flight: int
    severity = Severity.ERROR
    message = "{node} was lost with {in_flight:running job|running jobs}"


@event
class HandlerProcessEnded(Event):
    """A handler process ended, and its attempts with it. The node starts another one."""

    node: str
    pid: int
    reason: str
    attempts: int
    severity = Severity.WARN
    message = "a handler process of {node} {reason}; {attempts:attempt|attempts} ended with it"


@event
class NodeDraining(Event):
    """A node was asked to finish its running jobs and accept no new ones."""

    node: str
    severity = Severity.WARN
    message = "{node} is draining"


@event
class NodeDrained(Event):
    node: str
    message = "{node} is drained"


@event
class DrainDeadlinePassed(Event):
    """A node that drains has stopped what still ran; other nodes run it again."""

    node: str
    runs: int
    severity = Severity.WARN
    message = "{runs:run|runs} of {node} {runs:=was|were} reassigned at its drain deadline"


@event
class NodeUndrained(Event):
    node: str
    message = "{node} accepts work again"


@event
class ClusterIncomplete(Event):
    """A new cluster has no leader yet, because fewer nodes are up than MIN_NODES."""

    nodes: int
    minimum: int
    severity = Severity.WARN
    message = "the cluster is waiting for {minimum} nodes before it elects a leader ({nodes} up)"


@event
class ClusterDegraded(Event):
    """Fewer nodes are up than MIN_NODES. The cluster keeps running with those that are left."""

    nodes: int
    minimum: int
    names: str
    severity = Severity.ERROR
    message = "only {nodes:node is|nodes are} up, fewer than {minimum}: {names}"


@event
class ClusterComplete(Event):
    nodes: int
    message = "{nodes} nodes are up again"

"""The ports: what the roles of a node need from the outside, as short protocols whose docstrings are the contracts.

MongoDB stands behind JobStore, PlanStore, RunStore, LogStore, Control, Archive, Upkeep, EventStore, RollupStore and
Totals; Redis behind Election, Membership, Queue, Bus, Housekeeping, Feed and Tails. The memory backend implements all
of them, and one contract suite per port runs on every backend. Every verb may raise BackendUnavailable; then it is
unknown whether it took effect, and each says what repeating it means.
Cancelling a verb never leaves a connection half used.
"""

from cronflow.ports.backends import Backends
from cronflow.ports.clocks import Clock, Timepiece
from cronflow.ports.executors import Choosy, Executor, LineSink
from cronflow.ports.history import (
    Archive,
    Control,
    DeadLetters,
    Deferral,
    Found,
    JobStore,
    LateResult,
    LateStore,
    LineQuery,
    LogLine,
    LogStore,
    Move,
    OpenRun,
    PlanStore,
    RunQuery,
    RunStore,
    Upkeep,
    VersionStore,
)
from cronflow.ports.motion import Assignment, Bell, Bus, Election, Endless, Hold, Housekeeping, Membership, Queue, Taken
from cronflow.ports.telling import Entry, EventStore, Feed, Lines, RollupStore, Standing, Tails, Tell, Totals, nobody

__all__ = [
    "Archive",
    "Assignment",
    "Backends",
    "Bell",
    "Bus",
    "Choosy",
    "Clock",
    "Control",
    "DeadLetters",
    "Deferral",
    "Election",
    "Endless",
    "Entry",
    "EventStore",
    "Executor",
    "Feed",
    "Found",
    "Hold",
    "Housekeeping",
    "JobStore",
    "LateResult",
    "LateStore",
    "LineQuery",
    "LineSink",
    "Lines",
    "LogLine",
    "LogStore",
    "Membership",
    "Move",
    "OpenRun",
    "PlanStore",
    "Queue",
    "RollupStore",
    "RunQuery",
    "RunStore",
    "Standing",
    "Tails",
    "Taken",
    "Tell",
    "Timepiece",
    "Totals",
    "Upkeep",
    "VersionStore",
    "nobody",
]

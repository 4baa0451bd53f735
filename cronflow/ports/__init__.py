"""The ports: what the roles of a node need from the outside, as short protocols whose docstrings are the contracts.

MongoDB stands behind JobStore, PlanStore, RunStore, ResultStore, LogStore, Control, Archive, Upkeep and the stores of
`access`; Redis behind Election, Membership, Queue, Bus, Housekeeping, RateLimiter and TicketStore. The memory backend
implements all of them, and one contract suite per port runs on every backend. Every verb may raise BackendUnavailable;
then it is unknown whether it took effect, and each says what repeating it means.
Cancelling a verb never leaves a connection half used.
"""

from cronflow.ports.access import (
    AuditQuery,
    AuditStore,
    KeyStore,
    RateLimiter,
    SecretStore,
    SessionStore,
    TicketStore,
    UserStore,
)
from cronflow.ports.backends import Backends
from cronflow.ports.clocks import Clock, Timepiece
from cronflow.ports.executors import Choosy, Executor, LineSink
from cronflow.ports.history import (
    Archive,
    Control,
    DeadLetters,
    Deferral,
    JobStore,
    LargeResult,
    LateResult,
    LateStore,
    LogLine,
    LogStore,
    Move,
    OpenRun,
    PlanStore,
    ResultStore,
    RunQuery,
    RunStore,
    Upkeep,
    VersionStore,
)
from cronflow.ports.motion import (
    Assignment,
    Bell,
    Bus,
    Election,
    Endless,
    Hold,
    Housekeeping,
    Keeping,
    Membership,
    Queue,
    Taken,
)

__all__ = [
    "Archive",
    "Assignment",
    "AuditQuery",
    "AuditStore",
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
    "Executor",
    "Hold",
    "Housekeeping",
    "JobStore",
    "Keeping",
    "KeyStore",
    "LargeResult",
    "LateResult",
    "LateStore",
    "LineSink",
    "LogLine",
    "LogStore",
    "Membership",
    "Move",
    "OpenRun",
    "PlanStore",
    "Queue",
    "RateLimiter",
    "ResultStore",
    "RunQuery",
    "RunStore",
    "SecretStore",
    "SessionStore",
    "Taken",
    "TicketStore",
    "Timepiece",
    "Upkeep",
    "UserStore",
    "VersionStore",
]

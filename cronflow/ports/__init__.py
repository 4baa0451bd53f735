"""The ports: protocols for everything CronFlow needs from outside. Their docstrings are the contracts.

MongoDB implements the ports in `stores`, `limits`, `calendars`, `access` and `alerts` and the event, roll-up and totals
stores.
Redis implements the ports in `coordination`, the live stream, the live tail, rate limits and tickets.
`cronflow.testing.memory` implements all of them. One contract suite per port runs on every backend.

Every method may raise BackendUnavailable. The call may or may not have taken effect then; each contract states whether
repeating it is safe. Cancelling a call never leaves a connection in an unusable state.
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
from cronflow.ports.alerts import AlertConditions, AlertStore, NotificationSender, Outbox
from cronflow.ports.backends import Backends
from cronflow.ports.backfills import BackfillStore, WatchedBackfill
from cronflow.ports.breakers import BreakerStore
from cronflow.ports.calendars import CalendarRecord, CalendarStore
from cronflow.ports.catch_up import CatchUpStore, HeldFire
from cronflow.ports.chains import ChainStore as ChainStore
from cronflow.ports.clock import Clock, ServerClock
from cronflow.ports.coordination import (
    AHEAD_VALID_S,
    START_BY_S,
    WITHDRAWN_FOR_S,
    Assignment,
    Bus,
    CoordinationAdmin,
    Election,
    JobLock,
    KeyWithoutTtl,
    Membership,
    Queue,
    RedisConfig,
    Signal,
    Taken,
)
from cronflow.ports.events import (
    Entry,
    EventSink,
    EventStore,
    Feed,
    JobCounts,
    LineBatch,
    LiveTail,
    RollupStore,
    Totals,
    discard_event,
)
from cronflow.ports.executors import Executor, LineSink, SelectiveExecutor
from cronflow.ports.job_health import JobHealthStore, NeverRan
from cronflow.ports.limits import LimitStore, PermitKey, Waiter
from cronflow.ports.metrics import UNMETERED, Exposition, Meter, Reading
from cronflow.ports.stores import (
    Archive,
    Control,
    CursorMove,
    DeadLetters,
    Deferral,
    Found,
    JobReach,
    JobStore,
    LargeResult,
    LateResult,
    LateStore,
    LineQuery,
    LogLine,
    LogStore,
    Move,
    OpenRun,
    PlanStore,
    ReplicaSet,
    ResultStore,
    RunningRun,
    RunQuery,
    RunStore,
    StoreAdmin,
    VersionStore,
)

__all__ = [
    "AHEAD_VALID_S",
    "START_BY_S",
    "UNMETERED",
    "WITHDRAWN_FOR_S",
    "AlertConditions",
    "AlertStore",
    "Archive",
    "Assignment",
    "AuditQuery",
    "AuditStore",
    "Backends",
    "BackfillStore",
    "BreakerStore",
    "Bus",
    "CalendarRecord",
    "CalendarStore",
    "CatchUpStore",
    "Clock",
    "Control",
    "CoordinationAdmin",
    "CursorMove",
    "DeadLetters",
    "Deferral",
    "Election",
    "Entry",
    "EventSink",
    "EventStore",
    "Executor",
    "Exposition",
    "Feed",
    "Found",
    "HeldFire",
    "JobCounts",
    "JobHealthStore",
    "JobLock",
    "JobReach",
    "JobStore",
    "KeyStore",
    "KeyWithoutTtl",
    "LargeResult",
    "LateResult",
    "LateStore",
    "LimitStore",
    "LineBatch",
    "LineQuery",
    "LineSink",
    "LiveTail",
    "LogLine",
    "LogStore",
    "Membership",
    "Meter",
    "Move",
    "NeverRan",
    "NotificationSender",
    "OpenRun",
    "Outbox",
    "PermitKey",
    "PlanStore",
    "Queue",
    "RateLimiter",
    "Reading",
    "RedisConfig",
    "ReplicaSet",
    "ResultStore",
    "RollupStore",
    "RunQuery",
    "RunStore",
    "RunningRun",
    "SecretStore",
    "SelectiveExecutor",
    "ServerClock",
    "SessionStore",
    "Signal",
    "StoreAdmin",
    "Taken",
    "TicketStore",
    "Totals",
    "UserStore",
    "VersionStore",
    "Waiter",
    "WatchedBackfill",
    "discard_event",
]

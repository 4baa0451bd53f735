"""The ports of one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cronflow.ports.access import (
    AuditStore,
    KeyStore,
    RateLimiter,
    SecretStore,
    SessionStore,
    TicketStore,
    UserStore,
)
from cronflow.ports.alerts import AlertConditions, AlertStore, Outbox
from cronflow.ports.backfills import BackfillStore
from cronflow.ports.breakers import BreakerStore
from cronflow.ports.calendars import CalendarStore
from cronflow.ports.catch_up import CatchUpStore
from cronflow.ports.chains import ChainStore
from cronflow.ports.clock import ServerClock
from cronflow.ports.coordination import Bus, CoordinationAdmin, Election, Membership, Queue
from cronflow.ports.events import EventStore, Feed, LiveTail, RollupStore, Totals
from cronflow.ports.job_health import JobHealthStore
from cronflow.ports.limits import LimitStore
from cronflow.ports.stores import (
    Archive,
    Control,
    DeadLetters,
    JobStore,
    LateStore,
    LogStore,
    PlanStore,
    ResultStore,
    RunStore,
    StoreAdmin,
    VersionStore,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """All ports. Bootstrap builds it; each role takes only the ports that it needs."""

    jobs: JobStore
    plans: PlanStore
    runs: RunStore
    versions: VersionStore
    late: LateStore
    results: ResultStore
    dead_letters: DeadLetters
    breakers: BreakerStore
    backfills: BackfillStore
    chains: ChainStore
    catch_up: CatchUpStore
    logs: LogStore
    control: Control
    archive: Archive
    store_admin: StoreAdmin
    events: EventStore
    rollups: RollupStore
    totals: Totals
    election: Election
    membership: Membership
    queue: Queue
    bus: Bus
    coordination_admin: CoordinationAdmin
    users: UserStore
    sessions: SessionStore
    keys: KeyStore
    secrets: SecretStore
    audit: AuditStore
    alerts: AlertStore
    outbox: Outbox
    alert_conditions: AlertConditions
    job_health: JobHealthStore
    limits: LimitStore
    calendars: CalendarStore
    limiter: RateLimiter
    tickets: TicketStore
    feed: Feed
    live_tail: LiveTail
    server_clocks: Mapping[str, ServerClock] = field(default_factory=dict)

"""The memory backend put together: one Redis memory and one set of documents, for all nodes that are given them."""

from __future__ import annotations

from dataclasses import dataclass

from cronflow.ports import Backends, Clock
from cronflow.testing.faults import Faults
from cronflow.testing.memory.access import (
    MemoryAuditStore,
    MemoryKeyStore,
    MemoryRateLimiter,
    MemorySecretStore,
    MemorySessionStore,
    MemoryTicketStore,
    MemoryUserStore,
)
from cronflow.testing.memory.admin import MemoryArchive, MemoryCoordinationAdmin, MemoryStoreAdmin
from cronflow.testing.memory.alerts import MemoryAlertConditions, MemoryAlertStore, MemoryOutbox
from cronflow.testing.memory.coordination import (
    Memory,
    MemoryBus,
    MemoryElection,
    MemoryMembership,
    MemoryQueue,
    MemoryServerClock,
)
from cronflow.testing.memory.events import (
    MemoryEventStore,
    MemoryFeed,
    MemoryLiveTail,
    MemoryRollupStore,
    MemoryTotals,
)
from cronflow.testing.memory.ledger import MemoryDeadLetters, MemoryLateStore, MemoryResultStore, MemoryVersionStore
from cronflow.testing.memory.stores import (
    MemoryControl,
    MemoryJobStore,
    MemoryLogStore,
    MemoryPlanStore,
    MemoryRunStore,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBackends(Backends):
    """The ports, and what a test may look into or break."""

    memory: Memory
    faults: Faults


def memory_backends(clock: Clock, *, lock_s: float = 35.0, start_by_s: float = 5.0) -> MemoryBackends:
    """Make one. `lock_s`: how long a job lock lasts unrenewed; `start_by_s`: how long an item may lie in a list."""
    faults, memory = Faults(), Memory(clock)
    jobs, runs, logs = MemoryJobStore(faults), MemoryRunStore(faults, clock), MemoryLogStore(faults)
    results = MemoryResultStore(faults)
    events = MemoryEventStore(faults)
    outbox = MemoryOutbox(faults, clock)
    return MemoryBackends(
        jobs=jobs,
        plans=MemoryPlanStore(faults, clock),
        runs=runs,
        versions=MemoryVersionStore(faults),
        late=MemoryLateStore(faults, runs),
        results=results,
        dead_letters=MemoryDeadLetters(faults, runs),
        logs=logs,
        control=MemoryControl(faults, clock),
        archive=MemoryArchive(faults, clock, jobs, runs, results),
        store_admin=MemoryStoreAdmin(faults, clock, logs, events),
        events=events,
        rollups=MemoryRollupStore(faults),
        totals=MemoryTotals(faults, jobs, runs),
        election=MemoryElection(faults, memory),
        membership=MemoryMembership(faults, memory),
        queue=MemoryQueue(faults, memory, lock_s=lock_s, start_by_s=start_by_s),
        bus=MemoryBus(faults, memory),
        server_clocks={service: MemoryServerClock(faults, clock, service) for service in ("MongoDB", "Redis")},
        coordination_admin=MemoryCoordinationAdmin(faults, memory),
        users=MemoryUserStore(faults),
        sessions=MemorySessionStore(faults),
        keys=MemoryKeyStore(faults),
        secrets=MemorySecretStore(faults),
        audit=MemoryAuditStore(faults, clock),
        alerts=MemoryAlertStore(faults, outbox),
        outbox=outbox,
        alert_conditions=MemoryAlertConditions(faults, jobs, runs),
        limiter=MemoryRateLimiter(faults, clock),
        tickets=MemoryTicketStore(faults, clock),
        feed=MemoryFeed(faults, memory),
        live_tail=MemoryLiveTail(faults, memory),
        memory=memory,
        faults=faults,
    )

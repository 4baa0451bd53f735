"""The memory backend put together: one Redis memory and one set of documents, for all nodes that are given them."""

from __future__ import annotations

from dataclasses import dataclass

from cronflow.backends.memory.access import (
    MemoryAuditStore,
    MemoryKeyStore,
    MemoryRateLimiter,
    MemorySecretStore,
    MemorySessionStore,
    MemoryTicketStore,
    MemoryUserStore,
)
from cronflow.backends.memory.alerts import MemoryAlertStore, MemoryOutbox, MemorySigns
from cronflow.backends.memory.faults import Faults
from cronflow.backends.memory.history import (
    MemoryControl,
    MemoryJobStore,
    MemoryLogStore,
    MemoryPlanStore,
    MemoryRunStore,
)
from cronflow.backends.memory.ledger import MemoryDeadLetters, MemoryLateStore, MemoryResultStore, MemoryVersionStore
from cronflow.backends.memory.motion import (
    Memory,
    MemoryBus,
    MemoryElection,
    MemoryMembership,
    MemoryQueue,
    MemoryTimepiece,
)
from cronflow.backends.memory.telling import (
    MemoryEventStore,
    MemoryFeed,
    MemoryRollupStore,
    MemoryTails,
    MemoryTotals,
)
from cronflow.backends.memory.upkeep import MemoryArchive, MemoryHousekeeping, MemoryUpkeep
from cronflow.ports import Backends, Clock


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
        letters=MemoryDeadLetters(faults, runs),
        logs=logs,
        control=MemoryControl(faults, clock),
        archive=MemoryArchive(faults, clock, jobs, runs, results),
        upkeep=MemoryUpkeep(faults, clock, logs, events),
        events=events,
        rollups=MemoryRollupStore(faults),
        totals=MemoryTotals(faults, jobs, runs),
        election=MemoryElection(faults, memory),
        membership=MemoryMembership(faults, memory),
        queue=MemoryQueue(faults, memory, lock_s=lock_s, start_by_s=start_by_s),
        bus=MemoryBus(faults, memory),
        timepieces={service: MemoryTimepiece(faults, clock, service) for service in ("MongoDB", "Redis")},
        housekeeping=MemoryHousekeeping(faults, memory),
        users=MemoryUserStore(faults),
        sessions=MemorySessionStore(faults),
        keys=MemoryKeyStore(faults),
        secrets=MemorySecretStore(faults),
        audit=MemoryAuditStore(faults, clock),
        alerts=MemoryAlertStore(faults, outbox),
        outbox=outbox,
        signs=MemorySigns(faults, jobs, runs),
        limiter=MemoryRateLimiter(faults, clock),
        tickets=MemoryTicketStore(faults, clock),
        feed=MemoryFeed(faults, memory),
        tails=MemoryTails(faults, memory),
        memory=memory,
        faults=faults,
    )

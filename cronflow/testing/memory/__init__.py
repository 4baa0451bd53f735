"""An in-memory backend: every port, linearizable, on any clock, with hooks that make any verb fail.

For tests, simulations and `cronflow dev --memory`. Nothing is durable.
"""

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
from cronflow.testing.memory.backfills import MemoryBackfillStore
from cronflow.testing.memory.breakers import MemoryBreakerStore
from cronflow.testing.memory.calendars import MemoryCalendarStore
from cronflow.testing.memory.catch_up import MemoryCatchUpStore
from cronflow.testing.memory.chains import MemoryChainStore
from cronflow.testing.memory.coordination import (
    Memory,
    MemoryBus,
    MemoryElection,
    MemoryMembership,
    MemoryQueue,
    MemoryServerClock,
)
from cronflow.testing.memory.documents import Documents
from cronflow.testing.memory.events import (
    MemoryEventStore,
    MemoryFeed,
    MemoryLiveTail,
    MemoryRollupStore,
    MemoryTotals,
)
from cronflow.testing.memory.job_health import MemoryJobHealthStore
from cronflow.testing.memory.limits import MemoryLimitStore
from cronflow.testing.memory.stores import (
    MemoryControl,
    MemoryDeadLetters,
    MemoryJobStore,
    MemoryLateStore,
    MemoryLogStore,
    MemoryPlanStore,
    MemoryResultStore,
    MemoryRunStore,
    MemoryVersionStore,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBackends(Backends):
    """The ports, and what a test may read, forge or break: the state of MongoDB and of Redis, and the faults."""

    documents: Documents
    memory: Memory
    faults: Faults


def memory_backends(
    clock: Clock, *, lock_s: float = 35.0, start_by_s: float = 5.0, ahead: bool = True
) -> MemoryBackends:
    """New, empty backends, for any number of nodes. A job lock lasts `lock_s` unless renewed; an item may wait in a
    node's list for `start_by_s`. Without `ahead`, nodes get no more runs than they have slots.
    """
    faults, documents = Faults(), Documents(clock)
    memory = Memory(clock, lock_s=lock_s, start_by_s=start_by_s, has_ahead=ahead)
    return MemoryBackends(
        jobs=MemoryJobStore(faults, documents),
        plans=MemoryPlanStore(faults, documents),
        runs=MemoryRunStore(faults, documents),
        versions=MemoryVersionStore(faults, documents),
        late=MemoryLateStore(faults, documents),
        results=MemoryResultStore(faults, documents),
        dead_letters=MemoryDeadLetters(faults, documents),
        breakers=MemoryBreakerStore(faults, documents),
        backfills=MemoryBackfillStore(faults, documents),
        chains=MemoryChainStore(faults, documents),
        catch_up=MemoryCatchUpStore(faults, documents),
        logs=MemoryLogStore(faults, documents),
        control=MemoryControl(faults, documents),
        archive=MemoryArchive(faults, documents),
        store_admin=MemoryStoreAdmin(faults, documents),
        events=MemoryEventStore(faults, documents),
        rollups=MemoryRollupStore(faults, documents),
        totals=MemoryTotals(faults, documents),
        election=MemoryElection(faults, memory),
        membership=MemoryMembership(faults, memory),
        queue=MemoryQueue(faults, memory),
        bus=MemoryBus(faults, memory),
        server_clocks={service: MemoryServerClock(faults, clock, service) for service in ("MongoDB", "Redis")},
        coordination_admin=MemoryCoordinationAdmin(faults, memory),
        users=MemoryUserStore(faults, documents),
        sessions=MemorySessionStore(faults, documents),
        keys=MemoryKeyStore(faults, documents),
        secrets=MemorySecretStore(faults, documents),
        audit=MemoryAuditStore(faults, documents),
        alerts=MemoryAlertStore(faults, documents),
        outbox=MemoryOutbox(faults, documents),
        alert_conditions=MemoryAlertConditions(faults, documents),
        job_health=MemoryJobHealthStore(faults, documents),
        limits=MemoryLimitStore(faults, documents),
        calendars=MemoryCalendarStore(faults, documents),
        limiter=MemoryRateLimiter(faults, memory),
        tickets=MemoryTicketStore(faults, memory),
        feed=MemoryFeed(faults, memory),
        live_tail=MemoryLiveTail(faults, memory),
        documents=documents,
        memory=memory,
        faults=faults,
    )

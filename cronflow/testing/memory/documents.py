"""The collections of one MongoDB, and the bases of the ports that read and write them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

from cronflow.domain.access import ApiKey, AuditEntry, Secret, Session, User
from cronflow.domain.alerts import AlertRecord, Failing, Notification
from cronflow.domain.backfill import Backfill
from cronflow.domain.catch_up import CatchUpPlan
from cronflow.domain.cluster import LeaderRecord
from cronflow.domain.events import RecordedEvent
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.job_breaker import BreakerState
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.permits import LimitState
from cronflow.domain.rollup import BucketSize, Tally
from cronflow.domain.run import Run
from cronflow.domain.sweep import SweepReport
from cronflow.domain.thresholds import Crossing
from cronflow.domain.transitions import Change
from cronflow.domain.version import Version
from cronflow.ports import CalendarRecord, Clock, LargeResult, LateResult, LogLine, ReplicaSet
from cronflow.testing.faults import Faults, FaultyPort


class Documents:
    """All documents, for tests to read and to forge."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.jobs = Table[str, JobRecord]()
        self.plans = Table[str, tuple[PlanIntent, datetime]]()
        self.runs = Table[str, Run]()
        self.changes: list[Change] = []
        self.unreported: set[str] = set()
        self.late = Table[str, LateResult]()
        self.results = Table[str, LargeResult]()
        self.breakers = Table[str, BreakerState]()
        self.versions = Table[tuple[str, int], Version]()
        self.lines = Table[tuple[str, int, int], LogLine]()
        self.leader: LeaderRecord | None = None
        self.fence_high = 0
        self.maintenance: MaintenanceMode | None = None
        self.zone_data: tuple[str | None, int] = None, 0
        self.catch_up: CatchUpPlan | None = None
        self.missed: dict[str, int] = {}
        self.events = Table[str, RecordedEvent]()
        self.rollups = Table[tuple[BucketSize, datetime], Tally]()
        self.users = Table[str, User]()
        self.sessions = Table[str, Session]()
        self.keys = Table[str, ApiKey]()
        self.secrets = Table[str, Secret]()
        self.audit = Table[str, AuditEntry]()
        self.graph_version = 0
        self.joins = Table[str, tuple[JoinRecord, datetime]]()
        self.backfills = Table[str, tuple[Backfill, tuple[datetime, ...]]]()
        self.alerts = Table[str, AlertRecord]()
        self.failing = Table[str, Failing]()
        self.crossings = Table[str, Crossing]()
        self.notifications = Table[str, Notification]()
        self.due = Table[str, datetime]()
        self.limits = Table[str, LimitState]()
        self.calendars = Table[str, CalendarRecord]()
        self.calendar_revs: dict[str, int] = {}
        self.sweep_report: SweepReport | None = None
        self.line_retention: timedelta | None = None
        # Tables have no indexes; a test may claim that some are missing.
        self.lost_indexes: set[str] = set()
        self.replica_set = ReplicaSet("7.0.0", "memory", 3, away=())


class DocumentPort(FaultyPort):
    """A port on the documents."""

    service = "MongoDB"

    def __init__(self, faults: Faults, documents: Documents) -> None:
        self.faults, self.documents = faults, documents

    @property
    def clock(self) -> Clock:
        return self.documents.clock


class Named(Protocol):
    """A record with a unique name."""

    @property
    def name(self) -> str: ...


Record = TypeVar("Record", bound=Named)


class NamedStore(DocumentPort, Generic[Record]):
    """Records by name, in the table that is named like the port."""

    def __init__(self, faults: Faults, documents: Documents) -> None:
        super().__init__(faults, documents)
        self.records: Table[str, Record] = getattr(documents, self.port)

    async def create(self, record: Record) -> bool:
        return self.records.insert(record.name, record)

    async def get(self, name: str) -> Record | None:
        return self.records.get(name)

    async def find(self, *, after: str = "", limit: int = 500) -> list[Record]:
        return self.records.page(attrgetter("name"), after=after, limit=limit)

    async def delete(self, name: str) -> bool:
        return self.records.pop(name, None) is not None


K = TypeVar("K")
V = TypeVar("V")


class Table(dict[K, V]):
    """Values by key. Each method is one atomic step, and writes through `__setitem__`."""

    def insert(self, key: K, value: V) -> bool:
        """Insert unless the key exists. Returns whether it inserted."""
        if key in self:
            return False
        self[key] = value
        return True

    def replace_if(self, key: K, holds: Callable[[V], bool], change: Callable[[V], V]) -> bool:
        """Compare and set: write `change(value)` if the key exists and `holds(value)`. Returns whether it wrote."""
        value = self.get(key)
        if value is None or not holds(value):
            return False
        self[key] = change(value)
        return True

    def pick(self, keys: Collection[K]) -> list[V]:
        """The values of those keys that exist, in the order of the keys, so that a simulation can be repeated."""
        return [self[key] for key in sorted(set(keys), key=str) if key in self]

    def page(
        self,
        by: Callable[[V], Any],
        where: Callable[[V], object] = lambda value: True,
        *,
        after: Any = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> list[V]:
        """The values that match `where`, in ascending order of `by`, or descending if `newest`. `after` is the `by` of
        the last value of the previous page.
        """
        found = [(by(value), value) for value in self.values() if where(value)]
        if after is not None:
            found = [(place, value) for place, value in found if (place < after if newest else place > after)]
        return [value for _, value in sorted(found, key=lambda row: row[0], reverse=newest)[:limit]]

    def delete(self, keys: Iterable[K]) -> None:
        """Delete those that exist."""
        for key in keys:
            self.pop(key, None)

    def delete_where(self, matches: Callable[[V], bool]) -> None:
        """Delete the values that match."""
        self.delete([key for key, value in self.items() if matches(value)])

"""The collections of one MongoDB, and the bases of the ports that read and write them."""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from cronflow.domain.access import ApiKey, AuditEntry, Secret, Session, User
from cronflow.domain.alerts import AlertRecord, Failing, Notification
from cronflow.domain.cluster import LeaderRecord
from cronflow.domain.events import RecordedEvent
from cronflow.domain.job import JobRecord, PlanIntent
from cronflow.domain.rollup import BucketSize, Tally
from cronflow.domain.run import Run
from cronflow.domain.sweep import SweepReport
from cronflow.domain.transitions import Change
from cronflow.domain.version import Version
from cronflow.ports import Clock, LargeResult, LateResult, LogLine, ReplicaSet
from cronflow.testing.faults import Faults, FaultyPort
from cronflow.testing.memory.table import Table


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
        self.versions = Table[tuple[str, int], Version]()
        self.lines = Table[tuple[str, int, int], LogLine]()
        self.leader: LeaderRecord | None = None
        self.fence_high = 0
        self.events = Table[str, RecordedEvent]()
        self.rollups = Table[tuple[BucketSize, datetime], Tally]()
        self.users = Table[str, User]()
        self.sessions = Table[str, Session]()
        self.keys = Table[str, ApiKey]()
        self.secrets = Table[str, Secret]()
        self.audit = Table[str, AuditEntry]()
        self.alerts = Table[str, AlertRecord]()
        self.failing = Table[str, Failing]()
        self.notifications = Table[str, Notification]()
        self.due = Table[str, datetime]()
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

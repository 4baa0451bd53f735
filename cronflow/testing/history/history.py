"""A history: all that is known of a stretch of a cluster's life when it is over, as values.

Three witnesses that do not know each other. The records, as the stores hold them at the end, with every write of a run
in the order in which the store made it. The sink, which only the handlers write. And the driver of the test: which
faults it injected and when, which edits were acknowledged. What no correct history contains stands in `checker`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cronflow.domain.backfill import Backfill
from cronflow.domain.job import Job, JobRecord
from cronflow.domain.permits import NamedLimit
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import Run, RunState
from cronflow.domain.version import Version, version_of
from cronflow.ports import LateResult

START, END = "start", "end"


@dataclass(frozen=True, slots=True)
class Noted:
    """A line of the sink: a handler began, or came to its end; `ok` says how. `node` is the node's name."""

    word: str
    run: str
    fence: int
    node: str
    at: datetime
    ok: bool = True


def noted(line: str) -> Noted:
    """`start RUN FENCE NODE EPOCH` or `end RUN FENCE NODE EPOCH ok|error`, as a handler wrote it."""
    word, run, fence, node, at, *how = line.split()
    return Noted(word, run, int(fence), node, datetime.fromtimestamp(float(at), UTC), how != ["error"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A run's document as one write left it; `at` by the clock of the store."""

    run: str
    at: datetime
    state: RunState
    fence: int
    term: int
    job_ver: int
    finish_id: str | None = None
    node: str | None = None
    reserved: ResourceAmount | None = None


@dataclass(frozen=True, slots=True)
class Elected:
    """Somebody wrote, or believed, that this incarnation of a node leads in this term."""

    term: int
    node: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that the test did to the cluster, and when. `killed`: the name of a node that died of it."""

    what: str
    since: datetime
    until: datetime
    killed: str | None = None

    def touches(self, since: datetime, until: datetime) -> bool:
        """Whether any of it lies in that time."""
        return self.since <= until and since <= self.until


@dataclass(frozen=True, slots=True)
class Ack:
    """An edit, pause or deletion was acknowledged: from `at` on version `ver` is in force."""

    job: str
    ver: int
    at: datetime


@dataclass(frozen=True, slots=True)
class CancelAck:
    """The cancellation of a run was acknowledged, when it had this fence."""

    run: str
    fence: int
    at: datetime


@dataclass(frozen=True, slots=True)
class DrainAck:
    """The drain of a node, by its name, was acknowledged at `since`; somebody ended it at `until`."""

    node: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class MaintenanceAck:
    """The maintenance mode was acknowledged at `since`; it ended, or somebody ended it, at `until`."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A period of a cluster's life.

    `jobs` are all records, tombstones included, `earlier` the versions before the present ones, `intents` the ids of
    the plan intents that are left. Instants before `until` are judged. There were no faults after `healed`; what was
    open then has `ends_within` to end. `backfills` are the backfills with their instants, `capacities` what nodes
    announce to have, by name. `limits` are the named limits, which stay as they are. `failures` are unexpected errors,
    each with the node that met it.
    """

    jobs: Sequence[JobRecord]
    earlier: Mapping[str, Sequence[Version]]
    runs: Sequence[Run]
    late: Sequence[LateResult]
    intents: Sequence[str]
    terms: Sequence[Elected]
    steps: Sequence[Step]
    sink: Sequence[Noted]
    faults: Sequence[Fault]
    acks: Sequence[Ack]
    until: datetime
    healed: datetime
    ends_within: timedelta
    backfills: Sequence[tuple[Backfill, Sequence[datetime]]] = ()
    capacities: Mapping[str, ResourceAmount] = field(default_factory=dict)
    limits: Sequence[NamedLimit] = ()
    cancels: Sequence[CancelAck] = ()
    drains: Sequence[DrainAck] = ()
    maintenance: Sequence[MaintenanceAck] = ()
    failures: Sequence[tuple[str, str]] = ()

    def versions(self, job: str) -> Sequence[Version]:
        """All of them, the present one last."""
        return [*self.earlier.get(job, ()), *(version_of(record) for record in self.jobs if record.name == job)]

    def job_of(self, run: Run) -> Job | None:
        """The definition that the run has now; None when it is a job that this history is not about."""
        return next((version.job for version in self.versions(run.job) if version.ver == run.job_ver), None)

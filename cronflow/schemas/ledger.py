"""The ledger as `-o json` prints it, and the lines of a ledger file."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from cronflow.domain.run import Outcome
from cronflow.schemas import Schema
from cronflow.schemas.runs import CoversSchema

LedgerVerdict = Literal[
    "ran",
    "covered",
    "skipped",
    "missed",
    "open",
    "waiting",
    "not_judged",
    "lost",
    "doubled",
    "not_derivable",
    "unexpected",
]


class LedgerVersionSchema(Schema):
    """A version of a job, as far as it decides what is due."""

    version: int
    """Its number."""
    at: str
    """When it took effect."""
    state: Literal["active", "paused", "disabled", "deleted"]
    """Whether fires were planned under this version."""
    since: str | None
    """The first instant that can be due under this version; null: nothing was due."""
    until: str | None
    """The first instant after them; null: there is no end yet."""
    text: str
    """The schedule in words; empty without one."""
    schedule: dict[str, Any] | None
    """Its document."""
    calendars: list[dict[str, Any]]
    """The calendars that it names, as they were."""


class LedgerAttemptSchema(Schema):
    """A finished attempt of a run."""

    n: int
    """Number of the attempt, starting at 1."""
    fence: int
    """Its fencing token."""
    node: str
    """The node."""
    outcome: Outcome
    """How it ended."""
    started_at: str | None
    """When it started; null: it never started."""
    ended_at: str
    """When it ended."""


class LedgerEntrySchema(Schema):
    """An instant and what became of it."""

    job: str
    """The job."""
    instant: str
    """The instant."""
    version: int | None
    """The version under which it was due; null: under none."""
    schedule: str
    """The schedule of this version in words; empty without one."""
    verdict: LedgerVerdict
    """What became of it."""
    reason: str | None
    """Why."""
    run: str | None
    """The run that stands for it."""
    others: list[str]
    """The other runs of a doubled instant."""
    state: str | None
    """The state of the run."""
    fence: int | None
    """The fencing token of its last dispatch."""
    covers: CoversSchema | None
    """The missed instants that the run stands for."""
    attempts: list[LedgerAttemptSchema]
    """Its last 25 finished attempts."""
    started_at: str | None
    """When its last attempt started."""
    ended_at: str | None
    """When it ended."""


class LedgerJobSchema(Schema):
    """A job, before its entries."""

    job: str
    """The job."""
    known_from: str | None
    """Nothing before this instant is judged, because no earlier version is kept; null: all of them are."""
    versions: list[LedgerVersionSchema]
    """The versions that were in force."""


class LedgerCountsSchema(Schema):
    """The instants of a job, by what became of them."""

    job: str
    """The job."""
    due: int
    """How many were due and can be derived."""
    ran: dict[str, int]
    """Those with a run of their own that ended, by its state."""
    covered: dict[str, int]
    """Those that were missed and for which one run was executed together, by its state."""
    skipped: dict[str, int]
    """Those that were skipped, by reason."""
    missed: dict[str, int]
    """Those that were too late to run, by reason."""
    open: int
    """Those whose run has not ended."""
    waiting: int
    """Those that are not planned yet."""
    not_judged: int
    """Those without a run that are older than the runs that are kept."""
    lost: int
    """Those without a run."""
    doubled: int
    """Those with several runs."""
    not_derivable: int
    """Runs that followed from the end of another run of the job, which nobody can derive."""
    unexpected: int
    """Runs at an instant that no version in force has."""
    known_from: str | None
    """Nothing before this instant is judged, because no earlier version is kept; null: all of them are."""


class LedgerReportSchema(Schema):
    """The ledger of a cluster for a span of time."""

    first: str
    """Its first instant."""
    last: str
    """Its end, which is not included."""
    kept_from: str | None
    """Runs that ended before may have been deleted; null: none was."""
    whole: bool
    """Whether no instant is lost or doubled."""
    jobs: list[LedgerCountsSchema]
    """The jobs for which something was due."""
    violations: list[LedgerEntrySchema]
    """The instants that are lost or doubled."""


class LedgerExportSchema(Schema):
    """A ledger file that was written."""

    file: str
    """Its path."""
    sha256: str
    """The SHA-256 of the file."""
    entries: int
    """How many entries it has."""
    lost: int
    """How many of them are lost."""
    doubled: int
    """How many of them are doubled."""


class LedgerFlawSchema(Schema):
    """What is wrong with a ledger file."""

    line: int | None
    """The first line that is wrong, starting at 1; null: the whole file is another one."""
    how: Literal["changed", "removed", "inserted", "reordered", "truncated", "replaced", "unreadable"]
    """How."""
    what: str
    """Why."""


class LedgerCheckSchema(Schema):
    """The result of the verification of a ledger file."""

    file: str
    """Its path."""
    whole: bool
    """Whether it is as it was written."""
    sha256: str
    """The SHA-256 of the file."""
    entries: int
    """How many entries were read."""
    lost: int
    """How many of them are lost."""
    doubled: int
    """How many of them are doubled."""
    header: NotRequired[dict[str, Any]]
    """The header; absent: it cannot be read."""
    flaw: LedgerFlawSchema | None
    """What is wrong; null: nothing."""

"""Says what became of each instant: matches the instants of a job with its runs, and makes an entry of each.

The rule: an instant without a run is lost, unless it is shown that its run may have been deleted since, or that the
planner has not passed the instant yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from cronflow.domain.run import OPEN, RunState, cancelled_text, run_id
from cronflow.ledger.derivation import DueInstant, LedgerSpan, LedgerVersion, due_instants
from cronflow.schemas import iso
from cronflow.schemas.jobs import PendingRunSchema
from cronflow.schemas.ledger import LedgerEntrySchema, LedgerVerdict
from cronflow.schemas.runs import CoversSchema, RunSchema
from cronflow.testing.audit import Match, Matcher

NOT_KEPT = "older than the runs that are kept"
NOT_PLANNED = "not planned yet"
VIOLATIONS = frozenset({"lost", "doubled"})
UNDERIVED = frozenset({"not_derivable", "unexpected"})
"""The verdicts on runs at instants that no version has."""
_MISSED = ("misfire", "recovery skipped")
"""How the reasons begin of the runs that stand for instants that were too late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRun:
    """What the ledger needs of a scheduled run. `attempts` are as in the API."""

    id: str
    fire_at: datetime
    state: RunState
    fence: int
    reason: str | None
    covers: CoversSchema | None
    attempts: Sequence[Mapping[str, Any]] = ()
    started_at: str | None = None
    ended_at: str | None = None

    @property
    def last(self) -> datetime:
        """The last instant that it stands for."""
        return self.fire_at if self.covers is None else datetime.fromisoformat(self.covers["last"])


def ledger_run(run: RunSchema) -> LedgerRun:
    reason = run["reason"]
    if run["state"] == RunState.CANCELLED:
        reason = cancelled_text(run["cancel_reason"] or reason, run["cancel_by"])
    return LedgerRun(
        id=run["id"],
        fire_at=datetime.fromisoformat(run["fire_at"]),
        state=RunState(run["state"]),
        fence=run["fence"],
        reason=reason,
        covers=run["covers"],
        attempts=run["attempts"],
        started_at=run["started_at"],
        ended_at=run["ended_at"],
    )


def pending_ledger_run(job: str, pending: PendingRunSchema) -> LedgerRun:
    """The run that a job's record announces, which may have no document yet."""
    fire = datetime.fromisoformat(pending["fire"])
    return LedgerRun(
        id=run_id(job, fire),
        fire_at=fire,
        state=RunState(pending["state"]),
        fence=pending["fence"],
        reason=pending["reason"],
        covers=pending["covers"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a missing run is judged by. `kept_from`: runs that ended before may have been deleted. `known_from`: the
    versions before are not kept. `version` is the job's version when it was read, before its runs, and `planned` the
    last instant that the planner had passed then; the instants after it are due and not planned yet.
    """

    version: int
    planned: datetime | None = None
    kept_from: datetime | None = None
    known_from: datetime | None = None


class JobJudge:
    """The entries of one job, in the order of their instants. Its runs are added in the order of their instants."""

    def __init__(self, job: str, versions: Sequence[LedgerVersion], span: LedgerSpan, evidence: Evidence) -> None:
        self._job, self._versions, self._evidence = job, versions, evidence
        self._due: dict[datetime, int] = {}
        self._matcher = Matcher[LedgerRun](self._remembered(due_instants(versions, span)))

    def add(self, run: LedgerRun) -> Iterator[LedgerEntrySchema]:
        """Yields the entries that no later run can change."""
        for match in self._matcher.add(run.fire_at, run.last, run):
            yield self._entry(match)

    def finish(self) -> Iterator[LedgerEntrySchema]:
        """Yields the rest."""
        for match in self._matcher.finish():
            yield self._entry(match)

    def _remembered(self, due: Iterable[DueInstant]) -> Iterator[datetime]:
        for at, version in due:
            self._due[at] = version
            yield at

    def _entry(self, match: Match[LedgerRun]) -> LedgerEntrySchema:
        run = match.items[0] if match.items else None
        if match.instant is None:
            assert run is not None
            return self._made(run.fire_at, None, *self._underived(run), run)
        number = self._due.pop(match.instant)
        others = [one.id for one in match.items[1:]]
        if others:
            return self._made(match.instant, number, "doubled", f"also {', '.join(others)}", run, others)
        verdict, reason = self._missing(match.instant, number) if run is None else _of_run(run)
        return self._made(match.instant, number, verdict, reason, run)

    def _missing(self, instant: datetime, version: int) -> tuple[LedgerVerdict, str]:
        known = self._evidence
        if version >= known.version and (known.planned is None or instant > known.planned):
            return "waiting", NOT_PLANNED
        if known.kept_from is not None and instant < known.kept_from:
            return "not_judged", NOT_KEPT
        return "lost", "no run covers this instant"

    def _underived(self, run: LedgerRun) -> tuple[LedgerVerdict, str]:
        if any(version.dynamic and version.has(run.fire_at) for version in self._versions):
            return "not_derivable", "due after the end of another run"
        if self._evidence.known_from is not None and run.fire_at < self._evidence.known_from:
            return "not_derivable", "due under a version that is not kept"
        return "unexpected", "no version in force has this instant"

    def _made(
        self,
        instant: datetime,
        version: int | None,
        verdict: LedgerVerdict,
        reason: str | None,
        run: LedgerRun | None,
        others: Sequence[str] = (),
    ) -> LedgerEntrySchema:
        text = next((one.text for one in self._versions if one.number == version), "")
        return {
            "job": self._job,
            "instant": iso(instant),
            "version": version,
            "schedule": text,
            "verdict": verdict,
            "reason": reason,
            "run": None if run is None else run.id,
            "others": [*others],
            "state": None if run is None else run.state.value,
            "fence": None if run is None else run.fence,
            "covers": None if run is None else run.covers,
            "attempts": [] if run is None else [_attempt(attempt) for attempt in run.attempts],
            "started_at": None if run is None else run.started_at,
            "ended_at": None if run is None else run.ended_at,
        }


def _of_run(run: LedgerRun) -> tuple[LedgerVerdict, str | None]:
    if run.state in OPEN:
        return "open", None
    if run.state is RunState.SKIPPED:
        reason = run.reason or ""
        return ("missed" if reason.startswith(_MISSED) else "skipped"), reason
    if run.state is RunState.CANCELLED and run.started_at is None and not run.attempts:
        return "skipped", f"cancelled: {run.reason}" if run.reason else "cancelled"
    return ("ran" if run.covers is None else "covered"), run.reason


def _attempt(attempt: Mapping[str, Any]) -> Any:
    return cast("Any", {key: attempt[key] for key in ("n", "fence", "node", "outcome", "started_at", "ended_at")})

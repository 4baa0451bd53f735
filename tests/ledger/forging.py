"""Jobs, runs and ledger files that no cluster wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import orjson

from cronflow.domain.run import RunState, run_id
from cronflow.ledger.derivation import LedgerSpan, read_version
from cronflow.ledger.export import LedgerWriter, canonical, digest
from cronflow.ledger.judging import Evidence, JobJudge, LedgerRun
from cronflow.schemas import iso
from cronflow.schemas.ledger import LedgerEntrySchema, LedgerVersionSchema

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPAN = LedgerSpan(NOON, NOON + 6 * HOUR)
JOB = "report"
Change = Callable[[list[dict[str, Any]]], None]


def version(number: int = 1, **fields: Any) -> LedgerVersionSchema:
    """A version with a fire at each full hour."""
    made: dict[str, Any] = {
        "version": number,
        "at": iso(NOON - 24 * HOUR),
        "state": "active",
        "since": iso(NOON - 24 * HOUR),
        "until": None,
        "text": "every hour",
        "schedule": {"cron": "0 * * * *"},
        "calendars": [],
    }
    return cast("LedgerVersionSchema", made | fields)


def ran(hour: int, state: RunState = RunState.SUCCEEDED, **fields: Any) -> LedgerRun:
    """The run of this hour after noon, which covers those up to the hour `to`."""
    at = NOON + hour * HOUR
    to = fields.pop("to", None)
    covers = None if to is None else {"first": iso(at), "last": iso(NOON + to * HOUR), "count": to - hour + 1}
    values: dict[str, Any] = {
        "id": run_id(JOB, at),
        "fire_at": at,
        "state": state,
        "fence": 100 + hour,
        "reason": None,
        "covers": covers,
        "started_at": None if state is RunState.SKIPPED else iso(at),
        "ended_at": iso(at),
    }
    return LedgerRun(**(values | fields))


def all_ran() -> list[LedgerRun]:
    return [ran(hour) for hour in range(6)]


def judged(
    runs: Iterable[LedgerRun],
    versions: Sequence[LedgerVersionSchema] | None = None,
    span: LedgerSpan = SPAN,
    **evidence: Any,
) -> list[LedgerEntrySchema]:
    """The entries of the job. By default the planner has passed all instants, and no run was deleted."""
    values: dict[str, Any] = {"version": 1, "planned": NOON + 100 * HOUR}
    known = Evidence(**(values | evidence))
    judge = JobJudge(JOB, [read_version(JOB, one) for one in versions or [version()]], span, known)
    return [*(entry for run in runs for entry in judge.add(run)), *judge.finish()]


def verdicts(entries: Iterable[LedgerEntrySchema]) -> list[str]:
    return [entry["verdict"] for entry in entries]


def a_file(path: Path, runs: Sequence[LedgerRun] | None = None, jobs: Sequence[str] = (JOB,)) -> str:
    """Write the ledger of a job. Returns the SHA-256 of the file."""
    header = {
        "namespace": "default",
        "from": iso(SPAN.first),
        "to": iso(SPAN.last),
        "until": iso(SPAN.last),
        "exported_at": iso(SPAN.last),
        "exported_by": "ada",
        "cronflow": "1",
        "zone_data": "2026a",
    }
    with LedgerWriter(path, header) as writer:
        for job in jobs:
            writer.job({"job": job, "known_from": None, "versions": [version()]})
            for entry in judged(all_ran() if runs is None else runs):
                run = None if entry["run"] is None else entry["run"].replace(JOB, job)
                writer.entry({**entry, "job": job, "run": run})
        return writer.finish()


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def write(path: Path, changed: Sequence[dict[str, Any]]) -> None:
    """Write lines as they are, with their old hashes."""
    path.write_bytes(b"".join(canonical(line) + b"\n" for line in changed))


def rewrite(path: Path, change: Change) -> None:
    """Change the lines, and make numbers, counts and hashes right again, as somebody would who knows the format."""
    changed = lines(path)
    change(changed)
    entries = [line for line in changed if line["type"] == "entry"]
    changed[-1]["entries"] = len(entries)
    for verdict in ("lost", "doubled"):
        changed[-1][verdict] = sum(entry["verdict"] == verdict for entry in entries)
    previous: str | None = None
    for number, line in enumerate(changed):
        line |= {"n": number, "previous": previous}
        previous = digest(canonical(line))
    write(path, changed)

"""The proof at the end of `cronflow dev --for`: every instant that fell due has exactly one run.

It takes the cursors at the start, waits at the end until the cluster has dealt with what was due, and lets the audit
compare the runs with an independent evaluation of the schedules. It waits a bounded time: what the cluster has not
done by then counts as lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Console
from rich.text import Text

from cronflow.cli.words import GREEN, RED, run_state
from cronflow.domain.audit import Audit, Expectation, audit, percentile
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.ports import RunQuery
from cronflow.service import Service

PAGE = 500
POLL_S = 0.2
PLANNED_WITHIN_S = 60.0
ENDED_WITHIN_S = 10.0
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was so at the start: each job's version and cursor, and the term."""

    jobs: dict[str, JobRecord]
    term: int


async def baseline(service: Service) -> Baseline:
    """Look at all jobs."""
    return Baseline({record.name: record for record in await _all_jobs(service)}, (await service.status()).term)


async def settle(service: Service, until: datetime) -> None:
    """Wait until all that was due before `until` is planned and has ended, as long as that is worth waiting for."""

    async def planned() -> bool:
        records = await _all_jobs(service)
        return all(r.next_fire is None or r.next_fire >= until or not r.active for r in records)

    async def ended() -> bool:
        return not any(run.is_open and run.fire_at < until for run in await service.runs(RunQuery(limit=PAGE)))

    await _patiently(planned, PLANNED_WITHIN_S)
    await _patiently(ended, ENDED_WITHIN_S)


async def judge(service: Service, start: Baseline, until: datetime) -> Audit:
    """Compare. A job that was edited meanwhile counts from its last edit on; a paused or deleted one does not count."""
    expected: dict[str, Expectation] = {}
    for record in await _all_jobs(service):
        before = start.jobs.get(record.name)
        if record.job.schedule is None or record.paused or not record.job.enabled:
            continue
        if before is not None and before.ver == record.ver:
            if before.next_fire is not None:
                expected[record.name] = Expectation(record.job.schedule, before.next_fire)
        else:
            expected[record.name] = Expectation(record.job.schedule, record.updated_at + timedelta(seconds=1))
    since = min((expectation.since for expectation in expected.values()), default=until)
    runs: list[Run] = []
    last: tuple[datetime, str] | None = None
    while True:
        page = await service.runs(RunQuery(since=since, before=last, limit=PAGE))
        runs += [run for run in page if run.fire_at < until]
        if len(page) < PAGE:
            return audit(expected, runs, until)
        last = page[-1].fire_at, page[-1].id


def as_json(found: Audit, failovers: int) -> dict[str, object]:
    """The object that scripts read."""
    return {
        "fires_due": found.fires_due,
        "runs": dict(sorted(found.states.items())),
        "lost": len(found.lost),
        "doubled": len(found.doubled),
        "open": [run.id for run in found.open_runs],
        "lateness_ms": {
            "p50": _ms(percentile(found.lateness, 0.5)),
            "p99": _ms(percentile(found.lateness, 0.99)),
            "max": _ms(percentile(found.lateness, 1.0)),
        },
        "failovers": failovers,
    }


def view(console: Console, found: Audit, failovers: int, took: timedelta) -> None:
    """For people."""
    verdict = ("every fire has exactly one run", GREEN) if found.holds else ("fires are missing or doubled", RED)
    console.print()
    console.print(Text.assemble((f"{'✓' if found.holds else '✗'} {verdict[0]}", f"bold {verdict[1]}")))
    rows = [
        ("time", f"{took.total_seconds():.0f} s"),
        ("fires due", f"{found.fires_due:,}"),
        ("runs", "  ".join(f"{count:,} {state}" for state, count in sorted(found.states.items())) or "none"),
        ("lost", f"{len(found.lost)}"),
        ("doubled", f"{len(found.doubled)}"),
        ("lateness", _lateness(found)),
        ("failovers", f"{failovers}"),
    ]
    for name, value in rows:
        console.print(f"  {name:<10} {value}")
    for name, instants in (("lost", found.lost), ("doubled", found.doubled)):
        for job, fire in instants[:SHOWN]:
            console.print(Text(f"  {name}: {job} at {fire:%Y-%m-%d %H:%M:%SZ}", style=RED))
    for run in found.open_runs[:SHOWN]:
        console.print(Text.assemble("  still open: ", run.id, " ", run_state(run.state)))


def _lateness(found: Audit) -> str:
    if not found.lateness:
        return "nothing ran"
    p50, p99, most = (_ms(percentile(found.lateness, fraction)) for fraction in (0.5, 0.99, 1.0))
    return f"p50 {p50} ms, p99 {p99} ms, max {most} ms"


def _ms(value: timedelta | None) -> float | None:
    return None if value is None else round(value.total_seconds() * 1000, 1)


async def _all_jobs(service: Service) -> list[JobRecord]:
    found: list[JobRecord] = []
    while True:
        page = await service.jobs(after=found[-1].name if found else "", limit=PAGE)
        found += page
        if len(page) < PAGE:
            return found


async def _patiently(condition: object, seconds: float) -> None:
    assert callable(condition)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        try:
            if await condition():
                return
        except BackendUnavailable:
            # Whether the servers come back in time is what the deadline decides.
            pass
        await asyncio.sleep(POLL_S)

"""The proof at the end of `cronflow dev --for`: every instant that was due has exactly one run.

It reads the next fires at the start, waits at the end until the cluster has handled everything that was due, and lets
the audit compare the runs with an independent evaluation of the schedules. It waits a bounded time: runs that are not
done by then count as lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.text import Text

from cronflow.cli.terminal.formatting import GREEN, RED, run_state
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.formatting import span
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run
from cronflow.domain.schedule.kinds import Once
from cronflow.ports import RunQuery
from cronflow.testing.audit import Audit, Expectation, audit, percentile
from cronflow.usecases.all import UseCases

PAGE = 500
POLL_S = 0.2
PLANNED_WITHIN_S = 60.0
ENDED_WITHIN_S = 10.0
SHOWN = 10


Baseline = Mapping[str, JobRecord]


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of the audit, the number of failovers, and the duration."""

    audit: Audit
    failovers: int
    took: timedelta


async def baseline(service: UseCases) -> Baseline:
    """Each job as it is before the nodes start."""
    return {record.name: record for record in await _all_jobs(service)}


async def prove(service: UseCases, start: Baseline, began: datetime, term: int) -> Proof:
    """Let the cluster handle everything due until now, then audit. `term` is the one at the start."""
    until = datetime.now(UTC).replace(microsecond=0)
    await _wait_for_cluster(service, until)
    found = await _audit(service, start, until)
    return Proof(found, max(0, (await service.cluster.status()).term - term), datetime.now(UTC) - began)


async def _wait_for_cluster(service: UseCases, until: datetime) -> None:
    """Wait a bounded time until every run that was due before `until` is planned and has ended."""

    async def planned() -> bool:
        records = await _all_jobs(service)
        return all(r.next_fire is None or r.next_fire >= until or not r.active for r in records)

    async def ended() -> bool:
        return not any(
            run.is_open and run.fire_at < until for run in await service.backends.runs.find(RunQuery(limit=PAGE))
        )

    await _wait_until(planned, PLANNED_WITHIN_S)
    await _wait_until(ended, ENDED_WITHIN_S)


async def _audit(service: UseCases, start: Baseline, until: datetime) -> Audit:
    """Compare. A job that is new or was edited counts from then on; a paused or deleted one does not count."""
    expected: dict[str, Expectation] = {}
    for record in await _all_jobs(service):
        before, schedule = start.get(record.name), record.job.schedule
        if schedule is None or record.paused or not record.job.enabled:
            continue
        if before is None or before.ver != record.ver:
            since = schedule.at if isinstance(schedule, Once) else record.updated_at.replace(microsecond=0)
            expected[record.name] = Expectation(schedule, since)
        elif before.next_fire is not None:
            expected[record.name] = Expectation(schedule, before.next_fire)
    since = min((expectation.since for expectation in expected.values()), default=until)
    runs: list[Run] = []
    last: tuple[datetime, str] | None = None
    while True:
        page = await service.backends.runs.find(RunQuery(since=since, before=last, limit=PAGE))
        runs += [run for run in page if run.fire_at < until]
        if len(page) < PAGE:
            return audit(expected, runs, until)
        last = page[-1].fire_at, page[-1].id


def as_json(proof: Proof) -> dict[str, object]:
    """For scripts."""
    found = proof.audit
    return {
        "fires_due": found.fires_due,
        "runs": dict(sorted(found.states.items())),
        "lost": len(found.lost),
        "doubled": len(found.doubled),
        "open": [run.id for run in found.open_runs],
        "dead": [{"id": run.id, "state": run.state.value, "error": run.error} for run in found.dead_runs],
        "lateness_ms": {
            "p50": _ms(percentile(found.lateness, 0.5)),
            "p99": _ms(percentile(found.lateness, 0.99)),
            "max": _ms(percentile(found.lateness, 1.0)),
        },
        "failovers": proof.failovers,
    }


def view(console: Console, proof: Proof) -> None:
    """For people."""
    found = proof.audit
    verdict = ("every fire has exactly one run", GREEN) if found.holds else ("fires are missing or doubled", RED)
    console.print()
    console.print(Text.assemble((f"{'✓' if found.holds else '✗'} {verdict[0]}", f"bold {verdict[1]}")))
    rows = [
        ("time", f"{proof.took.total_seconds():.0f} s"),
        ("fires due", f"{found.fires_due:,}"),
        ("runs", "  ".join(f"{count:,} {state}" for state, count in sorted(found.states.items())) or "none"),
        ("lost", f"{len(found.lost)}"),
        ("doubled", f"{len(found.doubled)}"),
        ("lateness", _lateness(found)),
        ("failovers", f"{proof.failovers}"),
    ]
    for name, value in rows:
        console.print(f"  {name:<10} {value}")
    for name, instants in (("lost", found.lost), ("doubled", found.doubled)):
        for job, fire in instants[:SHOWN]:
            console.print(Text(f"  {name}: {job} at {fire:%Y-%m-%d %H:%M:%SZ}", style=RED))
    for run in found.open_runs[:SHOWN]:
        console.print(Text.assemble("  still open: ", run.id, " ", run_state(run.state)))
    for run in found.dead_runs[:SHOWN]:
        console.print(Text.assemble("  ", run.id, " ", run_state(run.state), f" {run.error or ''}".rstrip()))


def _lateness(found: Audit) -> str:
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    late = {title: percentile(found.lateness, share) for title, share in shares.items()}
    return ", ".join(f"{title} {span(one)}" for title, one in late.items() if one is not None) or "no runs"


def _ms(value: timedelta | None) -> float | None:
    return None if value is None else round(value.total_seconds() * 1000, 1)


async def _all_jobs(service: UseCases) -> list[JobRecord]:
    found: list[JobRecord] = []
    while True:
        page = await service.backends.jobs.find(after=found[-1].name if found else "", limit=PAGE)
        found += page
        if len(page) < PAGE:
            return found


async def _wait_until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while loop.time() < deadline:
        try:
            if await condition():
                return
        except BackendUnavailable:
            # The deadline decides whether the servers come back in time.
            pass
        await asyncio.sleep(POLL_S)

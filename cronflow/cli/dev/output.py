"""What `cronflow dev` prints: a line per ended run, the output of its processes, and the summary of `--for`.

The summary proves that every due instant has exactly one run: it reads the next fires at the start, waits at the end
until the cluster has handled everything that was due, and audits the runs against an independent evaluation of the
schedules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rich.console import Console
from rich.text import Text

from cronflow.cli.terminal.formatting import GRAY, GREEN, RED, clean, run_state
from cronflow.domain.cluster import node_name
from cronflow.domain.durations import span
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.job import JobRecord
from cronflow.domain.run import Run, run_id
from cronflow.domain.schedule.kinds import Once
from cronflow.ports import RunQuery
from cronflow.testing.audit import Expectation, FireAudit, audit, percentile
from cronflow.usecases import UseCases

POLL_S = 0.5
LINES_PER_POLL = 12
LOOK_BACK = timedelta(minutes=2)


class Live:
    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._shown: dict[str, datetime] = {}

    def print_line(self, process: str, line: str) -> None:
        if not self._quiet:
            self._console.print(Text.assemble((f"{process:<8} │ ", GRAY), clean(line)))

    async def follow(self, service: UseCases, since: datetime) -> None:
        """Print ended runs until the task is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                runs = await service.backends.runs.find(
                    RunQuery(since=max(since, _newest(self._shown, since) - LOOK_BACK), limit=500)
                )
            except BackendUnavailable:
                # The nodes report it; try again.
                continue
            self._show([run for run in reversed(runs) if not run.is_open and run.id not in self._shown])

    def _show(self, ended: list[Run]) -> None:
        for run in ended:
            self._shown[run.id] = run.fire_at
        if self._quiet:
            return
        for run in ended[:LINES_PER_POLL]:
            self._console.print(_line(run))
        if len(ended) > LINES_PER_POLL:
            self._console.print(Text(f"{'':<8} │ … and {len(ended) - LINES_PER_POLL:,} more runs ended", style=GRAY))


def _newest(shown: dict[str, datetime], since: datetime) -> datetime:
    if len(shown) > 20_000:
        for run in sorted(shown, key=lambda run: shown[run])[:10_000]:
            del shown[run]
    return max(shown.values(), default=since)


def _line(run: Run) -> Text:
    late = "" if run.lateness is None else f"+{span(run.lateness)}"
    took = "" if run.duration is None else span(run.duration)
    where = node_name(run.node) if run.node else ""
    line = Text.assemble((f"{'run':<8} │ ", GRAY), f"{run.fire_at:%H:%M:%S}  {run.job:<24} ")
    line.append_text(run_state(run.state))
    line.append(" " * max(1, 12 - len(run.state)))
    line.append(f"late {late:<8} took {took:<7} {where:<8}" if run.started_at else f"{run.reason or ''}")
    if run.attempt > 1:
        line.append(f" attempt {run.attempt}")
    if run.error:
        line.append(f" {clean(run.error).splitlines()[0][:60]}", style=GRAY)
    return line


PAGE = 500
WAIT_POLL_S = 0.2
PLANNED_WITHIN_S = 60.0
ENDED_WITHIN_S = 10.0
SHOWN = 10


Baseline = Mapping[str, JobRecord]


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of the audit, the number of failovers, and the duration."""

    audit: FireAudit
    failovers: int
    took: timedelta


async def baseline(service: UseCases) -> Baseline:
    return {record.name: record for record in await _all_jobs(service)}


async def prove(service: UseCases, start: Baseline, began: datetime, term: int) -> Proof:
    """Wait until the cluster has handled everything due by now, then audit. `term` is the one at the start."""
    until = datetime.now(UTC).replace(microsecond=0)
    await _wait_for_cluster(service, until)
    found = await _audit(service, start, until)
    return Proof(found, max(0, (await service.cluster.status()).term - term), datetime.now(UTC) - began)


async def _wait_for_cluster(service: UseCases, until: datetime) -> None:
    """Wait a bounded time until every run that was due before `until` is planned and has ended."""

    async def planned() -> bool:
        records = await _all_jobs(service)
        if any(r.next_fire is not None and r.next_fire < until and r.active for r in records):
            return False
        # A run may be inserted with its first record, after the next fire of its job was moved.
        pending = {run_id(r.name, r.pending_run.fire) for r in records if r.pending_run is not None}
        return len(await service.backends.runs.existing(pending)) == len(pending)

    async def ended() -> bool:
        return not any(
            run.is_open and run.fire_at < until for run in await service.backends.runs.find(RunQuery(limit=PAGE))
        )

    await _wait_until(planned, PLANNED_WITHIN_S)
    await _wait_until(ended, ENDED_WITHIN_S)


async def _audit(service: UseCases, start: Baseline, until: datetime) -> FireAudit:
    """A new or edited job counts from its change on; paused and deleted jobs do not count."""
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


def _lateness(found: FireAudit) -> str:
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
            pass  # Try again until the deadline.
        await asyncio.sleep(WAIT_POLL_S)

"""What is notable about the jobs in a rehearsal, as one sentence per job and kind, with local times of the job.

The rule: many fires of a job with the same fate are one sentence, with their number and the first of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cronflow.cli.terminal.formatting import BLUE, GRAY, ORANGE, PURPLE, RED, plural
from cronflow.domain.durations import span
from cronflow.domain.run import RunState
from cronflow.domain.schedule.zones import find_zone
from cronflow.rehearsal.clock_changes import ClockChange, zones_of
from cronflow.rehearsal.report import Rehearsal, RunForecast

REASONS = {
    "overlap": "its previous run was still running",
    "misfire": "missed, and its misfire policy does not make up for them",
    "replaced": "a newer fire replaced them",
}
SECOND = timedelta(seconds=1)


class Note(NamedTuple):
    """A notable thing. `rank`: the lowest is the most serious."""

    rank: int
    job: str
    glyph: str
    style: str
    what: str
    text: str


def notes_of(rehearsal: Rehearsal) -> list[Note]:
    """All that is notable, the most serious first."""
    by_job: dict[str, list[RunForecast]] = defaultdict(list)
    for run in rehearsal.runs:
        by_job[run.job].append(run)
    found = [note for job, runs in by_job.items() for note in _of_runs(rehearsal, job, runs)]
    for job, (first, count, why) in rehearsal.waiting.items():
        since = local(first, zone_of(rehearsal, job))
        found.append(Note(0, job, "!", RED, "not started", f"{plural(count, 'fire')} from {since}: {why}"))
    found += (_of_change(change) for change in rehearsal.clock_changes if change.what != "once")
    return sorted(found)


def zone_of(rehearsal: Rehearsal, job: str) -> str:
    """The zone of the local times of a job: the first that its schedule uses, or UTC."""
    record = rehearsal.performance.records.get(job)
    zones = zones_of(record.job.schedule) if record is not None else []
    return zones[0] if zones else "UTC"


def local(instant: datetime, zone: str) -> str:
    """`Sun 28 Mar 03:00 CEST`."""
    shown = instant.astimezone(find_zone(zone)) if zone != "UTC" else instant.astimezone(UTC)
    return f"{shown:%a} {shown.day} {shown:%b} {clock(shown)} {shown:%Z}"


def clock(shown: datetime) -> str:
    """`03:00`, with seconds only if there are any."""
    return f"{shown:%H:%M:%S}" if shown.second else f"{shown:%H:%M}"


def _of_runs(rehearsal: Rehearsal, job: str, runs: Sequence[RunForecast]) -> Iterator[Note]:
    zone = zone_of(rehearsal, job)
    for why, late in _grouped((run.why, run) for run in runs if run.is_late):
        yield Note(2, job, "!", ORANGE, "late", f"{_late(late, zone)}: {why}")
    for reason, skipped in _grouped((run.reason, run) for run in runs if run.state is RunState.SKIPPED):
        fires = sum(run.fires for run in skipped)
        text = REASONS.get(reason or "", reason or "skipped")
        yield Note(3, job, "↷", GRAY, "skipped", f"{_range(skipped, fires, zone)}: {text}")
    kinds = (
        (1, "✗", RED, "times out", [run for run in runs if run.timed_out]),
        (4, "↻", PURPLE, "interrupted", [run for run in runs if run.interrupted]),
        (5, "∥", BLUE, "overlaps", [run for run in runs if run.overlaps]),
    )
    for rank, glyph, style, what, some in kinds:
        if some:
            yield Note(rank, job, glyph, style, what, _range(some, len(some), zone, "run"))


def _grouped(pairs: Iterable[tuple[str | None, RunForecast]]) -> Iterable[tuple[str | None, list[RunForecast]]]:
    groups: dict[str | None, list[RunForecast]] = defaultdict(list)
    for key, run in pairs:
        groups[key].append(run)
    return groups.items()


def _late(runs: Sequence[RunForecast], zone: str) -> str:
    most = max(run.late or SECOND for run in runs)
    fires = sum(run.fires for run in runs)
    by = span(timedelta(seconds=round(most.total_seconds(), 1)))
    if len(runs) > 1:
        return f"{plural(len(runs), 'run')} from {local(runs[0].fire_at, zone)} by at most {by}{_covering(runs, fires)}"
    return f"{local(runs[0].fire_at, zone)} by {by}{_covering(runs, fires)}"


def _covering(runs: Sequence[RunForecast], fires: int) -> str:
    return f", for {fires:,} fires" if fires > len(runs) else ""


def _range(runs: Sequence[RunForecast], count: int, zone: str, noun: str = "fire") -> str:
    first = runs[0].fire_at
    last = max(run.fire_at if run.covers is None else run.covers.last for run in runs)
    if first == last:
        return local(first, zone)
    return f"{plural(count, noun)} from {local(first, zone)} to {local(last, zone)}"


def _of_change(change: ClockChange) -> Note:
    first, last = change.local
    named = clock(first) if first == last else f"{clock(first)} to {clock(last)} ({change.count:,} times)"
    day = f"{first:%a} {first.day} {first:%b}"
    shown = [clock(fire.astimezone(find_zone(change.zone))) for fire in change.fires]
    if change.what == "twice":
        return Note(
            6, change.job, "⇉", BLUE, "fires twice", f"{named} on {day} occurs twice: {plural(len(shown), 'fire')}"
        )
    gap = f"{named} on {day} does not exist in {change.zone}"
    if change.what == "none":
        return Note(7, change.job, "·", GRAY, "does not fire", gap)
    return Note(6, change.job, "→", BLUE, "moves", f"{gap}: fires at {', '.join(shown[:3])}")

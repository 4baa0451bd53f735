"""A rehearsal for people: the sums, what differs if two states are compared, and what is notable about the jobs.

The rule: the output is bounded, and says how much it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal.formatting import BLUE, GRAY, GREEN, ORANGE, clean, plural
from cronflow.cli.terminal.output import console, note
from cronflow.cli.terminal.tables import Cell, Column, facts, hanging, lines_of, table
from cronflow.cli.views.rehearsal_json import word_of
from cronflow.cli.views.rehearsal_notes import clock, local, notes_of, zone_of
from cronflow.domain.durations import span
from cronflow.domain.schedule.zones import find_zone
from cronflow.rehearsal.comparison import Difference
from cronflow.rehearsal.report import Rehearsal, Summary

if TYPE_CHECKING:
    from cronflow.cli.rehearsing import Result

MOST_NOTES = 40
MOST_DIFFERENCES = 40
MOST_TIMES = 3
_RESULTS = {"created": ("+", GREEN), "deleted": ("-", GRAY), "moved": ("→", BLUE), "changed": ("~", ORANGE)}


def rehearsal_page(result: Result) -> None:
    """Print the rehearsal; what was left out or assumed goes to stderr."""
    out = console()
    scenario = result.rehearsal.performance.scenario
    why = f"  {result.period.why}" if result.period.why else ""
    out.print(Text.assemble((f"{_at(scenario.first)} to {_at(scenario.until)}", "bold"), why))
    nodes = f"{plural(len(scenario.nodes), 'node')} with {plural(scenario.slots, 'slot')}"
    durations = f"a run takes {span(scenario.duration)}"
    if result.from_history:
        durations = f"durations of {plural(result.from_history, 'job')} from history, otherwise {durations}"
    out.print(Text(f"{plural(result.jobs, 'job')} on {nodes}; {durations}", style="dim"))
    out.print()
    if result.before is None:
        facts(_facts(result.rehearsal))
    else:
        _compared(result)
    _notable(result.rehearsal)
    for text in _notes(result):
        note(clean(text))


def _at(instant: datetime) -> str:
    return f"{instant:%a} {instant.day} {instant:%b %Y} {clock(instant)} UTC"


def _facts(rehearsal: Rehearsal) -> Iterable[tuple[str, Cell | None]]:
    summary, performance = rehearsal.summary, rehearsal.performance
    outage = performance.scenario.outage
    if outage is not None:
        yield "outage", f"{local(outage.at, 'UTC')} to {local(outage.end, 'UTC')}"
    if performance.killed is not None:
        yield "leader killed", f"{performance.killed}; no leader for {span(_tenths(summary.leaderless))}"
    yield "fires due", f"{summary.due:,}"
    yield "on time", f"{summary.on_time:,}"
    latest = summary.latest
    if latest is not None and latest.late is not None:
        fire = local(latest.fire_at, zone_of(rehearsal, latest.job))
        most = f"at most {span(_tenths(latest.late))}: {latest.job}, {fire}"
        yield "late", Text.assemble((f"{summary.late:,}", f"bold {ORANGE}"), f"  {most}")
    else:
        yield "late", "0"
    if summary.covered:
        yield "covered", f"{summary.covered:,}  missed fires that one of the late runs stands for"
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in summary.skipped.items())
    yield "skipped", f"{sum(summary.skipped.values()):,}" + (f"  {reasons}" if reasons else "")
    if summary.waiting:
        yield "not started", Text(f"{summary.waiting:,}  at the end", style=f"bold {ORANGE}")
    if summary.missed_held:
        yield (
            "recovery",
            f"{plural(summary.missed_held, 'missed run')} would wait for cronflow cluster recovery approve",
        )
    yield "other runs", f"{summary.other_runs:,}  without an instant" if summary.other_runs else None
    yield "overlapping", f"{summary.overlapping:,}" if summary.overlapping else None
    yield "interrupted", f"{summary.interrupted:,}  started again" if summary.interrupted else None
    yield "timed out", f"{summary.timed_out:,}" if summary.timed_out else None
    if summary.busiest_minute is not None:
        at, starts = summary.busiest_minute
        yield "busiest minute", f"{local(at, 'UTC')}, {plural(starts, 'start')}"
    if summary.most_slots is not None:
        at, used = summary.most_slots
        yield "most slots", f"{used:,} of {summary.slots:,}, {local(at, 'UTC')}"


def _tenths(length: timedelta) -> timedelta:
    return timedelta(seconds=round(length.total_seconds(), 1))


_SUMS: Sequence[tuple[str, Callable[[Summary], int]]] = (
    ("fires due", lambda one: one.due),
    ("on time", lambda one: one.on_time),
    ("late", lambda one: one.late),
    ("covered", lambda one: one.covered),
    ("skipped", lambda one: sum(one.skipped.values())),
    ("not started", lambda one: one.waiting),
    ("overlapping", lambda one: one.overlapping),
    ("most slots", lambda one: 0 if one.most_slots is None else one.most_slots[1]),
)


def _compared(result: Result) -> None:
    assert result.before is not None
    assert result.compared is not None
    before, after = result.before.summary, result.rehearsal.summary
    columns = [Column(""), Column(result.compared[0], align="right"), Column(result.compared[1], align="right")]
    table(columns, [[name, f"{of(before):,}", f"{of(after):,}"] for name, of in _SUMS if of(before) or of(after)])
    out = console()
    out.print()
    if not result.differences:
        out.print("No job does anything else in this period.")
        return
    shown = result.differences[:MOST_DIFFERENCES]
    rows: Sequence[tuple[Column, Callable[[Difference], Cell]]] = [
        (Column("JOB"), _named),
        (Column("RUNS", align="right"), lambda one: _arrow(len(one.before.fires), len(one.after.fires))),
        (Column("LATE", drop=2, align="right"), lambda one: _arrow(one.before.late, one.after.late)),
        (Column("SKIPPED", drop=3, align="right"), lambda one: _arrow(one.before.skipped, one.after.skipped)),
        (Column("FIRES", least=20), lambda one: _moved(one, result.rehearsal)),
    ]
    for line in lines_of(shown, rows, out.width):
        out.print(line)
    if len(result.differences) > len(shown):
        out.print(Text(f"and {len(result.differences) - len(shown):,} more jobs; -o json has all", style="dim"))


def _named(one: Difference) -> Text:
    glyph, style = _RESULTS[word_of(one)]
    return Text.assemble((f"{glyph} ", style), one.job)


def _arrow(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def _moved(one: Difference, rehearsal: Rehearsal) -> str:
    zone = zone_of(rehearsal, one.job)
    return " ".join(filter(None, (_times("-", one.gone, zone), _times("+", one.added, zone)))) or _later(one)


def _later(one: Difference) -> str:
    if one.before.max_late == one.after.max_late:
        return ""
    return f"late by at most {span(one.before.max_late)} → {span(one.after.max_late)}"


def _times(sign: str, fires: Sequence[datetime], zone: str) -> str:
    if not fires:
        return ""
    shown = [fire.astimezone(find_zone(zone)) for fire in fires[:MOST_TIMES]]
    more = f" and {len(fires) - MOST_TIMES:,} more" if len(fires) > MOST_TIMES else ""
    return " ".join(f"{sign}{one:%a} {clock(one)}" for one in shown) + more


def _notable(rehearsal: Rehearsal) -> None:
    found = notes_of(rehearsal)
    out = console()
    out.print()
    if not found:
        out.print("Every job runs on time; nothing is skipped, and nothing overlaps.")
        return
    for one in found[:MOST_NOTES]:
        hanging(
            Text.assemble((f"{one.glyph} ", one.style)), Text.assemble((one.job, "bold"), f" {one.what}: {one.text}")
        )
    if len(found) > MOST_NOTES:
        left = Counter(one.what for one in found[MOST_NOTES:])
        kinds = ", ".join(f"{count:,} {what}" for what, count in left.most_common())
        out.print(Text(f"and {len(found) - MOST_NOTES:,} more ({kinds}); -o json has all", style="dim"))


def _notes(result: Result) -> Iterable[str]:
    yield from result.notes
    reasons: dict[str, list[str]] = {}
    for one in result.left_out:
        fires = "" if one.fires is None else f" ({one.fires:,} fires)"
        reasons.setdefault(one.reason, []).append(one.job + fires)
    for reason, jobs in reasons.items():
        if reason == "is a system job":
            continue
        named = ", ".join(jobs[:MOST_TIMES]) + (
            f" and {len(jobs) - MOST_TIMES:,} more" if len(jobs) > MOST_TIMES else ""
        )
        hint = "; choose some with --job, or a shorter period" if reason == "fires too often" else ""
        yield f"left out, because it {reason}: {named}{hint}"
    yield "a forecast: real durations vary, and failures, retries and load are not rehearsed"

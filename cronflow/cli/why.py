"""`cronflow jobs why` and `jobs history`: why an instant ran, did not run or waits, and who changed the job when.

The rule: each link of the chain is told in the order in which it was decided, and whoever reads only the last line
knows how it stands; what to do about it follows there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.connect import call
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.runview import resolution_words
from cronflow.cli.tables import Column, table
from cronflow.cli.words import BLUE, GRAY, GREEN, ORANGE, RED, Look
from cronflow.domain import why as chain
from cronflow.domain.cluster import node_name
from cronflow.domain.job import Overlap
from cronflow.domain.placement import Placement
from cronflow.domain.run import OPEN, Outcome
from cronflow.schemas.jobs import version_schema

if TYPE_CHECKING:
    from cronflow.domain.version import Version
    from cronflow.remote.usecases import UseCases

YES, NO, WAITS, PASSED = Look("✓", GREEN), Look("✗", RED), Look("…", ORANGE), Look("↷", GRAY)
TITLE = 12

Name = Annotated[str, typer.Argument(metavar="NAME", help="The job; a deleted one too.", show_default=False)]
# A time such as -2h begins like an option, and -h would be the one for help.
TIMES_LIKE_OPTIONS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
Told = tuple[Look, str, Sequence[str]]


def why(
    name: Name,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]",
            help="The instant, as 2026-11-21T02:00:00Z; or `now` or `-2h`, the last one until then. Without it the "
            "latest that fell due.",
            show_default=False,
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Why an instant of a job ran, did not run, or waits: from the schedule to the outcome."""
    at, exact = (None, True) if time is None else times.instant_of(time, "TIME")

    async def read(service: UseCases) -> chain.Why:
        return await service.why(name, at, exact=exact)

    found = call(read)
    from cronflow.schemas.why import why_schema

    names = [found.run] if found.run is not None else []
    show(output, why_schema(found), names, lambda: _view(found, times.now()))


def history(name: Name, output: Output = Format.TABLE) -> None:
    """Every version of a job: when it began, who made it, and what it says."""

    async def read(service: UseCases) -> list[Version]:
        return await service.versions(name)

    found = call(read)
    shapes = [version_schema(version) for version in found]
    show(output, shapes, [str(version.ver) for version in found], lambda: _versions(found, times.now()))


def _versions(versions: Sequence[Version], now: datetime) -> None:
    from cronflow.domain.schedule.describe import describe

    table(
        [
            Column("VERSION", align="right"),
            Column("AT (UTC)"),
            Column("AGO", drop=3),
            Column("BY", drop=2),
            Column("STATE", drop=1),
            Column("SCHEDULE", least=18),
        ],
        [
            [
                str(version.ver),
                times.absolute(version.at),
                times.relative(version.at, now),
                words.one_line(version.by),
                version.held or "active",
                "" if version.job.schedule is None else describe(version.job.schedule).removesuffix(" (UTC)"),
            ]
            for version in reversed(versions)
        ],
    )


# ---------------------------------------------------------------------------------------------------------- the chain


def _view(found: chain.Why, now: datetime) -> None:
    out = console()
    when = f"{times.absolute(found.instant)}  {times.relative(found.instant, now)}"
    out.print(Text.assemble((found.job, "bold"), "  ", when))
    out.print()
    told = [_told(link, now) for link in found.links]
    for place, (look, title, lines) in enumerate(told):
        first, *more = lines or [""]
        out.print(Text.assemble((f"{look.glyph} {title:<{TITLE}} ", look.style), words.one_line(first)))
        bar = "│" if place + 1 < len(told) else " "
        for line in more:
            out.print(Text.assemble((f"{bar} ", "dim"), " " * (TITLE + 1), words.clean(line)))
    if found.run is not None:
        out.print()
        out.print(Text(f"its run: cronflow runs show {found.run}", style="dim"))
        if isinstance(found.links[-1], chain.Ended) and found.links[-1].dead:
            out.print(Text(f"run it again: cronflow runs retry {found.run}", style="dim"))
            out.print(Text(f"leave it: cronflow runs ack {found.run}", style="dim"))


def _told(link: chain.Link, now: datetime) -> Told:
    match link:
        case chain.Due() | chain.NotDue() | chain.Upcoming() | chain.KeptByEdit() | chain.Unrecorded():
            return _schedule_told(link, now)
        case chain.Lateness() | chain.Overlapping() | chain.Unplanned() | chain.Placed() | chain.Dispatched():
            return _planning_told(link, now)
    return _running_told(link, now)


def _schedule_told(
    link: chain.Due | chain.NotDue | chain.Upcoming | chain.KeptByEdit | chain.Unrecorded, now: datetime
) -> Told:
    match link:
        case chain.Due():
            return YES, "due", [f"{link.schedule}", f"version {link.ver}{_since(link.since, link.by)}"]
        case chain.NotDue():
            lines = [link.reason if link.schedule is None else f"{link.reason} ({link.schedule})"]
            if link.before is not None:
                lines.append(f"the last one before: {times.absolute(link.before)}")
            if link.after is not None:
                lines.append(f"the next one after: {times.absolute(link.after)}")
            return NO, "not due", lines
        case chain.Upcoming():
            return WAITS, "to come", [f"falls due {times.relative(link.instant, now)}"]
        case chain.KeptByEdit():
            lines = [f"by version {link.ver}{_since(link.since, link.by)}"]
            if not link.recorded:
                lines.append("a skipped run will say so when the job goes on")
            return PASSED, link.reason, lines
        case chain.Unrecorded():
            return NO, "no run", [link.reason]


def _planning_told(
    link: chain.Lateness | chain.Overlapping | chain.Unplanned | chain.Placed | chain.Dispatched, now: datetime
) -> Told:
    match link:
        case chain.Lateness():
            return _lateness(link)
        case chain.Overlapping():
            blocked = f"run {link.blocked_by} was open" if link.blocked_by else "another run was open"
            if link.skipped:
                return PASSED, "overlap", [f"{blocked}, and the job says overlap: {link.policy}"]
            calm = "runs may overlap" if link.policy is Overlap.ALLOW else "no other run was in the way"
            return YES, "overlap", [f"{link.policy}: {calm}"]
        case chain.Unplanned():
            lines = [f"{link.reason}, since {times.absolute(link.since)} ({times.relative(link.since, now)})"]
            if link.blocked_by:
                lines.append(f"in the way: cronflow runs show {link.blocked_by}")
            return WAITS, "waits", [*lines, *_nodes(link.nodes, link.more)]
        case chain.Placed():
            if link.placement is None:
                return YES, "placed", [f"{link.node}; the reason was not recorded"]
            return YES, "placed", _placement(link.placement)
        case chain.Dispatched():
            again = f", given out again {words.plural(link.again, 'time')}" if link.again else ""
            line = f"{times.absolute(link.at)} by term {link.term}, fence {link.fence}{again}"
            if link.taken:
                return YES, "dispatched", [line]
            looked = "" if link.check_at is None else f"; looked at again {times.relative(link.check_at, now)}"
            return WAITS, "dispatched", [line, f"{link.node} has not recorded a start yet{looked}"]


def _lateness(link: chain.Lateness) -> Told:
    lines = [f"decided {times.span(link.late)} late"]
    if link.missed:
        lines = [f"decided {times.span(link.late)} late, missed is more than {times.span(link.late_after)}"]
        lines.append(f"misfire: {link.policy}")
    if link.covers is not None:
        many = "many instants" if link.covers.count is None else words.plural(link.covers.count, "instant")
        span = f"{times.absolute(link.covers.first)} to {times.absolute(link.covers.last)}"
        lines.append(f"one run stands for {many}, {span}")
    if link.skipped:
        return PASSED, "missed", lines
    return (WAITS if link.missed else YES), ("missed" if link.missed else "on time"), lines


def _running_told(link: chain.Link, now: datetime) -> Told:
    match link:
        case chain.Started():
            return YES, "started", [f"{times.absolute(link.at)}, {times.span(link.lateness)} after it fell due"]
        case chain.Tried(attempt):
            length = "" if attempt.started_at is None else f" after {times.span(attempt.ended_at - attempt.started_at)}"
            error = f": {words.gist(attempt.error)}" if attempt.error else ""
            text = f"{attempt.outcome}{length} on {node_name(attempt.node)}{error}"
            return (YES if attempt.outcome is Outcome.OK else NO), f"attempt {attempt.n}", [text]
        case chain.RunsNow():
            on = "" if link.node is None else f" on {node_name(link.node)}"
            return Look("▶", BLUE), "running", [f"attempt {link.attempt}{on}, for {times.span(now - link.since)}"]
        case chain.TriesAgain():
            lines = [f"attempt {link.attempt}" + ("" if link.at is None else f" {times.relative(link.at, now)}")]
            if link.waiting is not None:
                since = times.absolute(link.waiting.since)
                lines = [f"attempt {link.attempt}: {link.waiting.reason}, since {since}"]
                lines += _nodes(link.waiting.nodes, link.waiting.more)
            return WAITS, "waits", lines
        case chain.Ended():
            return _ended(link)
    raise AssertionError(link)


def _ended(link: chain.Ended) -> Told:
    assert link.state not in OPEN
    lines = ["" if link.at is None else times.absolute(link.at)]
    if link.reason:
        lines.append(link.reason)
    if link.error:
        lines.append(words.gist(link.error))
    if link.dead:
        lines.append("a dead letter: nobody has replayed or acknowledged it")
    if link.resolution is not None:
        lines.append(resolution_words(link.resolution))
    look = words.RUNS[link.state]
    return look, link.state.value, lines


def _placement(placement: Placement) -> list[str]:
    lines = [f"{placement.node}, rank {placement.rank:g} (the lowest takes it)"]
    for node, standing in placement.others:
        lines.append(f"not {node}: {standing if isinstance(standing, str) else f'rank {standing:g}'}")
    return [*lines, *_more(placement.more)]


def _nodes(nodes: Sequence[tuple[str, str]], more: int) -> list[str]:
    return [*(f"not {node}: {reason}" for node, reason in nodes), *_more(more)]


def _more(more: int) -> list[str]:
    return [f"and {words.plural(more, 'node')} more"] if more > 0 else []


def _since(instant: datetime, by: str) -> str:
    who = f" by {words.one_line(by)}" if by else ""
    return f", since {times.absolute(instant)}{who}"

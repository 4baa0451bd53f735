"""How runs look to people: the table of `runs list` and the page of `runs show`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.output import console, yaml_text
from cronflow.cli.tables import Cell, Column, facts, table
from cronflow.domain.cluster import node_name
from cronflow.domain.run import SCHEDULED, Resolution, Run, RunState, cancelled_text
from cronflow.schemas.base import iso
from cronflow.schemas.runs import attempt_length

if TYPE_CHECKING:
    from cronflow.ports import LateResult
    from cronflow.schemas.runs import RunDetailSchema


def run_table(runs: Sequence[Run], now: datetime, *, of_one_job: bool = False) -> None:
    """A line for each run."""
    table(
        [
            Column("STATE"),
            Column("RUN"),
            Column("DUE", drop=1),
            Column("TOOK", drop=2, align="right"),
            Column("TRY", drop=3, align="right"),
            Column("LATE", drop=5, align="right"),
            Column("NODE", drop=6),
            Column("DUE AT (UTC)", drop=9, style="dim"),
            Column("WHY", drop=4, least=14 if of_one_job else 20),
        ],
        [
            [
                words.run_state(run.state),
                run.id,
                times.relative(run.fire_at, now),
                _took(run, now),
                f"{run.attempt}/{run.max_attempts}" if run.attempt else "",
                "" if run.lateness is None else times.span(run.lateness),
                "" if run.node is None else words.clean(node_name(run.node)),
                times.absolute(run.fire_at),
                words.gist(run.error or run.reason),
            ]
            for run in runs
        ],
    )


def run_page(run: Run, now: datetime, late: Sequence[LateResult] = ()) -> None:
    """Everything about a run. `late` are outcomes that were not accepted."""
    out = console()
    out.print(Text.assemble(words.run_state(run.state), "  ", (run.id, "bold")))
    out.print()
    facts(
        [
            ("job", run.job),
            ("due", f"{_when(run.fire_at, now)}{_lateness(run)}"),
            ("kind", run.kind.value),
            ("covers", _covers(run)),
            ("started", None if run.started_at is None else _when(run.started_at, now)),
            ("ended", None if run.ended_at is None else f"{_when(run.ended_at, now)}{_duration(run)}"),
            ("next try", _when(run.check_at, now) if run.state is RunState.RETRYING and run.check_at else None),
            ("attempt", f"{run.attempt} of at most {run.max_attempts}" if run.attempt else None),
            ("node", None if run.node is None else words.clean(run.node)),
            ("fence", f"{run.fence}  term {run.term}" if run.fence else None),
            ("outcome", None if run.outcome is None else words.outcome(run.outcome)),
            ("reason", None if not run.reason else words.clean(run.reason)),
            ("blocked by", run.blocked_by),
            ("replay of", run.replay_of),
            ("dead", "nobody has replayed or acknowledged it" if run.is_dead else None),
            ("settled", None if run.resolution is None else resolution_words(run.resolution)),
            ("to be", _cancellation(run)),
            ("args", None if not run.args else _document(dict(run.args))),
            ("result", _result(run)),
            ("error", None if not run.error else Text(words.clean(run.error), style=words.RED)),
        ]
    )
    if run.attempts:
        out.print()
        _attempts(run, now)
    if late:
        out.print()
        out.print(Text("Came too late: another attempt had a higher fence, so these were kept aside", style="bold"))
        _late(late, now)
    out.print()
    if run.is_dead:
        told = f"run it again: cronflow runs retry {run.id}    leave it: cronflow runs ack {run.id}"
        out.print(Text(told, style="dim"))
    if run.kind in SCHEDULED:
        out.print(Text(f"how it came about: cronflow jobs why {run.job} {iso(run.fire_at)}", style="dim"))
    out.print(Text(f"its log: cronflow runs logs {run.id}{' -f' if run.is_open else ''}", style="dim"))


def end_of_run(run: RunDetailSchema) -> None:
    """How a run ended that was followed."""
    out = console()
    line = Text.assemble(words.run_state(RunState(run["state"])), "  ", (run["id"], "bold"))
    if run["duration_ms"] is not None:
        line.append(f"  took {times.span(timedelta(milliseconds=run['duration_ms']))}")
    if run["attempt"] > 1:
        line.append(f", attempt {run['attempt']} of at most {run['max_attempts']}")
    out.print(line)
    result = None if run["result"] is None else _document(run["result"])
    why = None if not run["reason"] else words.clean(run["reason"])
    error = None if not run["error"] else Text(words.clean(run["error"]), style=words.RED)
    facts([("why", why), ("result", result), ("error", error)])


def _attempts(run: Run, now: datetime) -> None:
    rows: list[Sequence[Cell]] = [
        [
            str(attempt.n),
            words.outcome(attempt.outcome),
            "" if attempt.started_at is None else times.absolute(attempt.started_at),
            "" if (length := attempt_length(attempt)) is None else times.span(length),
            times.relative(attempt.ended_at, now),
            words.clean(attempt.node),
            str(attempt.fence),
            words.gist(attempt.error),
        ]
        for attempt in run.attempts
    ]
    table(
        [
            Column("TRY", align="right"),
            Column("OUTCOME"),
            Column("STARTED (UTC)", drop=2),
            Column("TOOK", align="right"),
            Column("ENDED", drop=4),
            Column("NODE", drop=1),
            Column("FENCE", drop=5, style="dim"),
            Column("ERROR", drop=3, least=20),
        ],
        rows,
    )


def _late(late: Sequence[LateResult], now: datetime) -> None:
    rows: list[Sequence[Cell]] = [
        [
            words.outcome(result.attempt_result.outcome),
            times.absolute(result.at),
            times.relative(result.at, now),
            words.clean(result.node),
            str(result.fence),
            words.gist(result.attempt_result.error),
        ]
        for result in late
    ]
    table(
        [
            Column("OUTCOME"),
            Column("AT (UTC)", drop=2),
            Column("AGO", drop=4),
            Column("NODE", drop=1),
            Column("FENCE", drop=5, style="dim"),
            Column("ERROR", drop=3, least=20),
        ],
        rows,
    )


def _took(run: Run, now: datetime) -> Cell:
    if run.duration is not None:
        return times.span(run.duration)
    if run.state is RunState.RUNNING and run.started_at is not None:
        return Text(f"{times.span(now - run.started_at)}…", style=words.BLUE)
    return ""


def resolution_words(resolution: Resolution) -> str:
    """What somebody did about a run."""
    text = f"{resolution.how} {times.absolute(resolution.at)}"
    if resolution.by:
        text += f" by {words.one_line(resolution.by)}"
    if resolution.run:
        text += f" as {resolution.run}"
    return f"{text}: {words.one_line(resolution.note)}" if resolution.note else text


def _when(instant: datetime, now: datetime) -> str:
    return f"{times.absolute(instant)}  {times.relative(instant, now)}"


def _lateness(run: Run) -> str:
    return "" if run.lateness is None else f", first started {times.span(run.lateness)} later"


def _duration(run: Run) -> str:
    return "" if run.duration is None else f", took {times.span(run.duration)}"


def _covers(run: Run) -> str | None:
    if run.covers is None:
        return None
    count = "more missed fires than were counted" if run.covers.count is None else f"{run.covers.count} missed fires"
    return f"{count}, {times.absolute(run.covers.first)} to {times.absolute(run.covers.last)}"


def _cancellation(run: Run) -> str | None:
    """What was asked for and has not happened, or did not happen in time."""
    if not run.cancel_requested or run.state is RunState.CANCELLED:
        return None
    return words.clean(cancelled_text(run.cancel_reason, run.cancel_by or "somebody"))


def _result(run: Run) -> str | None:
    if run.result_size is not None:
        return f"{run.result_size:,} bytes of JSON; cronflow runs show {run.id} -o json has it"
    return None if run.result is None else _document(run.result)


def _document(value: object) -> str:
    if isinstance(value, str):
        return words.clean(value)
    return words.clean(yaml_text(value).removesuffix("...\n").rstrip("\n"))

"""Runs for people: the table of `runs list`, the page of `runs show`, and the end of a run that was followed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console, yaml_text
from cronflow.cli.terminal.tables import Cell, Column, facts, table, table_of
from cronflow.domain.cluster import node_name
from cronflow.domain.run import OPEN, Outcome, RunState, cancelled_text

if TYPE_CHECKING:
    from cronflow.schemas.runs import ReportSchema, ResolutionSchema, RunDetailSchema, RunSchema


def is_open(run: RunSchema) -> bool:
    return run["state"] in OPEN


def went_well(run: RunSchema) -> bool:
    """Whether a run succeeded or the job skipped itself."""
    skipped_itself = run["state"] == RunState.SKIPPED and run["outcome"] == Outcome.SKIPPED
    return run["state"] == RunState.SUCCEEDED or skipped_itself


def without_late(run: RunDetailSchema) -> RunSchema:
    """The run without `late`, as in lists."""
    return {name: value for name, value in run.items() if name != "late"}  # type: ignore[return-value]


def run_table(runs: Sequence[RunSchema], now: datetime, *, of_one_job: bool = False, empty: str = "") -> None:
    table_of(
        runs,
        [
            (Column("STATE"), lambda run: formatting.run_state(run["state"])),
            (Column("RUN"), lambda run: run["id"]),
            (Column("DUE", drop=1), lambda run: times.relative(run["fire_at"], now)),
            (Column("TOOK", drop=2, align="right"), lambda run: _took(run, now)),
            (Column("TRY", drop=3, align="right"), try_of),
            (Column("LATE", drop=5, align="right"), lambda run: _length(run["lateness_ms"])),
            (Column("NODE", drop=6), node_of),
            (Column("DUE AT (UTC)", drop=9, style="dim"), lambda run: times.absolute(run["fire_at"])),
            (
                Column("WHY", drop=4, least=14 if of_one_job else 20),
                lambda run: formatting.gist(_why(run)),
            ),
        ],
        empty=empty,
    )


def _why(run: RunSchema) -> str | None:
    """What a run waits for, else its error, or why it was skipped or cancelled. An API of 0.6 has no `waiting`."""
    return run.get("waiting") or run["error"] or run["reason"]


def run_page(run: RunDetailSchema, now: datetime, neighbours: Sequence[RunSchema] = ()) -> None:
    """`neighbours` are the runs of its chain around it."""
    out, retrying = console(), run["state"] == RunState.RETRYING and run.get("part_states") is None
    out.print(Text.assemble(formatting.run_state(run["state"]), "  ", (run["id"], "bold")))
    out.print()
    lateness = "" if run["lateness_ms"] is None else f", first started {times.duration(run['lateness_ms'])} later"
    took = "" if run["duration_ms"] is None else f", took {times.duration(run['duration_ms'])}"
    facts(
        [
            ("job", run["job"]),
            ("due", f"{times.both(run['fire_at'], now)}{lateness}"),
            ("kind", run["kind"]),
            ("covers", _covers(run)),
            ("started", None if run["started_at"] is None else times.both(run["started_at"], now)),
            ("ended", None if run["ended_at"] is None else f"{times.both(run['ended_at'], now)}{took}"),
            ("next try", times.both(run["check_at"], now) if retrying and run["check_at"] else None),
            ("attempt", f"{run['attempt']} of at most {run['max_attempts']}" if run["attempt"] else None),
            ("node", None if run["node"] is None else formatting.clean(run["node"])),
            ("fence", f"{run['fence']}  term {run['term']}" if run["fence"] else None),
            ("outcome", None if run["outcome"] is None else formatting.outcome(run["outcome"])),
            ("reason", None if not run["reason"] else formatting.clean(run["reason"])),
            ("waits for", None if not run.get("waiting") else formatting.clean(run["waiting"] or "")),
            ("blocked by", run["blocked_by"]),
            ("replay of", run["replay_of"]),
            # An API of 0.9 has no backfills.
            ("backfill", run.get("backfill")),
            ("part of", _part(run)),
            ("parts", _parts(run)),
            # An API of 0.9 has no chains.
            ("chain", run.get("chain") if run.get("follows") or neighbours else None),
            ("follows", ", ".join(f"{one['run']} ({one['state']})" for one in run.get("follows") or ()) or None),
            ("dead", "not replayed or acknowledged yet" if run["dead"] else None),
            ("resolved", None if run["resolution"] is None else resolution_text(run["resolution"])),
            ("requested", _cancellation(run)),
            ("args", None if not run["args"] else _document(run["args"])),
            ("result", _result(run)),
            ("error", None if not run["error"] else Text(formatting.clean(run["error"]), style=formatting.RED)),
        ]
    )
    if run["attempts"]:
        out.print()
        _attempts(run, now)
    if neighbours:
        from cronflow.cli.views.chains import chain_table, in_order

        out.print()
        out.print(Text("What it follows, and what follows it", style="bold"))
        chain_table(in_order(neighbours), now, marked=run["id"])
    if run["late"]:
        out.print()
        out.print(Text("Late results, rejected because a newer attempt has a higher fence", style="bold"))
        _late(run, now)
    out.print()
    hints = []
    if run["dead"]:
        hints.append(f"replay it: cronflow runs retry {run['id']}    acknowledge it: cronflow runs ack {run['id']}")
    if run.get("part_states"):
        hints.append(f"its parts: cronflow runs list --parent {run['id']}")
    if neighbours:
        hints.append(f"its whole chain: cronflow runs chain {run['id']}")
    hints.append(f"why it ran or waits: cronflow runs why {run['id']}")
    hints.append(f"its log: cronflow runs logs {run['id']}{' -f' if is_open(run) else ''}")
    for hint in hints:
        out.print(Text(hint, style="dim"))


def _part(run: RunSchema) -> str | None:
    """Which part of which run it is. An API of 0.9 has no parts."""
    parent, shard = run.get("parent"), run.get("shard")
    if not parent or not shard:
        return None
    return f"{parent}  index {shard['index']} of {shard['total']}"


def _parts(run: RunDetailSchema) -> str | None:
    """The number of parts, and how many are in each state."""
    states = run.get("part_states")
    if states is None:
        return None
    counts = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"{run['parts']}: {counts}" if run["parts"] and counts else "not split yet"


def end_of_run(run: RunDetailSchema) -> None:
    line = Text.assemble(formatting.run_state(run["state"]), "  ", (run["id"], "bold"))
    if run["duration_ms"] is not None:
        line.append(f"  took {times.duration(run['duration_ms'])}")
    if run["attempt"] > 1:
        line.append(f", attempt {run['attempt']} of at most {run['max_attempts']}")
    console().print(line)
    result = None if run["result"] is None else _document(run["result"])
    why = None if not run["reason"] else formatting.clean(run["reason"])
    error = None if not run["error"] else Text(formatting.clean(run["error"]), style=formatting.RED)
    facts([("why", why), ("result", result), ("error", error)])


def report_page(report: ReportSchema, since: str) -> None:
    out, now = console(), times.now()
    if not report["failures"]:
        out.print(f"No runs due since {since} have failed.")
    else:
        table_of(
            report["failures"],
            [
                (Column("COUNT", align="right"), lambda failure: str(failure["count"])),
                (Column("OPEN", drop=2, align="right"), lambda failure: str(failure["open"])),
                (Column("REASON", least=24), lambda failure: formatting.one_line(failure["reason"])),
                (Column("LAST", drop=1), lambda failure: times.relative(failure["last"], now)),
                (Column("FIRST", drop=4), lambda failure: times.relative(failure["first"], now)),
                (Column("JOBS", drop=3, least=12), lambda failure: ", ".join(failure["jobs"])),
                (Column("EXAMPLE", drop=5), lambda failure: failure["example"]),
            ],
        )
    if report["dead"]:
        out.print()
        count = formatting.plural(report["dead"], "dead letter")
        out.print(Text(f"{count} open: cronflow runs list --dead, then runs retry or runs ack", style="dim"))


def resolution_text(resolution: ResolutionSchema) -> str:
    """How, when and by whom a dead letter was resolved."""
    text = f"{resolution['how']} {times.absolute(resolution['at'])}"
    if resolution["by"]:
        text += f" by {formatting.one_line(resolution['by'])}"
    if resolution["run"]:
        text += f" as {resolution['run']}"
    return f"{text}: {formatting.one_line(resolution['note'])}" if resolution["note"] else text


def try_of(run: RunSchema) -> str:
    return f"{run['attempt']}/{run['max_attempts']}" if run["attempt"] else ""


def node_of(run: RunSchema) -> str:
    return "" if run["node"] is None else formatting.clean(node_name(run["node"]))


def _attempts(run: RunDetailSchema, now: datetime) -> None:
    rows: list[Sequence[Cell]] = [
        [
            str(attempt["n"]),
            formatting.outcome(attempt["outcome"]),
            "" if attempt["started_at"] is None else times.absolute(attempt["started_at"]),
            _length(attempt["duration_ms"]),
            times.relative(attempt["ended_at"], now),
            formatting.clean(attempt["node"]),
            str(attempt["fence"]),
            formatting.gist(attempt["error"]),
        ]
        for attempt in run["attempts"]
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


def _late(run: RunDetailSchema, now: datetime) -> None:
    table_of(
        run["late"],
        [
            (Column("OUTCOME"), lambda late: formatting.outcome(late["outcome"])),
            (Column("AT (UTC)", drop=2), lambda late: times.absolute(late["at"])),
            (Column("AGO", drop=4), lambda late: times.relative(late["at"], now)),
            (Column("NODE", drop=1), lambda late: formatting.clean(late["node"])),
            (Column("FENCE", drop=5, style="dim"), lambda late: str(late["fence"])),
            (Column("ERROR", drop=3, least=20), lambda late: formatting.gist(late["error"])),
        ],
    )


def _length(milliseconds: int | None) -> str:
    return "" if milliseconds is None else times.duration(milliseconds)


def _took(run: RunSchema, now: datetime) -> Cell:
    if run["duration_ms"] is not None:
        return times.duration(run["duration_ms"])
    if run["state"] == RunState.RUNNING and run["started_at"] is not None:
        return Text(f"{times.span(now - times.parsed(run['started_at']))}…", style=formatting.BLUE)
    return ""


def _covers(run: RunSchema) -> str | None:
    covers = run["covers"]
    if covers is None:
        return None
    count = "many missed fires" if covers["count"] is None else f"{covers['count']} missed fires"
    return f"{count}, {times.absolute(covers['first'])} to {times.absolute(covers['last'])}"


def _cancellation(run: RunSchema) -> str | None:
    """A requested cancellation that did not happen, or has not happened yet."""
    if not run["cancel_requested"] or run["state"] == RunState.CANCELLED:
        return None
    return formatting.clean(cancelled_text(run["cancel_reason"], run["cancel_by"] or "somebody"))


def _result(run: RunSchema) -> str | None:
    if run["result_size"] is not None:
        return f"{run['result_size']:,} bytes of JSON; print it with cronflow runs show {run['id']} -o json"
    return None if run["result"] is None else _document(run["result"])


def _document(value: object) -> str:
    if isinstance(value, str):
        return formatting.clean(value)
    return formatting.clean(yaml_text(value).removesuffix("...\n").rstrip("\n"))

"""The result of `jobs apply`, or what it would be: jobs, changed fields, and the runs that appear and vanish."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import console, warn
from cronflow.cli.terminal.tables import Column, hanging, table_of
from cronflow.cli.views.jobs import next_text, next_utc, state_text
from cronflow.domain.schedule.comparison import MOST_COUNTED

if TYPE_CHECKING:
    from cronflow.schemas.jobs import AppliedSchema
    from cronflow.schemas.schedules import RunChangesSchema

MOST_NAMED = 5


def applied_page(applied: Sequence[AppliedSchema], now: datetime, *, days: int, dry_run: bool) -> None:
    table_of(
        applied,
        [
            (Column("RESULT"), lambda one: formatting.word(one["result"])),
            (Column("NAME"), lambda one: one["name"]),
            (Column("STATE", drop=3), lambda one: "" if one["result"] == "deleted" else state_text(one)),
            (Column(f"RUNS {days}D", drop=1), lambda one: _change(one.get("runs"))),
            (Column("NEXT", drop=2), lambda one: next_text(one, now)),
            (Column("NEXT FIRE (UTC)", drop=4, style="dim"), next_utc),
        ],
    )
    out = console()
    for one in applied:
        _differences(one)
    results = ["created", "changed", "unchanged", *({"deleted"} & {one["result"] for one in applied})]
    counts = [f"{sum(one['result'] == result for one in applied)} {result}" for result in results]
    out.print(Text(f"\n{formatting.plural(len(applied), 'job')}: {', '.join(counts)}", style="dim"))
    if totals := _totals(applied, days, dry_run=dry_run):
        out.print(Text(totals, style="dim"))
    if dry_run:
        out.print(Text("Nothing was changed. Run the command without --dry-run to apply the changes.", style="dim"))


def _differences(one: AppliedSchema) -> None:
    """The changed fields of a job, and the first runs that appear and vanish."""
    out = console()
    changes, runs = one.get("changes"), one.get("runs")
    if not changes or one["result"] == "deleted":
        return
    out.print(Text(f"\n{one['name']}", style="bold"))
    for change in changes:
        before = (_value(change["before"]), "strike dim")
        out.print(Text.assemble(f"  {change['field']}: ", before, " → ", _value(change["after"])))
    if runs is None:
        return
    if not runs["compared"]:
        hanging(
            Text("  "), f"too many runs to compare: {_number(runs['before'])} before, {_number(runs['after'])} after"
        )
        return
    if runs["added"] == runs["removed"] == 0:
        out.print(Text("  no run appears or vanishes", style="dim"))
        return
    for sign, style, verb, count, first in (
        ("+ ", formatting.GREEN, "appear", runs["added"], runs["first_added"]),
        ("- ", formatting.RED, "vanish", runs["removed"], runs["first_removed"]),
    ):
        if count != 0:
            more = ["…"] if count is None or count > len(first) else []
            named = f": {', '.join([*first, *more])}" if first else ""
            one_run = "1 run" if count == 1 else f"{_number(count)} runs"
            hanging(Text.assemble("  ", (sign, style)), f"{one_run} {verb}{'s' if count == 1 else ''}{named}")


def _change(runs: RunChangesSchema | None) -> str:
    """`+7 -2`, or the numbers before and after for too many runs."""
    if runs is None:
        return ""
    if not runs["compared"]:
        before, after = _number(runs["before"]), _number(runs["after"])
        return before if before == after else f"{before} → {after}"
    signs = (("+", runs["added"]), ("-", runs["removed"]))
    return " ".join(f"{sign}{_number(count)}" for sign, count in signs if count != 0) or (
        "same" if runs["after"] else "none"
    )


def _totals(applied: Sequence[AppliedSchema], days: int, *, dry_run: bool) -> str:
    from cronflow.schemas.jobs import run_totals_schema

    if not any("runs" in one for one in applied):
        return ""
    totals = run_totals_schema(applied)
    parts = [
        _sentence(totals["added"], "appear", at_least=totals["at_least"], would=dry_run),
        _sentence(totals["removed"], "vanish", at_least=totals["at_least"], would=dry_run),
    ]
    text = f"In the next {formatting.plural(days, 'day')}, {' and '.join(parts)}."
    if count := totals["not_compared"]:
        text += f" The runs of {formatting.plural(count, 'job')} are too many to compare, and not included."
    return text


def _sentence(count: int, verb: str, *, at_least: bool, would: bool) -> str:
    """`1 run appears`, `at least 10,000 runs would vanish`, `none vanish`."""
    some = f"{'at least ' if at_least else ''}{formatting.plural(count, 'run')}" if count else "none"
    return f"{some} {f'would {verb}' if would else f'{verb}s' if count == 1 else verb}"


def _number(count: int | None) -> str:
    return f">{MOST_COUNTED:,}" if count is None else f"{count:,}"


def warn_about(applied: Sequence[AppliedSchema]) -> None:
    """Print each warning once, with the jobs that it is about."""
    found: dict[str, list[str]] = {}
    for one in applied:
        for warning in one.get("warnings", ()):
            found.setdefault(warning, []).append(one["name"])
    for warning, names in found.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        warn(f"{', '.join(names[:MOST_NAMED])}{more}: {formatting.clean(warning)}")


def _value(value: object) -> str:
    import orjson

    return "nothing" if value is None else formatting.one_line(orjson.dumps(value).decode())

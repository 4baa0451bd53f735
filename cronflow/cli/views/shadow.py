"""The comparison of jobs in shadow mode with cron's log, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import times
from cronflow.cli.terminal.formatting import GREEN, ORANGE, one_line, plural
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, table_of

if TYPE_CHECKING:
    from cronflow.domain.shadow_report import ComparedLine, ShadowComparison
    from cronflow.schemas.jobs import JobSchema

MOST = 3
"""How many instants of a difference are shown."""


def report_page(compared: ShadowComparison) -> None:
    out = console()
    out.print(
        Text(f"Cron's log from {times.absolute(compared.first)} to {times.absolute(compared.last)}", style="bold")
    )
    out.print()
    table_of(
        compared.lines,
        [
            (Column("", drop=1), _mark),
            (Column("JOB"), lambda line: ", ".join(line.jobs)),
            (Column("BOTH", align="right"), lambda line: f"{line.matched:,}"),
            (Column("ONLY CRONFLOW", align="right"), lambda line: _count(len(line.only_cronflow))),
            (Column("ONLY CRON", align="right"), lambda line: _count(len(line.only_cron))),
            (Column("FURTHEST APART", drop=2, align="right"), _furthest),
        ],
    )
    for line in compared.lines:
        _differences(line)
    if compared.unknown:
        out.print()
        out.print(Text("Commands in the log that no job in shadow mode replaces", style="bold"))
        table_of(
            compared.unknown,
            [
                (Column("STARTS", align="right"), lambda one: f"{one[1]:,}"),
                (Column("HOST", drop=1), lambda one: one[0].host),
                (Column("USER"), lambda one: one[0].user),
                (Column("COMMAND", least=24), lambda one: one_line(one[0].command)),
            ],
        )
    out.print()
    out.print(_verdict(compared))


def print_replaced(jobs: Sequence[JobSchema]) -> None:
    """The crontab lines that the jobs replace, which would execute the same work as well."""
    lines = [line for job in jobs if (line := job["replaces"]) is not None]
    if not lines:
        return
    out = console()
    out.print()
    out.print(Text("Remove these lines from cron now, or the work is done twice", style="bold"))
    table_of(
        lines,
        [
            (Column("HOST"), lambda line: line["host"] or "any"),
            (Column("USER"), lambda line: line["user"] or "any"),
            (Column("COMMAND", least=24), lambda line: one_line(line["command"])),
        ],
    )


def _mark(line: ComparedLine) -> Text:
    return Text("✓", GREEN) if line.is_equal else Text("!", ORANGE)


def _count(count: int) -> str:
    return f"{count:,}" if count else "-"


def _furthest(line: ComparedLine) -> str:
    return times.duration(line.furthest.total_seconds() * 1000) if line.matched else "-"


def _differences(line: ComparedLine) -> None:
    if line.is_equal:
        return
    out = console()
    out.print()
    out.print(Text(", ".join(line.jobs), style="bold"))
    shown = [f"  only CronFlow  {times.absolute(at)}" for at in line.only_cronflow[:MOST]]
    if len(line.only_cronflow) > MOST:
        shown.append(f"                 and {len(line.only_cronflow) - MOST:,} more")
    for at in line.only_cron[:MOST]:
        reason = f"  (CronFlow skipped it: {line.skipped[at]})" if at in line.skipped else ""
        shown.append(f"  only cron      {times.absolute(at)}{reason}")
    if len(line.only_cron) > MOST:
        shown.append(f"                 and {len(line.only_cron) - MOST:,} more")
    for text in shown:
        out.print(Text(text))


def _verdict(compared: ShadowComparison) -> str:
    different = sum(not line.is_equal for line in compared.lines)
    if not different:
        starts = plural(sum(line.matched for line in compared.lines), "start")
        return f"Equal: {starts} of {plural(len(compared.lines), 'line')}. Switch with: cronflow jobs activate"
    return f"{different} of {plural(len(compared.lines), 'line')} {'differs' if different == 1 else 'differ'}."

"""Backfills for people: the table, and the page of one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, facts, table_of

if TYPE_CHECKING:
    from cronflow.schemas.backfills import BackfillSchema


SHOWN = 10
"""Excluded instants."""


def backfill_table(found: Sequence[BackfillSchema], now: datetime) -> None:
    table_of(
        found,
        [
            (Column("STATE"), lambda one: formatting.word(one["state"])),
            (Column("BACKFILL"), lambda one: one["id"] or ""),
            (Column("RUNS", align="right"), lambda one: f"{one['started']}/{one['total']}"),
            (Column("OPEN", drop=3, align="right"), lambda one: str(one["open"])),
            (Column("SUCCEEDED", drop=2, align="right"), lambda one: str(one["runs"].get("succeeded", 0))),
            (Column("ONLY", drop=5), lambda one: one["only"]),
            (Column("FROM (UTC)", drop=6, style="dim"), lambda one: times.absolute(one["first"])),
            (Column("TO (UTC)", drop=6, style="dim"), lambda one: times.absolute(one["last"])),
            (Column("REQUESTED", drop=1), lambda one: times.relative(one["created_at"], now)),
            (Column("BY", drop=4), lambda one: formatting.one_line(one["by"] or "")),
        ],
        empty="No backfills. Start one: cronflow jobs backfill NAME --from 7d",
    )


def backfill_page(one: BackfillSchema, now: datetime) -> None:
    out = console()
    if one["id"] is None:
        count = formatting.plural(one["total"], "run") if one["total"] else "no runs"
        out.print(Text(f"{one['job']}: {count} to start; nothing was started"))
    else:
        out.print(Text.assemble(formatting.word(one["state"]), "  ", (one["id"], "bold")))
    out.print()
    states = ", ".join(f"{count} {state}" for state, count in one["runs"].items())
    planned = one["id"] is None
    facts(
        [
            ("range", f"{times.absolute(one['first'])} to {times.absolute(one['last'])}"),
            ("only", one["only"]),
            ("runs", None if planned else f"{one['started']} of {one['total']} started"),
            ("states", states or None),
            ("first run", None if one["first_instant"] is None else times.absolute(one["first_instant"])),
            ("last run", None if one["last_instant"] is None else times.absolute(one["last_instant"])),
            ("rate", _rate(one)),
            ("waits for", one["waiting"]),
            ("requested", None if planned else _by(times.both(one["created_at"], now), one["by"])),
            ("ended", None if one["ended_at"] is None else _by(times.both(one["ended_at"], now), one["cancelled_by"])),
            ("reason", None if one["reason"] is None else formatting.clean(one["reason"])),
            ("excluded", _excluded(one)),
        ]
    )


def _excluded(one: BackfillSchema) -> str | None:
    """The instants without a run, in a dry run."""
    found = one.get("excluded")
    if found is None:
        return None
    shown = [f"{times.absolute(each['at'])} {formatting.one_line(each['reason'])}" for each in found["first"][:SHOWN]]
    more = [f"and {found['count'] - SHOWN} more; --excluded runs them too"] if found["count"] > SHOWN else []
    return "\n".join([f"{formatting.plural(found['count'], 'instant')} without a run:", *shown, *more])


def _rate(one: BackfillSchema) -> str | None:
    if one["rate"] is None or one["least_ms"] is None:
        return None
    return f"{one['rate']}, so it takes at least {times.duration(one['least_ms'])}"


def _by(at: str, author: str | None) -> str:
    return f"{at}, by {formatting.clean(author)}" if author else at

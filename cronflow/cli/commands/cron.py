"""`cronflow cron explain`: an expression in words, its next fires, and warnings. It needs no cluster.

The rule: it uses the same code as the planner, so its output is accurate.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from cronflow.cli.main import new_group
from cronflow.cli.terminal import times
from cronflow.cli.terminal.formatting import ORANGE
from cronflow.cli.terminal.output import Format, Output, console, show
from cronflow.cli.terminal.tables import hanging
from cronflow.cli.views.jobs import fire_table
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.describe import preview
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.schedule.zones import find_zone, instant_of
from cronflow.schemas.schedules import preview_schema

cron = new_group("Explain cron expressions without a cluster.")


@cron.command()
def explain(
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help='The expression in quotes, such as "0 9 * * MON#2" or "@daily".')
    ],
    tz: Annotated[str, typer.Option(metavar="ZONE", help="The IANA time zone.")] = "UTC",
    count: Annotated[int, typer.Option("-n", metavar="COUNT", min=1, max=1000, help="The number of fires.")] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Show fires from this time on; without an offset, it is in the time zone of --tz.  [now]",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Explain an expression in words, with its next fires and warnings."""
    schedule = Cron(expression, tz)
    now = times.now()
    found = preview(schedule, now, count, None if start is None else _instant(start, tz))
    answer = preview_schema(found)

    def view() -> None:
        out = console()
        out.print(Text.assemble((schedule.expr, "bold"), f"  {found.words}"))
        out.print()
        if found.fires:
            fire_table(found.fires, tz, now)
        else:
            out.print("No further fires.")
        if found.notes:
            out.print()
        for note in found.notes:
            hanging(Text("! ", style=f"bold {ORANGE}"), note)

    show(output, answer, answer["fires"], view)


def _instant(text: str, tz: str) -> datetime:
    """An instant; without an offset it is local time in the zone. Raises InvalidInput."""
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        what = f"{text!r} is not an instant"
        raise InvalidInput(Problem("--from", what, "write 2026-12-24, 2026-12-24T18:00 or 2026-12-24T18:00Z")) from None
    return read if read.utcoffset() is not None else instant_of(find_zone(tz), read.replace(microsecond=0))

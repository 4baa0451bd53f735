"""Fires in several time zones, and a schedule in words with its warnings.

The rule: every time has its date with the year and its offset, in the zone that heads its column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import times
from cronflow.cli.terminal.formatting import ORANGE
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, hanging, table
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zones import find_zone

if TYPE_CHECKING:
    from cronflow.schemas.jobs import FiresSchema, JobSchema
    from cronflow.schemas.schedules import PreviewRowSchema, PreviewSchema


def preview_page(title: str, words: str, preview: PreviewSchema, now: datetime) -> None:
    """`title` is the expression or the name of the job; `words` name the time zone."""
    out = console()
    out.print(Text.assemble((title, "bold"), "  " if title else "", words))
    out.print()
    if preview["rows"]:
        fire_table(preview["rows"], now)
    else:
        out.print("No further fires.")
    if preview["notes"]:
        out.print()
    for note in preview["notes"]:
        hanging(Text("! ", style=f"bold {ORANGE}"), note)


def usual_zones(tz: str) -> dict[str, tzinfo | None]:
    """The zone of a schedule, UTC, and that of this machine."""
    local = times.local_zone()
    return {tz: find_zone(tz), "UTC": UTC, local.name: local.zone}


def named_zones(text: str) -> dict[str, tzinfo | None]:
    """Zones with commas between their names. Raises InvalidInput."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidInput(Problem("--zones", "names no time zone", "write Europe/Berlin,UTC"))
    try:
        return {name: find_zone(name) for name in names}
    except InvalidInput as error:
        problem = error.problems[0]
        raise InvalidInput(Problem("--zones", problem.what, problem.remedy)) from None


def zone_of(job: JobSchema) -> str:
    """The zone of the schedule of a job."""
    from cronflow.documents import parse_schedule
    from cronflow.domain.schedule.preview import zone_name

    return "UTC" if job["schedule"] is None else zone_name(parse_schedule(job["schedule"]))


def in_zones(found: FiresSchema, zones: Mapping[str, tzinfo | None]) -> Sequence[PreviewRowSchema]:
    """The fires of a job on the clocks of these zones."""
    from cronflow.domain.schedule.preview import PreviewRow
    from cronflow.schemas.schedules import row_schemas

    # An API of 0.10 has no rows.
    given = [(row["fire"], row["note"]) for row in found.get("rows", ())] or [(fire, None) for fire in found["fires"]]
    return row_schemas([PreviewRow(times.parsed(fire), note or "") for fire, note in given], zones)


def fire_table(rows: Sequence[PreviewRowSchema], now: datetime) -> None:
    """Instants on the clocks of each zone, and relative to now. Seconds are left out if all of them are zero."""
    if not rows:
        return
    seconds = any(times.parsed(row["fire"]).second for row in rows)
    zones = [*rows[0]["times"]]
    columns = [
        Column("#", drop=2, align="right"),
        *(Column(zone) for zone in zones),
        Column("FROM NOW", drop=3),
        Column("NOTE", drop=1),
    ]
    table(
        columns,
        [
            [
                str(n),
                *_clocks(row["times"], seconds=seconds),
                times.relative(row["fire"], now),
                Text(row["note"] or "", style=ORANGE),
            ]
            for n, row in enumerate(rows, 1)
        ],
    )


def _clocks(shown: Mapping[str, str], *, seconds: bool) -> list[str]:
    """The first one has the day of the week."""
    clock = "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M"
    found = []
    for n, (zone, text) in enumerate(shown.items()):
        at = datetime.fromisoformat(text)
        offset = "Z" if zone == "UTC" else f" {text[19:]}"
        found.append(f"{at:{'' if n else '%a '}{clock}}{offset}")
    return found

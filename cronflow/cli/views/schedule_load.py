"""The schedule load for people: the week as a map, the busiest minutes, and a plan to spread jobs with its effect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.terminal import times
from cronflow.cli.terminal.drawing import curve
from cronflow.cli.terminal.formatting import BLUE, GRAY, GREEN, plural
from cronflow.cli.terminal.output import console
from cronflow.cli.terminal.tables import Column, table_of
from cronflow.domain.schedule.load import level_of

if TYPE_CHECKING:
    from cronflow.schemas.schedule_load import BusyMinuteSchema, LoadPictureSchema, SpreadSchema, WeekLoadSchema

_LEVELS = (" · ", "░░ ", "▒▒ ", "▓▓ ", "██ ", "██ ")
MOST_NAMES = 3
_DAY = 24


def load_page(found: WeekLoadSchema) -> None:
    out = console()
    if not found["starts"]:
        out.print("Nothing starts in the next 7 days.")
        _left_out(found)
        return
    counted = f"{plural(found['starts'], 'start')} of {plural(found['jobs'], 'job')} in the next 7 days"
    out.print(Text.assemble((counted, "bold"), (f", from {times.absolute(found['first'])}", "dim")))
    _left_out(found)
    out.print()
    out.print(Text("Starts in the busiest minute of each hour (UTC)", style="bold"))
    _print_map([hour["peak"] for hour in found["hours"]], found["levels"], times.parsed(found["first"]))
    out.print()
    out.print(Text("Busiest minutes", style="bold"))
    table_of(
        found["busiest"],
        [
            (Column("MINUTE (UTC)"), lambda one: f"{times.parsed(one['at']):%a %Y-%m-%d %H:%M}"),
            (Column("STARTS", align="right"), lambda one: f"{one['starts']:,}"),
            (Column("JOBS", least=24), _names),
        ],
    )


def spread_page(found: SpreadSchema) -> None:
    out = console()
    moves = found["moves"]
    if moves:
        table_of(
            moves,
            [
                (Column("JOB"), lambda move: move["job"]),
                (Column("FROM", style="dim"), lambda move: move["before"]),
                (Column("TO"), lambda move: move["after"]),
            ],
        )
        out.print()
    for staying in found["left_out"]:
        rest = staying["jobs"] - len(staying["names"])
        named = ", ".join(staying["names"]) + (f" and {rest:,} more" if rest else "")
        is_one = staying["jobs"] == 1
        out.print(
            Text(f"{plural(staying['jobs'], 'job')} {'stays' if is_one else 'stay'}: {staying['why']} ({named})", "dim")
        )
    if found["left_out"]:
        out.print()
    if not moves:
        out.print("No job moves.")
        return
    before, after = found["before"], found["after"]
    hour = times.parsed(before["hour"])
    out.print(
        Text(f"Starts per minute, {hour:%a %Y-%m-%d %H:%M} to {hour + timedelta(hours=1):%H:%M} UTC", style="bold")
    )
    top = max(before["minutes"])
    _print_curve("before", before, top, GRAY)
    _print_curve("after", after, top, GREEN)
    out.print()
    change = f"{_peak(before)} before, {_peak(after)} after"
    out.print(
        Text.assemble(
            (
                f"{len(moves):,} of {plural(found['selected'], 'job')} {'moved' if found['applied'] else 'to move'}",
                "bold",
            ),
            f"; busiest minute: {change}",
        )
    )
    if found["more"]:
        out.print(Text("There are more jobs than one change moves; repeat the command for the rest.", style="dim"))


def _left_out(found: WeekLoadSchema) -> None:
    out = console()
    if count := found["left_out"]:
        out.print(Text(f"{plural(count, 'job')} left out: more often than every 5 minutes (count them: --all)", "dim"))
    if count := found["uncounted"]:
        out.print(
            Text(
                f"{plural(count, 'job')} not counted: their starts depend on when runs end, or take too long to find",
                "dim",
            )
        )
    if found["more"]:
        out.print(Text("Only the first 100,000 jobs are counted.", "dim"))


def _names(one: BusyMinuteSchema) -> str:
    shown = one["names"][:MOST_NAMES]
    rest = one["jobs"] - len(shown)
    return ", ".join(shown) + (f" and {rest:,} more" if rest else "")


def _print_map(peaks: Sequence[int], limits: Sequence[int], first: datetime) -> None:
    """A line for each day and a column for each hour; the first day ends with the last line."""
    out = console()
    out.print(Text("          " + " ".join(f"{hour:02}" for hour in range(_DAY)), style="dim"))
    midnight = first.replace(hour=0)
    for day in range(8):
        begin = midnight + timedelta(days=day)
        line = Text(f"{begin:%a %d %b} ".ljust(10), style="dim", no_wrap=True, end="")
        hours = [int((begin - first) / timedelta(hours=1)) + hour for hour in range(_DAY)]
        if not any(0 <= hour < len(peaks) for hour in hours):
            continue
        for hour in hours:
            level = level_of(peaks[hour], limits) if 0 <= hour < len(peaks) else -1
            line.append(
                "   " if level < 0 else _LEVELS[level],
                "" if level < 0 else f"{'bold ' if level > 4 else ''}{GRAY if level == 0 else BLUE}",
            )
        out.print(line, end="\n")
    out.print(_legend(peaks, limits))


def _legend(peaks: Sequence[int], limits: Sequence[int]) -> Text:
    legend = Text("          ", style="dim")
    for level in range(1, 6):
        found = [peak for peak in peaks if level_of(peak, limits) == level]
        if found:
            low, high = min(found), max(found)
            legend.append(_LEVELS[level].strip(), f"{'bold ' if level > 4 else ''}{BLUE}")
            legend.append(f" {low:,}  " if low == high else f" {low:,} to {high:,}  ")
    return legend


def _print_curve(title: str, picture: LoadPictureSchema, top: int, style: str) -> None:
    # The same scale for both: an invisible last value.
    drawn = curve([*picture["minutes"], top], len(picture["minutes"]) + 1)[:-1]
    console().print(Text.assemble((f"{title:<7}", "dim"), (drawn, style), f" {max(picture['minutes']):,}"))


def _peak(picture: LoadPictureSchema) -> str:
    return f"{picture['peak']:,} ({times.parsed(picture['at']):%a %H:%M})"

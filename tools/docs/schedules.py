"""Fills in what the examples of `docs/reference/schedules.md` print: `python -m tools.docs.schedules`.

The page is written by hand. An example is a YAML block, a comment with what to show, and a block of text that follows
from them: `<!-- fires after 2027-03-27T12:00Z, 3, name backup -->` lists fires, `<!-- error -->` the problems.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import yaml

from cronflow.documents import parse_schedule
from cronflow.documents.calendars import parse_calendars
from cronflow.domain.errors import InvalidInput
from cronflow.domain.schedule import zones
from cronflow.domain.schedule.describe import describe
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Schedule, bound, named

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schedules.md"
FIRES = 3
_EXAMPLE = re.compile(
    r"(```yaml\n(?P<yaml>[^`]*?)```\n\n<!-- (?P<show>[^>]*?) -->\n\n```text\n)(?P<text>[^`]*?)(?=```\n)", re.DOTALL
)


class Example(NamedTuple):
    """A schedule as the page has it, what is shown of it, and what the page shows."""

    document: str
    show: str
    text: str


def examples(page: str) -> list[Example]:
    """The examples of a page, in order."""
    return [Example(found["yaml"], found["show"], found["text"]) for found in _EXAMPLE.finditer(page)]


def filled(page: str) -> str:
    """The page with the texts that follow from its examples."""
    return _EXAMPLE.sub(lambda found: found[1] + output(found["yaml"], found["show"]), page)


def output(document: str, show: str) -> str:
    """What an example prints. Raises ValueError for a comment that it does not know."""
    loaded = yaml.safe_load(document)
    if show == "error":
        try:
            parse_schedule(loaded["schedule"])
        except InvalidInput as error:
            return f"{error}\n"
        raise ValueError(f"{document!r} is valid")
    command, *rest = show.split(", ")
    verb, after = command.rsplit(" ", 1)
    if verb != "fires after":
        raise ValueError(f"{show!r} is not known")
    count = next((int(one) for one in rest if one.isdigit()), FIRES)
    name = next((one.removeprefix("name ") for one in rest if one.startswith("name ")), "")
    schedule = bound(parse_schedule(loaded["schedule"]), parse_calendars(loaded.get("calendars", {})))
    schedule = named(schedule, name) if name else schedule
    assert schedule is not None
    return "\n".join([describe(schedule), *_fires(schedule, datetime.fromisoformat(after).astimezone(UTC), count), ""])


def _fires(schedule: Schedule, after: datetime, count: int) -> list[str]:
    zone = zones.find_zone(getattr(schedule, "tz", "UTC"))
    lines = []
    for _ in range(count):
        fire = next_after(schedule, after)
        if fire is None:
            lines.append("never again")
            break
        local = fire.astimezone(zone)
        clock = "%H:%M:%S" if local.second else "%H:%M"
        line = local.strftime(f"%Y-%m-%d %a {clock} %Z")
        if not zones.is_utc(zone):
            line += f"  ({fire:%H:%M} UTC)"
        if (excluded := exclusion(schedule, fire)) is not None:
            line += f"  skipped: {excluded.reason}"
        lines.append(line)
        after = fire
    return lines


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")

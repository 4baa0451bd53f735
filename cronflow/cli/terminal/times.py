"""Times as text: `in 3h 12m`, `2026-11-21 12:00:00Z`. Instants may be strings, as in answers of the API.

The rule: relative times in one view are counted from one `now`, and every absolute time is UTC and marked as UTC. The
command line reads the clock only here, so tests can replace it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import NamedTuple

from cronflow.domain import durations
from cronflow.domain.durations import parse_duration
from cronflow.domain.durations import span as span
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zones import find_zone
from cronflow.domain.schedule.zones import instant_of as find_instant


def now() -> datetime:
    return datetime.now(UTC)


async def sleep(seconds: float) -> None:
    """Pause between two polls; tests replace it."""
    import asyncio

    await asyncio.sleep(seconds)


class LocalZone(NamedTuple):
    """The time zone of this machine."""

    name: str
    zone: tzinfo | None
    """None: the system converts each instant."""


def local_zone() -> LocalZone:
    """That of TZ, or of /etc/localtime; named `local` if it has no IANA name."""
    link = Path("/etc/localtime")
    wanted = os.environ.get("TZ", "").removeprefix(":")
    if not wanted and link.is_symlink():
        wanted = str(link.readlink()).rpartition("zoneinfo/")[2]
    name = {"Etc/UTC": "UTC", "Universal": "UTC", "Zulu": "UTC"}.get(wanted, wanted)
    try:
        return LocalZone(name, find_zone(name))
    except InvalidInput:
        return LocalZone("local", None)


def parsed(instant: datetime | str) -> datetime:
    return datetime.fromisoformat(instant) if isinstance(instant, str) else instant


def absolute(instant: datetime | str) -> str:
    """`2026-11-21 12:00:00Z`."""
    return durations.absolute(parsed(instant))


def duration(milliseconds: float) -> str:
    """`3.2s`, `1m 4s`."""
    return span(timedelta(milliseconds=milliseconds))


def both(instant: datetime | str, since: datetime) -> str:
    return f"{absolute(instant)}  {relative(instant, since)}"


def relative(instant: datetime | str, since: datetime) -> str:
    """`in 3h 12m`, `42s ago` or `now`, seen from `since`."""
    seconds = (parsed(instant) - since).total_seconds()
    if -1 < seconds < 1:
        return "now"
    # Rounded: 13:00:00 is `in 1h` at 11:59:59.7 too.
    length = durations.coarse(round(abs(seconds)))
    return f"in {length}" if seconds > 0 else f"{length} ago"


def instant_of(text: str, place: str) -> tuple[datetime, bool]:
    """An instant with a zone, `now` or `-2h`; and whether it is an exact instant. Raises InvalidInput."""
    text = text.strip()
    if text == "now":
        return now(), False
    remedy = "use 2026-11-21T02:00:00Z, 2026-11-21T03:00:00+01:00, now or -2h"
    try:
        if text.startswith("-"):
            return now() - parse_duration(text[1:]), False
        instant = datetime.fromisoformat(text)
    except (InvalidInput, ValueError):
        what = f"{text!r} is neither an instant nor a duration such as -2h"
        raise InvalidInput(Problem(place, what, remedy)) from None
    if instant.utcoffset() is None:
        what = f"{text!r} has no time zone, so it is ambiguous"
        raise InvalidInput(Problem(place, what, "add Z for UTC, or an offset such as +01:00"))
    return instant.astimezone(UTC), True


def wall_clock(text: str, flag: str) -> datetime:
    """An instant, or without an offset a local time; `in_zone` makes it an instant. Raises InvalidInput."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        what = f"{text!r} is not an instant"
        raise InvalidInput(Problem(flag, what, "write 2026-12-24, 2026-12-24T18:00 or 2026-12-24T18:00Z")) from None


def in_zone(clock: datetime | None, tz: str) -> datetime | None:
    """The instant of a local time in this zone. An instant stays as it is."""
    if clock is None or clock.utcoffset() is not None:
        return clock
    return find_instant(find_zone(tz), clock.replace(microsecond=0))


def length_of(text: str, flag: str) -> timedelta:
    """A duration such as `30s`, or a number of seconds. Raises InvalidInput that names the flag."""
    try:
        return parse_duration(float(text) if text.replace(".", "", 1).isdigit() else text)
    except InvalidInput as error:
        raise InvalidInput(Problem(flag, str(error))) from None


def instant_or_in(text: str, flag: str) -> datetime:
    """`2h` (from now) or an instant such as 2026-11-21T12:00:00Z. Raises InvalidInput."""
    ago = instant_or_ago(text, flag)
    try:
        return now() + parse_duration(text)
    except InvalidInput:
        return ago


def instant_or_ago(text: str, flag: str) -> datetime:
    """`1h` (ago) or an instant such as 2026-11-21T12:00:00Z. Raises InvalidInput."""
    try:
        return now() - parse_duration(text)
    except InvalidInput:
        pass
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        what = f"{text!r} is neither a duration nor an instant"
        raise InvalidInput(Problem(flag, what, "use 1h or 2026-11-21T12:00:00Z")) from None
    return instant.replace(tzinfo=UTC) if instant.utcoffset() is None else instant.astimezone(UTC)

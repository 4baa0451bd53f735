"""Time for people and for scripts: now, `in 3h 12m`, `2026-11-21 12:00:00Z`.

The rule: whatever is shown beside each other is counted from one `now`, and every absolute time is UTC and says so.
The command line asks this module alone for the time, so a test can put another one in its place.
"""

from __future__ import annotations

from datetime import UTC, datetime

from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.formatting import absolute as absolute
from cronflow.domain.formatting import coarse
from cronflow.domain.formatting import span as span


def now() -> datetime:
    """UTC."""
    return datetime.now(UTC)


async def sleep(seconds: float) -> None:
    """Between two looks at something that changes."""
    import asyncio

    await asyncio.sleep(seconds)


def relative(instant: datetime, since: datetime) -> str:
    """`in 3h 12m`, `42s ago` or `now`, seen from `since`."""
    seconds = (instant - since).total_seconds()
    if -1 < seconds < 1:
        return "now"
    # A fire at 13:00:00 is `in 1h` at 11:59:59.7 as well as at 12:00:00.
    words = coarse(round(abs(seconds)))
    return f"in {words}" if seconds > 0 else f"{words} ago"


def instant_of(text: str, place: str) -> tuple[datetime, bool]:
    """An instant, `now`, or `-2h`; and whether exactly this one is meant. Raises InvalidInput, also without a zone."""
    text = text.strip()
    if text == "now":
        return now(), False
    remedy = "write 2026-11-21T02:00:00Z, 2026-11-21T03:00:00+01:00, now, or -2h"
    try:
        if text.startswith("-"):
            return now() - parse_duration(text[1:]), False
        instant = datetime.fromisoformat(text)
    except (InvalidInput, ValueError):
        what = f"{text!r} is neither an instant nor a time ago"
        raise InvalidInput(Problem(place, what, remedy)) from None
    if instant.utcoffset() is None:
        what = f"{text!r} has no zone, so it means another instant everywhere"
        raise InvalidInput(Problem(place, what, "add Z for UTC, or an offset such as +01:00"))
    return instant.astimezone(UTC), True


def instant_or_ago(text: str, flag: str) -> datetime:
    """`1h` (that long ago) or an instant such as 2026-11-21T12:00:00Z. Raises InvalidInput."""
    try:
        return now() - parse_duration(text)
    except InvalidInput:
        pass
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        what = f"{text!r} is neither a duration nor an instant"
        raise InvalidInput(Problem(flag, what, "write 1h, or 2026-11-21T12:00:00Z")) from None
    return instant.replace(tzinfo=UTC) if instant.utcoffset() is None else instant.astimezone(UTC)

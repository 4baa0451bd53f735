"""When a time of day or a cron expression fires, found by looking at the clocks of the zone at every second.

It is the most literal form of the rules for clock changes, for checking and never for scheduling: it asks the clocks
for their reading at each second of a window and compares each reading with the expression. It shares nothing with
`domain.schedule`.

Intervals (see `CronMatcher.asks_the_clocks`) fire at each second whose reading matches. For times of the day:

* A reading that occurs once fires then.
* A skipped one follows `gap`: `next_valid` fires at the first second after the gap, `shift` as much later as the
  clocks jump, `skip` not at all.
* A repeated one follows `overlap`: it fires at its `first` or `last` occurrence, or at `both`.

The window must contain both occurrences of a repeated reading: it must be wider than any jump of the clocks in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from cronflow.testing.cron_matcher import CronMatcher

Gap = Literal["next_valid", "skip", "shift"]
Overlap = Literal["first", "last", "both"]

_SECOND = timedelta(seconds=1)


class Clocks:
    """What the clocks of a zone show at every second of [first, last)."""

    def __init__(self, zone: ZoneInfo, first: datetime, last: datetime) -> None:
        start, end = int(first.timestamp()), int(last.timestamp())
        self.first = first.astimezone(UTC)
        self.readings = tuple(
            datetime.fromtimestamp(second, zone).replace(tzinfo=None, fold=0) for second in range(start, end)
        )
        self._skipped = list(_skipped(self.readings))
        # By the second of the minute, because most expressions match only one of the sixty.
        self._places: list[list[int]] = [[] for _ in range(60)]
        for place, local in enumerate(self.readings):
            self._places[local.second].append(place)

    def intervals(self, expression: CronMatcher) -> list[datetime]:
        """The seconds at which the clocks show a match."""
        return [self._instant(place) for place in self._matching(expression)]

    def times(self, expression: CronMatcher, gap: Gap = "next_valid", overlap: Overlap = "first") -> list[datetime]:
        """The seconds at which times of the day fire."""
        occurrences: dict[datetime, list[int]] = {}
        for place in self._matching(expression):
            occurrences.setdefault(self.readings[place], []).append(place)
        chosen: set[int] = set()
        for places in occurrences.values():
            chosen.update({"first": places[:1], "last": places[-1:], "both": places}[overlap])
        for place, local, late in self._skipped:
            if gap != "skip" and expression.matches(local):
                chosen.add(place + late if gap == "shift" else place)
        return [self._instant(place) for place in sorted(chosen) if place < len(self.readings)]

    def _matching(self, expression: CronMatcher) -> list[int]:
        places = (place for second in expression.seconds for place in self._places[second])
        return sorted(place for place in places if expression.matches(self.readings[place]))

    def _instant(self, place: int) -> datetime:
        return self.first + place * _SECOND


def _skipped(readings: Sequence[datetime]) -> Iterator[tuple[int, datetime, int]]:
    """Each skipped reading, with the place right after its gap and how many seconds into the gap it lies."""
    for place in range(1, len(readings)):
        expected, late = readings[place - 1] + _SECOND, 0
        while expected < readings[place]:
            yield place, expected, late
            expected, late = expected + _SECOND, late + 1

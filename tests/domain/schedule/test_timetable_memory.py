"""A timetable keeps its last searches: this never changes an answer, whatever was asked before."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.schedule import zones
from cronflow.domain.schedule.cron_expression import parse_expression
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.timetable import Timetable

# Around the end of daylight saving in Berlin, and within the search for rare days.
CHANGE = datetime(2026, 10, 25, 1, tzinfo=UTC)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("expr", "reach_h"),
    [("30 2 * * *", 60), ("0,30 1,2,3 * * *", 6), ("*/30 * * * *", 4), ("0 0 29 2 */7", 400_000), ("0 9 1 * *", 3_000)],
)
def test_a_remembered_search_gives_the_answer_of_a_new_one(expr: str, reach_h: int, seed: int) -> None:
    chosen = random.Random(seed)
    dst = Dst(chosen.choice(list(GapPolicy)), chosen.choice(list(RepeatPolicy)))
    zone = zones.find_zone("Europe/Berlin")

    def new() -> Timetable:
        return Timetable(parse_expression(expr), zone, dst)

    remembering = new()
    instant = CHANGE
    for _ in range(60):
        # Mostly near the last question, as real ones are.
        near = reach_h * 3600 // chosen.choice([1, 10, 100])
        instant = max(
            min(instant + timedelta(seconds=chosen.randint(-near, near)), CHANGE + 60_000 * timedelta(days=1)),
            CHANGE - 30_000 * timedelta(days=1),
        )
        if chosen.random() < 0.5:
            asked = remembering.after(instant)
            assert asked == new().after(instant)
        else:
            not_before = instant - timedelta(seconds=chosen.randint(0, near))
            asked = remembering.before(instant, not_before)
            assert asked == new().before(instant, not_before)
        if asked is not None and chosen.random() < 0.5:
            instant = asked + chosen.choice([-1, 0, 1]) * timedelta(seconds=1)

"""What counts as missed in an outage, when a held job is looked at again, and the room for missed runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.backfill import BackfillRate
from cronflow.domain.catch_up import HOLD_FOR, held_until, missed_runs, page_of, room_for_missed
from cronflow.domain.job import Job, JobRecord, Misfire, MisfirePolicy, PythonTarget
from cronflow.domain.schedule.kinds import Every

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def a_record(every: str, fire: datetime, **misfire: object) -> JobRecord:
    policy = Misfire(**misfire)  # type: ignore[arg-type]
    job = Job(name="tick", target=PythonTarget("jobs:tick"), schedule=Every(every), misfire=policy)
    return JobRecord(job=job, next_fire=fire, due_at=fire, created_at=NOON, updated_at=NOON)


@pytest.mark.parametrize(
    ("every", "minutes_ago", "misfire", "runs"),
    [
        ("1d", 720, {}, 1),
        # Its newest instant is on time, and its run covers the others.
        ("1m", 30, {}, 0),
        ("10m", 60, {}, 0),
        # The newest one is 30 seconds late.
        ("1h", 60, {"late_after": timedelta(seconds=10)}, 1),
        ("1d", 720, {"policy": MisfirePolicy.SKIP}, 0),
        ("1d", 720, {"grace": 60 * MINUTE}, 0),
        ("1d", 720, {"late_after": timedelta(days=1)}, 0),
        # Those that are not late yet are no missed ones.
        ("1m", 30, {"policy": MisfirePolicy.CATCH_UP}, 30),
        ("1m", 30, {"policy": MisfirePolicy.CATCH_UP, "max_catch_up": 7}, 7),
    ],
)
def test_what_the_misfire_policy_would_start_counts(
    every: str, minutes_ago: int, misfire: dict[str, object], runs: int
) -> None:
    now = NOON + timedelta(seconds=30)
    assert missed_runs(a_record(every, NOON - minutes_ago * MINUTE, **misfire), now, now) == runs


def test_what_became_late_after_the_outage_is_not_missed() -> None:
    record = a_record("1d", NOON)
    now = NOON + 10 * MINUTE
    assert missed_runs(record, now, now) == 1
    assert missed_runs(record, now, NOON + timedelta(seconds=30)) == 0


def test_a_held_job_is_due_again_at_the_instant_whose_run_covers_the_missed_ones() -> None:
    now = NOON + timedelta(seconds=30)
    assert held_until(a_record("1m", NOON), now) == NOON + MINUTE
    assert held_until(a_record("1d", NOON), now) == now + HOLD_FOR
    assert held_until(a_record("1m", NOON, policy=MisfirePolicy.CATCH_UP), now) == now + HOLD_FOR


@pytest.mark.parametrize(
    ("capacity", "slots", "on_time", "room"),
    [(16, 16, 0, 12), (16, 16, 10, 2), (16, 16, 12, 0), (4, 16, 0, 0), (1, 1, 0, 1), (1, 1, 1, 0), (0, 16, 0, 0)],
)
def test_missed_runs_get_what_is_left_but_for_a_quarter(capacity: int, slots: int, on_time: int, room: int) -> None:
    assert room_for_missed(capacity, slots, on_time) == room


def test_at_most_the_runs_of_a_second_start_at_once() -> None:
    assert [page_of(BackfillRate(*one)) for one in ((100, "s"), (600, "m"), (6, "m"), (1, "d"))] == [100, 10, 1, 1]

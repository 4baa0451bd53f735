"""Fires that windows and calendars exclude: each is skipped for its reason, and no range mixes them with others.

The decisions are compared with a brute force that walks every instant.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest

from cronflow.domain.catch_up import missed_runs, skips_first
from cronflow.domain.job import JobRecord, Misfire, MisfirePolicy, Overlap
from cronflow.domain.planning import Decision, Fire, SkipFire, Wait, cursor_after, decide, decide_early, skip_missed
from cronflow.domain.run import Covers
from cronflow.domain.schedule.calendar import Calendar, Period, WeeklyHours
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule, bound
from cronflow.domain.schedule.stretches import allowed_stretch, count_allowed
from tests.contracts.builders import T0, a_job, a_record

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
NIGHT = WeeklyHours((1, 2, 3, 4, 5, 6, 7), time(22), time(6), "night")
LUNCH = Period(T0 + 10 * MINUTE, T0 + 20 * MINUTE, "lunch")
POLICIES = {
    "fire_once": Misfire(late_after=30 * SECOND),
    "grace": Misfire(late_after=30 * SECOND, grace=3 * MINUTE),
    "skip": Misfire(policy=MisfirePolicy.SKIP, late_after=30 * SECOND),
    "catch_up": Misfire(policy=MisfirePolicy.CATCH_UP, late_after=30 * SECOND, max_catch_up=4),
}


def a_minutely(misfire: Misfire | None = None, fire: datetime = T0, **rules: object) -> JobRecord:
    schedule = Every("60s", **({"blackout": (LUNCH,)} | rules))  # type: ignore[arg-type]
    return replace(a_record(due_at=fire), job=a_job(schedule=schedule, misfire=misfire or Misfire()))


def test_an_excluded_fire_is_skipped_for_its_reason_whatever_else_stands_against_it() -> None:
    fire = T0 + 10 * MINUTE
    skipped = SkipFire(fire, fire + MINUTE, "blackout: lunch")
    assert decide(a_minutely(fire=fire), fire, []) == skipped
    assert decide(a_minutely(fire=fire), fire, [T0]) == skipped
    late = SkipFire(fire, fire + 2 * MINUTE, "blackout: lunch", Covers(fire, fire + MINUTE, 2))
    for policy in POLICIES.values():
        assert decide(a_minutely(policy, fire), fire + MINUTE, [T0]) == late


def test_excluded_fires_that_are_past_are_one_run_that_ends_before_the_first_allowed_one() -> None:
    fire = T0 + 10 * MINUTE
    expected = SkipFire(fire, T0 + 20 * MINUTE, "blackout: lunch", Covers(fire, T0 + 19 * MINUTE, 10))
    assert decide(a_minutely(fire=fire), T0 + DAY, []) == expected


def test_days_and_windows_in_a_row_are_one_run_with_the_first_reasons() -> None:
    fire = datetime(2026, 12, 24, tzinfo=T0.tzinfo)
    days = [Period(fire + n * DAY, fire + (n + 1) * DAY, f"day {n}") for n in range(5)]
    schedule = Cron("0 * * * *", blackout=tuple(days))
    record = replace(a_record(due_at=fire), job=a_job(schedule=schedule))
    decision = decide(record, fire + 30 * DAY, [])
    assert isinstance(decision, SkipFire)
    assert decision.reason == "blackout: day 0; blackout: day 1; blackout: day 2; and 2 more"
    assert decision.covers == Covers(fire, fire + 5 * DAY - HOUR, 120)


def test_the_run_of_fire_once_belongs_to_the_newest_allowed_fire() -> None:
    now = T0 + 25 * MINUTE + 31 * SECOND
    misfire = POLICIES["fire_once"]
    # What is before the excluded fires is skipped, because a newer one runs.
    first = decide(a_minutely(misfire), now, [])
    assert first == SkipFire(T0, T0 + 10 * MINUTE, "misfire", Covers(T0, T0 + 9 * MINUTE, 10))
    last = decide(a_minutely(misfire, T0 + 20 * MINUTE), now, [])
    assert last == Fire(T0 + 20 * MINUTE, T0 + 26 * MINUTE, Covers(T0 + 20 * MINUTE, T0 + 25 * MINUTE, 6))
    # While nothing allowed follows the excluded ones, it belongs to the last one before them.
    until = T0 + 15 * MINUTE
    assert decide(a_minutely(misfire), until, []) == Fire(T0, T0 + 10 * MINUTE, Covers(T0, T0 + 9 * MINUTE, 10))


def test_catching_up_counts_allowed_fires_alone() -> None:
    misfire = POLICIES["catch_up"]
    now = T0 + 21 * MINUTE + 31 * SECOND
    # 20 and 21 are allowed, so two of the first ten run.
    assert decide(a_minutely(misfire), now, []) == SkipFire(
        T0, T0 + 8 * MINUTE, "misfire", Covers(T0, T0 + 7 * MINUTE, 8)
    )
    assert decide(a_minutely(misfire, T0 + 8 * MINUTE), now, []) == Fire(T0 + 8 * MINUTE, T0 + 9 * MINUTE)


def test_nothing_excluded_is_planned_before_its_instant_or_skipped_by_a_recovery() -> None:
    fire = T0 + 10 * MINUTE
    assert decide_early(a_minutely(fire=fire), fire - SECOND, fire, False) is None
    assert skip_missed(a_minutely(fire=fire), fire + DAY, "recovery skipped") is None
    assert skip_missed(a_minutely(), T0 + DAY, "recovery skipped") == SkipFire(
        T0, T0 + 10 * MINUTE, "recovery skipped", Covers(T0, T0 + 9 * MINUTE, 10)
    )


def test_a_recovery_counts_what_is_left_when_excluded_fires_are_gone() -> None:
    now, cutoff = T0 + 25 * MINUTE, T0 + 24 * MINUTE
    for fire in (T0, T0 + 10 * MINUTE):
        record = a_minutely(Misfire(late_after=SECOND), fire)
        assert skips_first(record, now)
        assert missed_runs(record, now, cutoff) == 0
    caught_up = a_minutely(Misfire(policy=MisfirePolicy.CATCH_UP, late_after=SECOND))
    assert not skips_first(caught_up, now)
    assert missed_runs(caught_up, now, cutoff) == 15  # without the ten of the lunch, and the one that is on time
    assert not skips_first(a_minutely(fire=T0 + 30 * MINUTE), now)


def test_a_year_of_seconds_with_a_blackout_each_night_is_decided_without_walking_them() -> None:
    now = T0 + 365 * DAY
    misfire = Misfire(policy=MisfirePolicy.CATCH_UP, max_catch_up=1000)
    schedule = Every("1s", blackout=(NIGHT,))
    record = replace(a_record(), job=a_job(schedule=schedule, misfire=misfire))
    decision = decide(record, now, [])
    assert isinstance(decision, SkipFire)
    assert decision.next_fire == T0.replace(hour=22)
    assert count_allowed(schedule, T0, now, 1000) == 1000
    seldom = Every("1d", time="23:00", blackout=(NIGHT,))
    assert count_allowed(seldom, T0.replace(hour=23), now, 1000) == 0
    # A stretch without an end is cut, and decided in parts.
    rare = Every("1h", blackout=(Period(T0 + 9000 * DAY, T0 + 9001 * DAY),))
    cut = allowed_stretch(rare, T0, T0 + 8000 * DAY)
    assert T0 + 900 * DAY < cut.last < T0 + 8000 * DAY
    assert cut.following == cut.last + HOUR


# ----------------------------------------------------------------------------------------------------- brute force

SCHEDULES: Sequence[Schedule] = (
    Every("60s", blackout=(Period(T0 + 5 * MINUTE, T0 + 9 * MINUTE), Period(T0 + 9 * MINUTE, T0 + 12 * MINUTE, "b"))),
    Every("60s", only_in=(Period(T0 + 3 * MINUTE, T0 + 8 * MINUTE), Period(T0 + 15 * MINUTE, T0 + 21 * MINUTE))),
    Cron("*/2 * * * *", blackout=(WeeklyHours((6,), time(12, 4), time(12, 11)),), jitter=20 * SECOND),
    AnyOf(
        (Every("3m"), Cron("1-59/4 * * * *")),
        only_in=(WeeklyHours((6,), time(12), time(12, 17)),),
        blackout=(Period(T0 + 6 * MINUTE, T0 + 7 * MINUTE),),
    ),
    bound(Every("45s", calendars=("c",)), [Calendar(name="c", windows=(Period(T0 + 4 * MINUTE, T0 + 6 * MINUTE),))])
    or Every("45s"),
)


def all_fires(schedule: Schedule, until: datetime) -> list[datetime]:
    found, fire = [], next_after(schedule, T0 - SECOND)
    while fire is not None and fire <= until:
        found.append(fire)
        fire = next_after(schedule, fire)
    return found


def planned_at(record: JobRecord, now: datetime) -> tuple[JobRecord, list[Fire | SkipFire]]:
    """What a planner does that wakes now, until nothing is due."""
    found: list[Fire | SkipFire] = []
    while not isinstance(decision := decide(record, now, []), Wait):
        assert isinstance(decision, Fire | SkipFire)
        found.append(decision)
        assert len(found) < 200
        record = replace(record, next_fire=cursor_after(record, decision))
    return record, found


def ends(decision: Decision) -> tuple[datetime, datetime]:
    assert isinstance(decision, Fire | SkipFire)
    return (decision.fire, decision.fire) if decision.covers is None else (decision.covers.first, decision.covers.last)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=range(len(SCHEDULES)))
def test_outages_at_any_time_leave_one_run_for_each_fire_and_none_mixes_them(schedule: Schedule, policy: str) -> None:
    misfire = POLICIES[policy]
    job = a_job(schedule=schedule, misfire=misfire, overlap=Overlap.ALLOW)
    assert job.schedule is not None
    schedule = job.schedule  # with the name of its job
    for seed in range(10):
        moments = sorted(random.Random(seed).choices(range(26 * 60), k=7))
        due = all_fires(schedule, T0 + moments[-1] * SECOND)
        record = replace(a_record(due_at=next_after(schedule, T0 - SECOND) or T0), job=job)
        decided: list[datetime] = []
        for moment in moments:
            now = T0 + moment * SECOND
            before = len(decided)
            record, found = planned_at(record, now)
            for one in found:
                first, last = ends(one)
                covered = [fire for fire in due if first <= fire <= last]
                assert one.covers is None or one.covers.count == len(covered)
                reasons = {excluded.reason for fire in covered if (excluded := exclusion(schedule, fire))}
                if reasons:
                    assert isinstance(one, SkipFire)
                    assert set(one.reason.split("; ")) == reasons
                    assert all(exclusion(schedule, fire) for fire in covered)
                else:
                    assert isinstance(one, Fire) or one.reason == "misfire"
                decided += covered
            fresh = [fire for fire in due[before:] if fire <= now]
            assert decided[before:] == fresh
            ran = [fire for one in found if isinstance(one, Fire) for fire in [ends(one)[1]]]
            assert ran == expected_to_run(schedule, fresh, misfire, now)


def expected_to_run(schedule: Schedule, fresh: Sequence[datetime], misfire: Misfire, now: datetime) -> list[datetime]:
    """The fires to which runs belong, from the definition of each policy."""
    allowed = [fire for fire in fresh if exclusion(schedule, fire) is None]
    missed = [fire for fire in allowed if now - fire > misfire.late_after]
    on_time = allowed[len(missed) :]
    match misfire.policy:
        case MisfirePolicy.SKIP:
            return on_time
        case MisfirePolicy.CATCH_UP:
            return allowed[-misfire.max_catch_up :] if missed else on_time
    if not missed:
        return on_time
    # One run for all of them, which belongs to the newest.
    if misfire.grace is not None and now - allowed[-1] > misfire.grace:
        return []
    return on_time if exclusion_between(schedule, missed[-1], allowed[-1]) else allowed[-1:]


def exclusion_between(schedule: Schedule, first: datetime, last: datetime) -> bool:
    """Whether fires between the last missed and the newest one are excluded, so that those after them are on time."""
    fire = next_after(schedule, first)
    while fire is not None and fire <= last:
        if exclusion(schedule, fire) is not None:
            return True
        fire = next_after(schedule, fire)
    return False

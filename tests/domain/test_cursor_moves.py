"""Where a cursor belongs when it moves without a run, and what `max_runs` leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.cursor_correction import corrected, depends_on_zone
from cronflow.domain.job import JobRecord, Overlap
from cronflow.domain.planning import (
    Fire,
    Reposition,
    SkipFire,
    Wait,
    cursor_after,
    decide,
    decide_early,
    first_fire,
)
from cronflow.domain.run import Covers, RunState
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once, Schedule
from cronflow.domain.sweep import cursor_of
from cronflow.domain.version import Version, end_of, version_due, version_of
from cronflow.testing.audit import expectations
from cronflow.usecases.edit import redefined
from tests.contracts.builders import T0, a_job, a_pend, a_record

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
BERLIN = "Europe/Berlin"
AFTER = Every("60s", after_completion=True)


def a_record_of(schedule: Schedule, fire: datetime | None = T0, **fields: object) -> JobRecord:
    record = replace(a_record(due_at=T0), job=a_job(schedule=schedule), next_fire=fire, due_at=fire, since=fire)
    return replace(record, **fields)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ after_completion


@pytest.mark.parametrize("overlap", Overlap)
def test_an_open_run_is_waited_for_and_its_end_moves_the_cursor_up_to_a_whole_second(overlap: Overlap) -> None:
    record = replace(a_record_of(AFTER), job=a_job(schedule=AFTER, overlap=overlap))
    waiting = decide(record, T0 + HOUR, [T0 - HOUR])
    assert waiting == Wait("the next run is due after the open one has ended", blocked=True)
    assert decide(record, T0, [], backfilling=True) == waiting
    ended = T0 - 30 * SECOND + timedelta(microseconds=1)
    assert decide(record, T0, [], ended_at=ended) == Reposition(T0 + 31 * SECOND)
    assert decide(record, T0, [], ended_at=T0 - 30 * SECOND) == Reposition(T0 + 30 * SECOND)
    # The cursor is where it belongs, or later.
    for earlier in (T0 - MINUTE, T0 - HOUR, None):
        assert decide(record, T0, [], ended_at=earlier) == Fire(T0, T0 + MINUTE)


def test_an_outage_of_a_year_is_one_run_and_nothing_is_planned_early() -> None:
    record = a_record_of(AFTER)
    assert decide(record, T0 + 365 * DAY, [], ended_at=T0 - HOUR) == Fire(T0, T0 + MINUTE)
    assert decide_early(record, T0 - SECOND, T0, False) is None
    bounded = a_record_of(Every("60s", after_completion=True, end=T0 + 30 * SECOND))
    assert decide(bounded, T0, [], ended_at=T0 - 30 * SECOND) == Reposition(None)


def test_the_first_run_is_an_interval_after_the_definition_or_at_the_start() -> None:
    now = T0 + timedelta(milliseconds=300)
    assert first_fire(a_job(schedule=AFTER), now) == T0 + 61 * SECOND
    assert first_fire(a_job(schedule=AFTER), now, T0 + HOUR) == T0 + HOUR + MINUTE
    later = Every("60s", after_completion=True, start=T0 + DAY)
    assert first_fire(a_job(schedule=later), now) == T0 + DAY


# -------------------------------------------------------------------------------------------------------- max_runs


def test_the_run_that_reaches_the_limit_leaves_no_cursor_and_a_skipped_fire_does() -> None:
    record = a_record_of(Every("60s", max_runs=3), fired=2)
    assert record.runs_left == 1
    assert cursor_after(record, Fire(T0, T0 + MINUTE)) is None
    assert cursor_after(record, SkipFire(T0, T0 + MINUTE, "overlap")) == T0 + MINUTE
    assert cursor_after(replace(record, fired=1), Fire(T0, T0 + MINUTE)) == T0 + MINUTE
    assert cursor_after(a_record_of(Every("60s")), Fire(T0, T0 + MINUTE)) == T0 + MINUTE
    assert a_record_of(Once(T0)).runs_left is None


def test_a_job_that_has_had_its_runs_is_no_flaw_and_has_no_instant_after_them() -> None:
    pending = a_pend(T0, covers=Covers(T0, T0 + 5 * MINUTE, 6))
    record = a_record_of(Every("60s", max_runs=1), None, fired=1, pending_run=pending, since=T0)
    assert cursor_of(record) is None
    [version] = [version_of(record)]
    assert version.until == T0 + 5 * MINUTE + SECOND
    assert version_due([version], T0 + 5 * MINUTE) is version
    assert version_due([version], T0 + 6 * MINUTE) is None
    assert expectations([version])[0].until == version.until


def test_the_end_of_an_earlier_version_is_known_from_either_of_the_two() -> None:
    job = a_job(schedule=Every("60s", max_runs=1))
    edited = T0 + DAY
    first = Version(job=job, ver=1, at=T0, since=T0)
    second = Version(job=job, ver=2, at=edited, since=edited)
    assert end_of([first, second], 0) == edited
    # It was stored before it ended, by an edit that lost its compare-and-set; or after.
    assert end_of([first, replace(second, closed=T0 + MINUTE)], 0) == T0 + MINUTE
    assert end_of([replace(first, until=T0 + MINUTE), second], 0) == T0 + MINUTE


def test_an_edit_of_the_limit_keeps_a_cursor_that_is_due_and_its_count_and_another_one_starts_anew() -> None:
    record = a_record_of(Every("60s", max_runs=5), fired=3)
    now = T0 + 10 * MINUTE
    kept = redefined(record, a_job(schedule=Every("60s", max_runs=9)), now)
    assert (kept.next_fire, kept.fired) == (T0, 3)
    unlimited = redefined(record, a_job(schedule=Every("60s")), now)
    assert (unlimited.next_fire, unlimited.fired) == (T0, 3)
    ended = redefined(record, a_job(schedule=Every("60s", max_runs=3)), now)
    assert (ended.next_fire, ended.fired) == (None, 3)
    anew = redefined(record, a_job(schedule=Every("61s", max_runs=5)), now)
    assert anew.fired == 0
    assert anew.next_fire is not None
    assert anew.next_fire > now
    deleted = redefined(replace(record, deleted_at=now), a_job(schedule=Every("60s", max_runs=5)), now)
    assert deleted.fired == 0
    disabled = redefined(record, a_job(schedule=Every("60s", max_runs=5), enabled=False), now)
    assert disabled.fired == 3


# -------------------------------------------------------------------------------------------------- time zone data


@pytest.mark.parametrize(
    ("schedule", "depends"),
    [
        (Cron("0 9 * * *", tz=BERLIN), True),
        (Cron("0 9 * * *"), False),
        (Cron("0 9 * * *", tz="Etc/UTC"), False),
        (Every("1d", time="09:00", tz=BERLIN), True),
        (Every("30m", tz=BERLIN), False),
        (Every("30m", tz=BERLIN, after_completion=True), False),
        (Once(T0), False),
        (AnyOf((Every("5m"), Cron("0 9 * * *", tz=BERLIN))), True),
        (AnyOf((Every("5m"), Once(T0))), False),
    ],
)
def test_only_local_times_depend_on_the_data(schedule: Schedule, depends: bool) -> None:
    assert depends_on_zone(schedule) is depends


NINE = datetime(2026, 11, 22, 8, tzinfo=UTC)
"""09:00 in Berlin, in winter."""


def a_daily(cursor: datetime | None, **fields: object) -> JobRecord:
    return a_record_of(Cron("0 9 * * *", tz=BERLIN), cursor, **{"since": T0, **fields})


def test_a_right_cursor_stays_and_a_wrong_one_moves_to_the_first_instant_after_the_runs() -> None:
    assert corrected(a_daily(NINE)) is None
    assert corrected(a_daily(NINE - HOUR)) == Reposition(NINE)
    assert corrected(a_daily(NINE + HOUR)) == Reposition(NINE)
    assert corrected(a_daily(NINE + DAY)) == Reposition(NINE)
    # It does not come back to what a run covers.
    ran = a_pend(NINE)
    assert corrected(a_daily(NINE + DAY, pending_run=ran)) is None
    covering = a_pend(NINE - DAY, covers=Covers(NINE - DAY, NINE + HOUR, None), state=RunState.SKIPPED)
    assert corrected(a_daily(NINE + DAY + HOUR, pending_run=covering)) == Reposition(NINE + DAY)


def test_what_was_due_before_the_last_edit_is_not_the_cursor_s_and_a_past_cursor_stays_its_own() -> None:
    edited = NINE + HOUR
    assert corrected(a_daily(NINE + DAY, updated_at=edited, since=NINE + DAY)) is None
    # A pause keeps a cursor that is past.
    assert corrected(a_daily(NINE, updated_at=edited, since=NINE)) is None
    assert corrected(a_daily(NINE, updated_at=edited, since=NINE, pending_run=a_pend(NINE - DAY))) is None
    assert corrected(a_daily(NINE - HOUR, deleted_at=T0)) is None
    assert corrected(a_daily(None)) is None
    assert corrected(a_record_of(Cron("0 9 * * *"), NINE)) is None

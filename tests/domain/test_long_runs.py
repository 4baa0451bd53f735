"""How long a job usually runs, and from when on a run takes longer."""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.long_runs import LEAST_COMPARED, UsualDuration, seconds, usual_duration


def minutes(*values: float) -> list[timedelta]:
    return [timedelta(minutes=value) for value in values]


def test_the_usual_duration_is_the_95th_percentile() -> None:
    assert usual_duration(minutes(*range(1, 21))) == UsualDuration(timedelta(minutes=19), 20)
    assert usual_duration(minutes(*[1] * 9, 60)) == UsualDuration(timedelta(minutes=60), 10)


def test_few_runs_have_no_usual_duration() -> None:
    assert usual_duration(minutes(*[1] * (LEAST_COMPARED - 1))) is None
    assert usual_duration(minutes(*[1] * LEAST_COMPARED)) is not None


def test_a_run_is_long_after_twice_as_long_and_at_least_ten_seconds_more() -> None:
    assert UsualDuration(timedelta(minutes=5), 50).limit == timedelta(minutes=10)
    assert UsualDuration(timedelta(seconds=1), 50).limit == timedelta(seconds=11)


def test_durations_read_in_seconds() -> None:
    assert [seconds(timedelta(seconds=value)) for value in (0.21, 9.5, 45.4, 7200)] == [
        "0.21 s",
        "9.5 s",
        "45 s",
        "7,200 s",
    ]

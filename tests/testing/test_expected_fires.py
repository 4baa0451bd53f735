"""`fires`, `assert_fires` and `job_file`: what they accept, and the text with which they fail."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cronflow import CronFlowError, Every
from cronflow.testing import assert_fires, fires, job_file
from tests.testing.jobs import app

DAY = ("2026-03-28 00:00", "2026-03-29 00:00")


@pytest.mark.parametrize(
    "schedule",
    [
        app["report"],
        {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
        {"name": "x", "schedule": {"cron": "30 2 * * *"}, "run": {"shell": "true"}},
        "30 2 * * *",
    ],
)
def test_every_form_of_a_schedule_is_accepted(schedule: object) -> None:
    assert_fires(schedule, at=["2026-03-28 02:30"], between=DAY, tz="Europe/Berlin")  # type: ignore[arg-type]
    (fire,) = fires(schedule, *DAY, tz="Europe/Berlin")  # type: ignore[arg-type]
    assert (fire, fire.hour) == (datetime(2026, 3, 28, 1, 30, tzinfo=UTC), 2)


def test_the_end_is_excluded_and_the_start_is_not() -> None:
    assert len(fires(Every("6h"), "2026-01-01T00:00Z", "2026-01-02T00:00Z")) == 4


def test_a_failure_lists_each_difference_in_local_time_with_the_change_of_the_clock() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_fires(app["report"], at=["2026-03-28 02:30", "2026-03-29 03:30", "2026-03-30 02:30"])
    assert str(failed.value).splitlines() == [
        "report does not fire as expected (at 02:30 every day, Europe/Berlin):",
        "  from 2026-03-28 02:30+01:00 until 2026-03-30 02:30:01+02:00",
        "    2026-03-28 02:30+01:00",
        "    2026-03-29: the clock goes from 02:00 to 03:00",
        "  + 2026-03-29 03:00+02:00  fires, not expected",
        "  - 2026-03-29 03:30+02:00  expected, does not fire",
        "    2026-03-30 02:30+02:00",
    ]


def test_calendars_count_and_a_skipped_fire_has_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "calendars.yaml"
    file.write_text("calendars: {de: {days: [{day: 2026-12-25, name: Christmas}]}}")
    schedule = {"cron": "0 9 * * *", "calendars": ["de"]}
    with pytest.raises(AssertionError, match=r"- 2026-12-25 09:00\+00:00  skipped: .*Christmas"):
        assert_fires(schedule, at=["2026-12-24 09:00", "2026-12-25 09:00"], calendars=[file])
    with pytest.raises(CronFlowError, match="there is no calendar 'de'"):
        fires(schedule, *DAY)


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("2026-03-29 02:30", "does not exist in Europe/Berlin: the clock goes from 02:00 to 03:00"),
        ("2026-10-25 02:30", "exists twice in Europe/Berlin .write 2026-10-25 02:30.02:00 or 2026-10-25 02:30.01:00"),
        ("tomorrow", "at.0.: 'tomorrow' is not a date"),
    ],
)
def test_a_time_that_is_not_certain_is_refused(at: str, problem: str) -> None:
    with pytest.raises(CronFlowError, match=problem):
        assert_fires(app["report"], at=[at])


def test_what_has_no_certain_or_too_many_fires_is_refused() -> None:
    with pytest.raises(CronFlowError, match="depend on when its runs end"):
        fires({"every": "1h", "after_completion": True}, *DAY)
    with pytest.raises(CronFlowError, match="more than 10,000"):
        fires({"every": "1s"}, *DAY)
    with pytest.raises(CronFlowError, match="idle has no schedule"):
        fires(app["idle"], *DAY)
    with pytest.raises(CronFlowError, match=r"no job 'repot' .did you mean report"):
        app["repot"]
    with pytest.raises(CronFlowError, match="between"):
        assert_fires("@daily", at=[])


def test_a_job_file_is_checked_against_the_apps(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs: [{name: a, run: {python: 'tests.testing.jobs:report', args: {region: us}}}]")
    assert [job.name for job in job_file(file, app)] == ["a"]
    file.write_text(
        "jobs:\n"
        "  - {name: a, run: {python: 'tests.testing.jobs:reprot'}}\n"
        "  - {name: b, schedule: {every: 1h}, run: {python: 'tests.testing.jobs:report', args: {regoin: us}}}\n"
    )
    with pytest.raises(AssertionError) as failed:
        job_file(file, app)
    assert "a: no app has tests.testing.jobs:reprot (did you mean tests.testing.jobs:report?)" in str(failed.value)
    assert "b: report() cannot be called" in str(failed.value)
    file.write_text("jobs:\n  - {name: a, run: {shell: 'true'}, schedule: {cron: '61 * * * *'}, tiemout: 5s}\n")
    with pytest.raises(AssertionError, match=r"(?s)jobs.yaml:2.*tiemout") as failed:
        job_file(file)
    assert "cron" in str(failed.value)

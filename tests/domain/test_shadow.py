"""Jobs in shadow mode: their fires are skipped, and compared with the log of the scheduler that does the work."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cronflow.domain.catch_up import missed_runs
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import JobRecord, Misfire, MisfirePolicy
from cronflow.domain.planning import Fire, SkipFire, Wait, decide, decide_early
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.shadow import SHADOWED, JobMode, ReplacedLine
from cronflow.domain.shadow_report import CronExecution, ShadowComparison, ShadowJob, SkippedRange, compare_with_log
from tests.contracts.builders import a_job, a_record

T0 = datetime(2026, 11, 24, 2, 0, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
LINE = ReplacedLine(command="/usr/bin/backup --all", user="root", host="web-1")


def in_shadow(cron: str = "* * * * *", **rest: Any) -> JobRecord:
    job = a_job(schedule=Cron(cron), mode=JobMode.SHADOW, **rest)
    return a_record(job=job, next_fire=T0)


def test_a_fire_that_would_run_is_skipped_and_the_cursor_moves_as_if_it_ran() -> None:
    record = in_shadow()
    assert decide(record, T0 - SECOND, ()) == Wait("not due")
    assert decide(record, T0, ()) == SkipFire(T0, T0 + MINUTE, SHADOWED)
    active = replace(record, job=replace(record.job, mode=JobMode.ACTIVE))
    assert decide(active, T0, ()) == Fire(T0, T0 + MINUTE)


def test_it_is_not_planned_early() -> None:
    record = in_shadow()
    assert decide_early(record, T0 - SECOND, T0 + MINUTE, has_open_run=False) is None
    active = replace(record, job=replace(record.job, mode=JobMode.ACTIVE))
    assert decide_early(active, T0 - SECOND, T0 + MINUTE, has_open_run=False) is not None


def test_missed_fires_are_one_skipped_run_and_wait_for_no_slot() -> None:
    late = T0 + timedelta(minutes=90)
    record = in_shadow("0 * * * *")
    decision = decide(record, late, ())
    assert isinstance(decision, SkipFire)
    assert decision.covers is not None
    assert (decision.reason, decision.covers.count) == (SHADOWED, 2)
    assert missed_runs(record, late, late) == 0
    assert missed_runs(replace(record, job=replace(record.job, mode=JobMode.ACTIVE)), late, late) == 1


def test_a_missed_fire_that_would_be_skipped_keeps_its_reason() -> None:
    record = in_shadow(misfire=Misfire(MisfirePolicy.SKIP))
    decision = decide(record, T0 + timedelta(hours=1), ())
    assert isinstance(decision, SkipFire)
    assert decision.reason == "misfire"


@pytest.mark.parametrize(
    ("command", "user", "host", "same"),
    [
        ("  /usr/bin/backup   --all", "root", "web-1", True),
        ("/usr/bin/backup --all", "www", "web-1", False),
        ("/usr/bin/backup --all", "root", "web-2", False),
        ("/usr/bin/backup --al", "root", "web-1", False),
    ],
)
def test_a_line_matches_its_command_user_and_host(command: str, user: str, host: str, same: bool) -> None:
    assert LINE.matches(command, user, host) is same
    assert replace(LINE, user=None, host=None).matches(command, "anyone", "anywhere") is ("all" in command)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"command": " "}, "command: is empty"),
        ({"command": "x" * 10_001}, "command: has 10,001 characters"),
        ({"command": "x", "user": "u" * 256}, "user: has 256 characters"),
        ({"command": "x", "host": "h" * 256}, "host: has 256 characters"),
    ],
)
def test_a_line_that_no_log_can_have_is_refused(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ReplacedLine(**wrong)


# ------------------------------------------------------------------------------------------------------------- report


def executed(*minutes: float, host: str = "web-1", command: str = "/usr/bin/backup --all") -> list[CronExecution]:
    return [CronExecution(T0 + minute * MINUTE + SECOND, host, "root", command) for minute in minutes]


def planned(*minutes: float, **rest: Any) -> ShadowJob:
    starts = [T0 + minute * MINUTE for minute in minutes]
    return ShadowJob(**{"name": "backup", "line": LINE, "since": T0 - MINUTE, "starts": starts, **rest})


def compared(
    jobs: list[ShadowJob], executions: list[CronExecution], last: datetime = T0 + 100 * MINUTE
) -> ShadowComparison:
    return compare_with_log(jobs, executions, T0 - 5 * MINUTE, last, timedelta(seconds=30))


def test_the_same_starts_are_equal() -> None:
    found = compared([planned(0, 10, 20)], executed(0, 10, 20))
    assert found.is_equal
    assert (found.lines[0].matched, found.lines[0].furthest) == (3, SECOND)


def test_starts_of_one_side_are_named() -> None:
    (line,) = compared([planned(0, 10, 20, 30)], executed(0, 15, 20)).lines
    assert line.matched == 2
    assert line.only_cronflow == (T0 + 10 * MINUTE, T0 + 30 * MINUTE)
    assert line.only_cron == (T0 + 15 * MINUTE + SECOND,)
    assert not line.is_equal


def test_each_start_matches_once() -> None:
    (line,) = compared([planned(0, 0.2)], executed(0)).lines
    assert (line.matched, line.only_cronflow) == (1, (T0 + 12 * SECOND,))


def test_a_skip_explains_what_only_cron_started() -> None:
    skip = SkippedRange(T0 + 5 * MINUTE, T0 + 9 * MINUTE, "misfire")
    (line,) = compared([planned(0, skipped=[skip])], executed(0, 7, 20)).lines
    assert line.skipped == {T0 + 7 * MINUTE + SECOND: "misfire"}


def test_jitter_lets_the_job_start_later_than_its_line() -> None:
    assert not compared([planned(10)], executed(0)).is_equal
    assert compared([planned(10, jitter=15 * MINUTE)], executed(0)).is_equal
    assert not compared([planned(0, jitter=15 * MINUTE)], executed(10)).is_equal


def test_only_the_time_that_both_cover_counts() -> None:
    # The job is younger than the log, and the log ends before the last planned start.
    job = planned(0, 10, 20, since=T0 + 5 * MINUTE)
    assert compared([job], executed(0, 10), last=T0 + 15 * MINUTE).is_equal


def test_jobs_that_replace_the_same_line_are_compared_together() -> None:
    found = compared([planned(0, 20), planned(10, name="backup-2")], executed(0, 10, 20))
    assert found.is_equal
    assert [line.jobs for line in found.lines] == [("backup", "backup-2")]


def test_a_command_that_no_job_replaces_is_counted_and_is_no_difference() -> None:
    found = compared([planned(0)], executed(0) + executed(1, 2, command="run-parts /etc/cron.hourly"))
    assert found.is_equal
    assert [(one.command, count) for one, count in found.unknown] == [("run-parts /etc/cron.hourly", 2)]


def test_a_line_of_one_host_takes_its_executions_before_a_line_of_any() -> None:
    anywhere = planned(5, name="anywhere", line=replace(LINE, host=None))
    assert compared([planned(0), anywhere], executed(0) + executed(5, host="web-2")).is_equal

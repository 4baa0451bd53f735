"""The `defaults` of a job file: they complete its jobs, and what is wrong in them is reported at their own place."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.documents import job_document, parse_job, with_zone
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Delivery, Job, Retry
from cronflow.domain.retry import RetryRule
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Schedule
from cronflow.files.jobs import read_job_files, read_jobs

BERLIN = "Europe/Berlin"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; paths in errors are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def jobs_of(text: str, *, tz: str = "UTC", retry: Retry | None = None) -> list[Job]:
    Path("a.yaml").write_text(text, "utf-8")
    return read_job_files(["a.yaml"], tz=tz, retry=retry or Retry())


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        jobs_of(text)
    return [str(problem) for problem in caught.value.problems]


def zone_of(schedule: Schedule | None) -> str:
    assert isinstance(schedule, Cron | Every)
    return schedule.tz


def test_jobs_have_the_defaults_of_their_file_unless_they_say_otherwise() -> None:
    plain, own = jobs_of(
        """
        defaults: {timeout: 5m, retry: {max: 5, initial: 10s}, labels: {team: billing, tier: gold}, priority: 7}
        jobs:
          - {name: plain, run: {shell: x}}
          - {name: own, run: {shell: x}, timeout: 1m, retry: {initial: 1s}, labels: {tier: silver}}
        """
    )
    assert (plain.timeout, plain.priority) == (timedelta(minutes=5), 7)
    assert plain.labels == {"team": "billing", "tier": "gold"}
    assert (plain.retry.max, plain.retry.initial) == (5, timedelta(seconds=10))
    assert (own.timeout, own.priority) == (timedelta(minutes=1), 7)
    assert own.labels == {"team": "billing", "tier": "silver"}
    assert (own.retry.max, own.retry.initial) == (5, timedelta(seconds=1))


def test_the_zone_goes_into_every_schedule_with_times_of_day_that_names_none() -> None:
    jobs = jobs_of(
        """
        defaults: {tz: Europe/Berlin}
        jobs:
          - {name: cron, run: {shell: x}, schedule: {cron: 0 2 * * *}}
          - {name: own, run: {shell: x}, schedule: {cron: 0 2 * * *, tz: UTC}}
          - {name: daily, run: {shell: x}, schedule: {every: 1d, time: "02:00"}}
          - {name: days, run: {shell: x}, schedule: {every: 1d}}
          - {name: once, run: {shell: x}, schedule: {at: 2026-12-24T18:00:00Z}, misfire: skip}
          - {name: by-hand, run: {shell: x}}
        """,
        tz="Asia/Tokyo",
    )
    assert [zone_of(job.schedule) for job in jobs[:4]] == [BERLIN, "UTC", BERLIN, "UTC"]


def test_the_zone_of_the_settings_is_used_where_the_file_has_none() -> None:
    [job] = jobs_of("name: a\nrun: {shell: x}\nschedule: {cron: 0 2 * * *}\n", tz="Asia/Tokyo")
    assert zone_of(job.schedule) == "Asia/Tokyo"


def test_the_defaults_of_a_file_come_before_the_settings() -> None:
    [job] = jobs_of("defaults: {retry: {max: 1}}\njobs: [{name: a, run: {shell: x}}]\n", retry=Retry(max=9, initial=60))
    assert job.retry == Retry(max=1, initial=60)


def test_each_document_of_a_file_has_defaults_of_its_own() -> None:
    one, two = jobs_of(
        "defaults: {timeout: 5m}\njobs: [{name: one, run: {shell: x}}]\n---\njobs: [{name: two, run: {shell: x}}]\n"
    )
    assert (one.timeout, two.timeout) == (timedelta(minutes=5), timedelta(hours=1))


def test_a_json_file_may_have_defaults() -> None:
    document = {
        "defaults": {"tz": BERLIN},
        "jobs": [{"name": "a", "run": {"shell": "x"}, "schedule": {"cron": "@daily"}}],
    }
    Path("jobs.json").write_text(json.dumps(document))
    [job] = read_job_files(["jobs.json"])
    assert zone_of(job.schedule) == BERLIN


def test_a_default_that_a_job_cannot_have_is_not_used_for_it() -> None:
    command, function, certain, listed = jobs_of(
        """
        defaults:
          success_exit_codes: [0, 75]
          retry: {max: 5, initial: 10s, rules: [{match: OSError, retry: true}, {match: "exit:75", retry: false}]}
        jobs:
          - {name: command, run: {shell: x}}
          - {name: function, run: {python: "os:getcwd"}}
          - {name: certain, run: {shell: x}, delivery: at_most_once}
          - {name: listed, run: {shell: x}, retry: {delays: [1s]}}
        """
    )
    rules = (RetryRule("OSError", True), RetryRule("exit:75", False))
    assert (command.success_exit_codes, command.retry.rules) == ((0, 75), rules)
    assert (function.success_exit_codes, function.retry.max, function.retry.rules) == ((0,), 5, rules[:1])
    assert (certain.delivery, certain.retry.max, certain.success_exit_codes) == (Delivery.AT_MOST_ONCE, 0, (0, 75))
    assert (listed.retry.delays, listed.retry.rules) == ((timedelta(seconds=1),), rules)


def test_a_default_misfire_counts_as_given() -> None:
    job = "jobs: [{name: a, run: {shell: x}, schedule: {at: 2026-12-24T18:00:00Z}}]\n"
    Path("a.yaml").write_text(job)
    Path("b.yaml").write_text("defaults: {misfire: skip}\n" + job)
    assert list(read_jobs(["a.yaml"]).implicit_misfires) == ["a"]
    assert read_jobs(["b.yaml"]).implicit_misfires == {}


def test_what_is_wrong_with_the_defaults_is_reported_once_with_its_line() -> None:
    assert problems_of(
        """
defaults:
  tz: Europe/Berlim
  retry:
    max: 500
  timeot: 5m
  schedule: {cron: 0 2 * * *}
  labels: [a]
jobs:
  - {name: a, run: {shell: x}}
  - {name: b, run: {shell: x}, priority: 50}
"""
    ) == [
        "a.yaml:3: defaults.tz: there is no time zone 'Europe/Berlim' (did you mean Europe/Berlin?)",
        "a.yaml:5: defaults.retry.max: retry.max is 500; it must be 0 to 100",
        "a.yaml:6: defaults.timeot: unknown key (did you mean timeout?)",
        "a.yaml:7: defaults.schedule: each job has its own (move it into the jobs)",
        "a.yaml:8: defaults.labels: expected a mapping, got a list",
        "a.yaml:11: jobs[1].priority: priority is 50; it must be 0 (lowest) to 9",
    ]


@pytest.mark.parametrize(
    ("defaults", "problem"),
    [
        (
            "",
            "a.yaml:1: defaults: expected a mapping, got nothing (write the keys that jobs share below it)",
        ),
        (
            "{tz: 5}",
            "a.yaml:1: defaults.tz: expected the name of a time zone, got the number 5 (such as Europe/Berlin)",
        ),
        ("{5: a}", "a.yaml:1: defaults.5: expected text as a key, got the number 5 (put the key in quotes)"),
    ],
)
def test_defaults_that_are_none_are_refused(defaults: str, problem: str) -> None:
    assert problems_of(f"defaults: {defaults}\njobs: [{{name: a, run: {{shell: x}}}}]\n") == [problem]


def test_a_misspelt_key_beside_the_jobs_gets_the_known_one() -> None:
    assert problems_of("default: {tz: UTC}\njobs: []\n") == [
        "a.yaml:1: default: unknown key next to jobs (did you mean defaults?)"
    ]


def test_the_problems_of_a_job_are_its_own() -> None:
    assert problems_of(
        "defaults: {success_exit_codes: [0]}\njobs:\n  - {name: a, run: {shell: x}, timeout: 5 parsecs}\n"
    ) == ["a.yaml:3: jobs[0].timeout: '5 parsecs' is not a duration; write 500ms, 30s, 5m, 2h or 1d"]


def test_a_zone_reaches_the_members_of_a_union_that_name_none() -> None:
    [job] = jobs_of(
        """
        defaults: {tz: Europe/Berlin}
        jobs:
          - name: several
            run: {shell: x}
            schedule: {any: [{cron: 0 2 * * *}, {cron: 0 3 * * *, tz: UTC}, {at: 2030-12-24T18:00:00Z}]}
        """
    )
    assert isinstance(job.schedule, AnyOf)
    assert [getattr(one, "tz", None) for one in job.schedule.schedules] == [BERLIN, "UTC", None]
    assert job.schedule.tz == BERLIN
    assert parse_job(job_document(job)) == job
    assert parse_job(job_document(job, compact=True)) == job


@pytest.mark.parametrize(
    ("schedule", "zoned"),
    [
        ({"every": "1h", "blackout": ["night"]}, True),
        ({"every": "1h", "calendars": ["holidays"]}, True),
        ({"every": "1d", "calendars": ["holidays"]}, False),
        ({"every": "1d", "time": "02:00"}, True),
        ({"every": "1h"}, False),
        ({"every": [], "only_in": ["night"]}, True),
        ({"cron": "0 2 * * *", "tz": "UTC"}, False),
        ({"at": "2026-12-24T18:00:00Z"}, False),
    ],
)
def test_a_schedule_gets_a_zone_if_its_fires_depend_on_one(schedule: dict[str, object], *, zoned: bool) -> None:
    assert with_zone(schedule, BERLIN) == ({**schedule, "tz": BERLIN} if zoned else schedule)

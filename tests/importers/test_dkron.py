"""Jobs of Dkron, as its API prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.importers.dkron import read_dkron
from cronflow.importers.imported import ImportedFile
from tests.importers.as_written import jobs_of, notes_of, reasons

SHELL = {"executor": "shell", "executor_config": {"command": "date"}, "tags": {"server": "true:1"}}


def read(*jobs: object) -> ImportedFile:
    return read_dkron(json.dumps(jobs), "jobs.json")


def test_a_job_of_the_backup_that_dkron_tests_with(tmp_path: Path) -> None:
    """distribworks/dkron, scripts/testBackupJobs.json"""
    config = {
        "body": '{"user_id": "14123"}',
        "debug": "true",
        "expectBody": "",
        "expectCode": "200",
        "headers": '["Content-Type: application/json"]',
        "method": "POST",
        "timeout": "30",
        "url": "http://example.com",
    }
    state = {
        "success_count": 26,
        "last_success": "2019-11-04T04:37:12Z",
        "status": "success",
        "next": "2019-12-09T09:00:00Z",
    }
    task: dict[str, object] = {
        "name": "task2",
        "displayname": "Task",
        "schedule": "0 0 17 * * *",
        "retries": 0,
        "concurrency": "forbid",
    }
    follower = {**SHELL, "name": "task3", "schedule": "0 0 17 * * *", "parent_job": "task2", "disabled": True}
    task |= {"executor": "http", "executor_config": config, "tags": None, "metadata": {"team": "x"}, **state}
    file = read(task, follower)
    assert jobs_of(file, tmp_path) == {
        "task2": {
            "description": "Task",
            "schedule": {"cron": "0 17 * * *"},
            "run": {
                "http": {
                    "method": "POST",
                    "url": "http://example.com",
                    "headers": {"Content-Type": "application/json"},
                    "body": '{"user_id": "14123"}',
                    "expect": [200],
                }
            },
            "timeout": "30s",
            "run_on": "every_node",
            "overlap": "forbid",
            "misfire": {"policy": "skip"},
            "retry": {"max": 0},
            "labels": {"team": "x"},
        },
        "task3": {
            "after": [{"job": "task2", "on": "succeeded"}],
            "run": {"argv": ["date"]},
            "timeout": "1d",
            "require": {"server": "true"},
            "overlap": "allow",
            "retry": {"max": 0},
            "enabled": False,
        },
    }
    assert "local zone of its server" in notes_of(file, "task2")


def test_schedules_and_bounds(tmp_path: Path) -> None:
    jobs: dict[str, dict[str, object]] = {
        "every": {
            "schedule": "@every 1h30m",
            "starts_at": "2027-01-01T00:00:00Z",
            "expires_at": "2028-01-01T00:00:00Z",
        },
        "minutely": {"schedule": "@minutely"},
        "daily": {"schedule": "@daily", "timezone": "Europe/Berlin"},
        "once": {"schedule": "@at 2027-12-31T23:59:00Z", "ephemeral": True},
        "hashed": {"schedule": "0 ~ ~ * * *", "timezone": "Europe/Berlin"},
        "manual": {"schedule": "@manually"},
        "zoned": {"schedule": "30 30 2 * * *", "timezone": "Europe/Berlin", "ephemeral": True},
    }
    file = read(*({**SHELL, "name": name, **job} for name, job in jobs.items()))
    schedules = {name: job.get("schedule") for name, job in jobs_of(file, tmp_path).items()}
    # The sum of the characters of "hashed" is 621: 621 % 60 and 621 % 24.
    assert schedules == {
        "every": {"every": "90m", "start": "2027-01-01T00:00:00+00:00", "end": "2028-01-01T00:00:00+00:00"},
        "minutely": {"cron": "* * * * *"},
        "daily": {"cron": "0 0 * * *"},
        "once": {"at": "2027-12-31T23:59:00Z"},
        "hashed": {"cron": "21 21 * * *", "tz": "Europe/Berlin"},
        "manual": None,
        "zoned": {
            "cron": "30 30 2 * * *",
            "tz": "Europe/Berlin",
            "dst": {"gap": "skip", "overlap": "both"},
            "max_runs": 1,
        },
    }
    assert "ignores the timezone" in notes_of(file, "daily")


def test_commands_and_placement(tmp_path: Path) -> None:
    config = {"command": "a | b", "shell": "true", "env": "A=1,B=2", "cwd": "/x", "timeout": "90s", "su": "www:web"}
    job = {
        "name": "job",
        "schedule": "@hourly",
        "executor": "shell",
        "executor_config": {**config, "mem_limit": "512MB"},
        "retries": 5,
        "color": "red",
        "tags": {"role": "web", "region": "eu"},
    }
    file = read({**job, "processors": {"log": {"forward": "true"}}})
    found = jobs_of(file, tmp_path)["job"]
    assert found["run"] == {
        "shell": "a | b",
        "cwd": "/x",
        "env": {"A": "1", "B": "2"},
        "run_as": "www",
        "limits": {"memory": "512MiB"},
    }
    assert (found["timeout"], found["require"], found["run_on"]) == ("90s", {"role": "web"}, "every_node")
    assert found["retry"]["max"] == 5
    for text in ("region=eu", "processor log", "left out: color", "group web"):
        assert text in notes_of(file, "job")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schedule": "* * * * *"}, "has 5 fields; Dkron expects 6"),
        ({"schedule": ""}, "neither a schedule nor a parent_job"),
        ({"executor": "kafka"}, "the executor 'kafka'"),
        ({"executor_config": {"command": "a 'b"}}, "cannot be split into words"),
        ({"executor_config": {}}, "its command is missing"),
        ({"executor": "http", "executor_config": {"url": "http://a", "expectBody": "x"}}, "checks the body"),
        ({"tags": {"role": "web:2"}}, "runs on 2 nodes at once"),
        ({"concurrency": "some"}, "concurrency is 'some'"),
        ({"expires_at": "soon"}, "expires_at is 'soon'"),
        ({"executor_config": {"command": "a", "timeout": "1 hour"}}, "not a duration of Go"),
        ({"executor_config": {"command": "a", "mem_limit": "much"}}, "mem_limit is 'much'"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(change: dict[str, object], reason: str) -> None:
    child = {**SHELL, "name": "child", "parent_job": "job"}
    found = reasons(read({**SHELL, "name": "job", "schedule": "@hourly", **change}, child))
    assert reason in found["job job"]
    assert found["job child"] == "it follows job, which is not imported"


def test_a_single_job_a_job_per_line_and_what_is_not_json(tmp_path: Path) -> None:
    job = json.dumps({**SHELL, "name": "job", "schedule": "@hourly"})
    assert list(jobs_of(read_dkron(job, "job.json"), tmp_path)) == ["job"]
    assert len(read_dkron(f"{job}\n{job.replace('job', 'other')}\n", "jobs.json").jobs) == 2
    with pytest.raises(InvalidInput, match="v1/jobs"):
        read_dkron("jobs: []", "jobs.yaml")

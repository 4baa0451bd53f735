"""Jobs of APScheduler, from Python source."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.importers.apscheduler import read_apscheduler
from cronflow.importers.imported import ImportedFile
from tests.importers.as_written import jobs_of, notes_of, reasons, written


def read(text: str, tz: str | None = None) -> ImportedFile:
    return read_apscheduler(dedent(text), "jobs.py", tz=tz, module="shop.jobs")


def only(call: str, tmp_path: Path) -> dict[str, Any]:
    file = read(f"from shop import work\nscheduler = BackgroundScheduler(timezone='UTC')\n{call}")
    return next(iter(jobs_of(file, tmp_path).values()))


def test_the_jobs_of_bazarr() -> None:
    """morpheus65535/bazarr, bazarr/app/scheduler.py: intervals, times of its settings, and the year 2100 for never."""
    file = read(
        """
        from backup import backup_to_zip
        from check import check_health
        class Scheduler:
            def __init__(self):
                self.aps_scheduler = BackgroundScheduler()
                self.aps_scheduler.add_job(check_health, IntervalTrigger(hours=6), max_instances=1, coalesce=True,
                                           misfire_grace_time=15, id='check_health', name='Check health')
                self.aps_scheduler.add_job(backup_to_zip, CronTrigger(hour=settings.backup.hour), id='backup')
                self.aps_scheduler.add_job(backup_to_zip, CronTrigger(year='2100'), hour=4, id='never')
        """
    )
    health, never = file.jobs
    assert health.document["schedule"] == {"every": "6h"}
    assert health.document["misfire"] == {"policy": "fire_once", "late_after": "15s", "grace": "15s"}
    assert health.document["description"] == "Check health"
    assert never.document["schedule"]["start"] == "2100-01-01T00:00:00+00:00"
    assert "ignores arguments next to a trigger object: hour" in notes_of(file, "never")
    assert reasons(file) == {"line 9": "the value of settings.backup.hour is not in this file"}


def test_the_jobs_of_flask_apscheduler(tmp_path: Path) -> None:
    """viniciuschiele/flask-apscheduler, examples/jobs.py and examples/application_factory/tasks.py"""
    file = read(
        """
        class Config(object):
            JOBS = [{'id': 'job1', 'func': 'jobs:job1', 'args': (1, 2), 'trigger': 'interval', 'seconds': 10}]
            SCHEDULER_JOB_DEFAULTS = {"coalesce": True, "max_instances": 3}
        @scheduler.task("interval", id="job_sync", seconds=10, start_date="2000-01-01 12:19:00")
        def task1(): ...
        """
    )
    assert reasons(file) == {"line 3": "its arguments have no names, and CronFlow passes them by name"}
    found = jobs_of(file, tmp_path)
    start = "2000-01-01T12:19:00+00:00"
    assert found == {
        "job_sync": {
            "schedule": {"every": "10s", "anchor": start, "start": start},
            "run": {"python": "shop.jobs:task1"},
        }
    }
    assert file.defaults["overlap"] == "allow"
    assert file.defaults["concurrency"] == [{"key": "{job}", "limit": 3, "on_full": "skip"}]


def test_decorators_with_defaults_of_the_environment(tmp_path: Path) -> None:
    file = read(
        """
        import os
        from pytz import timezone
        scheduler = BlockingScheduler(timezone=timezone("Europe/Paris"))
        DAY = os.getenv("DAY", "tue")
        @scheduler.scheduled_job("cron", day_of_week=DAY, hour=os.getenv("HOUR", 8), minute=2, jitter=100)
        @scheduler.scheduled_job("cron", hour=12, args=["noon"])
        async def book(court=1): ...
        """
    )
    found = list(jobs_of(file, tmp_path).values())
    assert found[0]["schedule"] == {"cron": "2 8 * * TUE", "tz": "Europe/Paris", "jitter": "100s"}
    assert found[1]["run"] == {"python": "shop.jobs:book", "args": {"court": "noon"}}
    assert "environment variable HOUR" in written(file)


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        ("'cron', hour=3", {"cron": "0 3 * * *"}),
        ("'cron', day_of_week='0-4', hour=9", {"cron": "0 9 * * MON-FRI"}),
        ("'cron', month='jan'", {"cron": "0 0 1 1 *"}),
        ("'cron'", {"cron": "* * * * * *"}),
        ("'cron', day='last', hour=2", {"cron": "0 2 L * *"}),
        ("'cron', day='2nd fri', hour=2", {"cron": "0 2 * * FRI#2"}),
        ("'cron', day='last sun,15'", {"cron": "0 0 15 * 0L"}),
        ("'cron', day='1-10', day_of_week='mon'", {"cron": "0 0 */31,2-10 * MON"}),
        ("CronTrigger.from_crontab('0 9 * * 0', timezone='UTC')", {"cron": "0 9 * * MON"}),
        ("'interval', minutes=0.5", {"every": "30s"}),
    ],
)
def test_triggers(arguments: str, schedule: dict[str, Any], tmp_path: Path) -> None:
    found = only(f"scheduler.add_job(work.run, {arguments})", tmp_path)
    found["schedule"].pop("tz", None)
    assert found["schedule"] == schedule


def test_bounds_dates_and_several_triggers(tmp_path: Path) -> None:
    call = "scheduler.add_job('shop.work:run', 'cron', hour=3, start_date='2027-01-01', end_date='2027-02-01 03:00')"
    bounds = {"start": "2027-01-01T00:00:00+00:00", "end": "2027-02-01T03:00:01+00:00"}
    assert only(call, tmp_path)["schedule"] == {"cron": "0 3 * * *", "tz": "UTC", **bounds}
    call = "scheduler.add_job(work.run, 'date', run_date='2027-01-31 09:30:00', timezone='Europe/Berlin')"
    assert only(call, tmp_path)["schedule"] == {"at": "2027-01-31T09:30:00+01:00"}
    call = "scheduler.add_job(work.run, OrTrigger([CronTrigger(hour=9), IntervalTrigger(hours=5)]), next_run_time=None)"
    found = only(call, tmp_path)
    assert found["schedule"] == {"any": [{"cron": "0 9 * * *", "tz": "UTC"}, {"every": "5h"}]}
    assert found["enabled"] is False


def test_a_trigger_object_has_the_zone_of_the_machine_and_not_of_the_scheduler(tmp_path: Path) -> None:
    call = "BackgroundScheduler(timezone='Asia/Tokyo').add_job(work.run, CronTrigger(hour=9))"
    file = read(f"from shop import work\n{call}", tz="Europe/Berlin")
    assert jobs_of(file, tmp_path)["run"]["schedule"]["tz"] == "Europe/Berlin"
    assert "that of its machine" in notes_of(file, "run")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("work.run, AndTrigger([CronTrigger(hour=9)])", "AndTrigger runs when several triggers agree"),
        ("work.run, 'cron', week='*/2'", "chooses weeks of the year"),
        ("work.run, 'cron', year='*/2'", "has gaps"),
        ("work.run, 'cron', hour='*/24'", "does not accept hour='*/24'"),
        ("work.run, CronTrigger.from_crontab('0 0 * * 7')", "does not accept day_of_week='7'"),
        ("work.run, 'cron', day='1st mon', day_of_week='tue'", "are both restricted"),
        ("work.run, 'cron', hours=1", "has no argument 'hours'"),
        ("work.run, 'date'", "it runs once, as soon as it is added"),
        ("work.run", "it has no trigger"),
        ("work.run, 'interval', hours=int(settings.hours)", "the value of int(settings.hours) is not in this file"),
        ("work.run, 'interval', seconds=0.1", "is not allowed"),
        ("lambda: 1, 'interval', hours=1", "lambda: 1 is not a function of a module"),
        ("self.run, 'interval', hours=1", "self.run is not a function of a module"),
        ("run, 'interval', hours=1", "the module of run is not known"),
        ("work.run, MyTrigger()", "its trigger is MyTrigger"),
        ("work.run, 'cron', hour=1, **rest", "is not in this file"),
        ("work.run, 'interval', hours=1, max_instances='2'", "max_instances is '2'"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(arguments: str, reason: str) -> None:
    file = read(f"from shop import work\nscheduler.add_job({arguments})")
    assert reason in reasons(file)["line 2"]
    assert f"#   scheduler.add_job({arguments})" in written(file)


def test_a_file_without_jobs_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no jobs of APScheduler were found"):
        read("x = 1")

"""Periodic tasks of Celery, from Python source and from a dump of Django's database."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.importers.celery_beat import read_celery
from cronflow.importers.imported import ImportedFile
from tests.importers.as_written import jobs_of, notes_of, reasons, written


def read(text: str, module: str | None = "shop.tasks") -> ImportedFile:
    return read_celery(dedent(text), "tasks.py", module=module)


def test_the_settings_of_read_the_docs(tmp_path: Path) -> None:
    """readthedocs/readthedocs.org, readthedocs/settings/base.py"""
    file = read(
        """
        class Base:
            TIME_ZONE = 'America/Chicago'
            CELERYD_TASK_TIME_LIMIT = 60 * 60
            CELERYBEAT_SCHEDULE = {
                'quarter-finish-inactive-builds': {
                    'task': 'readthedocs.projects.tasks.finish_inactive_builds',
                    'schedule': crontab(minute='*/15'),
                    'options': {'queue': 'web'},
                },
                'every-three-hour': {
                    'task': 'readthedocs.core.tasks.clear_persistent_messages',
                    'schedule': crontab(minute=0, hour='*/3'),
                    'options': {'queue': 'web'},
                },
            }
        """
    )
    assert jobs_of(file, tmp_path) == {
        "quarter-finish-inactive-builds": {
            "schedule": {"cron": "0-59/15 0-23 * * *", "tz": "America/Chicago"},
            "run": {"python": "readthedocs.projects.tasks:finish_inactive_builds"},
        },
        "every-three-hour": {
            "schedule": {"cron": "0 */3 * * *", "tz": "America/Chicago"},
            "run": {"python": "readthedocs.core.tasks:clear_persistent_messages"},
        },
    }
    assert file.defaults == {"retry": {"max": 0}, "overlap": "allow", "misfire": "fire_once", "timeout": "3600s"}
    assert "queue web" in notes_of(file, "every-three-hour")


def test_entries_and_periodic_tasks(tmp_path: Path) -> None:
    file = read(
        """
        import os
        from datetime import timedelta
        from celery import Celery, shared_task
        from celery.schedules import crontab, schedule
        from shop.reports import nightly
        from . import helpers
        app = Celery()
        MINUTES = 5
        app.conf.timezone = "Europe/Berlin"
        app.conf.beat_schedule = {
            "a report": {"task": "shop.reports.daily", "schedule": crontab(30, 2), "kwargs": {"full": True}},
            "interval": {"task": "x.y", "schedule": timedelta(hours=12), "options": {"expires": 3600, "priority": 9}},
            "named": {"task": "fetch-rates", "schedule": MINUTES * 60},
            "from env": {"task": "x.y", "schedule": float(os.environ.get("SECONDS", "30"))},
            "string": {"task": "x.y", "schedule": crontab.from_string("0 9 1-7 * mon")},
            "run_every": {"task": "x.y", "schedule": schedule(run_every=10), "relative": True, "unknown": 1},
        }
        app.conf.beat_schedule["added"] = {"task": "x.y", "schedule": 60}
        app.conf.beat_schedule.update({"updated": {"task": "x.y", "schedule": 60}})

        @app.on_after_configure.connect
        def setup(sender, **kwargs):
            sender.add_periodic_task(10.0, test.s("hello", times=2), name="Add every 10", expires=10)
            sender.add_periodic_task(crontab(hour=7, day_of_week=1), nightly.si())
            sender.add_periodic_task(60, bound, args=(1,))

        @app.task
        def test(text, times=1): ...
        @app.task(bind=True)
        def bound(self, number): ...
        @shared_task(name="fetch-rates")
        def fetch(): ...
        """
    )
    berlin = {"tz": "Europe/Berlin"}
    found = jobs_of(file, tmp_path)
    assert {name: (job["schedule"], job["run"]) for name, job in found.items()} == {
        "a-report": (
            {"cron": "30 2 * * *", **berlin, "dst": {"gap": "shift"}},
            {"python": "shop.reports:daily", "args": {"full": True}},
        ),
        "interval": ({"every": "12h"}, {"python": "x:y"}),
        "named": ({"every": "5m"}, {"python": "shop.tasks:fetch"}),
        "from-env": ({"every": "30s"}, {"python": "x:y"}),
        "string": ({"cron": "0 9 * * MON#1", **berlin}, {"python": "x:y"}),
        "run_every": ({"every": "10s"}, {"python": "x:y"}),
        "added": ({"every": "1m"}, {"python": "x:y"}),
        "updated": ({"every": "1m"}, {"python": "x:y"}),
        "add-every-10": ({"every": "10s"}, {"python": "shop.tasks:test", "args": {"text": "hello", "times": 2}}),
        "nightly": ({"cron": "* 7 * * 1", **berlin}, {"python": "shop.reports:nightly"}),
        "bound": ({"every": "1m"}, {"python": "shop.tasks:bound", "args": {"number": 1}}),
    }
    assert found["interval"]["misfire"] == {"policy": "fire_once", "late_after": "1m", "grace": "1h"}
    assert "priority" in notes_of(file, "interval")
    assert "environment variable SECONDS" in notes_of(file, "from-env")
    assert "unknown" in notes_of(file, "run_every")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('{"task": "x.y", "schedule": solar("sunset", 1, 2)}', "it follows the sun"),
        (
            '{"task": "x.y", "schedule": crontab(hour=settings.HOUR)}',
            "the value of conf.settings.HOUR is not in this file",
        ),
        ('{"task": "x.y", "schedule": 60, "kwargs": {"at": now()}}', "the value of conf.now is not in this file"),
        ('{"task": "x.y", "schedule": 60, "args": (16, 16)}', "its arguments have no names"),
        ('{"task": "fetch-rates", "schedule": 60}', "does not tell its function"),
        ('{"task": "celery.backend_cleanup", "schedule": 60}', "is a part of Celery"),
        ('{"task": "x.y", "schedule": 0.5}', "an interval of '500ms' is not allowed"),
        ('{"task": "x.y", "schedule": 0}', "its interval is 0 seconds"),
        ('{"task": "x.y", "schedule": crontab(minute=61)}', "crontab does not accept minute=61"),
        ('{"task": "x.y", "schedule": crontab(hours=1)}', "crontab has the argument 'hours'"),
        ('{"task": "x.y", "schedule": every_hour()}', "its schedule is every_hour"),
        ('{"task": "x.y"}', "it has no task or no schedule"),
        ("entry_of('x')", "the value of entry_of('x') is not in this file"),
        ('{"task": "x.y", "schedule": 9 ** 9 ** 9}', "9 ** 9 ** 9 is not in this file"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(entry: str, reason: str) -> None:
    file = read(f'from conf import now, settings\nbeat_schedule = {{"name": {entry}}}')
    assert reason in reasons(file)["line 2"]
    assert f'#   "name": {entry}' in written(file)


def test_a_schedule_that_is_computed_is_refused_and_nothing_is_executed() -> None:
    file = read("raise SystemExit\nbeat_schedule = parse(OPTIONS)\nCELERY_BEAT_SCHEDULE = {**others}")
    assert reasons(file) == {
        "line 2": "the beat schedule is computed, so its entries are not in this file",
        "line 3": "the entries of others are not in this file",
    }
    for text, message in (("x = 1", "no periodic tasks"), ("x = (", "tasks.py:1: not Python")):
        with pytest.raises(InvalidInput, match=message):
            read(text)
    with pytest.raises(InvalidInput, match="Europe/Berln"):
        read("timezone = 'Europe/Berln'\nbeat_schedule = {}")


def row(model: str, pk: int, **fields: object) -> dict[str, object]:
    return {"model": f"django_celery_beat.{model}", "pk": pk, "fields": fields}


def test_a_dump_of_django(tmp_path: Path) -> None:
    cron = {"minute": "30", "hour": "2", "day_of_week": "*", "day_of_month": "*", "month_of_year": "*"}
    task = {"task": "shop.tasks.clean", "args": "[]", "kwargs": "{}", "enabled": True, "total_run_count": 7}
    dump = [
        row("crontabschedule", 1, **cron, timezone="Europe/Berlin"),
        row("intervalschedule", 1, every=12, period="hours"),
        row("clockedschedule", 1, clocked_time="2027-01-01T00:00:00Z"),
        row("periodictasks", 1, last_update="2026-01-01T00:00:00Z"),
        row("periodictask", 1, **task | {"name": "Clean", "crontab": 1, "kwargs": '{"all": true}', "queue": "slow"}),
        row("periodictask", 2, **task, name="often", interval=1, expire_seconds=60, start_time="2027-01-01T00:00:00Z"),
        row("periodictask", 3, **task | {"name": "once", "clocked": 1, "one_off": True, "enabled": False}),
        row("periodictask", 4, **task, name="lost", crontab=9),
        row("periodictask", 5, **task | {"name": "pos", "interval": 1, "args": "[1]"}),
        row("periodictask", 6, **task, name="sun", solar=1),
    ]
    file = read_celery(json.dumps(dump), "beat.json")
    found = jobs_of(file, tmp_path)
    assert {name: job["schedule"] for name, job in found.items()} == {
        "clean": {"cron": "30 2 * * *", "tz": "Europe/Berlin", "dst": {"gap": "shift"}},
        "often": {"every": "12h", "start": "2027-01-01T00:00:00Z"},
        "once": {"at": "2027-01-01T00:00:00Z"},
    }
    assert found["clean"]["run"] == {"python": "shop.tasks:clean", "args": {"all": True}}
    assert found["often"]["misfire"] == {"policy": "fire_once", "late_after": "1m", "grace": "1m"}
    assert found["once"]["enabled"] is False
    assert reasons(file) == {
        "task lost": "its crontabschedule 9 is not in this dump",
        "task pos": "its arguments have no names, and CronFlow passes them by name",
        "task sun": "its solarschedule 1 is not in this dump",
    }
    with pytest.raises(InvalidInput, match="dumpdata django_celery_beat"):
        read_celery("[]", "beat.json")

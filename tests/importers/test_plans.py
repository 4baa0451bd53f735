"""The imported plan equals that of the source's own engine for 1,000 instants, across changes of the clocks.

APScheduler runs here. The lists of Celery and of Go's robfig/cron, which Kubernetes and Dkron use, are golden: the
generators next to them show how they were made.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from cronflow.domain.errors import InvalidInput
from cronflow.importers.apscheduler_triggers import Trigger, trigger_schedule
from cronflow.importers.celery_crontab import crontab_schedule
from cronflow.importers.robfig import robfig_schedule
from tests.importers.plans import COUNT, digest, fires, golden

BEGIN = datetime(2026, 2, 1, tzinfo=UTC)


def test_schedules_of_kubernetes_and_dkron_have_the_plan_of_their_go_library() -> None:
    different = {}
    for fields, tz, spec, begin, *expected in golden("golden_robfig.tsv"):
        source = "Dkron" if fields == "6" else "Kubernetes"
        if expected == ["refused"]:
            with pytest.raises(InvalidInput):
                robfig_schedule(spec, tz, source, seconds=fields == "6")
            continue
        schedule, notes = robfig_schedule(spec, tz, source, seconds=fields == "6")
        found = fires(schedule, datetime.fromisoformat(begin))
        if digest(found) != expected[2]:
            different[tz, spec] = notes
        else:
            assert [f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in found[:2]] == expected[0].split()
    assert different == {
        ("Australia/Lord_Howe", "0 0 * * *"): [
            "Kubernetes loses runs after a change of the clocks by half an hour; CronFlow does not."
        ],
        ("Africa/Cairo", "0 4 * * 1/2"): [
            "Kubernetes can lose a run on the day that begins without midnight; CronFlow does not."
        ],
    }


def test_crontabs_of_celery_have_the_plan_of_celery() -> None:
    different = {}
    for tz, values, shown, expected in golden("golden_celery.tsv"):
        schedule, notes = crontab_schedule(json.loads(values), tz)
        found = fires(schedule, BEGIN)
        if digest(found) != expected:
            different[tz, values] = notes
        else:
            assert " ".join(f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in (found[0], found[1], found[-1])) == shown
    assert different == {
        ("Europe/Berlin", '{"minute": "10,40", "hour": 2}'): [
            "When the clocks skip several of its times, Celery runs the first; CronFlow all."
        ]
    }


CRONS: tuple[dict[str, Any], ...] = (
    {"hour": 3},
    {"minute": "*/20"},
    {"hour": "22-23", "minute": 25, "second": "0,30"},
    {"day_of_week": "mon-fri", "hour": 9, "minute": 30},
    {"day_of_week": "0", "hour": 5},
    {"day_of_week": "5,sun"},
    {"day": "last", "hour": 6},
    {"day": "2nd fri,last sun", "hour": 7},
    {"day": "1st mon,15", "hour": "8-10/2"},
    {"day": "1-7", "day_of_week": "tue", "hour": 4},
    {"day": "13", "day_of_week": "fri", "hour": 4},
    {"month": "jan,jul", "day": "*/10"},
    {"day": "*/2", "hour": "*/6", "minute": 5},
    {"year": "2027-2028", "month": 6},
    {"second": "*/7"},
)


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin"])
def test_crons_of_apscheduler_have_the_plan_of_apscheduler(tz: str) -> None:
    different = {}
    for values in CRONS:
        schedule, notes = trigger_schedule(Trigger("cron", values), tz)
        theirs = _apscheduler(CronTrigger(**values, timezone=tz), ZoneInfo(tz))
        ours = fires(schedule, BEGIN, len(theirs))
        if ours != theirs:
            different[json.dumps(values)] = notes
    if tz == "UTC":
        assert different == {}
    else:
        loses = (
            "APScheduler can lose a run in the first hour of a day after the clocks went forward; CronFlow does not."
        )
        assert different == {values: [loses] for values in different}
        assert len(different) < len(CRONS) / 3


@pytest.mark.parametrize("hour", [2, "*/2", "1-3"])
def test_apscheduler_shifts_skipped_times_and_repeats_repeated_ones(hour: int | str) -> None:
    values = {"hour": hour, "minute": 30}
    schedule, _ = trigger_schedule(Trigger("cron", values), "Europe/Berlin")
    trigger, zone = CronTrigger(**values, timezone="Europe/Berlin"), ZoneInfo("Europe/Berlin")
    for begin in (datetime(2026, 3, 28, 22, tzinfo=UTC), datetime(2026, 10, 24, 22, tzinfo=UTC)):
        assert fires(schedule, begin, 2) == _apscheduler(trigger, zone, begin, 2)


def test_intervals_of_apscheduler_count_real_time_from_their_start() -> None:
    values = {"hours": 36, "minutes": 1, "start_date": "2026-03-01 10:00:00"}
    schedule, notes = trigger_schedule(Trigger("interval", values), "Europe/Berlin")
    theirs = _apscheduler(IntervalTrigger(**values, timezone="Europe/Berlin"), ZoneInfo("Europe/Berlin"))
    assert fires(schedule, BEGIN) == theirs
    assert notes == []


def _apscheduler(trigger: Any, zone: ZoneInfo, begin: datetime = BEGIN, count: int = COUNT) -> list[datetime]:
    """Strictly after `begin`."""
    found: list[datetime] = []
    now, last = (begin + timedelta(seconds=1)).astimezone(zone), None
    while len(found) < count and (fire := trigger.get_next_fire_time(last, now)) is not None:
        found.append(fire.astimezone(UTC))
        last = now = fire
    return found

"""Triggers of APScheduler 3 as schedules: cron, interval, date, and several of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from cronflow.domain.durations import LONGEST, format_duration
from cronflow.domain.schedule.zones import find_zone
from cronflow.importers import apscheduler_cron
from cronflow.importers.apscheduler_cron import cron_trigger, crontab_fields
from cronflow.importers.job_draft import Refused
from cronflow.importers.python_source import DottedName, NotConstant, SourceCall

_UNITS = ("weeks", "days", "hours", "minutes", "seconds")
_COMMON = ("start_date", "end_date", "timezone", "jitter")
_ARGUMENTS = {
    "cron": (*apscheduler_cron.NAMES, *_COMMON),
    "interval": (*_UNITS, *_COMMON),
    "date": ("run_date", "timezone"),
    "or": ("triggers", "jitter"),
    "and": ("triggers", "jitter"),
}
_CLASSES = {f"{kind.capitalize()}Trigger": kind for kind in _ARGUMENTS}


@dataclass(frozen=True, slots=True)
class Trigger:
    kind: str
    values: Mapping[str, Any]


def find_trigger(value: Any, keywords: Mapping[str, Any]) -> Trigger:
    """The trigger that a job names, as an alias with keywords or as an object. Raises Refused and NotConstant."""
    if isinstance(value, Mapping):
        keywords = {key: one for key, one in value.items() if key != "type"}
        value = value.get("type")
    if isinstance(value, str):
        if value not in _ARGUMENTS:
            raise Refused(f"there is no trigger {value!r}", "write cron, interval or date")
        unknown = [key for key in keywords if key not in _ARGUMENTS[value]]
        if unknown:
            raise Refused(f"the trigger {value} has no argument {unknown[0]!r}", "remove it")
        return Trigger(value, keywords)
    if isinstance(value, SourceCall):
        if value.function.endswith("CronTrigger.from_crontab") and value.args:
            zone = value.kwargs.get("timezone", value.args[1] if len(value.args) > 1 else None)
            return Trigger("cron", {**crontab_fields(str(value.args[0])), "timezone": zone})
        if value.short in _CLASSES:
            kind = _CLASSES[value.short]
            given = {**dict(zip(_ARGUMENTS[kind], value.args, strict=False)), **value.kwargs}
            unknown = [key for key in given if key not in _ARGUMENTS[kind]]
            if unknown:
                raise Refused(f"{value.short} has no argument {unknown[0]!r}", "remove it")
            return Trigger(kind, given)
        raise Refused(f"its trigger is {value.short}, which CronFlow does not support", "write the schedule yourself")
    if isinstance(value, DottedName):
        raise NotConstant(value.text)
    raise Refused("it has no trigger, so it runs once, as soon as it is added", "run it with `cronflow jobs run`")


def trigger_schedule(trigger: Trigger, tz: str | None) -> tuple[dict[str, Any], list[str]]:
    """The keys of the schedule, and notes. `tz` is the zone of a trigger without one.

    Raises Refused and NotConstant.
    """
    for key, value in trigger.values.items():
        if isinstance(value, DottedName) or (isinstance(value, SourceCall) and key != "triggers"):
            raise NotConstant(value.text if isinstance(value, DottedName) else value.function)
    zone = _zone_name(trigger.values.get("timezone"), tz)
    match trigger.kind:
        case "cron":
            schedule, notes = cron_trigger(trigger.values, zone)
            schedule |= _bounds(trigger, zone)
        case "interval":
            schedule, notes = _interval(trigger, zone)
        case "date":
            run_date = trigger.values.get("run_date")
            if run_date is None:
                raise Refused("it runs once, as soon as it is added", "run it with `cronflow jobs run`")
            return {"at": _instant(run_date, zone).isoformat()}, []
        case "or":
            schedule, notes = _any(trigger, tz)
        case _:
            remedy = "write one cron expression, or only_in windows"
            raise Refused("AndTrigger runs when several triggers agree, and CronFlow has no such schedule", remedy)
    jitter = trigger.values.get("jitter")
    if jitter:
        schedule["jitter"] = f"{jitter}s"
        notes.append("The jitter of APScheduler is random each time; here it is the same on every node.")
    return schedule, notes


def _interval(trigger: Trigger, zone: str | None) -> tuple[dict[str, Any], list[str]]:
    given = {unit: trigger.values.get(unit) or 0 for unit in _UNITS}
    try:
        length = timedelta(**given) or timedelta(seconds=1)
    except (TypeError, OverflowError):
        raise Refused("its interval is not a number", "correct the interval") from None
    if not timedelta(0) < length <= LONGEST:
        raise Refused("its interval is negative or longer than a century", "correct the interval")
    schedule: dict[str, Any] = {"every": format_duration(length)}
    bounds = _bounds(trigger, zone)
    if "start" in bounds:
        return schedule | {"anchor": bounds["start"]} | bounds, []
    note = "APScheduler counts from when the job is added; CronFlow from a fixed time, the same on every node."
    return schedule | bounds, [note]


def _any(trigger: Trigger, tz: str | None) -> tuple[dict[str, Any], list[str]]:
    members = trigger.values.get("triggers")
    if not isinstance(members, list | tuple) or not members:
        raise Refused("OrTrigger has no triggers", "add them")
    schedules, notes = [], []
    for one in members:
        found = find_trigger(one, {})
        if found.kind in ("or", "and"):
            raise Refused("its triggers are nested", "write them as one list")
        schedule, own = trigger_schedule(found, tz)
        if found.kind == "interval":
            own = ["In an OrTrigger an interval counts from the last run of any trigger; here it is independent."]
        if "only_in" in schedule or "jitter" in schedule:
            raise Refused("one of its triggers has a rule that only a whole schedule can have", "divide the job")
        schedules.append(schedule)
        notes += own
    return {"any": schedules}, list(dict.fromkeys(notes))


def _bounds(trigger: Trigger, zone: str | None) -> dict[str, str]:
    found = {}
    start, end = trigger.values.get("start_date"), trigger.values.get("end_date")
    if start is not None:
        begin = _instant(start, zone)
        # A fraction of a second: the first whole second after it.
        found["start"] = (apscheduler_cron.after(begin) if begin.microsecond else begin).isoformat()
    if end is not None:
        found["end"] = apscheduler_cron.after(_instant(end, zone)).isoformat()
    return found


def _zone_name(value: Any, tz: str | None) -> str | None:
    if value is UTC:
        return "UTC"
    if value is None:
        return tz
    if isinstance(value, str):
        find_zone(value)
        return value
    raise NotConstant(repr(value))


def _instant(value: Any, zone: str | None) -> datetime:
    found: datetime | None = None
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the zone follows
    elif isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
        except ValueError:
            found = None
    if found is None:
        raise Refused(f"{value!r} is not a date", "write it like 2027-01-31 09:30:00")
    own: tzinfo = find_zone(zone or "UTC")
    return found if found.tzinfo is not None else found.replace(tzinfo=own)

"""From a job to its document: the canonical form that `jobs show` prints, and the short one that is stored and sent.

The rule it protects: equal jobs have equal documents, and reading one back gives an equal job. The short form leaves
out what is a default of the format itself, never what is a default of a cluster's settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, cast, overload

from cronflow.documents.forms import (
    JobForm,
    LengthForm,
    MisfireForm,
    RequestForm,
    RetryForm,
    ScheduleForm,
    TargetForm,
)
from cronflow.documents.values import json_mapping, under
from cronflow.domain.durations import format_duration, parse_duration
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, HttpTarget, Job, Misfire, PythonTarget, Retry, SystemTarget, Target
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule


@overload
def job_document(job: Job, *, compact: Literal[False] = False) -> JobForm: ...
@overload
def job_document(job: Job, *, compact: bool) -> JobForm | dict[str, object]: ...
def job_document(job: Job, *, compact: bool = False) -> JobForm | dict[str, object]:
    """The job as plain dicts, lists, text, numbers and booleans, in the order of the interface's example.

    Every default is written out; with `compact` none is. Raises InvalidInput when an argument of a Python target is
    not what JSON can say.
    """
    document: JobForm = {
        "name": job.name,
        "description": job.description,
        "schedule": _schedule(job.schedule),
        "run": _run(job.target),
        "retry": _retry(job.retry),
        "timeout": _duration(job.timeout),
        "overlap": job.overlap,
        "misfire": _misfire(job.misfire),
        "delivery": job.delivery,
        "start_guard": job.start_guard,
        "priority": job.priority,
        "require": dict(job.require),
        "labels": dict(job.labels),
        "enabled": job.enabled,
    }
    return _without_defaults(cast("Mapping[str, object]", document), _DEFAULTS) if compact else document


def _schedule(schedule: Schedule | None) -> ScheduleForm | None:
    match schedule:
        case Cron():
            return {
                "cron": schedule.expr,
                "tz": schedule.tz,
                "start": _optional_instant(schedule.start),
                "end": _optional_instant(schedule.end),
            }
        case Every():
            return {
                "every": _duration(schedule.interval),
                "anchor": _optional_instant(schedule.anchor),
                "time": schedule.time,
                "tz": schedule.tz,
                "start": _optional_instant(schedule.start),
                "end": _optional_instant(schedule.end),
            }
        case Once():
            return {"at": _instant(schedule.at)}
        case None:
            return None


def _run(target: Target) -> TargetForm:
    match target:
        case PythonTarget():
            return {"python": target.ref, "args": _arguments(target.args), "process": target.process}
        case CommandTarget(command=str() as line):
            return {"shell": line, "cwd": target.cwd, "env": dict(target.env)}
        case CommandTarget():
            return {"argv": list(target.command), "cwd": target.cwd, "env": dict(target.env)}
        case HttpTarget():
            request: RequestForm = {
                "method": target.method,
                "url": target.url,
                "headers": dict(target.headers),
                "body": target.body,
                "expect": list(target.expect),
            }
            return {"http": request}
        case SystemTarget():
            return {"system": target.name}


def _arguments(args: Mapping[str, object]) -> dict[str, object]:
    try:
        return json_mapping(args)
    except InvalidInput as error:
        raise InvalidInput(under("run.args", error.problems)) from None


def _retry(retry: Retry) -> RetryForm:
    if retry.delays:
        return {"delays": [_duration(delay) for delay in retry.delays], "jitter": retry.jitter}
    return {
        "max": retry.max,
        "initial": _duration(retry.initial),
        "multiplier": retry.multiplier,
        "cap": _duration(retry.cap),
        "jitter": retry.jitter,
    }


def _misfire(misfire: Misfire) -> MisfireForm:
    return {
        "policy": misfire.policy,
        "late_after": _duration(misfire.late_after),
        "grace": None if misfire.grace is None else _duration(misfire.grace),
        "max_catch_up": misfire.max_catch_up,
    }


def _duration(value: timedelta) -> LengthForm:
    """In the largest unit that divides it; below a millisecond the units end, and it is seconds as a number."""
    written = format_duration(value)
    return written if parse_duration(written) == value else value.total_seconds()


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _optional_instant(value: datetime | None) -> str | None:
    return None if value is None else _instant(value)


def _without_defaults(document: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    """The document without what equals its default, at every level that has defaults."""
    short: dict[str, object] = {}
    for key, value in document.items():
        default = defaults.get(key, _NO_DEFAULT)
        if value is None or value == default:
            continue
        if isinstance(value, Mapping) and isinstance(default, Mapping) and default:
            value = _without_defaults(value, default)
        short[key] = value
    return short


_NO_DEFAULT = object()
_TIMES: Mapping[str, object] = {"tz": "UTC", "anchor": None, "time": None, "start": None, "end": None}
_HTTP: Mapping[str, object] = {"method": "GET", "headers": {}, "body": None, "expect": []}
_DEFAULTS: Mapping[str, object] = {
    "description": "",
    "schedule": _TIMES,
    "run": {"args": {}, "process": False, "cwd": None, "env": {}, "http": _HTTP},
    "retry": _retry(Retry()),
    "timeout": "1h",
    "overlap": "forbid",
    "misfire": _misfire(Misfire()),
    "delivery": "at_least_once",
    "start_guard": "redis",
    "priority": 5,
    "require": {},
    "labels": {},
    "enabled": True,
}

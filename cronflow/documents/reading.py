"""From a document to a job: the tables of keys that a job may have, and how each becomes a part of it.

The rule it protects: a job is accepted whole or not at all, and a refusal names every problem with its key. Keys that
the interface names and this version does not know are refused by name, so that nobody believes they have an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cronflow.documents.mappings import NOT_YET, Variant, build, read_fields, read_variant
from cronflow.documents.values import (
    Reader,
    choice,
    duration,
    flag,
    got,
    instant,
    json_mapping,
    list_of,
    number,
    optional,
    text,
    texts_by_key,
    under,
    whole,
    written_duration,
)
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import (
    CommandTarget,
    Delivery,
    HttpTarget,
    Job,
    Misfire,
    MisfirePolicy,
    Overlap,
    PythonTarget,
    Retry,
    StartGuard,
    SystemTarget,
    Target,
)
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule

_PLAIN_RETRY = Retry()


def parse_job(document: object, place: str = "job", *, retry: Retry = _PLAIN_RETRY) -> Job:
    """The job that a document describes.

    `retry` stands in for what the document leaves out of its own `retry`: the cluster's settings when a person's
    document is read, and nothing when a stored one is, which must mean the same for ever. Raises InvalidInput with
    every problem in the order of the document; each place begins with `place`, as in `jobs[0].schedule.cron`.
    """
    try:
        return _job(document, retry)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def parse_schedule(document: object, place: str = "schedule") -> Schedule:
    """The schedule that a document describes. Raises InvalidInput as `parse_job` does."""
    try:
        found = _schedule(document)
        if found is None:
            raise InvalidInput(Problem("", "expected a mapping, got nothing", "write cron, every or at"))
        return found
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def _job(document: object, retry: Retry) -> Job:
    found, problems = read_fields(document, _JOB, _JOB_LATER)
    assert isinstance(document, Mapping)  # read_fields has refused anything else
    if "name" not in document:
        problems.append(Problem("name", "missing", "give the job a name, such as nightly-report"))
    if "run" not in document:
        problems.append(Problem("run", "missing", "say what to run: python, shell, argv or http"))
    if "run" in found:
        found["target"] = found.pop("run")
    own = found.pop("retry", {})
    if found.get("delivery") is Delivery.AT_MOST_ONCE:
        wrong = next((key for key in ("delays", "max") if own.get(key)), None)
        if wrong:
            what = "delivery at_most_once never starts a run twice, so there is no retry"
            problems.append(Problem(f"retry.{wrong}", what, "remove it, or choose delivery at_least_once"))
        own = {**own, "max": 0, "delays": ()}
    found["retry"] = _retry_from(own, retry)
    return build(Job, found, problems, document, keys={"target": "run"}, samples=_JOB_SAMPLES)


def _retry_from(own: Mapping[str, Any], default: Retry) -> Retry:
    if not own:
        return default
    if own.get("delays"):
        return Retry(**own)
    return Retry(
        **{
            "max": default.max,
            "initial": default.initial,
            "multiplier": default.multiplier,
            "cap": default.cap,
            "jitter": default.jitter,
            **own,
        }
    )


def _retry(value: object) -> dict[str, Any]:
    """The arguments of a Retry that are written, once they are known to make one."""
    found, problems = read_fields(value, _RETRY)
    assert isinstance(value, Mapping)
    if "delays" in value:
        idle = [key for key in ("initial", "multiplier", "cap") if key in value]
        problems += [Problem(key, "has no effect beside delays", "remove one of the two") for key in idle]
    if found.get("delays") == ():
        problems.append(Problem("delays", "expected at least one duration", "for no retries write max: 0"))
    build(Retry, found, problems, value)
    return found


def _misfire(value: object) -> Misfire:
    if isinstance(value, str):
        return Misfire(_policy(value))
    if not isinstance(value, Mapping):
        raise InvalidInput(f"expected {', '.join(MisfirePolicy)}, or a mapping with policy, got {got(value)}")
    found, problems = read_fields(value, _MISFIRE)
    return build(Misfire, found, problems, value)


def _schedule(value: object) -> Schedule | None:
    if value is None:
        return None
    made: Schedule = read_variant(
        value, _SCHEDULES, _SCHEDULE_LATER, "leave schedule out for a job that is run by hand"
    )
    return made


def _run(value: object) -> Target:
    if isinstance(value, Mapping) and value.keys() == {"system"}:
        # Stored and never written by people: the names of such jobs are refused, so the key is not offered to them.
        return SystemTarget(text(value["system"]))
    made: Target = read_variant(value, _TARGETS, {}, "say what to run")
    return made


def _http(value: object) -> HttpTarget:
    found, problems = read_fields(value, _HTTP)
    assert isinstance(value, Mapping)
    if "url" not in value:
        problems.append(Problem("url", "missing", "write the address that the request goes to"))
    return build(HttpTarget, found, problems, value, samples={"url": "http://host"})


def _expect(value: object) -> tuple[int, ...]:
    """One status, or a list of them."""
    return _statuses(value if isinstance(value, list | tuple) else [value])


_policy = choice(MisfirePolicy)
_statuses = list_of(whole, "HTTP statuses")
_optional_text, _optional_instant = optional(text), optional(instant)
_bounds: Mapping[str, Reader] = {"start": _optional_instant, "end": _optional_instant}
_process: Mapping[str, Reader] = {"cwd": _optional_text, "env": texts_by_key}

_SCHEDULES = {
    "cron": Variant(Cron, {"cron": text, "tz": text, **_bounds}, {"cron": "expr"}, {"expr": "* * * * *"}),
    "every": Variant(
        Every,
        {"every": written_duration, "anchor": _optional_instant, "time": _optional_text, "tz": text, **_bounds},
        {"every": "interval"},
        {"interval": "1h"},
        {"time": {"interval": "1d"}},  # a time of day suits whole days alone
    ),
    "at": Variant(Once, {"at": instant}, samples={"at": datetime(2000, 1, 1, tzinfo=UTC)}),
}
_SCHEDULE_LATER = dict.fromkeys(
    ("any", "dst", "max_runs", "jitter", "calendars", "blackout", "after_completion"), NOT_YET
)
_TARGETS = {
    "python": Variant(
        PythonTarget, {"python": text, "args": json_mapping, "process": flag}, {"python": "ref"}, {"ref": "module:name"}
    ),
    "shell": Variant(CommandTarget, {"shell": text, **_process}, {"shell": "command"}, {"command": "true"}),
    "argv": Variant(
        CommandTarget, {"argv": list_of(text, "words"), **_process}, {"argv": "command"}, {"command": ("true",)}
    ),
    "http": Variant(lambda http: http, {"http": _http}, samples={"http": HttpTarget("http://host")}),
}
_HTTP: Mapping[str, Reader] = {
    "method": text,
    "url": text,
    "headers": texts_by_key,
    "body": _optional_text,
    "expect": _expect,
}
_RETRY: Mapping[str, Reader] = {
    "max": whole,
    "initial": duration,
    "multiplier": number,
    "cap": duration,
    "jitter": flag,
    "delays": list_of(duration, "durations"),
}
_MISFIRE: Mapping[str, Reader] = {
    "policy": _policy,
    "late_after": duration,
    "grace": optional(duration),
    "max_catch_up": whole,
}
_JOB: Mapping[str, Reader] = {
    "name": text,
    "description": text,
    "schedule": _schedule,
    "run": _run,
    "retry": _retry,
    "timeout": duration,
    "overlap": choice(Overlap),
    "misfire": _misfire,
    "delivery": choice(Delivery),
    "start_guard": choice(StartGuard),
    "priority": whole,
    "require": texts_by_key,
    "labels": texts_by_key,
    "enabled": flag,
}
_JOB_LATER = dict.fromkeys(("prefer", "resources", "concurrency", "after"), NOT_YET)
# What a job cannot do without, for trying one argument alone; without retries every delivery is possible.
_JOB_SAMPLES: Mapping[str, Any] = {"name": "job", "target": PythonTarget("module:name"), "retry": Retry(max=0)}

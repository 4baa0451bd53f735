"""A job's definition, stored as the JSON of its plain document (see `cronflow.documents`).

The planner reads the same jobs again and again, so each version is parsed once and cached, and jobs that differ only in
their names share what was parsed.

CronFlow 0.9 refuses a definition with a key that it does not know, and its planner would then plan nothing. So such
keys are stored as the value of a required label that no node has: a leader of 0.9 lets the job wait, and an API of 0.9
keeps them ([record 0070](../../../docs/decisions/0070-limit-runs-by-permits.md)). A target that CronFlow 0.11 does not
know is stored in a label of its own, for the same reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import orjson

from cronflow.backends.codec.values import Document
from cronflow.documents import job_document, parse_job
from cronflow.documents.calendars import calendar_document, parse_calendar
from cronflow.domain.identity_cache import IdentityCache
from cronflow.domain.job import RESERVED_LABEL, SYSTEM_PREFIX, Job
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.schedule.hashed import uses_hash
from cronflow.domain.schedule.kinds import bound, named

JOBS_REMEMBERED = 20_000
NAME = re.compile(r'\{"name":"([^"\\]+)"')
"""How a stored definition begins, if this version wrote it."""
_definitions: IdentityCache[Job, str] = IdentityCache(JOBS_REMEMBERED)
UNBOUND: Mapping[str, Calendar] = {}
NEWER_KEYS = RESERVED_LABEL + "newer"
"""The required label that contains the keys of a definition which CronFlow 0.9 does not know."""
UNKNOWN_TO_0_9 = (
    "concurrency", "rate", "breaker", "pause_after", "success_exit_codes",
    "prefer", "spread", "apart_from", "resources", "after", "join", "shards", "run_on",
)  # fmt: skip
UNKNOWN_TO_0_11 = ("mode", "replaces")
KEYS_SINCE_0_12 = RESERVED_LABEL + "since-0.12"
"""A label that contains the keys of a definition which CronFlow 0.11 does not know."""
NEWER_SCHEDULE = RESERVED_LABEL + "schedule"
"""A label that contains a schedule which CronFlow 0.10 does not know."""
SCHEDULE_KEYS_OF_0_10 = frozenset({"cron", "every", "at", "tz", "anchor", "time", "start", "end"})
NEWER_TARGET = RESERVED_LABEL + "run"
"""A label that contains a target which CronFlow 0.11 does not know."""
TARGET_KEYS_OF_0_11 = frozenset(
    {"python", "args", "process", "shell", "argv", "cwd", "env", "run_as", "limits", "http", "system"}
)
NO_TARGET = {"argv": ["needs-a-newer-version-of-cronflow"]}
"""Stored in place of such a target. No node has the label, so it is never executed."""
RETRY_KEYS_OF_0_9 = frozenset({"max", "initial", "multiplier", "cap", "jitter", "delays"})


def definition(job: Job) -> str:
    """A job's definition as JSON. Cached, because `job_of_definition` returns the same objects again and again."""
    known = _definitions.get(job)
    if known is not None:
        return known
    document = _readable_by_older(dict(job_document(job, compact=True)))
    return _definitions.put(job, orjson.dumps(document).decode())


@lru_cache(maxsize=JOBS_REMEMBERED)
def job_of_definition(text: str) -> Job:
    """The job of a stored definition."""
    if (found := NAME.match(text)) is None or found[1].startswith(SYSTEM_PREFIX):
        job = parse_job(_with_newer_keys(orjson.loads(text)))
    else:
        job = _renamed(_nameless_job(text[found.end() :]), found[1])
    _definitions.put(job, text)
    return job


def pinned_job(document: Mapping[str, Any], calendars: Mapping[str, Calendar]) -> Job:
    """The job of a document, bound to the calendars that it pins."""
    pins = document.get("calendars")
    if not pins or not calendars:
        return job_of_definition(document["definition"])
    return _bound_job(document["definition"], tuple(pins), tuple(calendars[pin] for pin in pins))


@lru_cache(maxsize=JOBS_REMEMBERED)
def _bound_job(text: str, pins: tuple[str, ...], calendars: tuple[Calendar, ...]) -> Job:
    """`pins` is part of the key because calendars of the same content are equal."""
    job = job_of_definition(text)
    copy = _copied(job, schedule=bound(job.schedule, calendars))
    _definitions.put(copy, text)
    return copy


@lru_cache(maxsize=JOBS_REMEMBERED)
def _nameless_job(rest: str) -> Job:
    return parse_job(_with_newer_keys(orjson.loads(f'{{"name":"x"{rest}')))


def _with_newer_keys(document: Any) -> Any:
    """The document that `_readable_by_older` was given."""
    require = document.get("require") or {}
    hidden = require.keys() & {NEWER_KEYS, KEYS_SINCE_0_12, NEWER_SCHEDULE, NEWER_TARGET}
    if not hidden:
        return document
    others = {label: value for label, value in require.items() if label not in hidden}
    newer = orjson.loads(require.get(NEWER_KEYS, "{}")) | orjson.loads(require.get(KEYS_SINCE_0_12, "{}"))
    if NEWER_SCHEDULE in require:
        newer["schedule"] = orjson.loads(require[NEWER_SCHEDULE])
    if NEWER_TARGET in require:
        newer["run"] = orjson.loads(require[NEWER_TARGET])
    return {**document, "require": others, **newer}


def _readable_by_older(document: Document) -> Document:
    """The document without what CronFlow 0.9 to 0.11 do not know, and with labels that contain them. A leader
    of 0.10 takes a job with a newer schedule to have none, and leaves its fires to a newer one; so does one of 0.11
    with a job in shadow mode, because no node has the label.
    """
    labels = {}
    newer = {key: document.pop(key) for key in UNKNOWN_TO_0_9 if key in document}
    if document.get("retry", {}).keys() - RETRY_KEYS_OF_0_9:
        newer["retry"] = document.pop("retry")
    if newer:
        labels[NEWER_KEYS] = orjson.dumps(newer).decode()
    if since_0_12 := {key: document.pop(key) for key in UNKNOWN_TO_0_11 if key in document}:
        labels[KEYS_SINCE_0_12] = orjson.dumps(since_0_12).decode()
    schedule = document.get("schedule") or {}
    if schedule.keys() - SCHEDULE_KEYS_OF_0_10 or uses_hash(schedule.get("cron", "")):
        labels[NEWER_SCHEDULE] = orjson.dumps(document.pop("schedule")).decode()
    if document["run"].keys() - TARGET_KEYS_OF_0_11:
        labels[NEWER_TARGET] = orjson.dumps(document["run"]).decode()
        document["run"] = NO_TARGET
    if labels:
        document["require"] = {**document.get("require", {}), **labels}
    return document


def _renamed(job: Job, name: str) -> Job:
    """A copy with another name."""
    return _copied(job, name=name, schedule=named(job.schedule, name))


def _copied(job: Job, **changes: object) -> Job:
    """`replace` would check every field again, which takes longer than all the rest."""
    copy = object.__new__(Job)
    for field in Job.__dataclass_fields__:
        object.__setattr__(copy, field, getattr(job, field))
    for field, value in changes.items():
        object.__setattr__(copy, field, value)
    return copy


def calendar_text(calendar: Calendar) -> str:
    """The content of a calendar as JSON."""
    return orjson.dumps(calendar_document(calendar)).decode()


def calendar(text: str, rev: int) -> Calendar:
    return replace(parse_calendar(orjson.loads(text)), rev=rev)

"""The `defaults` of a job file: what its jobs have in common.

The rules: what a job says itself wins. A default that a job cannot have, such as `success_exit_codes` for a Python
function, is not used for that job. A default that no job could have is an error at its own place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from cronflow.documents import nearest, parse_job, under
from cronflow.documents.jobs import JOB
from cronflow.documents.values import got, shown_key
from cronflow.domain.concurrency import limit_problems
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Job, Retry, target_mismatches
from cronflow.domain.schedule.zones import find_zone

DEFAULTS = "defaults"
_OF_EACH_JOB = ("name", "schedule", "run")
KEYS = ("tz", *(key for key in JOB.keys if key not in _OF_EACH_JOB))
_SAMPLE = {"name": "a-job-with-these-defaults", "run": {"shell": "true"}}
_NOTHING = object()


class Parse(Protocol):
    """Reads the document of a job. Raises InvalidInput."""

    def __call__(self, document: object, place: str = ..., /) -> Job: ...


@dataclass(frozen=True, slots=True)
class FileDefaults:
    """Keys of jobs with their values, and the time zone of schedules that name none."""

    keys: Mapping[str, object] = field(default_factory=dict)
    tz: str | None = None

    def apply(self, job: object, place: str, parse: Parse) -> tuple[Job, object]:
        """The job of a document with these defaults, and its document with them. Raises InvalidInput with the problems
        of the document itself.
        """
        if not self.keys or not isinstance(job, Mapping):
            return parse(job, place), job
        complete: Mapping[str, object] = _merged(job, self.keys)
        made = _fitting(complete, parse)
        if made is not None:
            return made, complete
        made, complete = parse(job, place), job
        for key, value in self.keys.items():

            def fits(part: object, key: str = key, begun: Mapping[str, object] = complete) -> bool:
                return _fitting(_merged(begun, {key: part}), parse) is not None

            part = _fitting_part(value, fits)
            if part is not _NOTHING:
                complete = _merged(complete, {key: part})
                made = parse(complete, place)
        return made, complete


NO_DEFAULTS = FileDefaults()


def read_defaults(value: object, place: str, retry: Retry) -> FileDefaults:
    """Raises InvalidInput with everything that is wrong; each place begins with `place`."""
    if not isinstance(value, Mapping):
        remedy = "write the keys that jobs share below it"
        raise InvalidInput(Problem(place, f"expected a mapping, got {got(value)}", remedy))
    problems = [_unknown(key) for key in value if key not in KEYS]
    tz = value.get("tz")
    if "tz" in value:
        problems += _zone_problems(tz)
    keys = {key: found for key, found in value.items() if key in KEYS and key != "tz"}
    problems += _problems(keys, retry)
    if problems:
        order = {shown_key(key): n for n, key in enumerate(value)}
        problems.sort(key=lambda one: order.get(one.place.partition(".")[0].partition("[")[0], len(order)))
        raise InvalidInput(under(place, problems))
    return FileDefaults(keys, tz if isinstance(tz, str) else None)


def _unknown(key: object) -> Problem:
    if not isinstance(key, str):
        return Problem(shown_key(key), f"expected text as a key, got {got(key)}", "put the key in quotes")
    if key in _OF_EACH_JOB:
        return Problem(key, "each job has its own", "move it into the jobs")
    near = nearest(key, KEYS)
    return Problem(key, "unknown key", f"did you mean {near}?" if near else f"known keys: {', '.join(KEYS)}")


def _zone_problems(tz: object) -> list[Problem]:
    if not isinstance(tz, str):
        return [Problem("tz", f"expected the name of a time zone, got {got(tz)}", "such as Europe/Berlin")]
    try:
        find_zone(tz)
    except InvalidInput as error:
        return under("tz", error.problems)
    return []


def _problems(keys: Mapping[str, object], retry: Retry) -> list[Problem]:
    """What is wrong with the keys, whatever the job."""
    try:
        parse_job({**_SAMPLE, **keys}, "", retry=retry)
    except InvalidInput as error:
        return list(error.problems)
    return []


def _merged(job: Mapping[Any, object], defaults: Mapping[str, object]) -> dict[Any, object]:
    """What the job says, and the defaults for what it does not say; mappings are completed key by key."""
    merged = dict(job)
    for key, value in defaults.items():
        own = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif isinstance(own, Mapping) and isinstance(value, Mapping):
            merged[key] = {**own, **{name: one for name, one in value.items() if name not in own}}
    return merged


def _fitting_part(value: object, fits: Callable[[object], bool]) -> object:
    """The value if it fits; else those of its keys or items that do."""
    if fits(value):
        return value
    if isinstance(value, Mapping):
        keys: dict[str, object] = {}
        for key, one in value.items():
            part = _fitting_part(one, partial(_fits_with, fits, keys, key))
            if part is not _NOTHING:
                keys[key] = part
        return keys or _NOTHING
    if isinstance(value, list):
        items: list[object] = []
        for item in value:
            if fits([*items, item]):
                items.append(item)
        return items or _NOTHING
    return _NOTHING


def _fits_with(fits: Callable[[object], bool], keys: Mapping[str, object], key: str, part: object) -> bool:
    return fits({**keys, key: part})


def _fitting(document: Mapping[Any, object], parse: Parse) -> Job | None:
    """The job, unless it is refused, now or when it is applied."""
    try:
        job = parse(document, "")
    except InvalidInput:
        return None
    return None if target_mismatches(job) or limit_problems(job) else job

"""The retry of a job's document: delays that grow, or a list of delays.

What a document leaves out is completed from a default, so the parts that are given are kept apart until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

from typing_extensions import TypedDict

from cronflow.documents.keys import LENGTH, LengthForm
from cronflow.documents.tables import DocumentTable, Key, read_fields
from cronflow.documents.values import duration, duration_text, flag, list_of, number, whole
from cronflow.domain.errors import Problem
from cronflow.domain.job import Retry

POLICIES_REMEMBERED = 1024


class BackoffForm(TypedDict):
    """Delays that grow."""

    max: Annotated[int, Key(whole)]
    """Retries after the first attempt."""
    initial: Annotated[LengthForm, LENGTH]
    """The delay before the first retry."""
    multiplier: Annotated[float, Key(number)]
    """Each delay is this many times the one before."""
    cap: Annotated[LengthForm, LENGTH]
    """The longest delay."""
    jitter: Annotated[bool, Key(flag)]
    """Whether each delay is drawn at random from its upper half."""


class DelaysForm(TypedDict):
    """A list of delays; their number is the number of retries."""

    delays: Annotated[
        list[LengthForm],
        Key(list_of(duration, "durations"), lambda delays: [*map(duration_text, delays)], sample=("1s",)),
    ]
    """The delay before each retry."""
    jitter: Annotated[bool, Key(flag)]
    """Whether each delay is drawn at random from its upper half."""


RetryForm = BackoffForm | DelaysForm
BACKOFF = DocumentTable(BackoffForm, Retry)
DELAYS = DocumentTable(DelaysForm, Retry)
_KEYS = {**BACKOFF.keys, **DELAYS.keys}


def read_retry(value: object) -> dict[str, Any]:
    """The arguments of a Retry that are given, once they make a valid one."""
    found, problems = read_fields(value, _KEYS)
    assert isinstance(value, Mapping)
    if "delays" in value:
        idle = [key for key in ("initial", "multiplier", "cap") if key in value]
        problems += [Problem(key, "has no effect with delays", "remove one of the two") for key in idle]
    if found.get("delays") == ():
        problems.append(Problem("delays", "expected at least one duration", "for no retries write max: 0"))
    BACKOFF.build(found, problems, value)
    return found


def write_retry(retry: Retry) -> dict[str, Any]:
    return (DELAYS if retry.delays else BACKOFF).write(retry)


def completed(given: Mapping[str, Any], default: Retry) -> Retry:
    """The Retry with these arguments, and those of the default for the others."""
    return _completed(tuple(given.items()), default)


@lru_cache(maxsize=POLICIES_REMEMBERED)
def _completed(given: tuple[tuple[str, Any], ...], default: Retry) -> Retry:
    """Remembered, because many jobs have the same policy."""
    if not given:
        return default
    own = dict(given)
    if own.get("delays"):
        return Retry(**own)
    return Retry(**{**{key: getattr(default, key) for key in BACKOFF.keys}, **own})

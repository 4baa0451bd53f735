"""The retry of a job's document: delays that grow, a list of delays, or the name of a profile, which is stored as the
values that it stands for.

What a document leaves out is completed from a default, so the parts that are given are kept apart until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

from typing_extensions import TypedDict

from cronflow.documents.keys import LENGTH, TEXT, LengthForm
from cronflow.documents.tables import DocumentTable, Key, read_fields
from cronflow.documents.values import choice, duration, duration_text, flag, list_of, number, optional, whole
from cronflow.domain.errors import Problem
from cronflow.domain.retry import Profile, Retry, RetryRule

POLICIES_REMEMBERED = 1024


class RetryRuleForm(TypedDict):
    """Whether an attempt with a matching error is retried."""

    match: Annotated[str, Key(TEXT.read, sample="OSError", missing="name an exception, or write exit:75 or http:503")]
    """The name of an exception or of one of its base classes; `exit:75` or `exit:64-78`; `http:503` or `http:5xx`."""
    retry: Annotated[bool, Key(flag, sample=True, missing="write true or false")]
    """Whether it is retried."""


RULE = DocumentTable(RetryRuleForm, RetryRule)
RULES = Key(list_of(RULE.read, "rules"), lambda rules: [*map(RULE.write, rules)])
OPTIONAL_LENGTH = Key(optional(duration), optional(duration_text))


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
    rules: Annotated[list[RetryRuleForm], RULES]
    """The first rule that matches an error decides whether it is retried."""
    deadline: Annotated[LengthForm | None, OPTIONAL_LENGTH]
    """No retry starts later than this after the run was due or requested; null: no limit."""


class ProfileForm(BackoffForm):
    """A profile, and the values that differ from it. Only the resulting values are stored and returned."""

    profile: Annotated[Profile, Key(choice(Profile))]
    """`default` 30s, 60s, 120s; `fast` 10s, 20s, 40s; `slow` 60s, 90s and so on, five times; `linear` 30s, three times;
    `fibonacci` 30s, 30s, 60s, 90s, 150s.
    """


class DelaysForm(TypedDict):
    """A list of delays; their number is the number of retries."""

    delays: Annotated[
        list[LengthForm],
        Key(list_of(duration, "durations"), lambda delays: [*map(duration_text, delays)], sample=("1s",)),
    ]
    """The delay before each retry."""
    jitter: Annotated[bool, Key(flag)]
    """Whether each delay is drawn at random from its upper half."""
    rules: Annotated[list[RetryRuleForm], RULES]
    """The first rule that matches an error decides whether it is retried."""
    deadline: Annotated[LengthForm | None, OPTIONAL_LENGTH]
    """No retry starts later than this after the run was due or requested; null: no limit."""


RetryForm = BackoffForm | DelaysForm | ProfileForm
BACKOFF = DocumentTable(BackoffForm, Retry)
DELAYS = DocumentTable(DelaysForm, Retry)
PROFILE = DocumentTable(ProfileForm, Retry)
_KEYS = {**PROFILE.keys, **DELAYS.keys}
_NAMED = ("max", "initial", "multiplier")
"""What a profile gives values for."""


def read_retry(value: object) -> dict[str, Any]:
    """The arguments of a Retry that are given, once they make a valid one."""
    found, problems = read_fields(value, _KEYS)
    assert isinstance(value, Mapping)
    if "delays" in value:
        idle = [key for key in ("profile", "initial", "multiplier", "cap") if key in value]
        problems += [Problem(key, "has no effect with delays", "remove one of the two") for key in idle]
        found.pop("profile", None)
    if found.get("profile") is Profile.FIBONACCI and found.pop("multiplier", None) is not None:
        what = "has no effect with the profile fibonacci"
        problems.append(Problem("multiplier", what, "remove one of the two"))
    if found.get("delays") == ():
        problems.append(Problem("delays", "expected at least one duration", "for no retries write max: 0"))
    PROFILE.build(found, problems, value)
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
    left = [key for key in BACKOFF.keys if "profile" not in own or key not in _NAMED]
    return Retry(**{**{key: getattr(default, key) for key in left}, **own})

"""The retry policy of a job: how many retries, their delays, and which errors are retried.

A profile is a name for values. It is expanded when the policy is made, so a policy never depends on what a profile
means in a later version. `domain.retry_decision` decides about a failed attempt.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cronflow.domain.durations import Duration, parse_duration
from cronflow.domain.errors import InvalidInput, Problem

MOST_RULES = 50
_EXIT = re.compile(r"exit:(\d{1,3})(?:-(\d{1,3}))?")
_HTTP = re.compile(r"http:([1-5])(\d\d|xx)")
_CLASS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class Profile(StrEnum):
    """The name of a retry policy."""

    DEFAULT = "default"
    FAST = "fast"
    SLOW = "slow"
    LINEAR = "linear"
    FIBONACCI = "fibonacci"


@dataclass(frozen=True, slots=True)
class _Values:
    max: int = 3
    initial: str = "30s"
    multiplier: float = 2.0


PROFILES: Mapping[Profile, _Values] = {
    Profile.DEFAULT: _Values(),
    Profile.FAST: _Values(initial="10s"),
    Profile.SLOW: _Values(max=5, initial="60s", multiplier=1.5),
    Profile.LINEAR: _Values(multiplier=1.0),
    Profile.FIBONACCI: _Values(max=5),
}
"""The values of each profile. The delays of `fibonacci` are `initial` times 1, 1, 2, 3, 5 and so on."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Whether a failed attempt is retried, if its error matches.

    `match` is the name of a Python exception or of one of its base classes, with or without its module;
    `exit:75` or `exit:64-78`, the exit code of a command; `http:503` or `http:5xx`, the status of a response.
    """

    match: str
    retry: bool

    def __post_init__(self) -> None:
        if self.match.startswith(("exit:", "http:")):
            what = _codes_problem(self.match)
        else:
            what = None if _CLASS.fullmatch(self.match) else "is not the name of an exception"
        if what is not None:
            remedy = "write ConnectionError, exit:75, exit:64-78, http:503 or http:5xx"
            raise InvalidInput(Problem("", f"{self.match!r} {what}", remedy))

    @property
    def kind(self) -> str:
        """`exit`, `http`, or `` for an exception."""
        return self.match.partition(":")[0] if ":" in self.match else ""

    def matches(self, error_classes: Iterable[str]) -> bool:
        """Whether it applies to one of an attempt's `error_classes` (see AttemptResult)."""
        return any(self._matches(name) for name in error_classes)

    def _matches(self, name: str) -> bool:
        if found := _EXIT.fullmatch(self.match):
            kind, _, code = name.partition(":")
            first, last = int(found[1]), int(found[2] or found[1])
            return kind == "exit" and first <= int(code) <= last
        if self.match.endswith("xx") and self.kind:
            return name.startswith(self.match.removesuffix("xx"))
        return f".{name}".endswith(f".{self.match}")


def _codes_problem(match: str) -> str | None:
    if match.startswith("http:"):
        return None if _HTTP.fullmatch(match) else "is not an HTTP status"
    found = _EXIT.fullmatch(match)
    if found is None or int(found[1]) > 255 or int(found[2] or 0) > 255:
        return "is not an exit code from 0 to 255, or a range of them"
    if found[2] is not None and int(found[2]) < int(found[1]):
        return "is an empty range"
    return None


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """How many retries a run gets, their delays, and which errors are retried.

    The delay before the n-th retry (n from 1) is `initial x multiplier^(n-1)`, at most `cap`; or the n-th of `delays`,
    whose length is then also `max`. With `jitter` it is drawn uniformly from [delay/2, delay], with the same result for
    the same run and retry. `profile` gives values for what is left out: see PROFILES.

    The first of `rules` that matches the error of an attempt decides whether it is retried. No retry begins later than
    `deadline` after the run was due for the first time, or was requested.
    """

    max: int
    initial: timedelta
    multiplier: float
    cap: timedelta
    jitter: bool
    delays: tuple[timedelta, ...]
    rules: tuple[RetryRule, ...]
    deadline: timedelta | None

    def __init__(
        self,
        max: int | None = None,  # noqa: A002  the public name, see the interface
        initial: Duration | None = None,
        multiplier: float | None = None,
        cap: Duration = "15m",
        jitter: bool = False,
        delays: Sequence[Duration] = (),
        *,
        profile: Profile | str | None = None,
        rules: Sequence[RetryRule] = (),
        deadline: Duration | None = None,
    ) -> None:
        own = tuple(parse_duration(delay) for delay in delays)
        named = _profile(profile, own, multiplier)
        values = PROFILES[named]
        count = values.max if max is None else max
        first = parse_duration(values.initial if initial is None else initial)
        longest, growth = parse_duration(cap), values.multiplier if multiplier is None else multiplier
        if own:
            if max is not None and max != len(own):
                raise InvalidInput(f"retry.max is {max} but retry.delays has {len(own)} entries; leave retry.max out")
            count = len(own)
        if not 0 <= count <= 100:
            raise InvalidInput(f"retry.max is {count}; it must be 0 to 100")
        if not 1.0 <= growth <= 100.0:
            raise InvalidInput(f"retry.multiplier is {growth}; it must be 1.0 to 100.0")
        if named is Profile.FIBONACCI:
            own = tuple(_fibonacci(count, first, longest))
        if own:
            # With `delays` the other values have no effect; this makes equivalent policies equal.
            first, growth, longest = timedelta(seconds=30), 2.0, timedelta(minutes=15)
        limit = None if deadline is None else parse_duration(deadline)
        if limit == timedelta(0):
            raise InvalidInput("retry.deadline is 0s; for no retries write retry.max: 0")
        if len(rules) > MOST_RULES:
            raise InvalidInput(f"retry.rules has {len(rules)} rules; at most {MOST_RULES} are allowed")
        for name, value in (
            ("max", count),
            ("initial", first),
            ("multiplier", float(growth)),
            ("cap", longest),
            ("jitter", jitter),
            ("delays", own),
            ("rules", tuple(rules)),
            ("deadline", limit),
        ):
            object.__setattr__(self, name, value)

    def delay(self, retry: int, seed: str = "") -> timedelta:
        """The delay before retry number `retry` (from 1). `seed` makes the jitter repeatable."""
        if self.delays:
            plain = self.delays[min(retry, len(self.delays)) - 1]
        else:
            # The exponent is bounded: floats would overflow, and every multiplier has reached the cap long before.
            grown = self.initial.total_seconds() * self.multiplier ** min(retry - 1, 64)
            plain = min(timedelta(seconds=min(grown, self.cap.total_seconds())), self.cap)
        if not self.jitter:
            return plain
        return plain * random.Random(f"{seed}#{retry}").uniform(0.5, 1.0)

    def until(self, first_due: datetime) -> datetime | None:
        """When the deadline of a run's retries passes. `first_due` is when it was due for the first time, or was
        requested.
        """
        return None if self.deadline is None else first_due + self.deadline

    def rule_for(self, error_classes: Iterable[str]) -> RetryRule | None:
        """The first rule that matches."""
        names = tuple(error_classes)
        return next((rule for rule in self.rules if rule.matches(names)), None)


def _profile(profile: Profile | str | None, delays: Sequence[timedelta], multiplier: float | None) -> Profile:
    if profile is None:
        return Profile.DEFAULT
    try:
        named = Profile(profile)
    except ValueError:
        raise InvalidInput(f"retry.profile is {profile!r}; it must be one of {', '.join(Profile)}") from None
    if delays:
        raise InvalidInput("retry.profile has no effect with retry.delays; remove one of the two")
    if named is Profile.FIBONACCI and multiplier is not None:
        raise InvalidInput("retry.multiplier has no effect with the profile fibonacci; remove one of the two")
    return named


def _fibonacci(count: int, first: timedelta, longest: timedelta) -> Iterator[timedelta]:
    this, following = first, first
    for _ in range(count):
        yield min(this, longest)
        # Bounded, because a hundred terms would overflow.
        this, following = following, min(this + following, longest)

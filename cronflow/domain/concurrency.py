"""The limits that a job names: how many of its runs may execute at once, and how many may start per period.

A limit is a named one, which operators define and jobs share, or one of a key, which is a template over the run:
`{args.region}`, `{labels.team}` or `{job}`. `uses_of` resolves the templates of a run. The ids of limits begin with
their kind, so the value of a key never collides with a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.domain.job import Job

MOST_CONCURRENT = 100_000
MOST_LIMITS_OF_A_JOB = 10
LONGEST_KEY = 200
SHORTEST_INTERVAL = timedelta(milliseconds=1)
NAMED = "name:"
KEYED = "key:"
RATED = "rate:"
PERIODS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_RATE = re.compile(rf"([0-9]{{1,9}})\s*/\s*([{''.join(PERIODS)}])")
_FIELD = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"job|(args|labels)\.([^{}]+)")


class OnFull(StrEnum):
    """What happens to a fire that its limit does not allow to start."""

    QUEUE = "queue"
    SKIP = "skip"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` starts per `period`, spaced evenly; after a pause, `burst` of them may start at once."""

    count: int
    period: timedelta
    burst: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.count <= self.period / SHORTEST_INTERVAL:
            raise InvalidInput(Problem("", f"the rate {self} is out of range", "write 1/d to 1000/s"))
        if not 1 <= self.burst <= MOST_CONCURRENT:
            raise InvalidInput(f"burst is {self.burst}; it must be 1 to {MOST_CONCURRENT}")

    @property
    def interval_ms(self) -> int:
        """The milliseconds between two starts, rounded up."""
        return -(-self.period // (self.count * SHORTEST_INTERVAL))

    @property
    def tolerance_ms(self) -> int:
        """How many milliseconds a start may come before its theoretical time."""
        return (self.burst - 1) * self.interval_ms

    def __str__(self) -> str:
        """As users write it, without the burst."""
        unit = next((unit for unit, period in PERIODS.items() if period == self.period), f"{self.period}")
        return f"{self.count}/{unit}"


def parse_rate(text: str, burst: int = 1) -> Rate:
    """The rate of a text such as 100/m. Raises InvalidInput."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(Problem("", f"{text!r} is not a rate", f"write 100/m; periods are {', '.join(PERIODS)}"))
    return Rate(int(found[1]), PERIODS[found[2]], burst)


@dataclass(frozen=True, slots=True)
class KeyedConcurrency:
    """At most `limit` runs with the same value of `key` execute at the same time, whichever jobs they belong to."""

    key: str
    limit: int = 1
    on_full: OnFull = OnFull.QUEUE

    def __post_init__(self) -> None:
        check_template(self.key)
        check_concurrency(self.limit)


@dataclass(frozen=True, slots=True)
class KeyedRate:
    """At most `rate` starts of runs with the same value of `key`, whichever jobs they belong to; by default, of the job
    alone.
    """

    rate: Rate
    key: str = ""

    def __post_init__(self) -> None:
        if self.key:
            check_template(self.key)


def check_concurrency(limit: int) -> None:
    """Raises InvalidInput."""
    if not 1 <= limit <= MOST_CONCURRENT:
        raise InvalidInput(f"limit is {limit}; it must be 1 to {MOST_CONCURRENT}")


def check_template(key: str) -> None:
    """Raises InvalidInput unless it is a template that some run can resolve."""
    if not key.strip() or len(key) > LONGEST_KEY:
        raise InvalidInput(f"key has {len(key)} characters; it must have 1 to {LONGEST_KEY}, not only spaces")
    rest = _FIELD.sub("", key)
    if "{" in rest or "}" in rest:
        raise InvalidInput(Problem("", f"{key!r} has an unbalanced brace", 'write "{args.region}"'))
    for variable in _FIELD.findall(key):
        if not _VARIABLE.fullmatch(variable):
            remedy = "use {job}, {args.NAME} or {labels.NAME}"
            raise InvalidInput(Problem("", f"{{{variable}}} is not available in a key", remedy))


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A limit that a run needs a permit of. `limit` and `rate` are those of its job; a named limit has its own."""

    id: str
    limit: int | None = None
    rate: Rate | None = None
    on_full: OnFull = OnFull.QUEUE

    @property
    def name(self) -> str | None:
        """The name of a named limit, None for a key."""
        return name_of(self.id)

    def __str__(self) -> str:
        return label_of(self.id)


def named_id(name: str) -> str:
    """The id of a named limit."""
    return NAMED + name


def name_of(limit: str) -> str | None:
    """The name in the id of a named limit, None for other ids."""
    return limit.removeprefix(NAMED) if limit.startswith(NAMED) else None


def label_of(limit: str) -> str:
    """The limit with this id as people read it: `limit database`, `key eu`, `rate 100/m of job report`."""
    if limit.startswith(NAMED):
        return f"limit {limit.removeprefix(NAMED)}"
    if limit.startswith(KEYED):
        return f"key {limit.removeprefix(KEYED)}"
    rate, _, holder = limit.removeprefix(RATED).partition(":")
    return f"rate {rate} of {holder.replace(':', ' ', 1)}"


def uses_of(job: Job, args: Mapping[str, object] | None = None) -> tuple[LimitUse, ...]:
    """The limits of a run of the job, in the order in which their permits are acquired. `args` are those of the run,
    added to those of the job.

    Every process orders them alike, so two runs never wait for each other. Rates come last, because an unused start of
    a rate is not given back. Raises InvalidInput if the run lacks a part of a key.
    """
    if not job.has_limits:
        return ()
    own = getattr(job.target, "args", {})
    found: dict[str, LimitUse] = {}
    for use in _uses(job, {**own, **(args or {})}):
        other = found.get(use.id)
        # Two templates may have the same value: the lower limit applies.
        if other is None or (use.limit or 0) < (other.limit or 0):
            found[use.id] = use
    return tuple(sorted(found.values(), key=lambda use: (use.rate is not None, use.name is not None, use.id)))


def _uses(job: Job, args: Mapping[str, object]) -> Iterator[LimitUse]:
    for one in job.concurrency:
        if isinstance(one, str):
            yield LimitUse(named_id(one))
        else:
            yield LimitUse(KEYED + resolved(one.key, job, args), one.limit, on_full=one.on_full)
    if job.rate is not None:
        rate = job.rate.rate
        of = f"key:{resolved(job.rate.key, job, args)}" if job.rate.key else f"job:{job.name}"
        # Another rate is another limit: the times of its starts do not depend on those of this one.
        burst = f"+{rate.burst}" if rate.burst > 1 else ""
        yield LimitUse(f"{RATED}{rate}{burst}:{of}", rate=rate)


def resolved(key: str, job: Job, args: Mapping[str, object]) -> str:
    """The value of a key. Raises InvalidInput if a part is missing, or is not text, a number, true or false."""

    def part(found: re.Match[str]) -> str:
        variable = found[1]
        if variable == "job":
            return job.name
        source, _, name = variable.partition(".")
        values: Mapping[str, object] = args if source == "args" else job.labels
        if name not in values:
            what = "argument" if source == "args" else "label"
            raise InvalidInput(Problem("", f"the key {key!r} needs the {what} {name!r}", f"give the run this {what}"))
        value = values[name]
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float):
            what = f"the key {key!r} needs text or a number, and {variable} is {type(value).__name__}"
            raise InvalidInput(Problem("", what, "use another argument"))
        return str(value)

    text = _FIELD.sub(part, key)
    if len(text) > LONGEST_KEY or not text.isprintable():
        what = f"the key {key!r} has a value of {len(text)} characters"
        raise InvalidInput(Problem("", what, f"it must have at most {LONGEST_KEY}, and no control characters"))
    return text


def limit_problems(job: Job) -> list[Problem]:
    """Keys that no run of the job can resolve. Runs on request may bring arguments of their own, so the arguments of a
    job without a schedule are not checked.
    """
    problems = []
    keys = [(f"concurrency[{n}].key", one.key) for n, one in enumerate(job.concurrency) if not isinstance(one, str)]
    if job.rate is not None and job.rate.key:
        keys.append(("rate.key", job.rate.key))
    for place, key in keys:
        if job.schedule is None and "{args." in key:
            continue
        try:
            resolved(key, job, getattr(job.target, "args", {}))
        except InvalidInput as error:
            problems += [Problem(place, problem.what, problem.remedy) for problem in error.problems]
    return problems

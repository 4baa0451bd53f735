"""Every error that CronFlow raises on purpose: one base class and a few children.

The message is a sentence for a person, and its parts are attributes. Errors of drivers and web frameworks are converted
where they occur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

MOST_PROBLEMS = 20
"""At most this many problems of an input are reported, and code that collects them stops there."""


class CronFlowError(Exception):
    """Base of all errors of CronFlow."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of an input: where, what, and what to do about it.

    `place` is a path such as `jobs[0].schedule.cron`, after the file and line if the input has them.
    """

    place: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.what}" if self.place else self.what
        return f"{text} ({self.remedy})" if self.remedy else text


class InvalidInput(CronFlowError):
    """The input is invalid, and none of it was applied. `problems` has all problems in order; if there are more than
    MOST_PROBLEMS, the last one says so.
    """

    def __init__(self, problems: Sequence[Problem] | Problem | str) -> None:
        if isinstance(problems, str):
            problems = Problem("", problems)
        found = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if len(found) > MOST_PROBLEMS:
            found = (*found[: MOST_PROBLEMS - 1], Problem("", "there are more problems", "fix these first"))
        self.problems: tuple[Problem, ...] = found
        super().__init__("\n".join(map(str, found)))


class NotFound(CronFlowError):
    """The object does not exist. `kind` is for example job, run or node; without a `name` the cluster has none."""

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind, self.name = kind, name
        super().__init__(f"there is no {kind} {name!r}" if name else f"the cluster has no {kind}")


class Conflict(CronFlowError):
    """Another client changed or holds the same object. Read it again and retry."""


class TooSoon(CronFlowError):
    """Too many requests; retry in `retry_in_s` seconds."""

    def __init__(self, retry_in_s: float) -> None:
        self.retry_in_s = retry_in_s
        super().__init__(f"too many requests; try again in {max(1, math.ceil(retry_in_s))} s")


class BackendUnavailable(CronFlowError):
    """A server did not answer, or replied that it cannot serve now. Whether the request took effect is unknown.

    `service` is "Redis" or "MongoDB".
    """

    def __init__(self, service: str, address: str, reason: str) -> None:
        self.service, self.address, self.reason = service, address, reason
        super().__init__(f"{service} at {address} is unavailable: {reason}")


class AccessDenied(BackendUnavailable):
    """The server answers but refuses this process, for example for a wrong password or a missing right, or its
    certificate is not trusted. Waiting does not help; `remedy` does.
    """

    def __init__(self, service: str, address: str, reason: str, remedy: str) -> None:
        super().__init__(service, address, reason)
        self.remedy = remedy
        self.args = (f"{service} at {address} denies access: {reason}",)


class Deposed(CronFlowError):
    """A newer leader exists, so this one must stop."""


class PermanentError(CronFlowError):
    """Raise it in a job when no retry would help. The run fails at once and becomes a dead letter."""


class RetryLater(CronFlowError):
    """Raise it in a job to retry after `delay`, not after the job's own back-off. It uses up a retry.

    The delay is a `timedelta`, a number of seconds, or text such as `10m`. Raises ValueError if it is not a duration.
    """

    def __init__(self, delay: timedelta | float | str, reason: str = "") -> None:
        # Imported here: `durations` raises the errors of this module.
        from cronflow.domain.durations import parse_duration

        try:
            self.delay = parse_duration(delay)
        except InvalidInput as refused:
            raise ValueError(f"RetryLater: {refused}") from None
        self.reason = reason
        super().__init__(reason or f"try again in {self.delay.total_seconds():g} s")


class Skip(CronFlowError):
    """Raise it in a job when there is nothing to do. The run ends as skipped, with this reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

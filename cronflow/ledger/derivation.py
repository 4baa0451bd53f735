"""Derives the instants that were due, from the versions of a job as the API returns them and as a ledger file has them.

The rule: only the schedule oracle decides what was due. Spans of time are derived in slices, so that memory does not
depend on their length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

from cronflow.documents.calendars import parse_calendar
from cronflow.documents.schedules import parse_schedule
from cronflow.domain.schedule.fires import is_dynamic
from cronflow.domain.schedule.kinds import Schedule, bound, named
from cronflow.testing.audit import Expectation
from cronflow.testing.schedule_oracle import fires_between

SLICE = timedelta(days=1)


class LedgerSpan(NamedTuple):
    """The time of a ledger: `last` is not included."""

    first: datetime
    last: datetime


class DueInstant(NamedTuple):
    """An instant, and the number of the version under which it was due."""

    at: datetime
    version: int


@dataclass(frozen=True, slots=True)
class LedgerVersion:
    """A version and what was due under it; `expected` None: nothing. `dynamic`: its instants followed from when its
    runs ended, so nobody can derive them.
    """

    number: int
    text: str
    expected: Expectation | None
    dynamic: bool

    def has(self, instant: datetime) -> bool:
        """Whether the instant lies in its span."""
        span = self.expected
        return span is not None and span.since <= instant and (span.until is None or instant < span.until)


def read_version(job: str, version: Mapping[str, Any]) -> LedgerVersion:
    """A version from an object as in `LedgerVersionSchema`. Raises InvalidInput for a wrong schedule or calendar."""
    schedule = bound_schedule(job, version["schedule"], version["calendars"])
    since, until = version["since"], version["until"]
    expected = None
    if schedule is not None and since is not None:
        end = None if until is None else datetime.fromisoformat(until)
        expected = Expectation(schedule, datetime.fromisoformat(since), end)
    dynamic = schedule is not None and is_dynamic(schedule)
    return LedgerVersion(version["version"], version["text"], expected, dynamic)


def bound_schedule(job: str, schedule: object, calendars: Sequence[object]) -> Schedule | None:
    """The schedule of a document as the job has it, with these calendars. Raises InvalidInput."""
    if schedule is None:
        return None
    return bound(named(parse_schedule(schedule), job), [parse_calendar(one) for one in calendars])


def due_instants(versions: Sequence[LedgerVersion], span: LedgerSpan) -> Iterator[DueInstant]:
    """The instants of the span, ascending. An instant belongs to one version."""
    due = merge(*(_due(version, span) for version in versions if not version.dynamic), key=itemgetter(0))
    before: datetime | None = None
    for one in due:
        if one.at != before:
            yield one
        before = one.at


def _due(version: LedgerVersion, span: LedgerSpan) -> Iterator[DueInstant]:
    expected = version.expected
    if expected is None:
        return
    first, last = max(span.first, expected.since), min(span.last, expected.until or span.last)
    while first < last:
        end = min(first + SLICE, last)
        for at in fires_between(expected.schedule, first, end):
            yield DueInstant(at, version.number)
        first = end

"""The versions of a job: its schedule at each time, so that `explain` can answer for instants in the past.

Each edit, pause, resume and deletion creates a version. Rule: an instant belongs to exactly one version. A version
covers the instants from its first cursor (`since`) up to the next version: without those that were not due by then, and
without those from the next version's cursor on. `usecases.edit` stores the versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from cronflow.domain.job import Job, JobRecord
from cronflow.domain.schedule.fires import is_dynamic, last_before, next_after
from cronflow.domain.schedule.zones import SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A job from `at` on. `since` None: it had no cursor, so nothing falls due under it. `until`: the first instant
    that it does not have any more, because it has reached `max_runs`; `closed` is that of the version before.
    """

    job: Job
    ver: int
    at: datetime
    since: datetime | None
    paused: bool = False
    deleted: bool = False
    by: str = ""
    closed: datetime | None = None
    until: datetime | None = None

    @property
    def held(self) -> Literal["deleted", "disabled", "paused"] | None:
        """Why its fires are not run: deleted, disabled or paused."""
        if self.deleted:
            return "deleted"
        if not self.job.enabled:
            return "disabled"
        return "paused" if self.paused else None


def version_of(record: JobRecord) -> Version:
    """The present version. But for `until`, it depends only on what an edit changes, so any process may store it at any
    time; the next version has its final `until` as `closed`.
    """
    return Version(
        job=record.job,
        ver=record.ver,
        at=record.updated_at,
        since=record.since,
        paused=record.paused,
        deleted=record.deleted_at is not None,
        by=record.edited_by,
        closed=record.closed,
        until=record.exhausted_from,
    )


def version_due(versions: Sequence[Version], instant: datetime) -> Version | None:
    """The version under which the instant fell or will fall due, or None."""
    for place, version in enumerate(versions):
        if version.job.schedule is None or version.since is None or instant < version.since:
            continue
        until = end_of(versions, place)
        if (until is None or instant < until) and _is_fire(version, instant):
            return version
    return None


def version_at(versions: Sequence[Version], instant: datetime) -> Version | None:
    """The version that was in force; None before the first."""
    return next((version for version in reversed(versions) if version.at <= instant), None)


def nearest(versions: Sequence[Version], instant: datetime) -> tuple[datetime | None, datetime | None]:
    """The last instant before and the first one after this one that fell due under any version. What depends on when
    runs end cannot be found this way.
    """
    before: list[datetime] = []
    after: list[datetime] = []
    for place, version in enumerate(versions):
        schedule, since, until = version.job.schedule, version.since, end_of(versions, place)
        if schedule is None or since is None or is_dynamic(schedule):
            continue
        last = instant - SECOND if until is None else min(instant, until) - SECOND
        earlier = last_before(schedule, last, not_before=since)
        if earlier is not None:
            before.append(earlier)
        later = next_after(schedule, max(instant, since - SECOND))
        if later is not None and (until is None or later < until):
            after.append(later)
    return max(before, default=None), min(after, default=None)


def end_of(versions: Sequence[Version], place: int) -> datetime | None:
    """The first instant after a version; None for the present one, unless it has had all of its runs."""
    own = versions[place].until
    if place + 1 == len(versions):
        return own
    following = versions[place + 1]
    fallen_due = following.at.replace(microsecond=0) + SECOND
    ends = (fallen_due, following.since, following.closed, own)
    return min(end for end in ends if end is not None)


def _is_fire(version: Version, instant: datetime) -> bool:
    return (
        version.job.schedule is not None and last_before(version.job.schedule, instant, not_before=instant) == instant
    )

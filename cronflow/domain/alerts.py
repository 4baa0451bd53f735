"""Alerts: rules that send notifications about jobs and the cluster to webhooks.

Rules: the id of a notification is derived from its alert, kind and subject alone, so finding the same subject again
creates the same notification. A run becomes a dead letter once, so an alert reports it once. A notification that its
receiver does not accept is retried for a day, with growing delays.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from cronflow.domain.access import check_patterns
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import check_name
from cronflow.domain.run import DEAD, SCHEDULED, Run, RunState
from cronflow.domain.schedule.fires import last_before
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.secret import refuse_references
from cronflow.domain.thresholds import DeadLetterLimits

MOST_PATTERNS = 100
MOST_RETRIES = 100
LONGEST_URL = 2000
SHORTEST_LATE, LONGEST_LATE = timedelta(seconds=1), timedelta(days=7)
SHORTEST_LEADERLESS, LONGEST_LEADERLESS = timedelta(seconds=5), timedelta(days=1)
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=15)
GIVE_UP_AFTER = timedelta(hours=24)
KEPT = timedelta(days=30)
"""How long a notification is kept after it was delivered or given up."""

_SECRET = re.compile(r"\$\{secret:[A-Za-z0-9][A-Za-z0-9._-]{0,99}\}")


class AlertKind(StrEnum):
    """What an alert reports."""

    FAILED = "failed"
    RECOVERED = "recovered"
    DEAD_LETTER = "dead_letter"
    LATE = "late"
    NO_LEADER = "no_leader"
    RUNNING_LONG = "running_long"
    RETRIES = "retries"
    DEAD_LETTERS = "dead_letters"
    RETRY_RATE = "retry_rate"
    REPORT = "report"


DEAD_LETTER_KINDS = frozenset({AlertKind.FAILED, AlertKind.DEAD_LETTER})


@dataclass(frozen=True, slots=True)
class Webhook:
    """The receiver of notifications. `secret` is a reference to the secret that signs them, `${secret:NAME}`."""

    url: str
    secret: str | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[^/?#\s@]+([/?#]\S*)?", self.url):
            remedy = "write https://host/path, without user, password or spaces"
            raise InvalidInput(Problem("", "not an http:// or https:// address", remedy))
        if len(self.url) > LONGEST_URL:
            raise InvalidInput(f"an address has at most {LONGEST_URL:,} characters, this one has {len(self.url):,}")
        refuse_references(self.url, "an address", "sign the notifications with `secret` instead")
        if self.secret is not None and not _SECRET.fullmatch(self.secret):
            remedy = "run `cronflow secrets set NAME` and write ${secret:NAME}"
            raise InvalidInput(Problem("", "a signing secret is given by its name", remedy))


class Weekday(StrEnum):
    """A day of the week."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


WEEK = timedelta(days=7)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True)
class ReportTime:
    """When a weekly report is sent: a day and a time of day in a zone."""

    day: Weekday = Weekday.MONDAY
    time: str = "08:00"
    tz: str = "UTC"

    def __post_init__(self) -> None:
        if not _TIME.fullmatch(self.time):
            raise InvalidInput(Problem("", f"{self.time!r} is not a time of day", "write it like 08:00"))
        self.latest(datetime(2026, 1, 1, tzinfo=UTC))

    def latest(self, now: datetime) -> datetime:
        """The latest instant at which a report was due. Raises InvalidInput for an unknown time zone."""
        hour, minute = self.time.split(":")
        schedule = Cron(f"{int(minute)} {int(hour)} * * {self.day[:3].upper()}", tz=self.tz)
        # A time that a change to summer time skips is not due in that week.
        found = last_before(schedule, now, not_before=now - 3 * WEEK)
        assert found is not None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A rule. `jobs` are patterns of names; without any it covers all jobs. A fire is late when no attempt of it has
    started within `late_after`. The leader is missing when its renewal is overdue by `no_leader_after`. A run with more
    than `retries` retries is reported, and a share of retries above `retry_rate` among the attempts of the last hour.
    """

    name: str
    on: tuple[AlertKind, ...]
    webhook: Webhook
    jobs: tuple[str, ...] = ()
    late_after: timedelta = timedelta(minutes=5)
    no_leader_after: timedelta = timedelta(minutes=1)
    retries: int = 2
    dead_letters: DeadLetterLimits = field(default_factory=DeadLetterLimits)
    retry_rate: float = 0.2
    report: ReportTime = field(default_factory=ReportTime)
    enabled: bool = True

    def __post_init__(self) -> None:
        check_name(self.name, "alert")
        if not self.on:
            raise InvalidInput(Problem("", "on is empty", f"name at least one of {', '.join(AlertKind)}"))
        if len(set(self.on)) < len(self.on):
            raise InvalidInput(Problem("", "on has a kind twice", "remove one of the two"))
        if AlertKind.RECOVERED in self.on and not DEAD_LETTER_KINDS & set(self.on):
            what = "on has recovered, but no kind that a job could recover from"
            raise InvalidInput(Problem("", what, "add failed or dead_letter"))
        if AlertKind.RETRY_RATE in self.on and self.jobs:
            what = "on has retry_rate, which counts the attempts of all jobs, and jobs is given"
            raise InvalidInput(Problem("", what, "define an alert of its own for retry_rate, without jobs"))
        if not 0 <= self.retries <= MOST_RETRIES:
            raise InvalidInput(f"retries is {self.retries}; it must be 0 to {MOST_RETRIES}")
        if not 0 < self.retry_rate < 1:
            raise InvalidInput(f"retry_rate is {self.retry_rate:g}; it is a share, such as 0.2, between 0 and 1")
        if len(self.jobs) > MOST_PATTERNS:
            raise InvalidInput(f"jobs has {len(self.jobs)} patterns; at most {MOST_PATTERNS} are allowed")
        check_patterns(self.jobs, "")
        _within("late_after", self.late_after, SHORTEST_LATE, LONGEST_LATE)
        _within("no_leader_after", self.no_leader_after, SHORTEST_LEADERLESS, LONGEST_LEADERLESS)

    def wants(self, *kinds: AlertKind) -> bool:
        """Whether it is enabled for at least one of these kinds."""
        return self.enabled and not set(kinds).isdisjoint(self.on)

    def concerns(self, job: str) -> bool:
        """Whether it covers the job."""
        return not self.jobs or any(fnmatchcase(job, pattern) for pattern in self.jobs)

    def retried_too_often(self, run: Run) -> bool:
        """Whether it reports a run for its retries."""
        return self.wants(AlertKind.RETRIES) and run.attempt - 1 > self.retries and self.concerns(run.job)

    def dead_letter_kind(self, run: Run) -> AlertKind | None:
        """How this alert reports a failed or lost run: as FAILED or DEAD_LETTER, never as both; None: not at all."""
        if run.state not in DEAD or not self.enabled or not self.concerns(run.job):
            return None
        if run.state is RunState.FAILED and AlertKind.FAILED in self.on:
            return AlertKind.FAILED
        return AlertKind.DEAD_LETTER if AlertKind.DEAD_LETTER in self.on else None


def _within(place: str, value: timedelta, shortest: timedelta, longest: timedelta) -> None:
    if not shortest <= value <= longest:
        bounds = f"it must be {format_duration(shortest)} to {format_duration(longest)}"
        raise InvalidInput(f"{place} is {format_duration(value)}; {bounds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """An alert's document. `rev` counts its edits. Nothing before `since` is reported: then the alert was created or
    enabled, or its kinds or jobs changed. Fires up to `judged` have been checked for lateness.
    """

    alert: Alert
    rev: int = 0
    since: datetime
    judged: datetime
    created_at: datetime
    updated_at: datetime
    updated_by: str = ""

    @property
    def name(self) -> str:
        """The alert's name, which is also the record's id."""
        return self.alert.name


def begins_anew(before: Alert, after: Alert) -> bool:
    """Whether an edit makes an alert report what it did not report before."""
    return (before.on, before.jobs, before.enabled) != (after.on, after.jobs, after.enabled)


@dataclass(frozen=True, slots=True)
class Failing:
    """A job whose latest failure an alert has reported, and which has not succeeded since."""

    alert: str
    job: str
    run: str
    fire_at: datetime
    ended_at: datetime

    @property
    def place(self) -> str:
        """Its unique key: alert and job, whose names contain no `/`."""
        return f"{self.alert}/{self.job}"

    def recovered_by(self, runs: Sequence[Run]) -> Run | None:
        """The first of these runs that succeeded after the failure."""
        good = [
            (run.ended_at, run.id, run)
            for run in runs
            if run.state is RunState.SUCCEEDED and run.ended_at is not None and run.ended_at > self.ended_at
        ]
        return min(good, key=lambda row: row[:2])[2] if good else None


class NotificationState(StrEnum):
    """A waiting notification is tried again."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GAVE_UP = "gave_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message of an alert. `body` is the JSON that is sent, the same in each attempt; `status` and `error` are the
    result of the latest attempt, `claim` identifies the attempt in progress.
    """

    id: str
    alert: str
    kind: AlertKind
    subject: str
    job: str | None
    body: str
    created_at: datetime
    state: NotificationState = NotificationState.WAITING
    attempts: int = 0
    claim: str | None = None
    tried_at: datetime | None = None
    ended_at: datetime | None = None
    status: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a receiver. `error` is why it was not reached, or the beginning of a response that is not 2xx;
    None: it has accepted the notification.
    """

    status: int | None
    error: str | None
    ms: int

    @property
    def taken(self) -> bool:
        """Whether the receiver has accepted it."""
        return self.error is None


def notification_id(alert: str, kind: AlertKind, subject: str) -> str:
    """Derived from the subject, so that every node finds the same id. It is also the `webhook-id`: no dots."""
    return "msg_" + hashlib.sha256(f"{alert}\n{kind}\n{subject}".encode()).hexdigest()[:32]


def next_delay(attempts: int, created_at: datetime, now: datetime) -> timedelta | None:
    """The delay after `attempts` failed attempts; None: give up."""
    delay = min(FIRST_DELAY * 2 ** min(attempts - 1, 10), LONGEST_DELAY)
    return None if now + delay > created_at + GIVE_UP_AFTER else delay


def is_late(run: Run, after: timedelta) -> bool:
    """Whether a scheduled run that is older than `after` did not start within it. A run that was cancelled or skipped
    for overlap is not late; one that was skipped as missed is.
    """
    if run.kind not in SCHEDULED:
        return False
    starts = [attempt.started_at for attempt in run.attempts if attempt.started_at is not None]
    first = starts[0] if starts else run.started_at
    if first is not None:
        return first - run.fire_at > after
    return run.is_open or run.state in DEAD or (run.state is RunState.SKIPPED and run.reason == "misfire")

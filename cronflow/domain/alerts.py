"""Alerts: rules that send notifications about jobs and the cluster to webhooks and by e-mail.

Rules: the id of a notification is derived from its alert, kind and subject alone, so finding the same subject again
creates the same notification. A run becomes a dead letter once, so an alert reports it once. A notification that its
receiver does not accept is retried for a day, with growing delays; a sign of life is worthless earlier.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from cronflow.domain.access import check_patterns
from cronflow.domain.alert_grouping import Grouping, QuietTime, is_held
from cronflow.domain.alert_kinds import DEAD_LETTER_KINDS, PINGED, AlertKind, give_up_after
from cronflow.domain.alert_receivers import Email, Webhook, WebhookFormat
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import check_name
from cronflow.domain.run import DEAD, SCHEDULED, Run, RunState
from cronflow.domain.schedule.fires import last_before
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.thresholds import DeadLetterLimits
from cronflow.domain.weekdays import TIME_OF_DAY, Weekday

MOST_PATTERNS = 100
MOST_RETRIES = 100
SHORTEST_LATE, LONGEST_LATE = timedelta(seconds=1), timedelta(days=7)
SHORTEST_LEADERLESS, LONGEST_LEADERLESS = timedelta(seconds=5), timedelta(days=1)
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=15)
SHORTEST_BEAT, LONGEST_BEAT = timedelta(seconds=30), timedelta(days=1)
SHORTEST_LIMIT_WAIT, LONGEST_LIMIT_WAIT = timedelta(minutes=1), timedelta(days=7)
WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ReportTime:
    """When a weekly report is sent: a day and a time of day in a zone."""

    day: Weekday = Weekday.MONDAY
    time: str = "08:00"
    tz: str = "UTC"

    def __post_init__(self) -> None:
        if not TIME_OF_DAY.fullmatch(self.time):
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
    A run that has waited for a named limit for `limit_wait_after` is reported. A heartbeat is sent every
    `heartbeat_every`. It has one receiver: `webhook` or `email`. `group` and `quiet` hold notifications, see
    `alert_grouping`.
    """

    name: str
    on: tuple[AlertKind, ...]
    webhook: Webhook | None = None
    email: Email | None = None
    jobs: tuple[str, ...] = ()
    late_after: timedelta = timedelta(minutes=5)
    no_leader_after: timedelta = timedelta(minutes=1)
    retries: int = 2
    dead_letters: DeadLetterLimits = field(default_factory=DeadLetterLimits)
    retry_rate: float = 0.2
    report: ReportTime = field(default_factory=ReportTime)
    limit_wait_after: timedelta = timedelta(minutes=15)
    heartbeat_every: timedelta = timedelta(minutes=1)
    group: Grouping | None = None
    quiet: QuietTime | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        check_name(self.name, "alert")
        self._check_receiver()
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
        _within("limit_wait_after", self.limit_wait_after, SHORTEST_LIMIT_WAIT, LONGEST_LIMIT_WAIT)
        _within("heartbeat_every", self.heartbeat_every, SHORTEST_BEAT, LONGEST_BEAT)
        if AlertKind.SUCCEEDED in self.on and (not self.jobs or any(set(name) & set("*?[") for name in self.jobs)):
            what = "on has succeeded, and jobs has patterns or is empty"
            raise InvalidInput(Problem("", what, "list the names of the jobs in jobs"))

    def _check_receiver(self) -> None:
        if (self.webhook is None) == (self.email is None):
            both = "webhook and email are both given" if self.webhook else "neither webhook nor email is given"
            raise InvalidInput(Problem("", both, "give one of the two; define one alert for each receiver"))
        if self.webhook is not None and self.webhook.format is WebhookFormat.PING:
            if other := [kind for kind in self.on if kind not in PINGED]:
                what = f"a ping cannot report {', '.join(other)}"
                raise InvalidInput(Problem("", what, f"use only {', '.join(sorted(PINGED))} with format: ping"))
            if self.group is not None or self.quiet is not None:
                raise InvalidInput(Problem("", "pings are never held", "remove group and quiet"))

    def wants(self, *kinds: AlertKind) -> bool:
        """Whether it is enabled for at least one of these kinds."""
        return self.enabled and not set(kinds).isdisjoint(self.on)

    def holds(self, kind: AlertKind, at: datetime) -> bool:
        """Whether a notification of this kind that is created now waits for a digest."""
        return is_held(self.group, self.quiet, kind, at)

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
    """A waiting notification is tried again. A held one waits for its digest; a grouped one is part of a digest, which
    is a notification itself.
    """

    WAITING = "waiting"
    HELD = "held"
    GROUPED = "grouped"
    DELIVERED = "delivered"
    GAVE_UP = "gave_up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message of an alert. `body` is the JSON that is sent, the same in each attempt; `status` and `error` are the
    result of the latest attempt, `claim` identifies the attempt in progress. A digest has a `number`, the `group` that
    it is about and the ids of its `members`; each of these has the id of its `digest`.
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
    number: int | None = None
    group: str | None = None
    members: tuple[str, ...] = ()
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The response of a receiver. `error` is why it was not reached, or the beginning of its refusal; None: it has
    accepted the notification. A `final` refusal is not worth another attempt. A mail server may accept a message for
    some recipients: then it is `partly` accepted, and `error` has the others.
    """

    status: int | None
    error: str | None
    ms: int
    final: bool = False
    partly: bool = False

    @property
    def taken(self) -> bool:
        """Whether the receiver has accepted it."""
        return self.error is None or self.partly


class SampleAnswer(NamedTuple):
    """The answer to the sample of a kind, and the id of its notification."""

    kind: str
    id: str
    answer: Answer


def overall(answers: Sequence[SampleAnswer]) -> SampleAnswer:
    """The first answer that is no acceptance, or the last one."""
    return next((one for one in answers if not one.answer.taken), answers[-1])


def notification_id(alert: str, kind: AlertKind, subject: str) -> str:
    """Derived from the subject, so that every node finds the same id. It is also the `webhook-id`: no dots."""
    return "msg_" + hashlib.sha256(f"{alert}\n{kind}\n{subject}".encode()).hexdigest()[:32]


def next_delay(attempts: int, created_at: datetime, now: datetime, kind: AlertKind) -> timedelta | None:
    """The delay after `attempts` failed attempts; None: give up."""
    delay = min(FIRST_DELAY * 2 ** min(attempts - 1, 10), LONGEST_DELAY)
    return None if now + delay > created_at + give_up_after(kind) else delay


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

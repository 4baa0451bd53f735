"""The bodies of notifications: their JSON, declared once, and their sentences for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired

import orjson
from typing_extensions import TypedDict

from cronflow.documents.values import instant_text
from cronflow.domain.alert_grouping import QUIET, digest_id, most_frequent
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alerts import Alert, AlertRecord, Failing, Notification, NotificationState, notification_id
from cronflow.domain.failures import Failure
from cronflow.domain.long_runs import LongRun, seconds
from cronflow.domain.placement import Waiting
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.domain.thresholds import AlertLevel, Crossing

MOST_OF_ERROR = 500
MOST_REASONS = 20
MOST_JOBS = 20
"""In a report: reasons, and jobs of each."""
MOST_EXAMPLES = 10
TEST = "test"
WATCHER = "watcher"
"""The kind of the messages of `cronflow watcher`."""


class MessageRunForm(TypedDict):
    """A run in a notification."""

    id: str
    """Its id."""
    state: RunState
    """Its state."""
    kind: Kind
    """Why it was created."""
    fire_at: str
    """The fire that it belongs to."""
    attempt: int
    """Its latest attempt."""
    max_attempts: int
    """The most attempts it may have."""
    outcome: Outcome | None
    """The outcome of the latest attempt."""
    error: str | None
    """The error, at most 500 characters."""
    reason: str | None
    """Why it did not run."""
    node: str | None
    """The node that ran it last."""
    started_at: str | None
    """When its latest attempt started."""
    ended_at: str | None
    """When the run ended."""


class MessageFailureForm(TypedDict):
    """Runs that failed for the same reason, in a report."""

    reason: str
    """The error without what differs between the runs."""
    count: int
    """How many runs."""
    open: int
    """How many of them are still dead letters."""
    jobs: dict[str, int]
    """How many runs by job."""
    example: str
    """The latest run."""


class MessageReportForm(TypedDict):
    """A weekly report in a notification."""

    since: str
    """Its first instant."""
    until: str
    """Its end."""
    runs: int
    """How many runs of this time failed or were lost."""
    open: int
    """How many of them are still dead letters."""
    failures: list[MessageFailureForm]
    """By reason, the most frequent first; at most 20."""
    more: bool
    """Whether there are more reasons, or more runs than were looked at."""


class MessageExampleForm(TypedDict):
    """A notification in a digest."""

    kind: str
    """What happened."""
    at: str
    """When it happened."""
    job: str | None
    """The job, if there is one."""
    run: str | None
    """The run, if there is one."""
    text: str
    """A sentence for people."""


class MessageDigestForm(TypedDict):
    """Notifications that were combined."""

    group: str
    """What they have in common, such as `job=billing-sums`; `quiet` after a quiet time."""
    count: int
    """How many notifications."""
    kinds: dict[str, int]
    """How many by kind, the most frequent first."""
    jobs: dict[str, int]
    """How many by job, the most frequent first; at most 20."""
    examples: list[MessageExampleForm]
    """The first of them, at most 10."""


class MessageDetails(TypedDict, total=False):
    """What a notification is about, besides a job and a run."""

    level: str
    """`warn`, `critical`, or `ok` when it is over."""
    figure: float
    """The number of dead letters, or the share of retries."""
    threshold: float
    """The threshold that was crossed."""
    report: MessageReportForm
    """The report, if it is one."""
    node: str
    """The node that was lost."""
    limit: str
    """The named limit that a run waits for."""
    digest: MessageDigestForm
    """The notifications that it combines, if it is a digest."""
    finding: str
    """What a watcher found, such as `mongodb_away`."""
    test: bool
    """True: a sample, sent by `cronflow alerts test`."""


class MessageForm(MessageDetails):
    """The body of a notification."""

    id: str
    """The same as in the header `webhook-id`."""
    alert: str
    """The alert."""
    kind: str
    """What happened: a condition of the alert, such as `failed`; `test`; or `watcher`."""
    at: str
    """When it happened."""
    namespace: str
    """The cluster."""
    job: NotRequired[str]
    """The job, if there is one."""
    run: NotRequired[MessageRunForm]
    """The run, if there is one."""
    text: str
    """A sentence for people."""


def message(
    notification: str,
    alert: str,
    kind: str,
    at: datetime,
    namespace: str,
    text: str,
    job: str | None = None,
    run: Run | None = None,
    details: MessageDetails | None = None,
) -> str:
    """The body of a notification, as JSON."""
    body: MessageForm = {
        "id": notification,
        "alert": alert,
        "kind": kind,
        "at": instant_text(at),
        "namespace": namespace,
        "text": text,
    }
    if job is not None:
        body["job"] = job
    if run is not None:
        body["run"] = _run(run)
    if details is not None:
        body |= details  # type: ignore[typeddict-item]
    return orjson.dumps(body).decode()


def notification_of(
    record: AlertRecord,
    kind: AlertKind,
    subject: str,
    at: datetime,
    namespace: str,
    text: str,
    *,
    created_at: datetime,
    job: str | None = None,
    run: Run | None = None,
    details: MessageDetails | None = None,
) -> Notification:
    """A new notification of the alert about the subject."""
    name = notification_id(record.name, kind, subject)
    held = record.alert.holds(kind, created_at)
    return Notification(
        id=name,
        alert=record.name,
        kind=kind,
        subject=subject,
        job=job,
        body=message(name, record.name, kind, at, namespace, text, job, run, details),
        created_at=created_at,
        state=NotificationState.HELD if held else NotificationState.WAITING,
    )


def digest_of(
    record: AlertRecord, number: int, group: str, members: Sequence[Notification], at: datetime
) -> Notification:
    """The digest with this number, whose body has all members in figures and some as examples. One member keeps its own
    body, with the id of the digest.
    """
    name = digest_id(record.name, number, record.created_at)
    bodies = [orjson.loads(member.body) for member in members]
    kind = most_frequent([member.kind for member in members])
    jobs = Counter(member.job for member in members if member.job is not None)
    if len(members) == 1:
        body = {**bodies[0], "id": name}
    else:
        kinds = Counter(member.kind.value for member in members)
        counts = ", ".join(f"{count:,} {word.replace('_', ' ')}" for word, count in kinds.most_common())
        about = "" if group in ("", QUIET) else f" of {group}"
        over = f"{instant_text(members[0].created_at)} to {instant_text(members[-1].created_at)}"
        digest: MessageDigestForm = {
            "group": group,
            "count": len(members),
            "kinds": dict(kinds.most_common()),
            "jobs": dict(jobs.most_common(MOST_JOBS)),
            "examples": [
                {
                    "kind": one["kind"],
                    "at": one["at"],
                    "job": one.get("job"),
                    "run": one["run"]["id"] if "run" in one else None,
                    "text": one["text"][:MOST_OF_ERROR],
                }
                for one in bodies[:MOST_EXAMPLES]
            ],
        }
        body = {
            "id": name,
            "alert": record.name,
            "kind": kind.value,
            "at": bodies[0]["at"],
            "namespace": bodies[0]["namespace"],
            "text": f"{len(members):,} notifications{about}, {over}: {counts}",
            "digest": digest,
        }
        if len(jobs) == 1:
            body["job"] = next(iter(jobs))
    return Notification(
        id=name,
        alert=record.name,
        kind=kind,
        subject=members[0].subject if len(members) == 1 else f"{len(members)} of {group or 'the alert'}",
        job=next(iter(jobs)) if len(jobs) == 1 else None,
        body=orjson.dumps(body).decode(),
        created_at=at,
        number=number,
        group=group,
        members=tuple(member.id for member in members),
    )


def failure_text(run: Run) -> str:
    if run.state is RunState.LOST:
        return f"{run.id} was lost with its node and will not be restarted, because its job must not run twice"
    why = run.error or run.reason or (run.outcome.value if run.outcome else "")
    attempts = "1 attempt" if run.attempt == 1 else f"{run.attempt} attempts"
    return f"{run.id} failed after {attempts}: {why[:MOST_OF_ERROR]}".removesuffix(": ")


def recovery_text(failing: Failing, run: Run) -> str:
    return f"{failing.job} recovered: {run.id} succeeded after the failure of {failing.run}"


def late_text(run: str, started_at: datetime | None, after_s: float) -> str:
    if started_at is None:
        return f"{run} is late: it has not started {after_s:g} s after it was due"
    return f"{run} was late: it started at {instant_text(started_at)}, more than {after_s:g} s after it was due"


def unplaced_text(run: str, waiting: Waiting) -> str:
    return f"{run} has been waiting for a node since {instant_text(waiting.since)}: {waiting}"


def long_text(long: LongRun, now: datetime) -> str:
    return f"{long.run} has been running for {seconds(now - long.started_at)}; {long.usual}"


def retries_text(run: Run) -> str:
    retries = "1 retry" if run.attempt == 2 else f"{run.attempt - 1} retries"
    why = f": {run.error[:MOST_OF_ERROR]}" if run.error else ""
    return f"{run.id} has needed {retries} so far{why}" if run.is_open else f"{run.id} has needed {retries}{why}"


def dead_letters_text(alert: Alert, found: Crossing) -> tuple[str, float]:
    """The sentence, and the threshold that was crossed."""
    count, threshold = int(found.figure), alert.dead_letters.of(found.level)
    letters = "1 dead letter is" if count == 1 else f"{count:,} dead letters are"
    if found.level is AlertLevel.OK:
        return f"{letters} open, below {threshold:,} again", threshold
    return f"{letters} open ({found.level.word} at {threshold:,}); see `cronflow runs report`", threshold


def retry_rate_text(alert: Alert, found: Crossing) -> tuple[str, float]:
    """The sentence, and the threshold that was crossed."""
    share = f"{found.figure:.0%} of the attempts of the last hour are retries"
    if found.level is AlertLevel.OK:
        return f"{share}, {alert.retry_rate:.0%} or less again", alert.retry_rate
    return f"{share}, more than {alert.retry_rate:.0%}", alert.retry_rate


def report_text(since: datetime, until: datetime, failures: Sequence[Failure], *, more: bool) -> str:
    time = f"from {instant_text(since)} to {instant_text(until)}"
    if not failures:
        return f"no run failed or was lost {time}"
    runs, open_letters = sum(failure.count for failure in failures), sum(failure.open for failure in failures)
    least = "at least " if more else ""
    reasons = "1 reason" if len(failures) == 1 else f"{len(failures):,} reasons"
    most = f"the most frequent is {failures[0].reason!r} ({failures[0].count:,})"
    counted = "1 run" if runs == 1 else f"{runs:,} runs"
    return f"{least}{counted} failed or were lost {time}, {open_letters:,} still open, for {reasons}; {most}"


def report_details(since: datetime, until: datetime, failures: Sequence[Failure], *, more: bool) -> MessageDetails:
    """The report of a notification."""
    shown: list[MessageFailureForm] = [
        {
            "reason": failure.reason,
            "count": failure.count,
            "open": failure.open,
            "jobs": dict(list(failure.jobs.items())[:MOST_JOBS]),
            "example": failure.example,
        }
        for failure in failures[:MOST_REASONS]
    ]
    return {
        "report": {
            "since": instant_text(since),
            "until": instant_text(until),
            "runs": sum(failure.count for failure in failures),
            "open": sum(failure.open for failure in failures),
            "failures": shown,
            "more": more or len(failures) > MOST_REASONS,
        }
    }


def node_lost_text(node: str, in_flight: int) -> str:
    jobs = "no running jobs" if not in_flight else "1 running job" if in_flight == 1 else f"{in_flight:,} running jobs"
    return f"node {node} was lost with {jobs}; other nodes take over"


def limit_wait_text(run: str, limit: str, since: datetime) -> str:
    return f"{run} has been waiting for the limit {limit} since {instant_text(since)}"


def success_text(run: Run) -> str:
    assert run.ended_at is not None
    return f"{run.id} succeeded at {instant_text(run.ended_at)}"


def heartbeat_text(nodes: int) -> str:
    return f"the cluster has a leader and {nodes:,} live {'node' if nodes == 1 else 'nodes'}, and plans runs on time"


def leaderless_text(since: datetime, node: str, term: int) -> str:
    return f"the cluster has had no leader since {instant_text(since)}; the last one was {node} (term {term})"


def _run(run: Run) -> MessageRunForm:
    return {
        "id": run.id,
        "state": run.state,
        "kind": run.kind,
        "fire_at": instant_text(run.fire_at),
        "attempt": run.attempt,
        "max_attempts": run.max_attempts,
        "outcome": run.outcome,
        "error": None if run.error is None else run.error[:MOST_OF_ERROR],
        "reason": run.reason,
        "node": run.node,
        "started_at": None if run.started_at is None else instant_text(run.started_at),
        "ended_at": None if run.ended_at is None else instant_text(run.ended_at),
    }

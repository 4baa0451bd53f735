"""The bodies of notices: what receivers read, as JSON, and the sentence in it for people."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired

import orjson
from typing_extensions import TypedDict

from cronflow.documents.values import instant_text
from cronflow.domain.alerts import Failing
from cronflow.domain.run import Kind, Outcome, Run, RunState

MOST_OF_ERROR = 500
TEST = "test"


class MessageRunForm(TypedDict):
    """A run as receivers are told of it."""

    id: str
    """Its id."""
    state: RunState
    """Where it is."""
    kind: Kind
    """Where it came from."""
    fire_at: str
    """The instant that it stands for."""
    attempt: int
    """Its latest attempt."""
    max_attempts: int
    """How many it may have."""
    outcome: Outcome | None
    """How that ended."""
    error: str | None
    """The error, as far as 500 characters."""
    reason: str | None
    """Why it did not run."""
    node: str | None
    """The node that ran it last."""
    started_at: str | None
    """When its latest attempt started."""
    ended_at: str | None
    """When it ended."""


class MessageForm(TypedDict):
    """The body of a notice."""

    id: str
    """As in `webhook-id`."""
    alert: str
    """The alert."""
    kind: str
    """What it tells: `failed`, `recovered`, `dead_letter`, `late`, `no_leader`; or `test`."""
    at: str
    """When that was."""
    namespace: str
    """The cluster."""
    job: NotRequired[str]
    """The job, where it is about one."""
    run: NotRequired[MessageRunForm]
    """The run, where there is one."""
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
) -> str:
    """The body of a notice, as JSON."""
    told: MessageForm = {
        "id": notification,
        "alert": alert,
        "kind": kind,
        "at": instant_text(at),
        "namespace": namespace,
        "text": text,
    }
    if job is not None:
        told["job"] = job
    if run is not None:
        told["run"] = _run(run)
    return orjson.dumps(told).decode()


def death_text(run: Run) -> str:
    """A run failed or was lost."""
    if run.state is RunState.LOST:
        return f"{run.id} was lost: its node is gone, and it must not start twice"
    why = run.error or run.reason or (run.outcome.value if run.outcome else "")
    attempts = "1 attempt" if run.attempt == 1 else f"{run.attempt} attempts"
    return f"{run.id} failed after {attempts}: {why[:MOST_OF_ERROR]}".removesuffix(": ")


def recovery_text(failing: Failing, run: Run) -> str:
    """A job has recovered."""
    return f"{failing.job} works again: {run.id} succeeded after {failing.run} had not"


def late_text(run: str, started_at: datetime | None, after_s: float) -> str:
    """A run has not started in time."""
    if started_at is None:
        return f"{run} is late: it has not started {after_s:g} s after it fell due"
    return f"{run} was late: it started at {instant_text(started_at)}, more than {after_s:g} s after it fell due"


def leaderless_text(since: datetime, node: str, term: int) -> str:
    """Nobody leads."""
    return f"nobody leads the cluster; {node} was the last to renew its lead, term {term}, at {instant_text(since)}"


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

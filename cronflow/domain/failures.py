"""Groups the failures of many runs by reason: the error without ids, times, numbers and addresses.

Rule: errors that a person would call the same have one reason, which still reads like the error. Only the first line of
an error counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cronflow.domain.events import Event, RunsFailed, RunsLost
from cronflow.domain.run import DEAD, Run, RunState, job_of
from cronflow.domain.split import parent_of
from cronflow.domain.transitions import Change

LONGEST_REASON = 200

_PARTS = (
    # The order matters: patterns that contain numbers come before the numbers.
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"), "<address>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\[[0-9a-f]*:[0-9a-f:]+\](?::\d+)?", re.I), "<address>"),
    (re.compile(r"\b[a-z0-9-]+(?:\.[a-z0-9-]+)+:\d+\b", re.I), "<address>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.I), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", re.I), "<id>"),
    (re.compile(r"(?<![\w<])-?\d+(?:[.,]\d+)*"), "<n>"),
    (re.compile(r"(?<=[A-Za-z_#-])\d{2,}"), "<n>"),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason and the runs that failed for it. `example` is the newest and `message` its error, `open` counts the
    unresolved dead letters.
    """

    reason: str
    message: str
    count: int
    open: int
    first: datetime
    last: datetime
    jobs: Mapping[str, int]
    example: str


def message_of(run: Run) -> str:
    """Why a run failed: the first line of its error, otherwise its outcome."""
    line = next((line for line in (run.error or "").splitlines() if line.strip()), "")
    return " ".join(line.split()) or (run.outcome.value if run.outcome is not None else run.state.value)


def reason_of(run: Run) -> str:
    """Why a run failed, without the parts that differ between runs."""
    text = message_of(run)
    for pattern, name in _PARTS:
        text = pattern.sub(name, text)
    return _shortened(text)


def group(runs: Iterable[Run]) -> Sequence[Failure]:
    """Group runs by reason, the most frequent first."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(reason_of(run), []).append(run)
    groups = [_failure(reason, alike) for reason, alike in found.items()]
    return sorted(groups, key=lambda failure: (-failure.count, failure.reason))


def _failure(reason: str, runs: Sequence[Run]) -> Failure:
    by_end = sorted(runs, key=lambda run: (_when(run), run.id))
    return Failure(
        reason=reason,
        message=_shortened(message_of(by_end[-1])),
        count=len(runs),
        open=sum(run.is_dead for run in runs),
        first=_when(by_end[0]),
        last=_when(by_end[-1]),
        jobs=dict(Counter(run.job for run in runs).most_common()),
        example=by_end[-1].id,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def _when(run: Run) -> datetime:
    return run.ended_at or run.fire_at


def dead_letter_events(applied: Iterable[Change]) -> list[Event]:
    """One event per job and final state for the runs that failed or were lost in a batch of applied changes, with their
    number and the last one as an example.
    """
    found: dict[tuple[str, RunState], list[Change]] = {}
    for change in applied:
        # The parent of a part ends later, and is the dead letter.
        if change.target in DEAD and parent_of(change.run) is None:
            found.setdefault((job_of(change.run), change.target), []).append(change)
    events: list[Event] = []
    for (job, state), changes in found.items():
        last = changes[-1]
        if state is RunState.LOST:
            events.append(RunsLost(job, len(changes), last.run))
        else:
            error = str(last.sets.get("error") or last.sets.get("outcome") or "")
            reason = last.sets.get("reason")
            events.append(RunsFailed(job, len(changes), last.run, f"{error} ({reason})" if reason else error))
    return events

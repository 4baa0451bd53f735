"""Double starts: handlers that were started again although the policy of their job did not ask for it.

A second start is allowed after an edit (`start_guard: redis`) and after a fault that came between the dispatch of the
first attempt and the second start, or a few seconds earlier: after a flush of Redis two nodes may lead until one of
them learns of it. A job that runs at most once allows none. Every other one is a violation.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from cronflow.domain.job import Delivery, Job, StartGuard
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.testing.history.history import START, Ack, Fault, History, Noted

FELT_FOR = timedelta(seconds=5)
"""For how long after its end a fault may still make two nodes dispatch the same run."""
OLD_MAY_START = timedelta(seconds=5)
"""For how long after an edit an item of an older version may still start (`start_guard: redis`)."""
DISPATCHED = RunState.DISPATCHED
BY_POLICY = {Outcome.ERROR, Outcome.TIMEOUT, Outcome.DRAINED}
"""After these it is the job's own wish that the handler starts again."""


@dataclass(frozen=True, slots=True)
class DoubleStart:
    """Two starts of one run in a row. `cause` is the edit or the fault that explains the second one; None means that
    nothing does, which is a violation.
    """

    run: str
    first: Noted
    second: Noted
    cause: Ack | Fault | None


def double_starts(history: History) -> list[DoubleStart]:
    """All double starts of the history's jobs, run by run, in the order of their starts. A start that follows an
    attempt which failed, timed out or was drained is a retry, unless the job runs at most once.
    """
    starts: dict[str, list[Noted]] = defaultdict(list)
    for line in sorted(history.sink, key=lambda line: line.at):
        if line.word == START:
            starts[line.run].append(line)
    jobs = {record.name for record in history.jobs}
    dispatched = {(step.run, step.fence): step.at for step in reversed(history.steps) if step.state is DISPATCHED}
    found: list[DoubleStart] = []
    for run in history.runs:
        if run.job not in jobs or run.split is not None or run.id not in starts:
            continue
        job = history.job_of(run)
        at_most_once = job is not None and job.delivery is Delivery.AT_MOST_ONCE
        outcomes = {attempt.fence: attempt.outcome for attempt in run.attempts}
        for first, second in pairwise(starts[run.id]):
            retried = first.fence != second.fence and outcomes.get(first.fence) in BY_POLICY
            if at_most_once or not retried:
                since = min(first.at, dispatched.get((run.id, first.fence), first.at)) - FELT_FOR
                cause = (
                    None
                    if at_most_once
                    else _edit(history, run, job, first, second) or _fault(history, since, second.at)
                )
                found.append(DoubleStart(run.id, first, second, cause))
    return found


def _edit(history: History, run: Run, job: Job | None, first: Noted, second: Noted) -> Ack | None:
    """The edit around which both the older and the newer version may have started."""
    if job is None or job.start_guard is not StartGuard.REDIS:
        return None
    since, until = first.at - OLD_MAY_START, second.at + OLD_MAY_START
    edits = (ack for ack in history.acks if ack.job == run.job and ack.ver > 1)
    return next((edit for edit in edits if since <= edit.at <= until), None)


def _fault(history: History, since: datetime, until: datetime) -> Fault | None:
    """The latest fault in this time."""
    between = [fault for fault in history.faults if fault.touches(since, until)]
    return max(between, key=lambda fault: fault.since, default=None)

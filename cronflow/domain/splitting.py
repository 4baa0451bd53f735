"""Splitting runs: when a parent begins, what its parts are, and how it ends.

Rules: a parent begins by one compare-and-set that gives it a new fence and fixes its parts, and only then is the first
part inserted. Whatever ends a parent that has not begun compares its fence, so such a parent has no part. One that has
begun ends when all its parts have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronflow.domain.capabilities import Needs
from cronflow.domain.chain import ChainLink
from cronflow.domain.cluster import Member
from cronflow.domain.durations import format_duration
from cronflow.domain.job import JobRecord
from cronflow.domain.placement import NoNode, Waiting, unable
from cronflow.domain.recovery import End
from cronflow.domain.run import CLOCK_MARGIN, OPEN, Attempt, Kind, Outcome, Run, RunState, cancelled_text
from cronflow.domain.split import PartPlan, Split, SplitBy
from cronflow.domain.transitions import TRANSITIONS, Change, Transition

LOOK_AT_PARENT = timedelta(seconds=60)
"""How often the reconciler looks at a parent, which the splitter works off."""
GONE_FOR = timedelta(seconds=60)
"""How long a part of a broadcast waits for its node without a heartbeat."""
LONGEST_RESULT = 8 * 1024
"""Characters: results that are larger would be stored separately."""


def split_now(run: Run, record: JobRecord) -> Split:
    """How a parent that has not begun is to be split: as its job says now, unless it repeats chosen parts."""
    assert run.split is not None
    present = record.job.split
    return run.split if present is None or run.split.only is not None else present


def nodes_for(members: Sequence[Member], needs: Needs, stale_after: timedelta) -> tuple[tuple[str, ...], NoNode]:
    """The names of the nodes that a broadcast goes to, in order: those that are up, can run the job and are not
    draining. Being busy is no obstacle. Also why each of the others is left out.
    """
    reasons: dict[str, str] = {}
    found: set[str] = set()
    for member in members:
        reason = unable(member, needs)
        if reason is None and member.age > stale_after:
            reason = f"last heartbeat {member.age.total_seconds():.0f} s ago"
        if reason is None and member.draining:
            reason = "draining"
        if reason is None:
            found.add(member.report.name)
        else:
            reasons[member.id] = reason
    return tuple(sorted(found)), NoNode(reasons)


def begin(run: Run, split: Split, *, fence: int, term: int, job_ver: int, at: datetime) -> Change:
    """SPLIT: from now on, the parts of the run may exist."""
    return Change(
        run=run.id,
        transition=Transition.SPLIT,
        sources=TRANSITIONS[Transition.SPLIT].sources,
        target=RunState.RETRYING,
        fence=run.fence,
        job_ver=run.job_ver,
        unless_cancelled=True,
        check_in=LOOK_AT_PARENT,
        sets={
            "split": replace(split, begun=True),
            "fence": fence,
            "term": term,
            "job_ver": job_ver,
            "attempt": 1,
            "started_at": at,
            "waiting": None,
        },
        proof=("fence", fence),
    )


def wait_to_split(run: Run, split: Split, waiting: Waiting | None) -> Change:
    """WAIT_TO_SPLIT: the run is a parent, and waits for this reason."""
    return Change(
        run=run.id,
        transition=Transition.WAIT_TO_SPLIT,
        sources=TRANSITIONS[Transition.WAIT_TO_SPLIT].sources,
        target=RunState.RETRYING,
        fence=run.fence,
        job_ver=run.job_ver,
        check_in=LOOK_AT_PARENT,
        sets={"split": split, "waiting": waiting},
        proof=None,
    )


def part_run(parent: Run, plan: PartPlan, record: JobRecord, now: datetime) -> Run:
    """The run of a part, to be dispatched at once. A part of a parent that is to be cancelled never starts."""
    return Run(
        id=plan.id,
        job=parent.job,
        fire_at=parent.fire_at,
        kind=Kind.PART,
        state=RunState.RETRYING,
        fence=0,
        term=0,
        job_ver=record.ver,
        node=None,
        attempt=0,
        max_attempts=record.job.retry.max + 1,
        priority=parent.priority,
        check_at=now - CLOCK_MARGIN,
        created_at=now,
        args=parent.args,
        # Only the end of the parent is followed.
        chain=parent.chain or (ChainLink(parent.id, 0) if parent.followed else None),
        shard=plan.shard,
        only_node=plan.node,
        cancel_requested=parent.cancel_requested,
        cancel_reason=parent.cancel_reason,
        cancel_by=parent.cancel_by,
    )


@dataclass(frozen=True, slots=True)
class PartsEnded:
    """How the parts of a parent have ended: their number by state, and some that did not succeed."""

    counts: Mapping[RunState, int]
    others: tuple[str, ...]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        """Those that did not succeed."""
        return self.total - self.counts.get(RunState.SUCCEEDED, 0)


def parts_ended(parent: Run, states: Mapping[str, RunState]) -> PartsEnded | None:
    """How the parts have ended; None while one is open or does not exist."""
    assert parent.split is not None
    plans = [plan.id for plan in parent.split.parts(parent.id)]
    if any(states.get(part, RunState.RETRYING) in OPEN for part in plans):
        return None
    others = tuple(part for part in plans if states[part] is not RunState.SUCCEEDED)
    return PartsEnded(Counter(states[part] for part in plans), others)


def sum_up(
    parent: Run,
    states: Mapping[str, RunState],
    ended: PartsEnded,
    errors: Mapping[str, str],
    finish_id: str,
    at: datetime,
    *,
    held: str | None = None,
) -> Change:
    """SUM_UP: the run succeeded if all parts did. Otherwise it was cancelled if somebody asked for that, or it failed.
    `held` is why parts must not start at present: if only skipped parts did not succeed, it was cancelled for this.

    Its result has the indexes or nodes of its parts by state, or their numbers if that would be too long.
    `errors` has those of some parts.
    """
    assert parent.split is not None
    result: dict[str, list[int | str]] = {}
    for plan in parent.split.parts(parent.id):
        result.setdefault(states[plan.id].value, []).append(parent.split.label(plan.shard.index))
    short: object = result
    if sum(len(str(label)) + 3 for labels in result.values() for label in labels) > LONGEST_RESULT:
        short = {state: len(labels) for state, labels in result.items()}
    sets: dict[str, object] = {"ended_at": at, "finish_id": finish_id, "result": short, "waiting": None}
    if not ended.failed:
        target, sets["outcome"] = RunState.SUCCEEDED, Outcome.OK
    elif parent.cancel_requested:
        target, sets["outcome"] = RunState.CANCELLED, Outcome.CANCELLED
        sets["reason"] = cancelled_text(parent.cancel_reason, parent.cancel_by)
    elif held is not None and ended.counts.get(RunState.SKIPPED, 0) == ended.failed:
        target, sets["outcome"], sets["reason"] = RunState.CANCELLED, Outcome.CANCELLED, held
    else:
        target, sets["outcome"] = RunState.FAILED, Outcome.ERROR
        sets["error"] = failure_text(ended, errors)
    return Change(
        run=parent.id,
        transition=Transition.SUM_UP,
        sources=TRANSITIONS[Transition.SUM_UP].sources,
        target=target,
        fence=parent.fence,
        sets=sets,
        proof=("finish_id", finish_id),
    )


def failure_text(ended: PartsEnded, errors: Mapping[str, str]) -> str:
    """`2 of 8 parts did not succeed: 2 failed (for example report@…~s3: ValueError: …)`."""
    counts = ", ".join(
        f"{count} {state.value}" for state, count in ended.counts.items() if state is not RunState.SUCCEEDED
    )
    example = next((part for part in ended.others if part in errors), ended.others[0])
    error = next(iter(errors.get(example, "").splitlines()), "")
    which = f"{example}: {error}" if error else example
    return f"{ended.failed} of {ended.total} parts did not succeed: {counts} (for example {which})"


def replayed(parent: Run, states: Mapping[str, RunState]) -> Split | None:
    """How a replay of a parent is split: into the parts that did not succeed, or all if every part did. None if the
    parent never began, so that the replay is split as its job says.
    """
    if parent.split is None or not parent.split.begun:
        return None
    again = tuple(
        plan.shard.index for plan in parent.split.parts(parent.id) if states.get(plan.id) is not RunState.SUCCEEDED
    )
    return replace(parent.split, only=again or parent.split.only, begun=False)


def node_missing(
    run: Run, named: Sequence[Member], needs: Needs, lost: Attempt | None, now: datetime
) -> Waiting | End | None:
    """Whether a part of a broadcast waits for its node, which is gone or can no longer run it, or ends because that
    has lasted for too long. `named` are the members of that name.
    """
    reasons = [unable(member, needs) for member in named]
    if None in reasons:
        return None
    reason = f"node {run.only_node} has no heartbeat"
    if reasons:
        reason = f"node {run.only_node} can no longer run this job: {reasons[0]}"
    since = run.waiting.since if run.waiting is not None and run.waiting.reason == reason else now
    if now - since <= GONE_FOR:
        return Waiting(fire=run.fire_at, since=since, reason=reason)
    error = f"{reason}, for {format_duration(GONE_FOR)}"
    return End(Transition.FAIL, RunState.FAILED, Outcome.LOST, error, lost)


def knows_parts(split: Split) -> bool:
    """Whether the parts follow from this alone. Those of a broadcast need the names of its nodes first."""
    return split.by is SplitBy.SHARDS or bool(split.nodes)

"""When a job began to fail, and what changed then: its version, its node, the leader or the deployed code.

Rule: a match is a coincidence that the records show, with the numbers behind it. It is no proof of a cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cronflow.domain.cluster import node_name
from cronflow.domain.failures import reason_of
from cronflow.domain.marks import ClusterMark, MarkKind
from cronflow.domain.run import DEAD, Run, RunState

STEADY = 3
"""So many successes in a row end a time of failures."""
SHORTLY = timedelta(minutes=10)


class MatchKind(StrEnum):
    """What changed when the failures began."""

    VERSION = "version"
    NODE = "node"
    FAILOVER = "failover"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True)
class OnsetMatch:
    """Something that changed with the onset."""

    kind: MatchKind
    words: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Onset:
    """The first failed run since the job last succeeded steadily, and the last success before it. `failed` of the
    `since` runs from it on failed, `before` successes preceded it among the runs that were looked at.
    """

    first: Run
    last_success: Run | None
    failed: int
    since: int
    before: int
    reason: str
    matches: tuple[OnsetMatch, ...]


def onset_of(runs: Sequence[Run], marks: Sequence[ClusterMark]) -> Onset | None:
    """Of a job's ended runs, oldest first. None if the newest time of failures is over, or there was none."""
    decided = [run for run in runs if run.state in DEAD or run.state is RunState.SUCCEEDED]
    place = _begin(decided)
    if place is None:
        return None
    before, since = decided[:place], decided[place:]
    failed = [run for run in since if run.state in DEAD]
    successes = [run for run in before if run.state is RunState.SUCCEEDED]
    matches = (*_version(successes, failed), *_node(decided, failed), *_shortly_before(since[0], marks))
    last = successes[-1] if successes else None
    return Onset(since[0], last, len(failed), len(since), len(successes), reason_of(since[0]), tuple(matches))


def _begin(runs: Sequence[Run]) -> int | None:
    """The place of the first failure after the last STEADY successes in a row."""
    found: int | None = None
    steady = 0
    for place in reversed(range(len(runs))):
        if runs[place].state in DEAD:
            found, steady = place, 0
            continue
        steady += 1
        if steady == STEADY:
            break
    return found


def _version(successes: Sequence[Run], failed: Sequence[Run]) -> Iterator[OnsetMatch]:
    if not successes:
        return
    newest, oldest = max(run.job_ver for run in successes), min(run.job_ver for run in failed)
    if oldest > newest:
        words = f"All {len(failed)} failures ran version {oldest} or later; all {len(successes)} earlier successes "
        yield OnsetMatch(MatchKind.VERSION, f"{words}ran version {newest} or earlier", failed[0].created_at)


def _node(runs: Sequence[Run], failed: Sequence[Run]) -> Iterator[OnsetMatch]:
    bad = {node_name(run.node) for run in failed if run.node is not None}
    good = [node_name(run.node) for run in runs if run.state is RunState.SUCCEEDED and run.node is not None]
    if len(bad) == 1 and good and not bad & set(good):
        (node,) = bad
        words = f"All {len(failed)} failures ran on {node}; none of the {len(good)} successes did"
        yield OnsetMatch(MatchKind.NODE, words)


def _shortly_before(first: Run, marks: Sequence[ClusterMark]) -> Iterator[OnsetMatch]:
    began = first.started_at or first.fire_at
    kinds = {
        MarkKind.LEADER: MatchKind.FAILOVER,
        MarkKind.NODE_LOST: MatchKind.FAILOVER,
        MarkKind.DEPLOYMENT: MatchKind.DEPLOYMENT,
    }
    for mark in marks:
        kind = kinds.get(mark.kind)
        if kind is not None and began - SHORTLY <= mark.at <= began:
            seconds = (began - mark.at).total_seconds()
            yield OnsetMatch(kind, f"{mark.words}, {seconds:,.0f} s before the first failure started", mark.at)

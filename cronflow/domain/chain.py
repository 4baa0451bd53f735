"""Chains: jobs that follow other jobs, and what a run knows of the runs that it follows.

A job names its upstream jobs in `after`. When a run of an upstream job has ended, the leader creates the run that
follows (see `domain.following`). The run in which a chain began has no `ChainLink`; every other run of the chain has
one with the id of that first run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from cronflow.domain.durations import LONGEST, format_duration
from cronflow.domain.errors import InvalidInput

if TYPE_CHECKING:
    from cronflow.domain.run import RunState

MOST_UPSTREAM = 100
"""Jobs that one job can follow."""
MOST_NAMED = 3
"""Of the jobs that a job follows, where it is described in a few words."""
MOST_LINKS = 1000
"""Links of a chain, one after the other. It ends a cycle that two concurrent changes have made."""
_MARK = "@after-"


class On(StrEnum):
    """Which ends of an upstream run count. `failed` includes lost runs; `ended` is every end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED = "ended"


class Join(StrEnum):
    """Whether a job follows when all of its upstream jobs have ended, or each time when one of them has."""

    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Upstream:
    """A job that is followed. An end counts for `within`; without it, for any time."""

    job: str
    on: On = On.SUCCEEDED
    within: timedelta | None = None

    def __post_init__(self) -> None:
        if self.within is not None and not timedelta(seconds=1) <= self.within <= LONGEST:
            raise InvalidInput(f"within is {format_duration(self.within)}; it must be 1s to a hundred years")

    def wants(self, state: RunState) -> bool:
        """Whether an end in this state counts."""
        match self.on:
            case On.SUCCEEDED:
                return state == "succeeded"
            case On.FAILED:
                return state in ("failed", "lost")
            case On.ENDED:
                return True


def after_words(jobs: Sequence[str], join: Join | str) -> str:
    """What a job follows, in words: `after import`, `after index and sums`, `after any of import and export`."""
    shown = [*jobs[:MOST_NAMED], *([f"{len(jobs) - MOST_NAMED} more"] if len(jobs) > MOST_NAMED else [])]
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"after any of {listed}" if join == Join.ANY and len(jobs) > 1 else f"after {listed}"


class UpstreamRun(NamedTuple):
    """A run that another one follows, with the state in which it ended."""

    job: str
    run: str
    state: RunState


@dataclass(frozen=True, slots=True)
class ChainLink:
    """The place of a run in its chain: the id of the chain, which is that of its first run; how many links lead to it;
    and the runs that it follows. A replay of the first run has `depth` 0 and follows none.
    """

    id: str
    depth: int
    of: tuple[UpstreamRun, ...] = ()


class RunEnd(NamedTuple):
    """What following needs of a run that has ended."""

    run: str
    job: str
    state: RunState
    fire_at: datetime
    ended_at: datetime
    chain: ChainLink | None = None

    @property
    def chain_id(self) -> str:
        return self.run if self.chain is None else self.chain.id

    @property
    def depth(self) -> int:
        return 0 if self.chain is None else self.chain.depth


def following_id(job: str, runs: Iterable[str]) -> str:
    """The id of the run of a job that follows these runs, in any order."""
    digest = hashlib.sha256("\n".join(sorted(runs)).encode()).hexdigest()
    return f"{job}{_MARK}{digest[:20]}"


def follows(run: str) -> bool:
    """Whether the id is that of a run that follows others, and not that of a replay of one."""
    return _MARK in run and "~" not in run

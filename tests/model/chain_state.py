"""The state of the model of chains: what MongoDB has, and what each process does."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

OPEN, OK, FAILED, ABSENT = "open", "ok", "failed", "absent"
NO_JOB, ACTIVE, PAUSED = "none", "active", "paused"
STARTED, STARTED_LATE, SKIPPED = "started", "started late", "skipped"
NOBODY = -1

T = TypeVar("T")
Runs = tuple[int, ...]
"""Runs of X and Y, by index."""


class Upstream(NamedTuple):
    """The record of X or Y. `mark` and `promised` belong to its pending run; `promised` means that D existed when it was
    planned. `read` is what its planner has read: the rev, and whether the job is followed.
    """

    rev: int = 0
    followed: bool = False
    pending: int = NOBODY
    mark: bool = False
    promised: bool = False
    read: tuple[int, bool] | None = None


class Run(NamedTuple):
    state: str = ABSENT
    mark: bool = False
    promised: bool = False


class Answer(NamedTuple):
    """A run of D. Its id is computed from the runs that it follows; only mutants set `nonce`."""

    of: Runs
    state: str = OPEN
    nonce: str = ""


class Join(NamedTuple):
    """`recent`: arrivals that have left `arrived`, and may still have their marks. It has no rev: see `Follower.stale`."""

    term: int = 0
    arrived: Runs = ()
    recent: Runs = ()
    pending: Runs = ()


class Follower(NamedTuple):
    """`step`: idle, took (a marked run), saw (the state of D), read (the join), checked (the marks), wrote (the join).

    `aim` is what it does with `run`: `arrive`, `expire`, or `clear` the pending run of the join. `join` is as it was read.
    `stale`: the join was written since, so that a compare-and-set on its rev is refused.
    """

    step: str = "idle"
    aim: str = ""
    run: int = NOBODY
    saw: str = ""
    join: Join = Join()
    stale: bool = False
    marked: Runs = ()


class State(NamedTuple):
    """`job` is D, `steps` counts what its editor has done, and `held` means that its pause was acknowledged."""

    upstream: tuple[Upstream, ...]
    runs: tuple[Run, ...]
    job: str = NO_JOB
    steps: int = 0
    held: bool = False
    join: Join = Join()
    answers: frozenset[Answer] = frozenset()
    followers: tuple[Follower, ...] = (Follower(), Follower())


class Config(NamedTuple):
    """`runs`: the job of each run. `kind`: `any` (D follows each run), `all` (each run is used once), or `chain` (the
    last run of each job counts; the others are those that it repeats). Joins begin when all runs have ended: a chain
    follower takes them in any order anyway. `expires`: an arrival may leave the join at any time, with a skipped run.
    `memory`: if not 0, the join remembers its last arrivals, so many, and marks are not read again. `terms`: the
    compare-and-set also refuses a follower of an older term. Both belong to a design that was refuted.
    """

    runs: str = "XX"
    kind: str = "any"
    failures: bool = False
    pauses: bool = False
    expires: bool = False
    memory: int = 0
    terms: bool = False
    mutant: str = ""


Step = tuple[str, State]


def replaced(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def with_upstream(state: State, job: int, value: Upstream) -> State:
    return state._replace(upstream=replaced(state.upstream, job, value))


def with_run(state: State, run: int, value: Run) -> State:
    return state._replace(runs=replaced(state.runs, run, value))

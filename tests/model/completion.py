"""A model of `after_completion`: one job whose next run is due an interval after the end of the last one, two leaders.

A leader reads the job, then its open runs, then the end of the run of the last move, and writes the job; anything may
happen between two of these steps. Time passes at any moment, up to a bound, and a run may end at any moment. A leader
that dies may have a write on its way.

What must hold in every state: at most one run is open, a run begins no earlier than an interval after the end of the one
before, and the cursor is after the last one. Only `rev` is needed for that; the term is for the other promises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

INTERVAL = 2
Step = tuple[str, "State"]


class Job(NamedTuple):
    """`last` is the number of the run of the last move."""

    cursor: int = INTERVAL
    last: int = -1
    rev: int = 0
    term: int = 0


class Run(NamedTuple):
    """`end` None: it is open."""

    fire: int
    end: int | None = None


class Leader(NamedTuple):
    """`step`: idle, open, ends, write. `is_open` and `end` are what it has read of the runs."""

    term: int
    step: str = "idle"
    job: Job | None = None
    is_open: bool = False
    end: int | None = None


class State(NamedTuple):
    job: Job = Job()
    runs: tuple[Run, ...] = ()
    now: int = 0
    leaders: tuple[Leader, ...] = ()
    flying: frozenset[tuple[Job, int, int | None]] = frozenset()
    terms: int = 0


class Config(NamedTuple):
    until: int = 9
    terms: int = 2
    runs: int = 3
    mutant: str = ""


def decided(me: Leader, config: Config) -> int | None:
    """Where the cursor moves without a run; None: it fires."""
    assert me.job is not None
    if me.end is None or config.mutant == "the_end_does_not_matter":
        return None
    moved = me.end + INTERVAL
    return moved if moved > me.job.cursor else None


def landed(state: State, write: tuple[Job, int, int | None], config: Config) -> State:
    """After a compare-and-set: the job as it was read, the term, and where the cursor moves without a run."""
    read, term, to = write
    job = state.job
    unchecked = config.mutant == ("move_without_rev" if to is None else "reposition_without_rev")
    if (read.rev != job.rev and not unchecked) or job.term > term:
        return state
    if to is not None:
        return state._replace(job=job._replace(cursor=to, rev=job.rev + 1, term=term))
    if len(state.runs) == config.runs:
        return state
    moved = Job(read.cursor + INTERVAL, len(state.runs), job.rev + 1, term)
    return state._replace(job=moved, runs=(*state.runs, Run(read.cursor)))


def leader_steps(state: State, me: Leader, config: Config) -> Iterator[Step]:
    name, mutant = f"L{me.term}", config.mutant

    def go(after: State, new: Leader | None) -> State:
        others = [one for one in after.leaders if one.term != me.term]
        return after._replace(leaders=tuple(sorted([*others, *([new] if new else [])], key=lambda one: one.term)))

    is_open = any(run.end is None for run in state.runs)
    last = state.job.last if me.job is None else me.job.last
    end = state.runs[last].end if 0 <= last < len(state.runs) else None
    job = state.job
    match me.step:
        case "idle" if mutant == "runs_are_read_before_the_job":
            yield f"{name} reads the runs", go(state, me._replace(step="job", is_open=is_open, end=end))
        case "idle" if job.cursor <= state.now and job.term <= me.term:
            yield f"{name} reads the job", go(state, me._replace(step="open", job=job))
        case "job" if job.cursor <= state.now:
            yield f"{name} reads the job", go(state, me._replace(step="write", job=job))
        case "open" if mutant == "ends_are_read_first":
            yield f"{name} reads the end", go(state, me._replace(step="open_later", end=end))
        case "open" | "open_later":
            following = "ends" if me.step == "open" else "write"
            yield f"{name} reads the open runs", go(state, me._replace(step=following, is_open=is_open))
        case "ends":
            yield f"{name} reads the end", go(state, me._replace(step="write", end=end))
        case "write":
            yield from write_steps(state, me, config, go)
    if me.step != "write":
        yield f"{name} dies", go(state, None)


def write_steps(state: State, me: Leader, config: Config, go: object) -> Iterator[Step]:
    assert callable(go)
    assert me.job is not None
    home, name = Leader(me.term), f"L{me.term}"
    if me.is_open and config.mutant != "open_runs_do_not_matter":
        yield f"{name} waits", go(state, home)
        return
    write = me.job, me.term, decided(me, config)
    what = f"fires {me.job.cursor}" if write[2] is None else f"moves the cursor to {write[2]}"
    yield f"{name} {what}", go(landed(state, write, config), home)
    yield f"{name} dies while it {what}", go(state._replace(flying=state.flying | {write}), None)


def successors(state: State, config: Config) -> Iterator[Step]:
    if state.now < config.until:
        yield "time passes", state._replace(now=state.now + 1)
    for place, run in enumerate(state.runs):
        if run.end is None:
            runs = tuple(one._replace(end=state.now) if k == place else one for k, one in enumerate(state.runs))
            yield f"run {place} ends", state._replace(runs=runs)
    if state.terms < config.terms:
        term = state.terms + 1
        yield f"L{term} is elected", state._replace(leaders=(*state.leaders, Leader(term)), terms=term)
    for leader in state.leaders:
        yield from leader_steps(state, leader, config)
    for write in state.flying:
        yield "a late write lands", landed(state._replace(flying=state.flying - {write}), write, config)


def violation(state: State) -> str | None:
    """What must hold in every state."""
    if sum(run.end is None for run in state.runs) > 1:
        return "two runs are open"
    for before, run in zip(state.runs, state.runs[1:], strict=False):
        if before.end is None or run.fire < before.end + INTERVAL:
            return "a run began too early"
    if state.runs and state.job.cursor <= state.runs[-1].fire:
        return "the cursor came back to a run"
    return None


def explore(config: Config, most: int) -> tuple[str, int, list[str]]:
    """Visits every state, breadth first. Returns the verdict (ok, cut, or the violated rule), the number of states, and
    the steps to the violation. It is stuck if a state with time and a leader left leads to no further run.
    """
    parents: dict[State, tuple[State | None, str]] = {State(): (None, "")}
    states = [State()]

    def trace(state: State | None) -> list[str]:
        steps = []
        while state is not None:
            state, label = parents[state]
            steps.append(label)
        return steps[-2::-1]

    for state in states:
        for label, after in successors(state, config):
            if after in parents:
                continue
            parents[after] = state, label
            states.append(after)
            if bad := violation(after):
                return bad, len(states), trace(after)
        if len(states) > most:
            return "cut", len(states), []
    if not any(len(state.runs) == config.runs for state in states):
        return "stuck: there are never so many runs", len(states), []
    return "ok", len(states), []

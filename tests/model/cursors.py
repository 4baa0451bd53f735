"""A model of cursors that move without a run: one job, two nodes, and time zone data that change on each of them.

Instants are numbers. The old data have some of them, the new data others. A leader plans with the data that its process
has read; an update changes what is on the disk of its node, at any moment. Planning and correcting are two activities
of a leader, and each reads the job in one step and writes it in another, so that anything may happen in between. A
leader that dies, or is deposed, may have a write on its way, which lands later or never. Inserting a run is part of the
move here; the model of the protocol has the steps between the two. A move may also count runs, of which only so many
are allowed.

What must hold in every state: no instant has two runs, and there are no more runs than the job may have. Whenever the
newest leader may plan and takes the cursors to be right, the cursor is the first instant of its data after the runs: so
nothing that is due is passed, and nothing comes twice. And from every state in which a leader may still be elected,
all instants can be decided.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

OLD, NEW, NONE = 0, 1, 2
Step = tuple[str, "State"]


class Job(NamedTuple):
    """`after`: the runs cover everything up to there, as far as there was anything."""

    cursor: int
    after: int = -1
    rev: int = 0
    term: int = 0
    fired: int = 0


class Write(NamedTuple):
    """A compare-and-set of the job. `run`: it creates the run of the cursor; otherwise the cursor only moves."""

    rev: int
    term: int
    cursor: int
    run: bool


class Leader(NamedTuple):
    """`data`: what its process has read. `claimed`: it may plan. `plan` and `fix` are writes that it is about to make,
    `right`: the control document names its data.
    """

    term: int = 0
    node: int = 0
    data: int = OLD
    claimed: bool = False
    right: bool = False
    plan: Write | None = None
    fix: Write | None = None
    fixed: bool = False


class State(NamedTuple):
    job: Job
    runs: tuple[int, ...]
    disks: tuple[int, int] = (OLD, OLD)
    named: int = OLD
    named_term: int = 0
    leaders: tuple[Leader, ...] = ()
    flying: frozenset[Write] = frozenset()
    terms: int = 0


class Config(NamedTuple):
    """`instants`: of the old and of the new data. `most`: runs, as `max_runs`. `updates`: nodes whose data change."""

    instants: tuple[tuple[int, ...], tuple[int, ...]] = ((0, 2, 3), (0, 1, 3))
    end: int = 4
    terms: int = 2
    updates: int = 2
    most: int | None = None
    mutant: str = ""


def following(config: Config, data: int, after: int) -> int:
    return min((one for one in config.instants[data] if one > after), default=config.end)


def first(config: Config) -> State:
    return State(Job(following(config, OLD, -1)), (0,) * config.end)


def with_leader(state: State, old: Leader, new: Leader | None, **changes: object) -> State:
    others = [one for one in state.leaders if one != old]
    return state._replace(leaders=tuple(sorted([*others, *([new] if new else [])])), **changes)  # type: ignore[arg-type]


def landed(state: State, write: Write, config: Config) -> State | None:
    """The state after a compare-and-set; None if it does not match."""
    job, mutant = state.job, config.mutant
    stale = write.rev != job.rev and not (
        mutant == "plan_without_rev" if write.run else mutant == "correct_without_rev"
    )
    if stale or (job.term > write.term and mutant != "no_term_guard"):
        return None
    fired = job.fired + (write.run and mutant != "runs_are_not_counted")
    runs = state.runs
    if write.run:
        # The run is named after the cursor that it consumed.
        at = job.cursor if mutant != "plan_without_rev" else min(job.cursor, config.end - 1)
        if at >= config.end:
            return None
        runs = tuple(count + (place == at) for place, count in enumerate(runs))
        job = job._replace(after=at)
    return state._replace(job=Job(write.cursor, job.after, job.rev + 1, write.term, fired), runs=runs)


def leader_steps(state: State, me: Leader, config: Config) -> Iterator[Step]:
    name, mutant = f"L{me.term}", config.mutant
    disk = state.disks[me.node]
    dead = state.flying | {write for write in (me.plan, me.fix) if write is not None}
    yield f"{name} dies", with_leader(state, me, None, flying=dead)
    # The planner.
    may_plan = me.claimed or mutant == "plan_before_the_claim"
    if me.plan is None and may_plan and state.job.cursor < config.end:
        count_ends = config.most is not None and state.job.fired + 1 >= config.most
        cursor = config.end if count_ends else following(config, me.data, state.job.cursor)
        yield (
            f"{name} plans {state.job.cursor}",
            with_leader(state, me, me._replace(plan=Write(state.job.rev, me.term, cursor, True))),
        )
    if me.plan is not None:
        after = landed(state, me.plan, config)
        yield f"{name} moves", with_leader(after or state, me, me._replace(plan=None))
    # The corrector.
    if not me.claimed or disk != me.data:
        yield from claim_steps(state, me, disk, config)
    elif not me.right:
        yield from correction_steps(state, me, config)


def claim_steps(state: State, me: Leader, disk: int, config: Config) -> Iterator[Step]:
    name, mutant = f"L{me.term}", config.mutant
    if state.named_term > me.term and mutant != "claim_ignores_the_term":
        yield (
            f"{name} is deposed",
            with_leader(
                state, me, None, flying=state.flying | {write for write in (me.plan, me.fix) if write is not None}
            ),
        )
        return
    right = state.named == disk
    named = state.named if right or mutant == "claim_keeps_the_name" else NONE
    term = state.named_term if mutant == "claim_without_the_term" else me.term
    new = me._replace(data=disk, claimed=True, right=right, fix=None, fixed=False)
    if mutant == "no_correction_while_it_leads" and me.claimed:
        new = new._replace(right=True)
    yield f"{name} claims data {disk}", with_leader(state, me, new, named=named, named_term=term)


def correction_steps(state: State, me: Leader, config: Config) -> Iterator[Step]:
    name, mutant = f"L{me.term}", config.mutant
    job = state.job
    if me.fix is None and not me.fixed:
        ended = job.cursor == config.end and config.most is not None and job.fired >= config.most
        cursor = config.end if ended else following(config, me.data, job.after)
        if mutant == "correct_from_the_cursor":
            cursor = following(config, me.data, job.cursor - 1)
        if cursor == job.cursor and mutant == "right_cursors_are_not_written":
            yield f"{name} finds the cursor right", with_leader(state, me, me._replace(fixed=True))
        else:
            write = Write(job.rev, me.term, cursor, False)
            yield f"{name} corrects {job.cursor} to {cursor}", with_leader(state, me, me._replace(fix=write))
    elif me.fix is not None:
        after = landed(state, me.fix, config)
        done = after is not None or mutant == "refused_corrections_are_forgotten"
        yield f"{name} writes the cursor", with_leader(after or state, me, me._replace(fix=None, fixed=done))
    elif state.named_term == me.term or mutant == "deposed_leader_keeps":
        new = me._replace(right=True)
        yield f"{name} names data {me.data}", with_leader(state, me, new, named=me.data)
    else:
        yield f"{name} may not name its data", with_leader(state, me, None)


def successors(state: State, config: Config) -> Iterator[Step]:
    for node in (0, 1):
        if state.terms < config.terms:
            # A process may have read the data long ago.
            for data in {OLD, state.disks[node]}:
                new = Leader(state.terms + 1, node, data)
                yield (
                    f"L{new.term} is elected on {node}",
                    state._replace(leaders=tuple(sorted([*state.leaders, new])), terms=state.terms + 1),
                )
        if state.disks[node] == OLD and sum(state.disks) < config.updates:
            disks = tuple(NEW if one == node else disk for one, disk in enumerate(state.disks))
            yield f"node {node} is updated", state._replace(disks=disks)  # type: ignore[arg-type]
    for leader in state.leaders:
        yield from leader_steps(state, leader, config)
    for write in state.flying:
        left = state._replace(flying=state.flying - {write})
        yield "a late write lands", landed(left, write, config) or left


def violation(state: State, config: Config) -> str | None:
    """What must hold in every state."""
    job = state.job
    if any(count > 1 for count in state.runs):
        return "an instant has two runs"
    if config.most is not None and sum(state.runs) > config.most:
        return "there are more runs than the job may have"
    if job.cursor <= job.after:
        return "the cursor stands at an instant that has a run"
    newest = max(state.leaders, default=Leader())
    if newest.term != state.terms or not (newest.claimed and newest.right):
        return None
    if config.most is not None and job.fired >= config.most:
        return None if job.cursor == config.end else "the cursor goes on after the last run"
    if job.cursor != following(config, newest.data, job.after):
        return "a leader takes the cursors to be right, and one is wrong"
    return None


def explore(config: Config, most: int) -> tuple[str, int, list[str]]:
    """Visits every state, breadth first. Returns the verdict (ok, cut, or the violated rule), the number of states, and
    the steps to the violation.
    """
    start = first(config)
    index, states, parents, labels = {start: 0}, [start], [0], [""]
    before: list[list[int]] = [[]]

    def trace(k: int) -> list[str]:
        steps = []
        while k:
            steps.append(labels[k])
            k = parents[k]
        return steps[::-1]

    k = 0
    while k < len(states):
        for label, after in successors(states[k], config):
            known = index.get(after)
            if known is None:
                known = index[after] = len(states)
                states.append(after)
                parents.append(k)
                labels.append(label)
                before.append([])
                if bad := violation(after, config):
                    return bad, len(states), trace(known)
            before[known].append(k)
        k += 1
        if len(states) > most:
            return "cut", len(states), []
    alive = {k for k, state in enumerate(states) if state.job.cursor == config.end}
    todo = list(alive)
    while todo:
        for source in before[todo.pop()]:
            if source not in alive:
                alive.add(source)
                todo.append(source)
    for k, state in enumerate(states):
        if k not in alive and state.terms < config.terms:
            return "stuck: some instant can never be decided", len(states), trace(k)
    return "ok", len(states), []

"""A model of permits: one limit of one, three runs, two workers, two leaders; every interleaving is explored.

A state has the documents (runs, and the permits of the limit), the items of the queue, what each process does, and the
writes on their way whose senders have gone. A handler that runs is a worker in the step `running`. A leader places a
running run again only when no handler of it runs: a worker that lost its lease has stopped it.

Rules that must hold in every state: at most one handler runs, and at most one run is recorded as running. And from
every state all runs can end and all permits can be released.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LIMIT = 1
DISPATCHED, RUNNING, RETRYING, ENDED = "DRTE"


class Run(NamedTuple):
    state: str = RETRYING
    fence: int = 0


class Permit(NamedTuple):
    run: int
    fence: int


class Worker(NamedTuple):
    """`step`: idle took acquired running done recorded. `permit` names its attempt."""

    step: str = "idle"
    permit: Permit | None = None


class Leader(NamedTuple):
    """A removal in steps: it has read the permit, then the run, and then removes."""

    permit: Permit | None = None
    stale: bool = False


class State(NamedTuple):
    runs: tuple[Run, ...]
    permits: frozenset[Permit] = frozenset()
    queue: frozenset[Permit] = frozenset()
    workers: tuple[Worker, ...] = (Worker(), Worker())
    leaders: tuple[Leader, ...] = (Leader(), Leader())
    flying: frozenset[tuple[str, Permit]] = frozenset()
    fence: int = 0
    faults: int = 0
    duplicates: int = 0


class Config(NamedTuple):
    """`fences`: dispatches; `faults`: kills, of these kinds: of an idle worker, or while it acquires, starts or releases,
    which then lands later; `duplicates`: items that are delivered twice.
    """

    runs: int = 2
    fences: int = 3
    faults: int = 1
    duplicates: int = 0
    leaders: int = 1
    kinds: frozenset[str] = frozenset({"kill", "acquire", "start", "release"})
    mutant: str = ""


Step = tuple[str, State]


def first(config: Config) -> State:
    return State(
        (Run(),) * config.runs,
        leaders=(Leader(),) * config.leaders,
        faults=config.faults,
        duplicates=config.duplicates,
    )


def acquired(permits: frozenset[Permit], wanted: Permit, mutant: str) -> frozenset[Permit]:
    """The permits after the conditional update."""
    later = any(one.run == wanted.run and one.fence >= wanted.fence for one in permits)
    others = frozenset(one for one in permits if one.run != wanted.run)
    if mutant == "acquire_replaces_a_later_permit":
        later = wanted in permits
    if later or (len(others) >= LIMIT and mutant != "acquire_does_not_count"):
        return permits
    return others | {wanted}


def with_worker(state: State, index: int, step: str, permit: Permit | None = None, **changes: object) -> State:
    workers = (*state.workers[:index], Worker(step, permit), *state.workers[index + 1 :])
    return state._replace(workers=workers, **changes)  # type: ignore[arg-type]


def with_run(state: State, run: int, value: Run) -> State:
    return state._replace(runs=(*state.runs[:run], value, *state.runs[run + 1 :]))


def changed(state: State, permit: Permit, source: str, target: str) -> State | None:
    """A compare-and-set of a run under a fence; None if it does not match."""
    if state.runs[permit.run] != (source, permit.fence):
        return None
    return with_run(state, permit.run, Run(target, permit.fence))


def leader_steps(state: State, config: Config) -> Iterator[Step]:
    for k, run in enumerate(state.runs):
        runs_here = any(one.step == "running" and one.permit == (k, run.fence) for one in state.workers)
        if run.state == ENDED or (run.state == RUNNING and runs_here) or state.fence == config.fences:
            continue
        item = Permit(k, state.fence + 1)
        after = with_run(state, k, Run(DISPATCHED, item.fence))
        yield f"dispatch {item}", after._replace(fence=item.fence, queue=state.queue | {item})
    if config.mutant == "no_removal":
        return
    for index, leader in enumerate(state.leaders):
        yield from removal_steps(state, config, index, leader)


def removal_steps(state: State, config: Config, index: int, leader: Leader) -> Iterator[Step]:
    def put(after: State, value: Leader) -> State:
        return after._replace(leaders=(*after.leaders[:index], value, *after.leaders[index + 1 :]))

    if leader.permit is None:
        for permit in state.permits:
            yield f"leader {index} reads {permit}", put(state, Leader(permit))
        return
    permit = leader.permit
    if not leader.stale:
        run = state.runs[permit.run]
        stale = run.state not in (DISPATCHED, RUNNING)
        if config.mutant != "removal_ignores_the_fence":
            stale = run.fence > permit.fence or (run.fence == permit.fence and stale)
        yield f"leader {index} reads the run of {permit}", put(state, Leader(permit, True) if stale else Leader())
        return
    gone = {permit}
    if config.mutant == "removal_ignores_the_fence":
        gone = {one for one in state.permits if one.run == permit.run}
    yield f"leader {index} removes {permit}", put(state._replace(permits=state.permits - gone), Leader())


def worker_steps(state: State, config: Config, index: int) -> Iterator[Step]:
    worker, mutant = state.workers[index], config.mutant
    name = f"worker {index}"
    if worker.permit is None:
        for item in state.queue:
            yield f"{name} takes {item}", with_worker(state, index, "took", item, queue=state.queue - {item})
            if state.duplicates:
                left = state.duplicates - 1
                yield f"{name} takes {item}, which stays", with_worker(state, index, "took", item, duplicates=left)
        return
    permit = worker.permit
    if state.faults and "kill" in config.kinds:
        yield f"{name} is killed", with_worker(state, index, "idle", faults=state.faults - 1)
    match worker.step:
        case "took":
            yield from acquire_steps(state, config, index, permit)
        case "acquired":
            after = changed(state, permit, DISPATCHED, RUNNING)
            if mutant == "start_without_a_record":
                yield f"{name} starts {permit}", with_worker(after or state, index, "running", permit)
            elif after is not None:
                yield f"{name} starts {permit}", with_worker(after, index, "running", permit)
            else:
                permits = state.permits - {permit} if mutant == "release_after_a_refused_start" else state.permits
                yield f"{name} may not start {permit}", with_worker(state, index, "idle", permits=permits)
            if state.faults and "start" in config.kinds:
                flying = state.flying | {("start", permit)}
                yield (
                    f"{name} is killed while it starts {permit}",
                    with_worker(state, index, "idle", flying=flying, faults=state.faults - 1),
                )
        case "running":
            permits = state.permits - {permit} if mutant == "release_before_the_outcome" else state.permits
            yield f"{name} ends {permit}", with_worker(state, index, "done", permit, permits=permits)
        case "done":
            for target in (ENDED, RETRYING):
                after = changed(state, permit, RUNNING, target)
                if after is None:
                    yield f"{name} is late with {permit}", with_worker(state, index, "idle")
                elif target == ENDED or state.fence < config.fences:
                    yield f"{name} records {permit} as {target}", with_worker(after, index, "recorded", permit)
        case "recorded":
            gone = {permit}
            if mutant == "release_ignores_the_fence":
                gone = {one for one in state.permits if one.run == permit.run}
            yield f"{name} releases {permit}", with_worker(state, index, "idle", permits=state.permits - gone)
            if state.faults and "release" in config.kinds:
                flying = state.flying | {("release", permit)}
                yield (
                    f"{name} is killed while it releases {permit}",
                    with_worker(state, index, "idle", flying=flying, faults=state.faults - 1),
                )


def acquire_steps(state: State, config: Config, index: int, permit: Permit) -> Iterator[Step]:
    name = f"worker {index}"
    if config.mutant == "acquire_after_the_start":
        after = changed(state, permit, DISPATCHED, RUNNING)
        if after is not None:
            permits = acquired(state.permits, permit, config.mutant)
            yield f"{name} starts {permit}", with_worker(after, index, "running", permit, permits=permits)
        return
    permits = acquired(state.permits, permit, config.mutant)
    if permit in permits:
        yield f"{name} acquires {permit}", with_worker(state, index, "acquired", permit, permits=permits)
        yield f"{name} acquires {permit} without a reply", state._replace(permits=permits)
    else:
        after = changed(state, permit, DISPATCHED, RETRYING) or state
        yield f"{name} gives {permit} back", with_worker(after, index, "idle")
    if state.faults and "acquire" in config.kinds:
        flying = state.flying | {("acquire", permit)}
        yield (
            f"{name} is killed while it acquires {permit}",
            with_worker(state, index, "idle", flying=flying, faults=state.faults - 1),
        )


def flying_steps(state: State, config: Config) -> Iterator[Step]:
    """A write lands after its sender has gone."""
    for write in state.flying:
        kind, permit = write
        left = state._replace(flying=state.flying - {write})
        match kind:
            case "acquire":
                after = left._replace(permits=acquired(left.permits, permit, config.mutant))
            case "start":
                after = changed(left, permit, DISPATCHED, RUNNING) or left
            case _:
                after = left._replace(permits=left.permits - {permit})
        yield f"{kind} of {permit} lands", after


def successors(state: State, config: Config) -> Iterator[Step]:
    yield from leader_steps(state, config)
    for index, worker in enumerate(state.workers):
        if index == 0 or worker != state.workers[index - 1]:  # equal workers do the same
            yield from worker_steps(state, config, index)
    yield from flying_steps(state, config)


def violation(state: State) -> str | None:
    """What must hold in every state."""
    if sum(worker.step == "running" for worker in state.workers) > LIMIT:
        return "two handlers run"
    if sum(run.state == RUNNING for run in state.runs) > LIMIT:
        return "two runs are recorded as running"
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
                if bad := violation(after):
                    return bad, len(states), trace(known)
            before[known].append(k)
        k += 1
        if len(states) > most:
            return "cut", len(states), []
    # Backwards from the states in which everything has ended. A state in which no run may be dispatched any more, but
    # one would have to be, is stuck only in the model.
    alive = {k for k, state in enumerate(states) if _is_over(state)}
    todo = list(alive)
    while todo:
        for source in before[todo.pop()]:
            if source not in alive:
                alive.add(source)
                todo.append(source)
    for k, state in enumerate(states):
        open_runs = sum(run.state != ENDED for run in state.runs)
        if k not in alive and config.fences - state.fence >= 2 * open_runs:
            return "stuck: some run can never end, or some permit is never released", len(states), trace(k)
    return "ok", len(states), []


def _is_over(state: State) -> bool:
    return all(run.state == ENDED for run in state.runs) and not state.permits and not state.flying


LARGE = (
    Config(fences=3, faults=1),
    Config(fences=3, faults=1, duplicates=1),
    Config(fences=3, faults=0, leaders=2),
    Config(runs=3, fences=3, faults=0),
)

if __name__ == "__main__":
    for one in LARGE:
        verdict, count, steps = explore(one, 2_000_000)
        print(verdict, count, one, *steps, sep="\n  ")
        assert verdict == "ok"

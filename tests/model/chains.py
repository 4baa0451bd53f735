"""A model of jobs that follow jobs: marks on runs, the chain follower, and joins. Every interleaving is explored.

A job D follows X, or X and Y. A state has the records of X and Y with their pending runs, their runs, the state of D,
the join document of D, and the runs of D (`answers`). There are an editor that applies D and pauses it, a planner for
X and one for Y, any process that inserts a pending run, workers, the reconciler that starts runs of D, and two chain
followers. Each of the two may stop for any time before any step, so it may be deposed and its next write be late, or
die and be replaced by one that remembers nothing.

`violation` has what must hold in every state. And from every state, one can be reached in which no run has a mark and
every end of a run that was planned while D existed has its answer. In a chain, a replay takes the place of the run that
it repeats, so only the last runs of each job need an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.chain_follower import follower_steps
from tests.model.chain_state import (
    ABSENT,
    ACTIVE,
    FAILED,
    NO_JOB,
    NOBODY,
    OK,
    OPEN,
    PAUSED,
    SKIPPED,
    STARTED,
    STARTED_LATE,
    Config,
    Run,
    State,
    Step,
    Upstream,
    with_run,
    with_upstream,
)


def first(config: Config) -> State:
    jobs = (Upstream(),) * len(set(config.runs))
    if config.kind == "any":
        return State(jobs, (Run(),) * len(config.runs))
    return State(jobs, (Run(OK, True, True),) * len(config.runs), ACTIVE)


def editor_steps(state: State, config: Config) -> Iterator[Step]:
    """Applies D: marks X and Y as followed, one after the other, and then inserts D. Later, pauses it."""
    count, at = len(state.upstream), state.steps
    if config.kind == "any" and at <= count:
        mutant = config.mutant
        inserts_at = 0 if mutant == "job_inserted_before_the_marks" else count
        if at == inserts_at:
            yield "the editor inserts D", state._replace(job=ACTIVE, steps=at + 1)
        else:
            job = at - (inserts_at == 0)
            one = state.upstream[job]
            rev = one.rev + (mutant != "followed_without_a_new_rev")
            after = with_upstream(state, job, one._replace(followed=True, rev=rev))
            yield f"the editor marks job {job} as followed", after._replace(steps=at + 1)
    elif config.pauses and state.job == ACTIVE:
        yield "the editor pauses D", state._replace(job=PAUSED)
    elif state.job == PAUSED and not state.held:
        answers = frozenset(one._replace(state=SKIPPED) if one.state == OPEN else one for one in state.answers)
        yield "the editor retires open runs of D and acknowledges", state._replace(answers=answers, held=True)


def run_steps(state: State, config: Config) -> Iterator[Step]:
    for job, name in enumerate(sorted(set(config.runs))):
        one = state.upstream[job]
        mine = [k for k, owner in enumerate(config.runs) if owner == name]
        upcoming = next((k for k in mine if k > one.pending), None)
        if one.read is not None:
            rev, followed = one.read
            after = one._replace(read=None)
            if rev == one.rev and upcoming is not None:
                after = Upstream(rev + 1, one.followed, upcoming, followed, state.job != NO_JOB)
            yield f"the planner moves {name}", with_upstream(state, job, after)
        elif one.pending != NOBODY and state.runs[one.pending].state == ABSENT:
            run = Run(OPEN, one.mark, one.promised)
            yield f"a leader inserts run {one.pending}", with_run(state, one.pending, run)
            if config.mutant == "worker_inserts_without_the_mark":
                yield f"a worker inserts run {one.pending}", with_run(state, one.pending, run._replace(mark=False))
        elif upcoming is not None and config.kind == "any":
            yield f"the planner reads {name}", with_upstream(state, job, one._replace(read=(one.rev, one.followed)))
    for k, run in enumerate(state.runs):
        if run.state == OPEN:
            for end in (OK, FAILED) if config.failures else (OK,):
                yield f"run {k} ends: {end}", with_run(state, k, run._replace(state=end))


def answer_steps(state: State, config: Config) -> Iterator[Step]:
    """The reconciler starts runs of D. A run that was inserted late may belong to a job that is paused. This is one step,
    because the run is read before its job, and a pause that comes in between changes the run.
    """
    for answer in state.answers:
        if config.pauses and answer.state == OPEN:
            outcome = STARTED
            if state.job == PAUSED:
                outcome = SKIPPED
                if config.mutant == "dispatch_ignores_a_pause":
                    outcome = STARTED_LATE if state.held else STARTED
            answers = state.answers - {answer} | {answer._replace(state=outcome)}
            yield f"the run of D that follows {answer.of}: {outcome}", state._replace(answers=answers)


def successors(state: State, config: Config) -> Iterator[Step]:
    yield from editor_steps(state, config)
    yield from run_steps(state, config)
    yield from answer_steps(state, config)
    for index, me in enumerate(state.followers):
        if index == 0 or config.terms or me != state.followers[index - 1]:  # equal followers do the same
            yield from follower_steps(state, config, index)


def violation(state: State, config: Config) -> str | None:
    """What must hold in every state."""
    if any(run.promised and run.state == OPEN and not run.mark for run in state.runs):
        return "a run that was planned while D existed has no mark"
    ends = [k for answer in state.answers for k in answer.of]
    if any(state.runs[k].state not in (OK, FAILED) for k in ends):
        return "a run of D follows an end that did not happen"
    if config.kind == "chain":
        if len({answer.of for answer in state.answers}) < len(state.answers):
            return "two runs of D follow the same ends"
    elif len(set(ends)) < len(ends):
        return "two runs of D follow one end"
    if any(answer.state == STARTED_LATE for answer in state.answers):
        return "a run of D started after its pause was acknowledged"
    return None


def is_over(state: State, config: Config) -> bool:
    if any(one.pending != NOBODY and state.runs[one.pending].state == ABSENT for one in state.upstream):
        return False
    if any(run.state == OPEN or run.mark for run in state.runs):
        return False
    answers = {answer.of for answer in state.answers}
    if config.kind == "chain":
        return tuple(sorted({name: k for k, name in enumerate(config.runs)}.values())) in answers
    done = {k for of in answers for k in of} | set(() if config.expires else state.join.arrived)
    return all(k in done for k, run in enumerate(state.runs) if run.promised and run.state != ABSENT)


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
    alive = {k for k, state in enumerate(states) if is_over(state, config)}
    todo = list(alive)
    while todo:
        for source in before[todo.pop()]:
            if source not in alive:
                alive.add(source)
                todo.append(source)
    stuck = next((k for k in range(len(states)) if k not in alive), None)
    if stuck is not None:
        return "stuck: some end never gets its answer, or some mark stays", len(states), trace(stuck)
    return "ok", len(states), []


LARGE = (
    Config("XX", failures=True, pauses=True),
    Config("XXY"),
    Config("XXX", pauses=True),
    Config("XXYY", "all"),
    Config("XYYY", "all"),
    Config("XXYZ", "all"),
    Config("XXY", "all", expires=True),
    Config("XXXYY", "chain"),
)

if __name__ == "__main__":
    for one in LARGE:
        verdict, count, steps = explore(one, 1_000_000)
        print(verdict, count, one, *steps, sep="\n  ")
        assert verdict == "ok"

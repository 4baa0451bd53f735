"""Visits every reachable state, checks the invariants in each, and then that every instant can still end."""

import sys
from array import array

from tests.model.editor import editor_steps
from tests.model.faults import cancel_steps, fault_steps
from tests.model.leader import leader_steps
from tests.model.recording import flying_steps, spool_steps
from tests.model.state import OPEN, first_state, is_purged, is_settled
from tests.model.worker import worker_steps


def successors(state, cfg):
    yield from fault_steps(state, cfg)
    yield from cancel_steps(state, cfg)
    yield from leader_steps(state, cfg, 0)
    yield from leader_steps(state, cfg, 1)
    for index, worker in enumerate(state.workers):
        if index == 0 or worker != state.workers[index - 1]:  # equal workers do the same
            yield from worker_steps(state, cfg, index)
    yield from spool_steps(state, cfg)
    yield from flying_steps(state, cfg)
    if cfg.edits:
        yield from editor_steps(state, cfg)


# -------------------------------------------------------------------------------------------------------------------------------- checks
def violation(state, cfg):
    """What must hold in every state."""
    job = state.job
    ranges = [(run.fire, run.to) for run in state.runs] + list(state.purged)
    if not is_settled(state, job.pend):
        if not state.plans and not job.unsettled and not is_purged(state, job.pend.fire):
            return "pend has no run and no plan: nobody would find it"
        if (job.pend.fire, job.pend.to) not in ranges:
            ranges.append((job.pend.fire, job.pend.to))
    covered = [sum(first <= k <= last for first, last in ranges) for k in range(cfg.fires)]
    for k in range(cfg.fires):
        if k < job.cursor and not covered[k]:
            return f"lost: the cursor passed instant {k} and nothing covers it"
        if covered[k] > 1:
            return f"instant {k} is covered by two runs"
        if k >= job.cursor and covered[k]:
            return f"instant {k} is covered although the cursor has not passed it"
    return None


def is_finished(state, cfg):
    return (
        state.job.cursor == cfg.fires
        and not state.plans
        and not state.job.unsettled
        and state.edit.step == "none"
        and is_settled(state, state.job.pend)
        and all(run.state not in OPEN for run in state.runs)
        and not state.spool
    )


def may_be_stuck(state, cfg):
    """Only states with budget left count: a new leader can still be elected, it can plan what is left, and re-dispatch each open run."""
    waiting = sum(run.state in OPEN for run in state.runs) + (not is_settled(state, state.job.pend))
    left = cfg.ops * (cfg.terms - state.last_term)
    return state.budget.redispatch >= waiting and left > 0 and left >= waiting + cfg.fires - state.job.cursor


def explore(cfg, limit):
    """Breadth first.  Returns (verdict, number of states, trace); the verdict is ok, cut, or the violated rule."""
    start = first_state(cfg)
    index, states, parents, labels = {start: 0}, [start], array("l", [0]), [""]
    sources, targets, goals = array("l"), array("l"), []

    def trace(k, last=()):
        steps = []
        while k:
            steps.append(labels[k])
            k = parents[k]
        return steps[::-1] + list(last)

    k = 0
    while k < len(states):
        state = states[k]
        if is_finished(state, cfg):
            goals.append(k)
        for label, after, bad in successors(state, cfg):
            known = index.get(after)
            if known is None:
                bad = bad or violation(after, cfg)
            if bad:
                return bad, len(states), trace(k, [label])
            if known is None:
                known = index[after] = len(states)
                states.append(after)
                parents.append(k)
                labels.append(sys.intern(label))
            sources.append(k)
            targets.append(known)
        k += 1
        if len(states) > limit:
            return "cut", len(states), []
    stuck = find_stuck(cfg, states, sources, targets, goals)
    if stuck is not None:
        return "stuck: some instant can never end", len(states), trace(stuck)
    return "ok", len(states), []


def find_stuck(cfg, states, sources, targets, goals):
    """Walk the steps backwards from the finished states; a state with budget left that is not reached is stuck."""
    before = [[] for _ in states]
    for source, target in zip(sources, targets):
        before[target].append(source)
    alive, todo = bytearray(len(states)), list(goals)
    for k in todo:
        alive[k] = 1
    while todo:
        for source in before[todo.pop()]:
            if not alive[source]:
                alive[source] = 1
                todo.append(source)
    return next((k for k, state in enumerate(states) if not alive[k] and may_be_stuck(state, cfg)), None)

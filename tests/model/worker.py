"""The worker: takes items, records starts where the guard demands it, executes, and records outcomes."""

from tests.model.state import (
    RESTING,
    Run,
    Worker,
    is_purged,
    put_run,
    run_at,
    spend,
    with_worker,
)


def worker_steps(state, cfg, index):
    me, mutant = state.workers[index], cfg.mutant
    name = f"W{index}"
    if me.step != "idle" and state.budget.kill_worker:
        yield f"{name} is killed", with_worker(spend(state, "kill_worker"), index, RESTING), None

    if me.step == "idle":  # TAKE: a newer fence wins the lock, an older one is refused
        for k, item in enumerate(state.queue):
            if k and item == state.queue[k - 1]:
                continue
            rest = state._replace(queue=state.queue[:k] + state.queue[k + 1 :])
            if mutant == "redis_lock_only":
                if rest.lock >= item.fence:
                    yield f"{name} refuses {item}", rest, None
                    continue
                rest = rest._replace(lock=item.fence)
            if cfg.read_back:
                rest = rest._replace(takes=state.takes + 1)
            yield (
                f"{name} takes run {item.fire} f{item.fence}",
                with_worker(rest, index, Worker("took", item, rest.takes)),
                None,
            )

    elif me.step == "took":
        if cfg.give_back:
            yield worker_gives_back(state, cfg, index)
        if is_early(state, cfg, me.item) and mutant != "start_recorded_before_the_instant":
            return  # it holds the item
        if cfg.guard == "redis" or mutant == "redis_lock_only":
            yield worker_begins(state, cfg, index, state)
        else:  # start_guard mongo: dispatched -> running before the handler starts
            run = recorded_run(state, cfg, me.item)
            won = run.state == "D" and run.fence == me.item.fence
            marked = (
                state._replace(runs=put_run(state.runs, run._replace(state="R", start_id=me.start_id)))
                if won
                else state
            )
            if cfg.read_back:  # a bulk write tells only counts: read back who won
                yield f"{name} sends its start CAS", with_worker(marked, index, me._replace(step="asked")), None
            elif won and mutant == "start_recorded_before_the_instant":
                yield f"{name} records its start", with_worker(marked, index, me._replace(step="held")), None
            elif won:
                yield worker_begins(state, cfg, index, marked)
            else:
                yield f"{name} start refused", with_worker(state, index, RESTING), None

    elif me.step == "held":
        if not is_early(state, cfg, me.item):
            yield worker_begins(state, cfg, index, state)

    elif me.step == "asked":
        run = run_at(state, me.item.fire)
        mine = bool(run) and run.state == "R" and run.fence == me.item.fence
        mine = mine and (run.start_id == me.start_id or mutant == "read_back_by_fence")
        if mine and cfg.give_back:  # its own start is recorded, and its handler has not started
            again = state._replace(runs=put_run(state.runs, run._replace(state="T", start_id=0)))
            yield f"{name} gives run {run.fire} back", with_worker(again, index, RESTING), None
        yield (
            worker_begins(state, cfg, index, state)
            if mine
            else (f"{name} start refused", with_worker(state, index, RESTING), None)
        )

    elif me.step == "running":
        run = recorded_run(state, cfg, me.item)
        if cfg.guard == "redis" and mutant == "start_mark_without_insert" and not run_at(state, me.item.fire):
            bad = None if is_purged(state, me.item.fire) else THROWN_AWAY
            yield f"{name} aborts: superseded", with_worker(state, index, RESTING), bad
        elif cfg.guard == "redis" and run.state == "D" and run.fence == me.item.fence:
            yield (
                f"{name} marks run {run.fire} running",
                state._replace(runs=put_run(state.runs, run._replace(state="R"))),
                None,
            )
        yield from worker_finishes(state, cfg, index, run)


THROWN_AWAY = "an outcome was thrown away although no other attempt has the run"
MISSING = Run(-1, "-", 0, 0, -1, 0)


def recorded_run(state, cfg, item):
    """The run as a worker's write finds it.  If it pushes first, the leader may not have inserted it yet: then the worker inserts what it
    records, as if the run had been inserted as dispatched an instant before.  `_id` decides who was first."""
    run = run_at(state, item.fire)
    if run or not cfg.insert_late or cfg.mutant == "finish_without_insert":
        return run or MISSING
    return Run(item.fire, "D", item.fence, item.version, item.to, 0)


def is_early(state, cfg, item):
    return item.at >= state.due and not cfg.skew


def worker_gives_back(state, cfg, index):
    """Its handler has not started: it will not, on this node.  A run that another holder of a doubled item has started stays as it is."""
    me = state.workers[index]
    run = recorded_run(state, cfg, me.item)
    waiting = "DR" if cfg.mutant == "give_back_running" else "D"
    if run.state not in waiting or run.fence != me.item.fence:
        return f"W{index} drops run {me.item.fire}", with_worker(state, index, RESTING), None
    again = state._replace(runs=put_run(state.runs, run._replace(state="T", start_id=0)))
    return f"W{index} gives run {me.item.fire} back", with_worker(again, index, RESTING), None


def worker_begins(state, cfg, index, base):
    me, bad = state.workers[index], None
    item = me.item
    if (item.fire, item.fence) in withdrawn_items(state, cfg):
        return f"W{index} drops run {item.fire}: withdrawn", with_worker(state, index, RESTING), None
    starts = base.starts
    if cfg.at_most_once:
        starts = starts[: item.fire] + (starts[item.fire] + 1,) + starts[item.fire + 1 :]
        if starts[item.fire] > 1:
            bad = "at_most_once: the handler was started twice"
    run = run_at(base, item.fire)
    if cfg.guard == "mongo" and run and run.version < state.acked:
        bad = "an old version was started after the edit was acknowledged"
    # The definition that it starts is the item's.  What is `asked` has its start on record already.
    exact = me.step != "asked" and (cfg.guard == "mongo" or (cfg.punctual and redis_is_whole(state, cfg)))
    if item.version < (state.acked if exact else state.aged):
        bad = "an old version was started after the edit was acknowledged"
    if item.fire >= state.due and not cfg.skew:
        bad = "a run was started before its instant"
    return (
        f"W{index} starts run {item.fire} f{item.fence}",
        with_worker(base._replace(starts=starts), index, me._replace(step="running")),
        bad,
    )


def redis_is_whole(state, cfg):
    return state.budget[:3] == cfg.budget[:3]  # flush, lose, duplicate


def withdrawn_items(state, cfg):
    """An edit's mark in Redis covers the dispatches of the run until then.  It is looked at when the handler is about to start."""
    if cfg.mutant == "withdrawal_without_fence":
        fires = {fire for fire, _ in state.withdrawn}
        return {(run.fire, run.fence) for run in state.runs if run.fire in fires}
    if cfg.mutant == "withdrawal_seen_at_take_only":
        return ()
    return {
        (worker.item.fire, worker.item.fence)
        for worker in state.workers
        if worker.item
        for fire, fence in state.withdrawn
        if worker.item.fire == fire and worker.item.fence <= fence
    }


def worker_finishes(state, cfg, index, run):
    me, mutant = state.workers[index], cfg.mutant
    match = run.state in "DR" and (run.fence == me.item.fence or mutant == "finish_without_fence")
    if mutant == "finish_blindly":
        match = run is not MISSING
    if mutant == "insert_replaces" and run.state not in "DR":
        run, match = Run(me.item.fire, "D", me.item.fence, me.item.version, me.item.to, 0), True
    if not match:
        bad = THROWN_AWAY if run is MISSING and not is_purged(state, me.item.fire) else None
        yield f"W{index} finish fenced out", with_worker(state, index, RESTING), bad
        return
    commits = tuple(n + (run.fire <= k <= run.to) for k, n in enumerate(state.commits))
    bad = (
        "an instant was committed twice"
        if max(commits) > 1
        else "a stale fence was accepted"
        if run.fence != me.item.fence
        else None
    )
    done = state._replace(runs=put_run(state.runs, run._replace(state="S", start_id=0)), commits=commits)
    yield f"W{index} finishes run {run.fire}", with_worker(done, index, RESTING), bad
    if run.cancel:  # it may hear of it before it has finished
        stopped = state._replace(runs=put_run(state.runs, run._replace(state="C", start_id=0)))
        yield f"W{index} stops run {run.fire}", with_worker(stopped, index, RESTING), None
    if state.budget.fail:
        again = spend(state, "fail")._replace(
            runs=put_run(state.runs, run._replace(state="X" if cfg.at_most_once else "T", start_id=0))
        )
        yield f"W{index} attempt of run {run.fire} fails", with_worker(again, index, RESTING), None

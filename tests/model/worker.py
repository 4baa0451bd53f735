"""The worker: takes items, records starts where the guard demands it, executes, and records or spools outcomes."""

from tests.model.recording import (
    MISSING,
    THROWN_AWAY,
    finish_steps,
    recorded_run,
    recording_steps,
    runs_found,
)
from tests.model.state import (
    RESTING,
    Worker,
    is_purged,
    put_run,
    run_at,
    spend,
    with_worker,
    without_answer,
)


def worker_steps(state, cfg, index):
    me, mutant = state.workers[index], cfg.mutant
    name = f"W{index}"

    def put(base, worker):
        return with_worker(base, index, worker or RESTING)

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
            yield from worker_gives_back(state, cfg, index)
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
            if won and state.budget.unsure:  # it sends the same start again, and no other
                asked = run._replace(state="R", start_id=me.start_id)
                flying = without_answer(state, asked, "D" if run_at(state, run.fire) else "", run.fence)
                after = worker_begins(state, cfg, index, flying) if mutant == "no_answer_is_a_start" else None
                yield after or (f"{name} sends its start CAS, no answer", flying, None)
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
        item = me.item
        for run in runs_found(state, cfg, item):
            yield from worker_marks_start(state, cfg, index, run)
            yield from finish_steps(state, cfg, me, name, put, run)
        if state.budget.spool:
            record = Worker("spooled", item, me.start_id)
            spooled = spend(state, "spool")._replace(spool=tuple(sorted((*state.spool, record))))
            yield f"{name} spools the outcome of run {item.fire}", put(spooled, None), None

    else:
        yield from recording_steps(state, cfg, me, name, put)


def worker_marks_start(state, cfg, index, run):
    """Where the handler starts at once, its start is recorded while it runs."""
    me, name = state.workers[index], f"W{index}"
    if cfg.guard != "redis":
        return
    if cfg.mutant == "start_mark_without_insert" and not run_at(state, me.item.fire):
        bad = None if is_purged(state, me.item.fire) else THROWN_AWAY
        yield f"{name} aborts: superseded", with_worker(state, index, RESTING), bad
    elif run.state == "D" and run.fence == me.item.fence:
        mark = run._replace(state="R", start_id=me.start_id if cfg.budget.unsure else run.start_id)
        yield f"{name} marks run {run.fire} running", state._replace(runs=put_run(state.runs, mark)), None
        if state.budget.unsure:  # it marks it again, unless it ends before
            sources = "D" if run_at(state, run.fire) else ""
            label = f"{name} marks run {run.fire} running, no answer"
            yield label, without_answer(state, mark, sources, run.fence), None
    elif run is MISSING and cfg.fallback:
        missed = me._replace(step="missed", goal="R")
        yield f"{name} finds no run {me.item.fire} to mark", with_worker(state, index, missed), None


def is_early(state, cfg, item):
    return item.at >= state.due and not cfg.skew


def worker_gives_back(state, cfg, index):
    """Its handler has not started: it will not, on this node.  A run that another holder of a doubled item has started stays as it is."""
    me = state.workers[index]
    waiting = "DR" if cfg.mutant == "give_back_running" else "D"
    for run in runs_found(state, cfg, me.item):
        if run is MISSING and cfg.fallback:
            missed = me._replace(step="missed", goal="T")
            yield f"W{index} finds no run {me.item.fire} to give back", with_worker(state, index, missed), None
        elif run.state not in waiting or run.fence != me.item.fence:
            yield f"W{index} drops run {me.item.fire}", with_worker(state, index, RESTING), None
        else:
            again = state._replace(runs=put_run(state.runs, run._replace(state="T", start_id=0)))
            yield f"W{index} gives run {me.item.fire} back", with_worker(again, index, RESTING), None


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

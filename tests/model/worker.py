"""The worker."""

from tests.model.state import RESTING, Worker, put_run, run_at, spend, with_worker


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
                with_worker(rest, index, Worker("took", *item, rest.takes)),
                None,
            )

    elif me.step == "took":
        if cfg.guard == "redis" or mutant == "redis_lock_only":
            yield worker_begins(state, cfg, index, state)
        else:  # start_guard mongo: dispatched -> running before the handler starts
            run = run_at(state, me.fire)
            won = bool(run) and run.state == "D" and run.fence == me.fence
            marked = (
                state._replace(runs=put_run(state.runs, run._replace(state="R", start_id=me.start_id)))
                if won
                else state
            )
            if cfg.read_back:  # a bulk write tells only counts: read back who won
                yield f"{name} sends its start CAS", with_worker(marked, index, me._replace(step="asked")), None
            elif won:
                yield worker_begins(state, cfg, index, marked)
            else:
                yield f"{name} start refused", with_worker(state, index, RESTING), None

    elif me.step == "asked":
        run = run_at(state, me.fire)
        mine = bool(run) and run.state == "R" and run.fence == me.fence
        mine = mine and (run.start_id == me.start_id or mutant == "read_back_by_fence")
        yield (
            worker_begins(state, cfg, index, state)
            if mine
            else (f"{name} start refused", with_worker(state, index, RESTING), None)
        )

    elif me.step == "running":
        run = run_at(state, me.fire)
        if cfg.guard == "redis" and run and run.state == "D" and run.fence == me.fence:
            yield (
                f"{name} marks run {me.fire} running",
                state._replace(runs=put_run(state.runs, run._replace(state="R"))),
                None,
            )
        yield from worker_finishes(state, cfg, index, run)


def worker_begins(state, cfg, index, base):
    me, run, bad = state.workers[index], run_at(base, state.workers[index].fire), None
    starts = base.starts
    if cfg.at_most_once:
        starts = starts[: me.fire] + (starts[me.fire] + 1,) + starts[me.fire + 1 :]
        if starts[me.fire] > 1:
            bad = "at_most_once: the handler was started twice"
    if cfg.guard == "mongo" and run and run.version < state.acked:
        bad = "an old version was started after the edit was acknowledged"
    return (
        f"W{index} starts run {me.fire} f{me.fence}",
        with_worker(base._replace(starts=starts), index, me._replace(step="running")),
        bad,
    )


def worker_finishes(state, cfg, index, run):
    me, mutant = state.workers[index], cfg.mutant
    match = bool(run) and run.state in "DR" and (run.fence == me.fence or mutant == "finish_without_fence")
    if mutant == "finish_blindly":
        match = bool(run)
    if not match:
        yield f"W{index} finish fenced out", with_worker(state, index, RESTING), None
        return
    commits = tuple(n + (run.fire <= k <= run.to) for k, n in enumerate(state.commits))
    bad = (
        "an instant was committed twice"
        if max(commits) > 1
        else "a stale fence was accepted"
        if run.fence != me.fence
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

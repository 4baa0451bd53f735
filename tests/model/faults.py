"""Faults, cancellations and the clean-up."""

from tests.model.recording import JOB_LIFE
from tests.model.state import OPEN, RESTING, is_settled, move_job, put_run, spend, write_job


def fault_steps(state, cfg):
    left = state.budget
    if state.lock:
        yield "the job lock expires", state._replace(lock=0), None
    if left.flush and (state.queue or state.lock or state.withdrawn):
        yield "Redis is flushed", spend(state, "flush")._replace(queue=(), lock=0, withdrawn=()), None
    if state.due < cfg.fires:
        yield f"instant {state.due} falls due", state._replace(due=state.due + 1), None
    if cfg.aging and state.aged < state.acked:
        yield "five seconds pass", five_seconds_pass(state, cfg), None
    for k, item in enumerate(state.queue):
        if left.lose:
            yield (
                f"Redis loses {item}",
                spend(state, "lose")._replace(queue=state.queue[:k] + state.queue[k + 1 :]),
                None,
            )
        if left.duplicate:
            yield (
                f"Redis doubles {item}",
                spend(state, "duplicate")._replace(queue=tuple(sorted(state.queue + (item,)))),
                None,
            )
    for k, late in enumerate(state.delayed):
        rest = state._replace(delayed=state.delayed[:k] + state.delayed[k + 1 :])
        moved = move_job(rest, cfg, late.snap, late.term, late.pend)
        if moved is None:
            yield "a delayed CAS arrives and fails", rest, None
        else:
            yield "a delayed CAS arrives and moves the cursor", moved[0], moved[1]
    if left.purge:
        yield from purge_steps(state, cfg)
    if left.recreate and may_be_created_again(state, cfg):
        yield "the job is deleted, cleaned up and created again", created_again(state, cfg), None


def cancel_steps(state, cfg):
    """A person, or a newer fire that replaces it, cancels a run: row 15 before it has started, row 16 while it runs."""
    if not state.budget.cancel:
        return
    for run in state.runs:
        if run.state in "DT" or (cfg.mutant == "cancel_ends_what_has_ended" and run.state == "S"):
            bad = "an ended run was cancelled" if run.state == "S" else None
            ended = put_run(state.runs, run._replace(state="C", start_id=0, cancel=1))
            yield f"run {run.fire} is cancelled", spend(state, "cancel")._replace(runs=ended), bad
        elif run.state == "R" and not run.cancel:
            asked = put_run(state.runs, run._replace(cancel=1))
            yield f"run {run.fire} is asked to end", spend(state, "cancel")._replace(runs=asked), None


def five_seconds_pass(state, cfg):
    """Since the last acknowledged edit.  What was dispatched before it and has not started is too old by now, wherever it waits."""
    queue = tuple(item for item in state.queue if item.version >= state.acked)
    workers = state.workers
    if cfg.mutant != "start_by_at_take_only":
        too_old = [w.step == "took" and w.item.version < state.acked for w in workers]
        workers = tuple(sorted(RESTING if old else w for w, old in zip(workers, too_old)))
    return state._replace(aged=state.acked, queue=queue, workers=workers)


def held_fires(state, cfg):
    """The instants of which somebody still holds what he may insert.  A3: nobody sleeps longer than the retention."""
    notes = [process.pend for process in state.leaders + (state.edit,)]
    notes += [process.old for process in state.leaders + (state.edit,)]
    if cfg.mutant != "late_insert_at_any_age":  # what was pushed more than a minute ago is left to plan recovery
        notes += [waits.pend for leader in state.leaders for waits in leader.later]
    notes += [write.run for write in state.flying]
    notes += [holder.note for holder in state.workers + state.spool]
    if cfg.insert_late and not cfg.fallback and cfg.mutant != "insert_at_any_age":  # what is older inserts nothing
        notes += [*state.queue, *(worker.item for worker in state.workers)]
    return {note.fire for note in notes if note}


def purge_steps(state, cfg):
    """The clean-up deletes an ended run."""
    held = held_fires(state, cfg)
    for run in state.runs:
        is_pend = state.job.pend is not None and state.job.pend.fire == run.fire
        if run.state in OPEN or run.fire in held or (is_pend and cfg.mutant != "clean_up_ignores_pend"):
            continue
        gone = spend(state, "purge")._replace(
            runs=tuple(r for r in state.runs if r != run), purged=state.purged + ((run.fire, run.to),)
        )
        yield f"the clean-up deletes run {run.fire}", gone, None


def may_be_created_again(state, cfg):
    """Only a job without runs is deleted for good, and its pending run has ended by then."""
    ended = state.job.cursor == cfg.fires and all(run.state not in OPEN for run in state.runs)
    settled = is_settled(state, state.job.pend) and not state.plans and not state.delayed
    return ended and settled and not held_fires(state, cfg)


def created_again(state, cfg):
    """Another job of the same name, with the same instants.  What is left of the first one is older than the retention."""
    version = (state.job.version // JOB_LIFE + 1) * JOB_LIFE
    state = write_job(spend(state, "recreate"), cfg, cursor=0, version=version, pend=None, term=0)
    return state._replace(runs=(), purged=(), starts=(0,) * cfg.fires, commits=(0,) * cfg.fires)

"""What a worker records: the start, the end or the return of a run that may have no document, at once or from its spool.

With `fallback`, age matters.  A young item inserts its run as the change leaves it.  An older one, and every record of the spool, finds
no document, reads the job, inserts the run if the job's pending run is this run under this fence, and tries its compare-and-set again.
Each of these is a step of its own, and the clean-up waits for none of them but the insert (A3).
"""

from tests.model.state import (
    Pend,
    Run,
    Worker,
    insert_run,
    is_purged,
    put_run,
    run_at,
    spend,
    without_answer,
)

THROWN_AWAY = "an outcome was thrown away although no other attempt has the run"
CALLED_LATE = "an outcome was kept as late although it had been accepted"
MISSING = Run(-1, "-", 0, 0, -1, 0)
JOB_LIFE = 10
"""The versions of a job that is deleted and created again begin at the next multiple."""


def recorded_run(state, cfg, item):
    """The run as a worker's write finds it.  If it pushes first, the leader may not have inserted it yet: then the worker inserts what it
    records, as if the run had been inserted as dispatched an instant before.  `_id` decides who was first."""
    run = run_at(state, item.fire)
    if run or not cfg.insert_late or cfg.mutant == "finish_without_insert":
        return run or MISSING
    return as_dispatched(item)


def as_dispatched(item):
    return Run(item.fire, "D", item.fence, item.version, item.to, 0)


def runs_found(state, cfg, item, spooled=False):
    """The run as a write may find it, by the age of the item: an item that is older than the retention does not look young (A3)."""
    if run_at(state, item.fire) or not cfg.fallback:
        return [recorded_run(state, cfg, item)]
    young = not spooled and is_same_life(state, item) and not is_purged(state, item.fire)
    if young or cfg.mutant == "insert_at_any_age":
        return [as_dispatched(item), MISSING]
    return [MISSING]


def is_same_life(state, item):
    """Whether the job is the one that the item is of, and not another one of its name."""
    return item.version // JOB_LIFE == state.job.version // JOB_LIFE


def finish_id(cfg, me):
    return me.start_id if cfg.budget.unsure else 0


def was_accepted(run, cfg, me):
    """Whether reading back shows that an earlier try of this very write was carried out."""
    proof = run.start_id if me.goal == "R" else run.finish_id
    return bool(cfg.budget.unsure and me.start_id) and proof == me.start_id


def written(state, cfg, run, target, me, put, after, spend_on=None):
    """One write that leaves the run at `target`, and the same write without an answer, which is sent again."""
    new = run._replace(state=target, start_id=me.start_id if target == "R" and cfg.budget.unsure else 0)
    if target != "R":
        new = new._replace(finish_id=finish_id(cfg, me))
    base = spend(state, spend_on) if spend_on else state
    yield "", put(with_run(base, new), after), what_is_wrong(run, me, base, new)
    if state.budget.unsure:
        sources = {"R": "D", "T": "DR"}.get(target, "DR") if run_at(state, run.fire) else ""
        again = me._replace(step="resend", goal=target)
        yield ", no answer", put(without_answer(base, new, sources, me.item.fence), again), None


def with_run(state, run):
    """The run is written.  A success counts for every instant that it stands for."""
    commits = state.commits
    if run.state == "S":
        commits = tuple(n + (run.fire <= k <= run.to) for k, n in enumerate(commits))
    return state._replace(runs=put_run(state.runs, run), commits=commits)


def what_is_wrong(run, me, base, new):
    if not is_same_life(base, me.item):
        return "an outcome of a deleted job was accepted for its successor"
    if max(with_run(base, new).commits) > 1:
        return "an instant was committed twice"
    return "a stale fence was accepted" if run.fence != me.item.fence else None


def is_thrown_away(state, me):
    """Nobody else has the run: it has no document yet, or it is open under this very fence."""
    run = run_at(state, me.item.fire)
    if run is None:
        return is_same_life(state, me.item) and not is_purged(state, me.item.fire)
    # A start that is recorded may be that of another holder of a doubled item.
    return run.state in ("D" if me.goal == "R" else "DR") and run.fence == me.item.fence


def kept_late(state, cfg, me, name, put, run):
    bad = THROWN_AWAY if is_thrown_away(state, me) else None
    if was_accepted(run, cfg, me) and run.state == "S":
        bad = CALLED_LATE
    yield f"{name} finish fenced out", put(state, None), bad


def finish_steps(state, cfg, me, name, put, run):
    """The end of an attempt, of the run as it was found."""
    mutant = cfg.mutant
    match = run.state in "DR" and (run.fence == me.item.fence or mutant == "finish_without_fence")
    if mutant == "finish_blindly":
        match = run is not MISSING
    if mutant == "insert_replaces" and run.state not in "DR":
        run, match = as_dispatched(me.item), True
    if not match:
        yield from not_applied(state, cfg, me, name, put, run)
        return
    for label, after, bad in written(state, cfg, run, "S", me, put, None):
        yield f"{name} finishes run {run.fire}{label}", after, bad
    if run.cancel:  # it may hear of it before it has finished
        for label, after, _ in written(state, cfg, run, "C", me, put, None):
            yield f"{name} stops run {run.fire}{label}", after, None
    if state.budget.fail:
        target = "X" if cfg.at_most_once else "T"
        for label, after, _ in written(state, cfg, run, target, me, put, None, spend_on="fail"):
            yield f"{name} attempt of run {run.fire} fails{label}", after, None


def not_applied(state, cfg, me, name, put, run):
    """The compare-and-set found nothing to change: because an earlier try was accepted, because the run is absent, or for good."""
    if was_accepted(run, cfg, me) and cfg.mutant != "resent_finish_is_not_read_back":
        yield f"{name} reads back its own finish", put(state, None), None
    elif run is MISSING and cfg.fallback and me.step != "again":
        yield f"{name} finds no run {me.item.fire}", put(state, me._replace(step="missed")), None
    else:
        yield from kept_late(state, cfg, me, name, put, run)


def recording_steps(state, cfg, me, name, put):
    """What follows a write that found no document, or got no answer."""
    pend, item, mutant = state.job.pend, me.item, cfg.mutant
    if me.step == "missed":
        if mutant == "fallback_trusts_that_it_exists" and run_at(state, item.fire):
            yield from kept_late(state, cfg, me, name, put, run_at(state, item.fire))
            return
        note = pend if pend and (pend.fire, pend.fence) == (item.fire, item.fence) else None
        if mutant in ("fallback_ignores_the_run", "fallback_ignores_the_fence"):
            named = pend and (pend.fire == item.fire or mutant == "fallback_ignores_the_run")
            note = Pend(item.fire, item.to, item.fence, "D", item.version) if named else None
        if note is None and mutant == "fallback_trusts_that_it_is_not_named":
            yield from kept_late(state, cfg, me, name, put, MISSING)
            return
        step = me._replace(step="insert", note=note) if note else me._replace(step="again")
        yield f"{name} reads the job" + ("" if note else ": it names another run"), put(state, step), None
    elif me.step == "insert":
        after = me._replace(step="again", note=None)
        yield f"{name} inserts run {item.fire} that its job names", put(insert_run(state, me.note), after), None
        if state.budget.unsure:  # and it begins again
            flying = without_answer(state, as_dispatched(item))
            yield f"{name} inserts run {item.fire}, no answer", put(flying, me._replace(step="missed", note=None)), None
    elif me.step == "again":
        yield from again_steps(state, cfg, me, name, put, run_at(state, item.fire) or MISSING)
    elif me.step == "resend":  # from the spool, so the item counts as old
        yield from again_steps(state, cfg, me, name, put, run_at(state, item.fire) or MISSING)


def again_steps(state, cfg, me, name, put, run):
    """The compare-and-set of what it records, once more."""
    sources = "D" if me.goal in ("R", "T") and me.step == "again" else "DR"
    if me.goal == "":
        yield from finish_steps(state, cfg, me, name, put, run)
    elif run.state in sources and run.fence == me.item.fence:
        after = Worker("running", me.item, me.start_id) if me.goal == "R" else None
        for label, done, bad in written(state, cfg, run, me.goal, me, put, after):
            yield f"{name} records {me.goal} of run {run.fire}{label}", done, bad
    elif me.goal == "R" and was_accepted(run, cfg, me):
        yield f"{name} reads back its own start", put(state, Worker("running", me.item, me.start_id)), None
    elif me.goal == "T" and me.step == "again":  # nothing is lost if nobody has it: its item is dropped
        yield f"{name} drops run {me.item.fire}", put(state, None), None
    else:
        yield from not_applied(state, cfg, me, name, put, run)


def spool_steps(state, cfg):
    """The outcomes on the disks of nodes, which survive their processes.  Each may be of any age."""
    for k, record in enumerate(state.spool):

        def put(base, me, k=k):
            rest = base.spool[:k] + base.spool[k + 1 :]
            return base._replace(spool=tuple(sorted(rest + ((me,) if me else ()))))

        if record.step == "spooled":
            for run in runs_found(state, cfg, record.item, spooled=True):
                yield from finish_steps(state, cfg, record, "spool", put, run)
        else:
            yield from recording_steps(state, cfg, record, "spool", put)


def flying_steps(state, cfg):
    """A write arrives whose sender has given up waiting: it does what it would have done, under the same conditions."""
    for k, write in enumerate(state.flying):
        rest = state._replace(flying=state.flying[:k] + state.flying[k + 1 :])
        run = run_at(state, write.run.fire)
        applies = run is None if not write.sources else bool(run) and run.state in write.sources
        if write.sources and applies:
            applies = run.fence == write.fence
        if not applies:
            yield f"an unanswered write of run {write.run.fire} arrives and fails", rest, None
            continue
        landed = with_run(rest, write.run._replace(cancel=run.cancel if run else 0))
        bad = "an instant was committed twice" if max(landed.commits) > 1 else None
        yield f"an unanswered write of run {write.run.fire} {write.run.state} arrives", landed, bad

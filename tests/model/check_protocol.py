"""Explicit-state model checker of CronFlow's run protocol (protocol.md, section 8).

What it is.  The protocol is written below as a set of atomic steps.  The checker starts from the first state, applies every step that is
possible, and so visits every state that any interleaving can reach.  In each state it tests the invariants; at the end it asks of every
state whether "all instants have ended" can still be reached.  It prints the shortest sequence of steps that breaks a rule.

What is modelled.  ONE job with F instants 0..F-1, two nodes that can lead, one or two workers, one editor (the API), MongoDB and Redis.
* MongoDB is a set of documents; one read or one compare-and-set on one document is one step (assumption A1).
    Job   cursor (= next_fire), version (= ver), pend, term.  `pend` names the run that the last move of the cursor created.
    Plan  a write-ahead note "a process is about to move this job"; it exists from before that move until after the run's insert.
    Run   one document per consumed range of instants [fire..to], identified by its first instant.
          States: D dispatched, R running, T retrying | S succeeded (or failed), K skipped, C cancelled, X lost (at_most_once).
* `rev`, the counter that every write of the job document increments, is not stored as a number: a process that has read the job keeps a
  snapshot, and the snapshot becomes STALE the moment anybody writes the job.  A compare-and-set with a stale snapshot fails.
* Redis holds the leader's key, a queue of items (a multiset: any order) and a job lock.  It may lose any of it, or deliver an item twice.
  The leader's key may expire, be lost or be resigned at any moment, so it is not even stored: any idle node may be elected at any time,
  the former leader may or may not notice, and two leaders at once are normal here.
* There are no clocks.  A timeout may strike at any moment and a process may sleep between any two steps for ever.  That covers garbage
  collection pauses, partitions, clock steps and slow networks.

What bounds it.  `terms` elections, `ops` plans and re-dispatches per term, and a budget of faults (see Budget).

Run it.   python3 check_protocol.py --quick      small configurations and all mutants, under a minute
          python3 check_protocol.py              the large ones as well (about a quarter of an hour, 4 GB)
          python3 check_protocol.py --only TEXT  those whose name contains TEXT
Exit status 1 when a good configuration is violated or a mutant (a protocol with one rule removed) survives.
"""

import sys
import time
from array import array
from collections import namedtuple

# ------------------------------------------------------------------------------------------------------------------------- the documents
Job = namedtuple("Job", "cursor version pend term")
Pend = namedtuple("Pend", "fire to fence state version")
Plan = namedtuple("Plan", "id term")  # term 0: written by an editor
Run = namedtuple(
    "Run", "fire state fence version to start_id cancel", defaults=(0,)
)  # cancel 1: somebody asked for its cancellation
Item = namedtuple("Item", "fire fence")

# ------------------------------------------------------------------------------------------------------------------------- the processes
# step: idle lead plan ensure cas insert unplan push settle_insert settle_unplan redispatch
Leader = namedtuple("Leader", "step term seq snap pend plan run old", defaults=(0, 0, None, None, None, None, None))
# step: idle took asked running
Worker = namedtuple("Worker", "step fire fence start_id", defaults=(0, 0, 0))
# step: none plan ensure cas undo insert unplan restamp
Edit = namedtuple("Edit", "step count tries snap pend plan old", defaults=(0, 0, None, None, None, None))
Delayed = namedtuple("Delayed", "snap term pend")  # a compare-and-set on its way whose sender has given up waiting
Budget = namedtuple(
    "Budget", "flush lose duplicate kill_leader kill_worker kill_editor redispatch delay purge fail cancel"
)

State = namedtuple(
    "State", "job plans runs last_term queue lock delayed leaders workers edit acked takes budget starts commits purged"
)
STALE = "stale"
OPEN = "DRT"
IDLE = Leader("idle")
RESTING = Worker("idle")

Config = namedtuple(
    "Config", "fires terms ops workers edits coalesce skip guard at_most_once read_back keep_waiting mutant budget"
)


def config(
    fires=1,
    terms=2,
    ops=2,
    workers=1,
    edits=0,
    coalesce=False,
    skip=False,
    guard="mongo",
    at_most_once=False,
    read_back=False,
    keep_waiting=False,
    mutant=None,
    **budget,
):
    full = Budget(*(budget.pop(name, 0) for name in Budget._fields))
    assert not budget, budget
    return Config(
        fires, terms, ops, workers, edits, coalesce, skip, guard, at_most_once, read_back, keep_waiting, mutant, full
    )


def first_state(cfg):
    return State(
        Job(0, 0, None, 0),
        (),
        (),
        0,
        (),
        0,
        (),
        (IDLE, IDLE),
        (RESTING,) * cfg.workers,
        Edit("none"),
        0,
        0,
        cfg.budget,
        (0,) * cfg.fires,
        (0,) * cfg.fires,
        (),
    )


# ---------------------------------------------------------------------------------------------------------------------- small operations
def run_at(state, fire):
    for run in state.runs:
        if run.fire == fire:
            return run
    return None


def put_run(runs, run):
    return tuple(sorted([other for other in runs if other.fire != run.fire] + [run]))


def run_of(pend):
    return Run(pend.fire, pend.state, pend.fence, pend.version, pend.to, 0)


def is_settled(state, pend):
    return pend is None or run_at(state, pend.fire) is not None


def insert_run(state, pend):
    """Insert the run that `pend` describes; an existing one is success and stays as it is."""
    return state if is_settled(state, pend) else state._replace(runs=put_run(state.runs, run_of(pend)))


def with_leader(state, node, leader):
    """Nodes are interchangeable, so their order is normalised: by term, which is unique (idle ones have none)."""
    other = state.leaders[1 - node]
    return state._replace(leaders=(leader, other) if leader.term <= other.term else (other, leader))


def with_worker(state, index, worker):
    """Workers are interchangeable, so their order is normalised."""
    rest = [other for k, other in enumerate(state.workers) if k != index]
    return state._replace(workers=tuple(sorted(rest + [worker])))


def without_plan(state, plan):
    return state._replace(plans=tuple(other for other in state.plans if other.id != plan))


def write_job(state, cfg, **changes):
    """Write the job document: everybody's snapshot of it becomes stale (that is what `rev` is for)."""
    state = state._replace(job=state.job._replace(**changes))
    if cfg.mutant == "no_rev":
        return state
    aged = tuple(leader._replace(snap=STALE) if leader.snap else leader for leader in state.leaders)
    edit = state.edit._replace(snap=STALE) if state.edit.snap else state.edit
    return state._replace(leaders=aged, edit=edit, delayed=())


def snapshot_holds(state, cfg, snap):
    if cfg.mutant == "no_rev":  # compare the fields themselves, as the first sketch of the rule did
        return snap[:3] == state.job[:3]
    return snap is not STALE


def move_job(state, cfg, snap, term, pend):
    """A leader's compare-and-set of the job document.  Returns (state after, violation) or None when the filter does not match."""
    if not snapshot_holds(state, cfg, snap) or (state.job.term > term and cfg.mutant != "no_term_guard"):
        return None
    old, bad = state.job.pend, None
    if not is_settled(state, old):
        bad = "pend overwritten before its run existed"
    elif old and old.fence >= pend.fence:
        bad = "the job's fence went backwards"
    return write_job(state, cfg, cursor=pend.to + 1, pend=pend, term=term), bad


def spend(state, name):
    return state._replace(budget=state.budget._replace(**{name: getattr(state.budget, name) - 1}))


# -------------------------------------------------------------------------------------------------------------------------------- leader
def leader_steps(state, cfg, node):
    me, job, mutant = state.leaders[node], state.job, cfg.mutant
    name = f"L{me.term}"  # L2 is the leader of term 2

    def go(leader, base=state):
        return with_leader(base, node, leader)

    home = Leader("lead", me.term, me.seq)
    if me.step != "idle" and state.budget.kill_leader:
        yield f"{name} is killed", go(IDLE, spend(state, "kill_leader")), None

    if me.step == "idle":
        if state.last_term < cfg.terms and not (node == 1 and state.leaders[0].step == "idle"):
            term = state.last_term + 1
            if (
                mutant == "term_from_redis" and state.last_term
            ):  # Redis forgot the counter: the number is given out again
                term = state.last_term
            yield f"L{term} is elected", go(Leader("lead", term), state._replace(last_term=term)), None

    elif me.step == "lead":
        yield f"{name} steps down", go(IDLE), None
        yield from planner_starts(state, cfg, node)
        yield from settler_starts(state, cfg, node)
        yield from reconciler_starts(state, cfg, node)

    elif me.step == "plan":  # the write-ahead note, before the compare-and-set
        if mutant == "plan_before_read":  # (written when the job was looked at first; read it only now)
            if job.cursor != me.pend.fire:
                yield f"{name} finds the cursor moved", go(Leader("unplan", me.term, me.seq, plan=me.plan)), None
                return
            me = me._replace(snap=job, old=job.pend, pend=me.pend._replace(version=job.version))
        step = "cas" if is_settled(state, me.old) or mutant == "pend_overwritten_blindly" else "ensure"
        noted = (
            state
            if mutant in ("plan_not_written", "plan_before_read")
            else state._replace(plans=tuple(sorted(state.plans + (Plan(me.plan, me.term),))))
        )
        yield (
            f"{name} writes plan {me.plan}",
            go(me._replace(step=step, old=me.old if step == "ensure" else None), noted),
            None,
        )

    elif me.step == "ensure":  # pend may be overwritten only once its run exists
        yield (
            f"{name} makes sure that the run of pend exists",
            go(me._replace(step="cas", old=None), insert_run(state, me.old)),
            None,
        )

    elif me.step == "cas":
        moved = move_job(state, cfg, me.snap, me.term, me.pend)
        if moved is None:
            yield f"{name} cursor CAS fails", go(Leader("unplan", me.term, me.seq, plan=me.plan)), None
        else:
            after, bad = moved
            step = "unplan" if mutant == "plan_deleted_before_insert" else "insert"
            yield (
                f"{name} moves the cursor {me.pend.fire}->{me.pend.to + 1} ({me.pend.state} f{me.pend.fence})",
                go(Leader(step, me.term, me.seq, None, me.pend, me.plan), after),
                bad,
            )
        if state.budget.delay:
            waiting = spend(state, "delay")._replace(delayed=state.delayed + (Delayed(me.snap, me.term, me.pend),))
            yield f"{name} gives up waiting for its CAS", go(home, waiting), None

    elif me.step == "insert":
        fresh = run_at(state, me.pend.fire) is None
        push = me.pend if fresh and me.pend.state == "D" else None
        if mutant == "plan_deleted_before_insert":
            after = Leader("push", me.term, me.seq, run=(me.pend.fire, me.pend.fence)) if push else home
        else:
            after = Leader("unplan", me.term, me.seq, None, push, me.plan)
        yield (
            f"{name} inserts run {me.pend.fire}" + ("" if fresh else ": exists"),
            go(after, insert_run(state, me.pend)),
            None,
        )

    elif me.step == "unplan":
        if mutant == "plan_deleted_before_insert" and me.pend:
            after = me._replace(step="insert")
        else:
            after = Leader("push", me.term, me.seq, run=(me.pend.fire, me.pend.fence)) if me.pend else home
        yield f"{name} deletes plan {me.plan}", go(after, without_plan(state, me.plan)), None

    elif me.step == "push":
        item = Item(*me.run)
        yield (
            f"{name} pushes run {item.fire} f{item.fence}",
            go(home, state._replace(queue=tuple(sorted(state.queue + (item,))))),
            None,
        )

    elif me.step == "settle_insert":
        yield (
            f"{name} settles: inserts run {me.pend.fire}",
            go(Leader("settle_unplan", me.term, me.seq, plan=me.plan), insert_run(state, me.pend)),
            None,
        )

    elif me.step == "settle_unplan":
        yield f"{name} settles: deletes plan {me.plan}", go(home, without_plan(state, me.plan)), None

    elif me.step == "redispatch":
        yield reconciler_acts(state, cfg, node)


def planner_starts(state, cfg, node):
    """Read the job.  `now` is arbitrary: any number of instants may have been missed, to be coalesced or skipped."""
    me, job = state.leaders[node], state.job
    if job.cursor == cfg.fires or me.seq == cfg.ops or (job.term > me.term and cfg.mutant != "no_term_guard"):
        return
    fence = me.term * 100 + me.seq + 1
    for to in range(job.cursor, cfg.fires if cfg.coalesce else job.cursor + 1):
        for kind in "DK" if cfg.skip else "D":
            pend = Pend(job.cursor, to, fence, kind, job.version)
            early = state
            if cfg.mutant == "plan_before_read":
                early = state._replace(plans=tuple(sorted(state.plans + (Plan(fence, me.term),))))
            yield (
                f"L{me.term} reads the job: {kind} {job.cursor}..{to}",
                with_leader(early, node, Leader("plan", me.term, me.seq + 1, job, pend, fence, None, job.pend)),
                None,
            )


def settler_starts(state, cfg, node):
    """Finish what a plan announced: write the job (which fences its author), see that the run of pend exists, delete the plan."""
    me, job = state.leaders[node], state.job
    if cfg.mutant == "no_settler":
        return
    for plan in state.plans:
        if job.term > me.term:
            continue  # filter term <= mine: I am deposed
        fenced = state if cfg.mutant == "settle_without_writing_the_job" else write_job(state, cfg, term=me.term)
        step = "settle_unplan" if is_settled(state, job.pend) else "settle_insert"
        yield (
            f"L{me.term} settles plan {plan.id}: fences its author",
            with_leader(
                fenced,
                node,
                Leader(step, me.term, me.seq, None, job.pend if step == "settle_insert" else None, plan.id),
            ),
            None,
        )


def reconciler_starts(state, cfg, node):
    """A run whose check_at has passed (here: any open run, at any moment)."""
    me = state.leaders[node]
    if not state.budget.redispatch or me.seq == cfg.ops or cfg.mutant == "no_reconciler":
        return
    for run in state.runs:
        if run.state in OPEN:
            yield (
                f"L{me.term} suspects run {run.fire}",
                with_leader(spend(state, "redispatch"), node, Leader("redispatch", me.term, me.seq + 1, run=run)),
                None,
            )


def reconciler_acts(state, cfg, node):
    me, mutant = state.leaders[node], cfg.mutant
    seen, run, fence = me.run, run_at(state, me.run.fire), me.term * 100 + me.seq
    home = Leader("lead", me.term, me.seq)
    match = bool(run) and run.state == seen.state and run.fence == seen.fence
    match = match and (run.version == seen.version or mutant == "redispatch_ignores_version")
    if mutant == "reassign_without_cas":
        match = bool(run)
    if not match or fence <= run.fence:
        return f"L{me.term} re-dispatch of run {seen.fire} fails", with_leader(state, node, home), None
    if (
        seen.cancel and mutant != "redispatch_ignores_cancel"
    ):  # row 19: nobody runs it any more, so it ends as it was asked to
        ended = state._replace(runs=put_run(state.runs, run._replace(state="C", start_id=0)))
        return f"L{me.term} run {run.fire} ends as cancelled", with_leader(ended, node, home), None
    if run.cancel and mutant not in ("redispatch_ignores_cancel", "dispatch_does_not_compare_cancel"):
        return f"L{me.term} re-dispatch of run {seen.fire} fails: cancelled since", with_leader(state, node, home), None
    bad = "a run was dispatched again after its cancellation was recorded" if run.cancel else None
    if cfg.at_most_once and run.state == "R" and mutant != "at_most_once_redispatches_running":
        lost = state._replace(runs=put_run(state.runs, run._replace(state="X")))
        return f"L{me.term} run {run.fire} is lost", with_leader(lost, node, home), None
    version = seen.version if mutant == "redispatch_ignores_version" else run.version
    new = run._replace(state="D", fence=fence, version=version, start_id=0)
    after = with_leader(
        state._replace(runs=put_run(state.runs, new)), node, Leader("push", me.term, me.seq, run=(run.fire, fence))
    )
    return f"L{me.term} re-dispatches run {run.fire} f{fence}", after, bad


# -------------------------------------------------------------------------------------------------------------------------------- worker
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


# -------------------------------------------------------------------------------------------------------------------------------- editor
def editor_steps(state, cfg):
    """The API changes the job: version + 1, and perhaps the cursor jumps over instants, which must leave one skipped range."""
    me, job, mutant = state.edit, state.job, cfg.mutant

    def go(edit, base=state):
        return base._replace(edit=edit)

    if me.step != "none" and state.budget.kill_editor:
        yield "the editor is killed", go(Edit("none", me.count), spend(state, "kill_editor")), None

    if me.step == "none":
        if me.count < cfg.edits and me.tries < 2:  # tried twice, then given up: the caller is told to try again
            for cursor in range(job.cursor, cfg.fires + 1):
                fence = job.pend.fence if job.pend else 0
                pend = Pend(job.cursor, cursor - 1, fence, "K", job.version) if cursor > job.cursor else None
                plan = -10 * (me.count + 1) - me.tries if pend else None  # a plan's id is never used again
                yield (
                    f"edit reads the job, cursor {job.cursor}->{cursor}",
                    go(Edit("plan" if pend else "ensure", me.count + 1, me.tries, job, pend, plan, job.pend)),
                    None,
                )

    elif me.step == "plan":
        noted = (
            state
            if mutant == "edit_writes_no_plan"
            else state._replace(plans=tuple(sorted(state.plans + (Plan(me.plan, 0),))))
        )
        yield "edit writes its plan", go(me._replace(step="ensure"), noted), None

    elif me.step == "ensure":
        ensured = state if mutant == "edit_ignores_pend" else insert_run(state, me.old)
        yield "edit makes sure that the run of pend exists", go(me._replace(step="cas", old=None), ensured), None

    elif me.step == "cas":
        if not snapshot_holds(state, cfg, me.snap):
            yield "edit CAS fails, to be tried again", go(Edit("undo", me.count, me.tries, plan=me.plan)), None
        elif me.pend:
            bad = None if is_settled(state, job.pend) else "pend overwritten before its run existed"
            moved = write_job(
                state,
                cfg,
                version=job.version + 1,
                cursor=me.pend.to + 1,
                pend=None if mutant == "edit_skips_silently" else me.pend,
            )
            yield (
                f"edit CAS, version {job.version + 1}, skips {me.pend.fire}..{me.pend.to}",
                go(me._replace(step="insert", snap=None), moved),
                bad,
            )
        else:
            moved = write_job(state, cfg, version=job.version + 1)
            yield f"edit CAS, version {job.version + 1}", go(Edit("restamp", me.count), moved), None

    elif me.step == "undo":
        yield "edit deletes its plan", go(Edit("none", me.count - 1, me.tries + 1), without_plan(state, me.plan)), None

    elif me.step == "insert":
        yield (
            "edit inserts the skipped range",
            go(Edit("unplan", me.count, plan=me.plan), insert_run(state, me.pend)),
            None,
        )

    elif me.step == "unplan":
        yield "edit deletes its plan", go(Edit("restamp", me.count), without_plan(state, me.plan)), None

    elif me.step == "restamp":  # one run a step: cancel what waits, re-stamp what runs
        old = [run for run in state.runs if run.state in OPEN and run.version < job.version]
        for run in old:
            # What runs may end; what has not started is given back, to be dispatched under the new version.
            state_after = "R" if run.state == "R" else "T" if cfg.keep_waiting else "C"
            new = run._replace(version=job.version if state_after != "C" else run.version, state=state_after)
            yield f"edit re-stamps run {run.fire}", state._replace(runs=put_run(state.runs, new)), None
        if not old or mutant == "edit_acks_at_once":
            yield "edit is acknowledged", go(Edit("none", me.count), state._replace(acked=job.version)), None


# -------------------------------------------------------------------------------------------------------------------------------- faults
def fault_steps(state, cfg):
    left = state.budget
    if state.lock:
        yield "the job lock expires", state._replace(lock=0), None
    if left.flush and (state.queue or state.lock):
        yield "Redis is flushed", spend(state, "flush")._replace(queue=(), lock=0), None
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


def purge_steps(state, cfg):
    """The clean-up deletes an ended run (A3: nobody sleeps longer than the retention, so nobody still holds a reference to it)."""
    notes = [note for process in state.leaders + (state.edit,) for note in (process.pend, process.old) if note]
    held = {note.fire for note in notes}
    for run in state.runs:
        is_pend = state.job.pend is not None and state.job.pend.fire == run.fire
        if run.state in OPEN or run.fire in held or (is_pend and cfg.mutant != "clean_up_ignores_pend"):
            continue
        gone = spend(state, "purge")._replace(
            runs=tuple(r for r in state.runs if r != run), purged=state.purged + ((run.fire, run.to),)
        )
        yield f"the clean-up deletes run {run.fire}", gone, None


def successors(state, cfg):
    yield from fault_steps(state, cfg)
    yield from cancel_steps(state, cfg)
    yield from leader_steps(state, cfg, 0)
    yield from leader_steps(state, cfg, 1)
    for index, worker in enumerate(state.workers):
        if index == 0 or worker != state.workers[index - 1]:  # equal workers do the same
            yield from worker_steps(state, cfg, index)
    if cfg.edits:
        yield from editor_steps(state, cfg)


# -------------------------------------------------------------------------------------------------------------------------------- checks
def violation(state, cfg):
    """What must hold in every state."""
    job = state.job
    ranges = [(run.fire, run.to) for run in state.runs] + list(state.purged)
    if not is_settled(state, job.pend):
        if not state.plans and not any(fire == job.pend.fire for fire, _ in state.purged):
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
        and state.edit.step == "none"
        and is_settled(state, state.job.pend)
        and all(run.state not in OPEN for run in state.runs)
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


# -------------------------------------------------------------------------------------------------------------------------- what is run
QUICK = [
    ("no fault, 2 instants", config(fires=2, terms=1, ops=2, redispatch=0)),
    ("two leaders, 1 instant, re-dispatch", config(terms=3, redispatch=1)),
    ("leader killed, late CAS", config(kill_leader=1, delay=1, redispatch=1)),
    (
        "at_most_once, item doubled, read-back",
        config(at_most_once=True, read_back=True, workers=2, duplicate=1, redispatch=1),
    ),
    ("one edit, editor killed", config(edits=1, kill_editor=1, redispatch=1)),
    (
        "one edit that keeps what waits, failing attempt",
        config(ops=1, edits=1, keep_waiting=True, fail=1, redispatch=2),
    ),
    ("clean-up", config(fires=2, terms=2, ops=2, purge=1, redispatch=1)),
    ("cancelled once, worker killed, failing attempt", config(cancel=1, kill_worker=1, fail=1, redispatch=2)),
    ("cancelled once, at_most_once", config(at_most_once=True, read_back=True, cancel=1, kill_worker=1, redispatch=1)),
]

FULL = [
    (
        "every Redis fault, leader and worker killed, redis guard",
        config(
            guard="redis",
            workers=2,
            terms=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            redispatch=2,
            fail=1,
        ),
    ),
    (
        "the same, mongo guard",
        config(workers=2, terms=2, flush=1, lose=1, duplicate=1, kill_leader=1, kill_worker=1, redispatch=2, fail=1),
    ),
    (
        "the same, mongo guard, 3 terms",
        config(workers=2, terms=3, lose=1, duplicate=1, kill_leader=1, kill_worker=1, redispatch=2),
    ),
    (
        "at_most_once, every fault, read-back",
        config(
            at_most_once=True,
            read_back=True,
            workers=2,
            flush=1,
            lose=1,
            duplicate=1,
            kill_leader=1,
            kill_worker=1,
            redispatch=2,
        ),
    ),
    (
        "2 instants, coalesced and skipped, leader killed",
        config(fires=2, ops=3, coalesce=True, skip=True, kill_leader=1, redispatch=1),
    ),
    ("2 instants, 3 terms, coalesced", config(fires=2, terms=3, ops=2, coalesce=True, redispatch=1)),
    ("3 instants, coalesced and skipped", config(fires=3, terms=2, ops=3, coalesce=True, skip=True, redispatch=0)),
    ("2 instants, late CAS, leader killed", config(fires=2, ops=3, delay=1, kill_leader=1, redispatch=1)),
    (
        "2 instants, 2 workers, item doubled and lost",
        config(fires=2, ops=3, workers=2, duplicate=1, lose=1, redispatch=1),
    ),
    ("1 edit, 2 instants, 1 leader, re-dispatch", config(fires=2, terms=1, ops=3, edits=1, redispatch=1, lose=1)),
    ("1 edit, 2 instants, 2 leaders, 1 plan each", config(fires=2, ops=1, edits=1, redispatch=1)),
    ("1 edit, 2 instants, 2 leaders, 2 plans each", config(fires=2, ops=2, edits=1, redispatch=1)),
    (
        "1 edit, leader and editor killed, late CAS",
        config(ops=1, edits=1, kill_leader=1, kill_editor=1, delay=1, redispatch=1),
    ),
    ("1 edit, 3 instants, 1 leader, coalesced", config(fires=3, terms=1, ops=4, edits=1, coalesce=True, redispatch=1)),
    ("1 edit, 3 instants, 2 leaders, 1 plan each", config(fires=3, ops=1, edits=1, coalesce=True, redispatch=1)),
    (
        "cancelled once, at_most_once, item doubled, worker killed",
        config(at_most_once=True, read_back=True, workers=2, duplicate=1, cancel=1, kill_worker=1, redispatch=1),
    ),
    (
        "cancelled once, redis guard, every Redis fault, worker killed",
        config(guard="redis", workers=2, flush=1, lose=1, duplicate=1, kill_worker=1, cancel=1, fail=1, redispatch=2),
    ),
    ("cancelled twice, 2 instants, leader killed", config(fires=2, ops=3, cancel=2, kill_leader=1, redispatch=1)),
    ("cancelled once, 1 edit, worker killed", config(ops=1, edits=1, cancel=1, kill_worker=1, redispatch=1)),
    ("2 edits, 1 instant, worker killed", config(ops=1, edits=2, kill_worker=1, redispatch=1)),
    ("2 edits, 2 instants, 1 leader", config(fires=2, terms=1, edits=2, ops=3, redispatch=1)),
    ("2 edits, 2 instants, 2 leaders, 1 plan each", config(fires=2, edits=2, ops=1, redispatch=1)),
    ("2 edits, 2 instants, 2 leaders, 2 plans each", config(fires=2, edits=2, ops=2, redispatch=1)),
    (
        "1 edit, coalesced and skipped, clean-up",
        config(fires=2, edits=1, ops=1, purge=1, coalesce=True, skip=True, redispatch=0),
    ),
]

MUTANTS = [
    ("plan_not_written", config(kill_leader=1, redispatch=1)),
    ("plan_before_read", config(kill_leader=1, redispatch=1)),
    ("plan_deleted_before_insert", config(kill_leader=1, redispatch=1)),
    ("settle_without_writing_the_job", config(redispatch=1)),
    ("no_rev", config(delay=1, redispatch=1)),
    ("term_from_redis", config(fires=2, redispatch=1)),
    ("no_term_guard", config(fires=2, redispatch=0)),
    ("no_settler", config(kill_leader=1, terms=3, redispatch=1)),
    ("pend_overwritten_blindly", config(fires=2, redispatch=0)),
    ("edit_ignores_pend", config(edits=1, redispatch=0)),
    ("edit_writes_no_plan", config(edits=1, redispatch=0)),
    ("edit_skips_silently", config(edits=1, redispatch=0)),
    ("edit_acks_at_once", config(edits=1, redispatch=0)),
    ("redispatch_ignores_version", config(edits=1, redispatch=1)),
    ("reassign_without_cas", config(redispatch=1)),
    ("finish_without_fence", config(guard="redis", workers=2, redispatch=1)),
    ("finish_blindly", config(guard="redis", workers=2, redispatch=1)),
    ("no_reconciler", config(lose=1, redispatch=1)),
    ("redis_lock_only", config(at_most_once=True, workers=2, duplicate=1, redispatch=1)),
    ("read_back_by_fence", config(at_most_once=True, read_back=True, workers=2, duplicate=1)),
    ("at_most_once_redispatches_running", config(at_most_once=True, redispatch=1)),
    ("clean_up_ignores_pend", config(fires=2, purge=1, redispatch=1)),
    ("redispatch_ignores_cancel", config(cancel=1, kill_worker=1, redispatch=1)),
    ("dispatch_does_not_compare_cancel", config(cancel=1, kill_worker=1, redispatch=1)),
    ("cancel_ends_what_has_ended", config(cancel=1, redispatch=0)),
]


def main(arguments):
    quick = "--quick" in arguments
    only = arguments[arguments.index("--only") + 1] if "--only" in arguments else ""
    limit = int(arguments[arguments.index("--limit") + 1]) if "--limit" in arguments else 8_000_000
    good = QUICK + ([] if quick else FULL)
    failed = 0
    for name, cfg in [(n, c) for n, c in good if only in n]:
        began = time.time()
        verdict, count, steps = explore(cfg, limit)
        failed += verdict not in ("ok", "cut")
        print(f"{name:<58} {verdict:<6} {count:>9,} states {time.time() - began:6.1f} s", flush=True)
        if steps:
            print("      " + "\n      ".join(steps), flush=True)
    for name, cfg in [(n, c) for n, c in MUTANTS if only in n]:
        began = time.time()
        verdict, count, steps = explore(cfg._replace(mutant=name), limit)
        caught = verdict not in ("ok", "cut")
        failed += not caught
        print(
            f"mutant {name:<51} {'caught' if caught else 'SURVIVED':<8} {count:>9,} states {time.time() - began:6.1f} s: {verdict}",
            flush=True,
        )
        if caught and "--traces" in arguments:
            print("      " + "\n      ".join(steps), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

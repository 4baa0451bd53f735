"""The leader: planner, plan recovery (the settler) and reconciler."""

from tests.model.state import (
    IDLE,
    OPEN,
    Delayed,
    Later,
    Leader,
    Pend,
    Plan,
    insert_run,
    is_settled,
    item_of,
    move_job,
    put_run,
    run_at,
    run_of,
    settle_job,
    spend,
    with_leader,
    without_answer,
    without_plan,
    write_job,
)


def goes(me, step, **fields):
    """The leader at this step.  It forgets what it holds, except the runs that it has yet to insert."""
    return Leader(step, me.term, me.seq, later=me.later)._replace(**fields)


def leader_steps(state, cfg, node):
    me, job, mutant = state.leaders[node], state.job, cfg.mutant
    name = f"L{me.term}"  # L2 is the leader of term 2

    def go(leader, base=state):
        return with_leader(base, node, leader)

    home = goes(me, "lead")
    if me.step != "idle" and state.budget.kill_leader:
        yield f"{name} is killed", go(IDLE, spend(state, "kill_leader")), None

    if me.step == "idle":
        yield from late_inserts(state, cfg, node)  # of its last term
        if state.last_term < cfg.terms and not (node == 1 and state.leaders[0] == me):
            term = state.last_term + 1
            if (
                mutant == "term_from_redis" and state.last_term
            ):  # Redis forgot the counter: the number is given out again
                term = state.last_term
            yield f"L{term} is elected", go(Leader("lead", term, later=me.later), state._replace(last_term=term)), None

    elif me.step == "lead":
        yield f"{name} steps down", go(Leader("idle", later=me.later) if cfg.keep_later else IDLE), None
        yield from planner_starts(state, cfg, node)
        yield from settler_starts(state, cfg, node)
        yield from reconciler_starts(state, cfg, node)
        yield from late_inserts(state, cfg, node)

    elif me.step == "plan":  # the write-ahead note, before the compare-and-set
        if mutant == "plan_before_read":  # (written when the job was looked at first; read it only now)
            if job.cursor != me.pend.fire:
                yield f"{name} finds the cursor moved", go(goes(me, "unplan", plan=me.plan)), None
                return
            me = me._replace(snap=job, old=job.pend, pend=me.pend._replace(version=job.version))
        step = "cas" if is_settled(state, me.old) or mutant == "pend_overwritten_blindly" else "ensure"
        noted = (
            state
            if mutant in ("plan_not_written", "plan_before_read") or cfg.unsettled
            else state._replace(plans=tuple(sorted(state.plans + (Plan(me.plan, me.term),))))
        )
        if mutant == "push_before_cas":
            noted = pushed(noted, item_of(me.pend))
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
        if state.budget.unsure:  # the round fails, and its plan stays
            yield f"{name} makes sure of pend, no answer", go(home, without_answer(state, run_of(me.old))), None

    elif me.step == "cas":
        moved = move_job(state, cfg, me.snap, me.term, me.pend)
        if moved is None:
            yield f"{name} cursor CAS fails", go(goes(me, "unplan", plan=me.plan)), None
        else:
            after, bad = moved
            step = "unplan" if mutant == "plan_deleted_before_insert" else "insert"
            following = goes(me, step, pend=me.pend, plan=me.plan)
            if cfg.insert_late and me.pend.state == "D":  # push now, insert later
                waits = Later(me.pend, me.plan, mutant == "plan_deleted_before_the_run_exists")
                following = goes(me, "push", run=item_of(me.pend), later=tuple(sorted(me.later + (waits,))))
            yield (
                f"{name} moves the cursor {me.pend.fire}->{me.pend.to + 1} ({me.pend.state} f{me.pend.fence})",
                go(following, after),
                bad,
            )
        if state.budget.delay:
            waiting = spend(state, "delay")._replace(delayed=state.delayed + (Delayed(me.snap, me.term, me.pend),))
            left = goes(me, "unplan", plan=me.plan) if mutant == "no_answer_is_a_refusal" else home
            yield f"{name} gives up waiting for its CAS", go(left, waiting), None

    elif me.step == "insert":
        fresh = run_at(state, me.pend.fire) is None
        push = me.pend if fresh and me.pend.state == "D" else None
        if mutant == "plan_deleted_before_insert":
            after = goes(me, "push", run=item_of(me.pend)) if push else home
        elif cfg.unsettled:
            after = goes(me, "settle_job", pend=me.pend, run=item_of(me.pend) if push else None)
        else:
            after = goes(me, "unplan", pend=push, plan=me.plan)
        yield (
            f"{name} inserts run {me.pend.fire}" + ("" if fresh else ": exists"),
            go(after, insert_run(state, me.pend)),
            None,
        )
        if state.budget.unsure:
            left = after if mutant == "no_answer_is_an_insert" else home
            label = f"{name} inserts run {me.pend.fire}, no answer"
            yield label, go(left, without_answer(state, run_of(me.pend))), None

    elif me.step == "unplan":
        if mutant == "plan_deleted_before_insert" and me.pend:
            after = me._replace(step="insert")
        else:
            after = goes(me, "push", run=item_of(me.pend)) if me.pend else home
        yield f"{name} deletes plan {me.plan}", go(after, without_plan(state, me.plan)), None

    elif me.step == "push":
        if me.run.version < state.aged and mutant != "start_by_from_the_push":  # five seconds after the job was read
            yield f"{name} does not push run {me.run.fire}: too late", go(home), None
            return
        yield f"{name} pushes run {me.run.fire} f{me.run.fence}", go(home, pushed(state, me.run)), None

    elif me.step == "settle_job":
        after = goes(me, "push", run=me.run) if me.run else home
        yield f"{name} marks the job settled", go(after, settle_job(state, cfg, me.pend)), None

    elif me.step == "settle_read":
        missing = None if is_settled(state, job.pend) else job.pend
        after = goes(me, "settle_insert" if missing else "settle_unplan", pend=missing, plan=me.plan)
        yield f"{name} settles: reads the job", go(after), None

    elif me.step == "settle_insert":
        yield (
            f"{name} settles: inserts run {me.pend.fire}",
            go(
                goes(me, "settle_job", pend=me.pend) if cfg.unsettled else goes(me, "settle_unplan", plan=me.plan),
                insert_run(state, me.pend),
            ),
            None,
        )
        if state.budget.unsure:
            label = f"{name} settles: inserts run {me.pend.fire}, no answer"
            yield label, go(home, without_answer(state, run_of(me.pend))), None

    elif me.step == "settle_unplan":
        yield f"{name} settles: deletes plan {me.plan}", go(home, without_plan(state, me.plan)), None

    elif me.step == "redispatch":
        yield reconciler_acts(state, cfg, node)
        if state.budget.unsure:  # the run is not pushed
            before = state._replace(runs=tuple(run for run in state.runs if run.fire == me.run.fire))
            _, after, _ = reconciler_acts(before, cfg, node)
            for run in set(after.runs) - set(before.runs):
                flying = without_answer(state, run, me.run.state, me.run.fence)
                yield f"{name} re-dispatches run {run.fire}, no answer", go(home, flying), None


def pushed(state, item):
    return state._replace(queue=tuple(sorted(state.queue + (item,))))


def late_inserts(state, cfg, node):
    """Insert the runs that were pushed first, unless their workers have inserted them; only then delete their plans."""
    me = state.leaders[node]
    for k, waits in enumerate(me.later):
        rest = me.later[:k] + me.later[k + 1 :]
        if not waits.exists:
            known = me._replace(later=tuple(sorted(rest + (waits._replace(exists=True),))))
            yield (
                f"L{me.term} inserts run {waits.pend.fire} late",
                with_leader(inserted_late(state, cfg, waits.pend), node, known),
                None,
            )
            if state.budget.unsure:  # it inserts it again
                label = f"L{me.term} inserts run {waits.pend.fire} late, no answer"
                yield label, without_answer(state, run_of(waits.pend)), None
        elif cfg.unsettled:
            settled = settle_job(state, cfg, waits.pend)
            yield f"L{me.term} marks the job settled", with_leader(settled, node, me._replace(later=rest)), None
        else:
            done = without_plan(state, waits.plan)
            yield f"L{me.term} deletes plan {waits.plan}", with_leader(done, node, me._replace(later=rest)), None


def inserted_late(state, cfg, pend):
    if cfg.mutant == "late_insert_replaces":
        return state._replace(runs=put_run(state.runs, run_of(pend)))
    return insert_run(state, pend)


def planner_starts(state, cfg, node):
    """Read the job.  `now` is arbitrary: any number of instants may have been missed, to be coalesced or skipped."""
    me, job = state.leaders[node], state.job
    if job.cursor == cfg.fires or me.seq == cfg.ops or (job.term > me.term and cfg.mutant != "no_term_guard"):
        return
    if job.cursor >= state.due + (cfg.ahead or 0):
        return
    kinds = "DK" if cfg.skip and job.cursor < state.due else "D"  # nothing is skipped before it is due
    if cfg.overlap and is_open(state, cfg):
        kinds = "K" if job.cursor < state.due else ""  # the same at its instant only
    fence = me.term * 100 + me.seq + 1
    for to in range(job.cursor, max(state.due, job.cursor + 1) if cfg.coalesce else job.cursor + 1):
        for kind in kinds:
            pend = Pend(job.cursor, to, fence, kind, job.version)
            early = state
            if cfg.mutant == "plan_before_read":
                early = state._replace(plans=tuple(sorted(state.plans + (Plan(fence, me.term),))))
            yield (
                f"L{me.term} reads the job: {kind} {job.cursor}..{to}",
                with_leader(
                    early, node, goes(me, "plan", seq=me.seq + 1, snap=job, pend=pend, plan=fence, old=job.pend)
                ),
                None,
            )


def is_open(state, cfg):
    """Whether a run of the job is open.  The pending run is, as long as it has no document: its worker may execute it."""
    pending = not is_settled(state, state.job.pend) and cfg.mutant != "overlap_ignores_the_pending_run"
    return pending or any(run.state in OPEN for run in state.runs)


def settler_starts(state, cfg, node):
    """Finish what a plan announced: write the job (which fences its author), see that the run of pend exists, delete the plan."""
    me, job = state.leaders[node], state.job
    if cfg.mutant == "no_settler":
        return
    if job.unsettled and not (job.term > me.term):  # any intent is in the job itself, and so lands with its CAS
        step = goes(me, "settle_job" if is_settled(state, job.pend) else "settle_insert", pend=job.pend)
        yield f"L{me.term} settles the job", with_leader(state, node, step), None
    for plan in state.plans:
        if job.term > me.term:
            continue  # filter term <= mine: I am deposed
        fenced = state if cfg.mutant == "settle_without_writing_the_job" else write_job(state, cfg, term=me.term)
        step = "settle_unplan" if is_settled(state, job.pend) else "settle_insert"
        if cfg.bulk_recovery:  # one write for all jobs of the plan, then one read
            step = "settle_read"
        yield (
            f"L{me.term} settles plan {plan.id}: fences its author",
            with_leader(
                fenced,
                node,
                goes(me, step, pend=job.pend if step == "settle_insert" else None, plan=plan.id),
            ),
            None,
        )


def reconciler_starts(state, cfg, node):
    """A run whose check_at has passed (here: any open run, at any moment)."""
    me = state.leaders[node]
    if not state.budget.redispatch or me.seq == cfg.ops or cfg.mutant == "no_reconciler":
        return
    held = [*state.queue, *(worker.item for worker in state.workers if worker.item)] if cfg.punctual else []
    for run in state.runs:
        if run.state in OPEN and run.fire not in {item.fire for item in held}:
            yield (
                f"L{me.term} suspects run {run.fire}",
                with_leader(spend(state, "redispatch"), node, goes(me, "redispatch", seq=me.seq + 1, run=run)),
                None,
            )


def reconciler_acts(state, cfg, node):
    me, mutant = state.leaders[node], cfg.mutant
    seen, run, fence = me.run, run_at(state, me.run.fire), me.term * 100 + me.seq
    home = goes(me, "lead")
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
    item = item_of(new)
    if mutant == "redispatch_forgets_the_instant":
        item = item._replace(at=-1)
    after = with_leader(state._replace(runs=put_run(state.runs, new)), node, goes(me, "push", run=item))
    return f"L{me.term} re-dispatches run {run.fire} f{fence}", after, bad

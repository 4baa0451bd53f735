"""The leader: planner, plan recovery (the settler) and reconciler."""

from tests.model.state import (
    IDLE,
    OPEN,
    Delayed,
    Item,
    Leader,
    Pend,
    Plan,
    insert_run,
    is_settled,
    move_job,
    put_run,
    run_at,
    spend,
    with_leader,
    without_plan,
    write_job,
)


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

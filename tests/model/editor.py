"""The editor: the API changes the job."""

from tests.model.state import (
    OPEN,
    Edit,
    Pend,
    Plan,
    insert_run,
    is_settled,
    put_run,
    settle_job,
    snapshot_holds,
    spend,
    without_plan,
    write_job,
)


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
            if mutant == "edit_writes_no_plan" or cfg.unsettled
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
                unsettled=cfg.unsettled,
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
            go(
                Edit("settle_job", me.count, pend=me.pend) if cfg.unsettled else Edit("unplan", me.count, plan=me.plan),
                insert_run(state, me.pend),
            ),
            None,
        )

    elif me.step == "settle_job":
        yield "edit marks the job settled", go(Edit("restamp", me.count), settle_job(state, cfg, me.pend)), None

    elif me.step == "unplan":
        yield "edit deletes its plan", go(Edit("restamp", me.count), without_plan(state, me.plan)), None

    elif me.step == "restamp":  # one run a step: cancel what waits, re-stamp what runs
        old = [run for run in state.runs if run.state in OPEN and run.version < job.version]
        for run in old:
            yield from edit_retires(state, cfg, run)
        if not old or mutant == "edit_acks_at_once":
            acked = state._replace(acked=job.version)
            if cfg.withdraw and mutant != "edit_withdraws_nothing":
                acked = acked._replace(withdrawn=tuple(sorted(set(state.withdrawn + me.retired))))
            yield "edit is acknowledged", go(Edit("none", me.count), acked), None


def edit_retires(state, cfg, run):
    """What runs may end.  What has not started is cancelled, or given back to be dispatched under the new version."""
    for target in "R" if run.state == "R" else {True: "T", False: "C", "either": "CT"}[cfg.keep_waiting]:
        new = run._replace(version=state.job.version if target != "C" else run.version, state=target)
        edit = state.edit
        if cfg.withdraw and target != "R":  # to be withdrawn in Redis before the edit is acknowledged
            edit = edit._replace(retired=tuple(sorted(edit.retired + ((run.fire, run.fence),))))
        yield f"edit re-stamps run {run.fire} {target}", state._replace(runs=put_run(state.runs, new), edit=edit), None

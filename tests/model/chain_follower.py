"""The chain follower of the model of chains: takes a marked run that has ended, inserts what follows, removes the mark.

The join is read first, then the marks, and then the join is written by a compare-and-set on the rev that was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.model.chain_state import (
    FAILED,
    NO_JOB,
    NOBODY,
    OK,
    OPEN,
    PAUSED,
    SKIPPED,
    Answer,
    Config,
    Follower,
    Join,
    Runs,
    State,
    Step,
    replaced,
)

Put = Callable[..., State]


def follower_steps(state: State, config: Config, index: int) -> Iterator[Step]:
    me, mutant = state.followers[index], config.mutant
    name = f"follower {index + 1}" if config.terms else "a follower"

    def put(value: Follower, after: State = state) -> State:
        followers = list(replaced(after.followers, index, value))
        # Without terms, two followers are equal, and so is a state in which they have changed places.
        return after._replace(followers=tuple(followers if config.terms else sorted(followers)))

    if me.step != "idle":
        yield f"{name} dies while it is about to go on with {me.run}, and another one begins", put(Follower())
    match me.step:
        case "idle":
            if mutant == "job_read_before_the_runs" and me.saw != state.job:
                yield f"{name} reads D", put(Follower(saw=state.job))
            for k, run in enumerate(state.runs):
                if run.mark and run.state in (OK, FAILED):
                    yield f"{name} takes run {k}", put(Follower("took", "arrive", k, me.saw))
            if config.expires:
                for k in state.join.arrived:
                    yield f"{name} reads the join to expire {k}", put(Follower("read", "expire", k, "", state.join))
            if config.expires and state.join.pending and mutant != "pending_found_by_marks_only":
                yield f"{name} reads the join to clear it", put(Follower("read", "clear", NOBODY, "", state.join))
        case "took" if config.kind == "any":
            saw = me.saw if mutant == "job_read_before_the_runs" else state.job
            yield f"{name} reads D", put(me._replace(step="saw", saw=saw))
        case "took" if is_known(state.join, me.run, config):
            pending = () if mutant == "known_arrivals_ensure_nothing" else state.join.pending
            known = me._replace(step="wrote", join=Join(pending=pending))
            yield f"{name} reads the join, which has {me.run}", put(known)
        case "took":
            yield f"{name} reads the join", put(me._replace(step="read", join=state.join))
        case "saw" if mutant == "unmark_before_the_insert" and state.runs[me.run].mark:
            yield f"{name} unmarks {me.run}", put(me, unmarked(state, config, me.run))
        case "saw":
            after = state
            if me.saw != NO_JOB:
                skips = me.saw == PAUSED or state.runs[me.run].state == FAILED
                after = answered(state, config, index, (me.run,), skips)
            yield f"{name} inserts what follows {me.run}", put(me._replace(step="wrote", saw=""), after)
        case "read" if (ensured := inserted(state, config, index)) != state and mutant != "pending_not_ensured":
            yield f"{name} inserts the pending run {me.join.pending}", put(me, ensured)
        case "read" if me.aim == "clear":
            after = state
            if not me.stale or mutant == "cleared_without_rev":
                after = written(state, config, state.join._replace(pending=()))
            yield f"{name} clears the join", put(Follower(), after)
        case "read":
            marked = tuple(k for k, run in enumerate(state.runs) if run.mark and (k == me.run or k in me.join.recent))
            yield f"{name} reads the marks", put(me._replace(step="checked", marked=marked))
        case "checked":
            yield from write_steps(state, config, index, name, put)
        case "wrote" if (ensured := inserted(state, config, index)) != state:
            yield f"{name} inserts the pending run {me.join.pending}", put(me, ensured)
        case "wrote" if me.aim == "arrive":
            yield f"{name} unmarks {me.run}", put(Follower(), unmarked(state, config, me.run))
        case "wrote":
            yield f"{name} is done", put(Follower())


def write_steps(state: State, config: Config, index: int, name: str, put: Put) -> Iterator[Step]:
    """The compare-and-set of the join, on the rev that was read before the marks."""
    me, mutant = state.followers[index], config.mutant
    run = me.run
    checks = config.kind == "all" and not config.memory and mutant != "marks_not_read_after_the_join"
    if me.aim == "arrive" and checks and run not in me.marked:
        yield f"{name} finds {run} without its mark", put(Follower())
    elif config.terms and state.join.term > index + 1:
        yield f"{name} is deposed", put(Follower())
    elif not me.stale or mutant == "written_without_rev":
        new = changed(me, config)._replace(term=(index + 1) * config.terms)
        wrote = Follower("wrote", me.aim, run, join=Join(pending=new.pending))
        yield f"{name} writes {me.aim} {run}", put(wrote, written(state, config, new))
    elif mutant == "unmarked_after_a_refusal" and me.aim == "arrive":
        yield f"{name} is refused", put(Follower("wrote", "arrive", run))
    else:
        yield f"{name} is refused", put(Follower("took", "arrive", run) if me.aim == "arrive" else Follower())


def written(state: State, config: Config, join: Join) -> State:
    """Every compare-and-set of a follower that has read the join before will be refused. Of what it has read, only the
    pending run matters then, which it inserts.
    """
    blind = "without_rev" in config.mutant
    followers = tuple(
        one._replace(
            stale=True, marked=one.marked if blind else (), join=one.join if blind else Join(pending=one.join.pending)
        )
        if one.step in ("read", "checked")
        else one
        for one in state.followers
    )
    return state._replace(join=join, followers=followers)


def is_known(join: Join, run: int, config: Config) -> bool:
    """Whether nothing is left to do for an arrival: it is in the join, or a later one of its job is."""
    if config.kind == "chain" and config.mutant != "older_replaces_newer":
        return any(config.runs[k] == config.runs[run] and k >= run for k in join.arrived)
    return run in join.arrived or run in join.recent


def changed(me: Follower, config: Config) -> Join:
    join, run = me.join, me.run
    if config.kind == "chain":
        last = {config.runs[k]: k for k in (*join.arrived, run)}
        arrived = tuple(sorted(last.values()))
        return Join(arrived=arrived, pending=arrived if len(last) == len(set(config.runs)) else ())
    recent = join.recent if config.memory else tuple(k for k in join.recent if k in me.marked)
    arrived, complete = join.arrived, (run,)
    if me.aim == "arrive":
        arrived = tuple(sorted((*arrived, run)))
        oldest = {config.runs[k]: k for k in reversed(arrived)}
        complete = tuple(sorted(oldest.values())) if len(oldest) == len(set(config.runs)) else ()
    left = tuple(k for k in arrived if k not in complete)
    added = (run,) if config.memory and me.aim == "arrive" else () if config.memory else complete
    return Join(arrived=left, recent=remembered((*recent, *added), config), pending=complete)


def remembered(recent: Runs, config: Config) -> Runs:
    if config.mutant == "nothing_is_remembered":
        return ()
    most = 1 if config.mutant == "marked_arrivals_are_forgotten" else config.memory
    return recent[-most:] if most else tuple(sorted(recent))


def answered(state: State, config: Config, index: int, of: Runs, skipped: bool = False) -> State:
    """The insert of a run of D, which does nothing if its id exists."""
    nonce = ""
    if config.mutant == "random_ids":
        nonce = str(index)
    elif config.mutant == "skipped_runs_have_their_own_ids":
        nonce = "skipped" * skipped
    if any(one.of == of and one.nonce == nonce for one in state.answers):
        return state
    return state._replace(answers=state.answers | {Answer(of, SKIPPED if skipped else OPEN, nonce)})


def inserted(state: State, config: Config, index: int) -> State:
    """After the insert of the pending run that this follower has read or written."""
    pending = state.followers[index].join.pending
    return answered(state, config, index, pending) if pending else state


def unmarked(state: State, config: Config, run: int) -> State:
    gone = {run}
    if config.mutant == "all_marks_are_removed":
        gone = {k for k, one in enumerate(state.runs) if one.state in (OK, FAILED)}
    runs = tuple(one._replace(mark=one.mark and k not in gone) for k, one in enumerate(state.runs))
    return state._replace(runs=runs)

"""The documents, the processes, and the operations on them that several processes share."""

from collections import namedtuple

# ------------------------------------------------------------------------------------------------------------------------- the documents
Job = namedtuple(
    "Job", "cursor version pend term unsettled", defaults=(False,)
)  # unsettled: the run of pend may be missing
Pend = namedtuple("Pend", "fire to fence state version")
Plan = namedtuple("Plan", "id term")  # term 0: written by an editor
Run = namedtuple(
    "Run", "fire state fence version to start_id cancel finish_id", defaults=(0, 0)
)  # cancel 1: somebody asked for its cancellation
Item = namedtuple("Item", "fire fence version to at")  # at: the instant before which it may not start

# ------------------------------------------------------------------------------------------------------------------------- the processes
# step: idle lead plan ensure cas insert unplan push settle_insert settle_unplan redispatch
Later = namedtuple("Later", "pend plan exists")
# later: the runs that it has pushed and not inserted yet, each with its plan and whether the run is known to exist
Leader = namedtuple(
    "Leader", "step term seq snap pend plan run old later", defaults=(0, 0, None, None, None, None, None, ())
)
# step: idle took asked held running, and while it records: missed insert again resend
# goal: what it records, R a start, T given back, otherwise an outcome; note: the pending run that it is about to insert
Worker = namedtuple("Worker", "step item start_id goal note", defaults=(None, 0, "", None))
# step: none plan ensure cas undo insert settle_job unplan restamp; retired: the dispatches that it has to withdraw in Redis
Edit = namedtuple("Edit", "step count tries snap pend plan old retired", defaults=(0, 0, None, None, None, None, ()))
Delayed = namedtuple("Delayed", "snap term pend")  # a compare-and-set on its way whose sender has given up waiting
# A write of a run on its way, whose sender has got no answer.  sources: the states that it changes; none: an insert.
Flying = namedtuple("Flying", "run sources fence")
Budget = namedtuple(
    "Budget",
    "flush lose duplicate kill_leader kill_worker kill_editor redispatch delay purge fail cancel spool unsure recreate",
)

State = namedtuple(
    "State",
    "job plans runs last_term queue lock delayed leaders workers edit acked takes budget starts commits purged "
    "due withdrawn aged spool flying",
    defaults=((), ()),
)
STALE = "stale"
OPEN = "DRT"
IDLE = Leader("idle")
RESTING = Worker("idle")

Config = namedtuple(
    "Config",
    "fires terms ops workers edits coalesce skip guard at_most_once read_back keep_waiting mutant budget "
    "overlap give_back aging insert_late unsettled ahead skew withdraw punctual bulk_recovery "
    "fallback keep_later",
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
    overlap=False,
    give_back=False,
    aging=False,
    insert_late=False,
    unsettled=False,
    ahead=None,
    skew=False,
    withdraw=False,
    punctual=False,
    bulk_recovery=False,
    fallback=False,
    keep_later=False,
    **budget,
):
    full = Budget(*(budget.pop(name, 0) for name in Budget._fields))
    assert not budget, budget
    return Config(
        fires,
        terms,
        ops,
        workers,
        edits,
        coalesce,
        skip,
        guard,
        at_most_once,
        read_back,
        keep_waiting,
        mutant,
        full,
        overlap,
        give_back,
        aging,
        insert_late,
        unsettled,
        ahead,
        skew,
        withdraw,
        punctual,
        bulk_recovery,
        fallback,
        keep_later,
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
        cfg.fires if cfg.ahead is None else 0,
        (),
        0,
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


def item_of(run):
    """The item that is pushed for a run, or for the pending run that it is built from."""
    return Item(run.fire, run.fence, run.version, run.to, run.fire)


def is_purged(state, fire):
    return any(first == fire for first, _ in state.purged)


def is_settled(state, pend):
    return pend is None or run_at(state, pend.fire) is not None


def insert_run(state, pend):
    """Insert the run that `pend` describes; an existing one is success and stays as it is."""
    return state if is_settled(state, pend) else state._replace(runs=put_run(state.runs, run_of(pend)))


def with_leader(state, node, leader):
    """Nodes are interchangeable, so their order is normalised: by term, which is unique (idle ones have none)."""
    pair = (leader, state.leaders[1 - node])
    return state._replace(leaders=tuple(sorted(pair, key=lambda one: (one.term, one.later))))


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
    if cfg.overlap and pend.state == "D" and any(run.state in OPEN for run in state.runs):
        bad = bad or "a run was planned while another one of the job was open"
    return write_job(state, cfg, cursor=pend.to + 1, pend=pend, term=term, unsettled=cfg.unsettled), bad


def settle_job(state, cfg, pend):
    """The run of `pend` exists: take the mark from the job, unless the mark stands for a later pending run."""
    same = state.job.pend == pend
    if cfg.mutant == "settle_by_fence":  # an edit that skips instants keeps the fence
        same = bool(state.job.pend) and state.job.pend.fence == pend.fence
    if cfg.mutant == "settle_blindly":
        same = True
    return state._replace(job=state.job._replace(unsettled=False)) if same else state


def without_answer(state, run, sources="", fence=0):
    """The sender gives up waiting for this write of a run, which may arrive at any moment, or never."""
    return spend(state, "unsure")._replace(flying=tuple(sorted([*state.flying, Flying(run, sources, fence)])))


def spend(state, name):
    return state._replace(budget=state.budget._replace(**{name: getattr(state.budget, name) - 1}))

"""The documents, the processes, and the operations on them that several processes share."""

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

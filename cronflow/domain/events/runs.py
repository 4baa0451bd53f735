"""Events of runs."""

from __future__ import annotations

from cronflow.domain.events.base import Event, Severity, event

MOST_MOVES = 100
MOVES_IN_TEXT = 3


@event
class FenceRejected(Event):
    """A result came from an attempt that another one had replaced; it was stored as a late result."""

    run: str
    fence: int
    outcome: str
    severity = Severity.WARN
    message = "a late result of {run} was rejected ({outcome}, fence {fence})"


@event
class RunsReassigned(Event):
    """Runs of a lost worker were assigned to other workers, by the leader of `term`. `moves` has a line for each of the
    first MOST_MOVES: the run, the node that had it, and the node that has it now. Both are empty in events of earlier
    versions.
    """

    count: int
    run: str
    moves: str = ""
    term: int = 0
    severity = Severity.WARN
    longest = 32_000
    message = "{count:run of a lost worker was|runs of lost workers were} reassigned ({count:=|for example }{run})"

    @property
    def text(self) -> str:
        moves = [words for line in self.moves.splitlines() if len(words := line.split()) == 3][:MOVES_IN_TEXT]
        listed = ", ".join(f"{run} from {before} to {now}" for run, before, now in moves)
        # Zero arguments of `super` do not work in a dataclass with slots.
        whole = Event.text.__get__(self)
        return f"{whole}: {listed}{', …' if self.count > len(moves) else ''}" if listed else whole


@event
class RunsUnplaced(Event):
    """Runs have waited for some seconds because no live node can run them. They start when one can."""

    count: int
    run: str
    reason: str
    severity = Severity.WARN
    message = (
        "{count:run waits|runs wait} for a node that can run {count:=it|them} ({count:=|for example }{run}): {reason}"
    )


@event
class JobsOverdue(Event):
    """Jobs were due more than a minute ago, and nothing has been planned for them."""

    count: int
    job: str
    reason: str
    severity = Severity.WARN
    message = "{count:job is|jobs are} overdue ({count:=|for example }{job}): {reason}"


@event
class JobsStuck(Event):
    """Runs of jobs have waited for more than a minute for a node with room. Those that no node can run are reported as
    `runs_unplaced`, and those that take longer than usual as `run_long`.
    """

    count: int
    job: str
    reason: str
    severity = Severity.WARN
    message = "{count:job is|jobs are} stuck ({count:=|for example }{job}): {reason}"


@event
class JobsRecovered(Event):
    """Jobs are no longer overdue, or no longer stuck."""

    count: int
    job: str
    health: str
    message = "{count:job is|jobs are} no longer {health} ({count:=|for example }{job})"


@event
class RunsLost(Event):
    """Runs whose worker is gone and that must not start twice. They are dead letters."""

    job: str
    count: int
    run: str
    severity = Severity.ERROR
    message = "{count:run|runs} of {job} {count:=was|were} lost ({count:=|for example }{run})"


@event
class RunsFailed(Event):
    """Runs failed and have no retries left. They are dead letters."""

    job: str
    count: int
    run: str
    error: str
    severity = Severity.ERROR
    message = "{count:run|runs} of {job} failed ({count:=|for example }{run}): {error}"


@event
class RunLong(Event):
    """A run takes more than twice as long as 95 % of its job's latest successful runs. It is emitted once per run."""

    run: str
    job: str
    running_for: str
    usual: str
    severity = Severity.WARN
    message = "{run} has been running for {running_for}; 95 % of the recent runs of {job} took at most {usual}"


@event
class RunCancelled(Event):
    run: str
    by: str
    reason: str
    message = "{run} was cancelled"


@event
class RunSplit(Event):
    """A run began as several parts."""

    run: str
    parts: int
    message = "{run} was split into {parts:part|parts}"


@event
class RunSummedUp(Event):
    """All parts of a run have ended. `others` did not succeed."""

    run: str
    state: str
    parts: int
    others: int
    message = "{run} {state}: {parts:part|parts}, {others} did not succeed"


@event
class PlanRecovered(Event):
    """A leader failed in the middle of a plan, and the next one completed it."""

    plan: str
    jobs: int
    runs_inserted: int
    severity = Severity.WARN
    message = "plan {plan} for {jobs:job|jobs} was recovered; {runs_inserted:run was|runs were} missing"


@event
class SweepFound(Event):
    """The sweep found a record that breaks an invariant."""

    flaw: str
    where: str
    what: str
    repaired: bool
    severity = Severity.ERROR
    message = "the sweep found {where}: {what}"


@event
class SweepEnded(Event):
    run: str
    found: int
    took_ms: int
    message = "the sweep finished with {found:finding|findings}"

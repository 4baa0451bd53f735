"""Events: what happened in the cluster, in the past tense, one class for each kind.

They are for people and alerts, never for the protocol: no decision depends on an event, and losing one loses no run. A
kind's name is its class in snake case (`leader_elected`), and its fields are plain values. Something that happens to
many runs at once is one event with a count and an example, so that a burst of failures is not a burst of events.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar, dataclass_transform

MOST_MOVES = 100
MOVES_IN_TEXT = 3
MOST_CHARACTERS = 500
"""How long a field of a stored event is, unless its class allows more."""


class Severity(StrEnum):
    """How urgent an event is."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """The base class. `message` is a template filled in with the fields; `{count:run|runs}` is the number
    with the word for one or for many, `{count:=was|were}` that word alone.
    """

    severity: ClassVar[Severity] = Severity.INFO
    message: ClassVar[str] = ""
    longest: ClassVar[int] = MOST_CHARACTERS

    @property
    def kind(self) -> str:
        """The name of its class in snake case."""
        return kind_of(type(self))

    @property
    def text(self) -> str:
        """What happened, as a sentence without a full stop."""
        return self.message.format(**{name: _counted(value) for name, value in asdict(self).items()})


class _Count(int):
    """A number that is formatted with the words `one|many` of its field; after `=` the words stand alone."""

    def __format__(self, words: str) -> str:
        one, _, many = words.removeprefix("=").partition("|")
        word = one if self == 1 else many
        return word if words.startswith("=") else f"{int(self)} {word}".rstrip()


def _counted(value: object) -> object:
    return _Count(value) if type(value) is int else value


KINDS: dict[str, type[Event]] = {}
OLD_KINDS: Mapping[str, str] = {
    "clock_went_wrong": "clock_out_of_sync",
    "clock_went_right": "clock_in_sync",
    "plan_settled": "plan_recovered",
    "redis_amnesia_healed": "redis_state_restored",
    "service_found": "service_recovered",
    "spool_begun": "spool_started",
    "stepdown_asked": "stepdown_requested",
}
"""The names that kinds had in 0.6, and their names now. Stored events and filters may have either."""

EventClass = TypeVar("EventClass", bound=Event)


def kind_of(event: type[Event]) -> str:
    """`LeaderElected` is `leader_elected`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def current_kind(kind: str) -> str:
    """The present name of a kind that may have been renamed."""
    return OLD_KINDS.get(kind, kind)


def stored_kinds(kinds: Collection[str]) -> list[str]:
    """Every name under which events of these kinds are stored; a name of no kind is left out."""
    wanted = {current_kind(kind) for kind in kinds} & KINDS.keys()
    return sorted(wanted | {old for old, new in OLD_KINDS.items() if new in wanted})


@dataclass_transform(frozen_default=True)
def event(kind: type[EventClass]) -> type[EventClass]:
    """Declare a kind of event: a frozen dataclass, registered in KINDS."""
    made = dataclass(frozen=True, slots=True)(kind)
    KINDS[kind_of(made)] = made
    return made


# ------------------------------------------------------------------------------------------------- leaders and nodes


@event
class LeaderElected(Event):
    """`after` is the previous leader, and `renewed` the instant at which it last renewed its lease; both are empty if
    there was none, and in events of earlier versions.
    """

    node: str
    term: int
    after: str = ""
    renewed: str = ""
    message = "{node} is the leader, term {term}"


@event
class LeaderSteppedDown(Event):
    """A leader stepped down, or found out that it had lost the lead."""

    node: str
    term: int
    reason: str
    severity = Severity.WARN
    message = "{node} is no longer the leader, term {term}: {reason}"


@event
class StepdownRequested(Event):
    leader: str
    by: str
    message = "{leader} was asked to step down"


@event
class MaintenanceStarted(Event):
    """`note` and `until` are empty if there are none; `until` is an instant."""

    by: str
    note: str = ""
    until: str = ""
    severity = Severity.WARN
    message = "maintenance began: nothing new starts"


@event
class MaintenanceEnded(Event):
    by: str
    message = "maintenance ended"


@event
class RecoveryWaiting(Event):
    """More runs were missed in an outage than RECOVERY_LIMIT. They wait for a person."""

    runs: int
    jobs: int
    cause: str
    severity = Severity.WARN
    message = "{runs:missed run|missed runs} of {jobs:job|jobs} wait for approval ({cause})"


@event
class RecoveryApproved(Event):
    """`only` is the pattern of the jobs that it concerns, and empty for all; `rate` is empty without one."""

    by: str
    runs: int
    only: str = ""
    rate: str = ""
    message = "{runs:missed run|missed runs} may start"


@event
class RecoverySkipped(Event):
    """`only` is the pattern of the jobs that it concerns, and empty for all."""

    by: str
    runs: int
    only: str = ""
    note: str = ""
    severity = Severity.WARN
    message = "{runs:missed run|missed runs} {runs:=is|are} skipped"


@event
class RecoveryWithdrawn(Event):
    """Fewer missed runs are left than need an approval, so they start."""

    runs: int
    message = "{runs:missed run|missed runs} {runs:=needs|need} no approval any more"


@event
class RecoveryEnded(Event):
    """No missed run is held any more. `runs` and `jobs` were counted at its beginning."""

    runs: int
    jobs: int
    message = "the recovery of {runs:missed run|missed runs} of {jobs:job|jobs} ended"


@event
class CursorsCorrected(Event):
    """The time zone data of the leader are others than those by which the next fires of these jobs were computed."""

    jobs: int
    zones: str
    message = "the next fires of {jobs:job|jobs} moved, because the time zone data have changed"


@event
class NodeJoined(Event):
    """`code` is a digest of the modules that it loads; it is empty in events of earlier versions."""

    node: str
    version: str
    slots: int
    code: str = ""
    message = "{node} joined with {slots:slot|slots}"


@event
class NodeLeft(Event):
    node: str
    message = "{node} left"


@event
class NodeLost(Event):
    """A node's heartbeat stopped without a clean exit. Its next process may have joined already."""

    node: str
    in_flight: int
    severity = Severity.ERROR
    message = "{node} was lost with {in_flight:run|runs} in flight"


@event
class HandlerProcessEnded(Event):
    """A handler process ended, and its attempts with it. The node starts another one."""

    node: str
    pid: int
    reason: str
    attempts: int
    severity = Severity.WARN
    message = "a handler process of {node} {reason}; {attempts:attempt|attempts} ended with it"


@event
class NodeDraining(Event):
    """A node was asked to finish its running jobs and accept no new ones."""

    node: str
    severity = Severity.WARN
    message = "{node} is draining"


@event
class NodeDrained(Event):
    node: str
    message = "{node} is drained"


@event
class DrainDeadlinePassed(Event):
    """A node that drains has stopped what still ran; other nodes run it again."""

    node: str
    runs: int
    severity = Severity.WARN
    message = "{node} handed on {runs:run|runs} at the deadline of its drain"


@event
class NodeUndrained(Event):
    node: str
    message = "{node} accepts work again"


@event
class ClusterIncomplete(Event):
    """A new cluster has no leader yet, because fewer nodes are up than MIN_NODES."""

    nodes: int
    minimum: int
    severity = Severity.WARN
    message = "the cluster waits for its first leader until {minimum} nodes are up; now {nodes}"


@event
class ClusterDegraded(Event):
    """Fewer nodes are up than MIN_NODES. The cluster keeps running with those that are left."""

    nodes: int
    minimum: int
    names: str
    severity = Severity.ERROR
    message = "only {nodes:node is|nodes are} up, fewer than {minimum}: {names}"


@event
class ClusterComplete(Event):
    nodes: int
    message = "{nodes} nodes are up again"


# --------------------------------------------------------------------------------------------- servers and the disk


@event
class ServiceLost(Event):
    service: str
    reason: str
    severity = Severity.ERROR
    message = "{service} is unreachable: {reason}"


@event
class ServiceRecovered(Event):
    service: str
    away_s: float
    message = "{service} is reachable again after {away_s:g} s"


@event
class BreakerOpened(Event):
    """A service failed so often that no requests are sent to it for a while."""

    service: str
    failures: int
    severity = Severity.ERROR
    message = "the circuit breaker of {service} opened after {failures:failure|failures}"


@event
class BreakerClosed(Event):
    """A trial request to the service succeeded."""

    service: str
    message = "the circuit breaker of {service} closed"


@event
class RedisStateRestored(Event):
    """Redis had lost its data; the leader wrote the state of the cluster again."""

    term: int
    severity = Severity.WARN
    message = "Redis had lost its data, and the leader restored it, term {term}"


@event
class ClockOutOfSync(Event):
    """The clock of a node, or of a server, cannot be trusted."""

    node: str
    reason: str
    severity = Severity.ERROR
    message = "the clock of {node} is out of sync: {reason}"


@event
class ClockInSync(Event):
    node: str
    message = "the clock of {node} is in sync again"


@event
class SpoolStarted(Event):
    """A node writes outcomes to its local disk, because MongoDB is unreachable."""

    node: str
    severity = Severity.WARN
    message = "{node} writes outcomes to its disk"


@event
class SpoolDrained(Event):
    node: str
    message = "{node} wrote all outcomes from its disk to MongoDB"


# --------------------------------------------------------------------------------------------------------------- runs


@event
class FenceRejected(Event):
    """An outcome came from an attempt that another one had replaced; it was stored as a late result."""

    run: str
    fence: int
    outcome: str
    severity = Severity.WARN
    message = "a late outcome of {run} was rejected ({outcome}, fence {fence})"


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
    message = "{count:run has|runs have} no node that can run {count:=it|them} ({count:=|for example }{run}): {reason}"


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
    message = "{run} {state}: {parts:part|parts}, {others} without success"


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


# --------------------------------------------------------------------------------------------------------------- jobs


@event
class JobCreated(Event):
    job: str
    by: str
    message = "{job} was created"


@event
class JobChanged(Event):
    job: str
    by: str
    message = "{job} was changed"


@event
class JobDefinitionDiffers(Event):
    """The code of a job on a node, and perhaps on others, is not what is stored. `keys` are those that differ; another
    difference of the same job has another `digest`.
    """

    job: str
    node: str
    keys: str
    digest: str
    severity = Severity.WARN
    message = "the code of {job} on {node} differs from the stored job: {keys}"


@event
class FiresSkipped(Event):
    """An edit skipped due fires, which are recorded as one run. `reason` is the reason of that run."""

    job: str
    fires: str
    reason: str
    by: str
    severity = Severity.WARN
    message = "{fires} of {job} skipped: the job was {reason} before a run was planned"


@event
class JobPaused(Event):
    """`note` and `until` are empty if there are none; `until` is an instant."""

    job: str
    by: str
    note: str = ""
    until: str = ""
    message = "{job} was paused"

    @property
    def text(self) -> str:
        until = f" until {self.until}" if self.until else ""
        return f"{self.job} was paused{until}{f': {self.note}' if self.note else ''}"


@event
class JobPausedAfterFailures(Event):
    """The last runs of a job failed, as many as its `pause_after` allows, so the job was paused."""

    job: str
    failures: int
    run: str
    severity = Severity.ERROR
    message = "{job} was paused after {failures:failed run|failed runs in a row}, the last one {run}"


@event
class JobResumed(Event):
    job: str
    by: str
    message = "{job} was resumed"


@event
class JobBreakerOpened(Event):
    """So many of the last attempts of a job failed that its failing runs are not retried for a while."""

    job: str
    failed: int
    attempts: int
    severity = Severity.ERROR
    message = "circuit breaker activated for {job}: {failed} of its last {attempts:attempt|attempts} failed"


@event
class JobBreakerClosed(Event):
    """Failing runs of the job are retried again."""

    job: str
    reason: str
    message = "the circuit breaker of {job} closed: {reason}"


@event
class JobDeleted(Event):
    job: str
    by: str
    message = "{job} was deleted"


@event
class LimitDefined(Event):
    limit: str
    by: str
    message = "limit {limit} was defined"


@event
class LimitDeleted(Event):
    limit: str
    by: str
    message = "limit {limit} was deleted"


@event
class CalendarChanged(Event):
    """A calendar was created or changed, and with it the jobs that use it."""

    calendar: str
    revision: int
    jobs: int
    by: str
    message = "calendar {calendar} was changed (revision {revision}); {jobs:job uses|jobs use} it"


@event
class CalendarDeleted(Event):
    calendar: str
    by: str
    message = "calendar {calendar} was deleted"


@event
class CalendarUpdatesFinished(Event):
    """The leader bound jobs to the current calendars because the process that changed a calendar had not."""

    jobs: int
    message = "{jobs:job was|jobs were} bound to the current calendars after an interrupted change"


@event
class PermitsRecovered(Event):
    """Runs ended, or moved to another node, without releasing their permits."""

    permits: int
    run: str
    severity = Severity.WARN
    message = "{permits:permit|permits} of ended attempts recovered, for example of {run}"


@event
class BackfillRequested(Event):
    backfill: str
    runs: int
    by: str
    message = "backfill {backfill} of {runs:run|runs} was requested"


@event
class BackfillCancelled(Event):
    backfill: str
    by: str
    reason: str
    message = "backfill {backfill} was cancelled"


@event
class BackfillEnded(Event):
    """Every run of a backfill has ended. `others` did not succeed."""

    backfill: str
    runs: int
    others: int
    message = "backfill {backfill} ended: {runs:run|runs}, {others} without success"


@event
class RunHeldBack(Event):
    """A run of a job that follows others was skipped, because of the runs that it would have followed."""

    run: str
    job: str
    reason: str
    severity = Severity.WARN
    message = "{run} was held back: {reason}"


@event
class AlertGaveUp(Event):
    """A receiver did not accept a notification, within a day or for good; it is not sent again."""

    alert: str
    subject: str
    attempts: int
    error: str
    severity = Severity.ERROR
    message = "alert {alert} gave up on {subject} after {attempts:attempt|attempts} to send it: {error}"


@event
class EventsDropped(Event):
    """Too many events occurred to record them all; the rest were counted."""

    count: int
    severity = Severity.WARN
    message = "{count:event was|events were} dropped"


# ------------------------------------------------------------------------------------------------------------ stored


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as stored and shown. `id` grows with time and is the cursor too; `source` is the id of the node that
    emitted it, or `api`.
    """

    id: str
    at: datetime
    source: str
    event: Event


def cursor_of(at: datetime) -> str:
    """A lower bound for the ids of events from `at` on: microseconds as hexadecimal digits."""
    return f"{int(at.astimezone(UTC).timestamp() * 1_000_000):014x}"


def event_id(at: datetime, token: str) -> str:
    """The id of an event; `token` distinguishes those of one microsecond."""
    return f"{cursor_of(at)}-{token}"


def fields_of(happened: Event) -> dict[str, Any]:
    """Its fields, with long texts cut."""
    found = asdict(happened)
    return {name: value[: happened.longest] if isinstance(value, str) else value for name, value in found.items()}


def event_of(kind: str, found: Mapping[str, Any]) -> Event | None:
    """The event of this kind, by its present or its old name; None when this version does not have it. A field with a
    default may be missing: earlier versions did not have it.
    """
    known = KINDS.get(current_kind(kind))
    if known is None or {one.name for one in fields(known) if one.default is MISSING} - found.keys():
        return None
    return known(**{one.name: found[one.name] for one in fields(known) if one.name in found})

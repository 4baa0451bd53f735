"""Events: what happened in the cluster, in the past tense, one class for each kind.

They are for people and alarms, never for the protocol: nothing decides by an event, and one that is lost costs nobody
a run. The rules: a kind's name is its class in small letters (`leader_elected`), its fields are plain values, and what
happens to many runs at once is one event with a count and an example, so that a storm of failures is no storm of
events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar


class Severity(StrEnum):
    """How much an event asks of whoever reads it."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all. `message` is its sentence, filled in with its fields; `{count:run was|runs were}` is a number
    with the words that belong to it.
    """

    severity: ClassVar[Severity] = Severity.INFO
    message: ClassVar[str] = ""

    @property
    def kind(self) -> str:
        """The name of its class in small letters."""
        return kind_of(type(self))

    @property
    def text(self) -> str:
        """What happened, as a sentence without its point."""
        return self.message.format(**{name: _worded(value) for name, value in asdict(self).items()})


class _Number(int):
    """A number that knows its words: `one|many` behind the colon of a field."""

    def __format__(self, words: str) -> str:
        one, _, many = words.partition("|")
        return f"{int(self)} {one if self == 1 else many}" if words else str(int(self))


def _worded(value: object) -> object:
    return _Number(value) if type(value) is int else value


KINDS: dict[str, type[Event]] = {}
EventClass = TypeVar("EventClass", bound=type[Event])


def kind_of(event: type[Event]) -> str:
    """`LeaderElected` is `leader_elected`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def _known(event: EventClass) -> EventClass:
    KINDS[kind_of(event)] = event
    return event


# ------------------------------------------------------------------------------------------------- leaders and nodes


@_known
@dataclass(frozen=True, slots=True)
class LeaderElected(Event):
    """A node leads."""

    node: str
    term: int
    message = "{node} leads, term {term}"


@_known
@dataclass(frozen=True, slots=True)
class LeaderSteppedDown(Event):
    """A node no longer leads, of its own will or because it found out."""

    node: str
    term: int
    reason: str
    severity = Severity.WARN
    message = "{node} leads no longer, term {term}: {reason}"


@_known
@dataclass(frozen=True, slots=True)
class StepdownRequested(Event):
    """Somebody asked the leader to step down."""

    leader: str
    by: str
    message = "{leader} was asked to step down"


@_known
@dataclass(frozen=True, slots=True)
class NodeJoined(Event):
    """A node is up."""

    node: str
    version: str
    slots: int
    message = "{node} joined with {slots:slot|slots}"


@_known
@dataclass(frozen=True, slots=True)
class NodeLeft(Event):
    """A node has stopped in good order."""

    node: str
    message = "{node} left"


@_known
@dataclass(frozen=True, slots=True)
class NodeLost(Event):
    """The heartbeat of a node has ended without a goodbye. Its next process may have joined before."""

    node: str
    in_flight: int
    severity = Severity.ERROR
    message = "a process of {node} was lost with {in_flight:run|runs} on it"


@_known
@dataclass(frozen=True, slots=True)
class NodeDraining(Event):
    """A node was asked to end what runs and to take no more."""

    node: str
    severity = Severity.WARN
    message = "{node} drains"


@_known
@dataclass(frozen=True, slots=True)
class NodeDrained(Event):
    """A node that was asked to has nothing left."""

    node: str
    message = "{node} has drained"


@_known
@dataclass(frozen=True, slots=True)
class NodeUndrained(Event):
    """A node takes work again."""

    node: str
    message = "{node} takes work again"


# --------------------------------------------------------------------------------------------- servers and the disk


@_known
@dataclass(frozen=True, slots=True)
class ServiceLost(Event):
    """A node cannot reach a server."""

    service: str
    reason: str
    severity = Severity.ERROR
    message = "{service} is away: {reason}"


@_known
@dataclass(frozen=True, slots=True)
class ServiceRecovered(Event):
    """A node reaches a server again."""

    service: str
    away_s: float
    message = "{service} is back after {away_s:g} s"


@_known
@dataclass(frozen=True, slots=True)
class BreakerOpened(Event):
    """A service failed so often that it is left alone for a while."""

    service: str
    failures: int
    severity = Severity.ERROR
    message = "the breaker of {service} opened after {failures:failure|failures}"


@_known
@dataclass(frozen=True, slots=True)
class BreakerClosed(Event):
    """A probe has shown that the service works."""

    service: str
    message = "the breaker of {service} closed"


@_known
@dataclass(frozen=True, slots=True)
class RedisStateRestored(Event):
    """Redis had forgotten the leader and was told anew."""

    term: int
    severity = Severity.WARN
    message = "Redis had forgotten everything and was told anew, term {term}"


@_known
@dataclass(frozen=True, slots=True)
class ClockOutOfSync(Event):
    """The clock of a node, or of a server, cannot be trusted."""

    node: str
    reason: str
    severity = Severity.ERROR
    message = "the clocks disagree on {node}: {reason}"


@_known
@dataclass(frozen=True, slots=True)
class ClockInSync(Event):
    """The clocks agree again."""

    node: str
    message = "the clocks agree again on {node}"


@_known
@dataclass(frozen=True, slots=True)
class SpoolStarted(Event):
    """Outcomes go to the local disk, because MongoDB does not take them."""

    node: str
    severity = Severity.WARN
    message = "{node} keeps outcomes on its disk"


@_known
@dataclass(frozen=True, slots=True)
class SpoolDrained(Event):
    """MongoDB has every outcome that lay on the disk."""

    node: str
    message = "{node} has told MongoDB all outcomes of its disk"


# --------------------------------------------------------------------------------------------------------------- runs


@_known
@dataclass(frozen=True, slots=True)
class FenceRejected(Event):
    """An attempt that had been fenced out came back with an outcome, which was kept aside."""

    run: str
    fence: int
    outcome: str
    severity = Severity.WARN
    message = "a late {outcome} of {run} was kept aside, fence {fence}"


@_known
@dataclass(frozen=True, slots=True)
class RunsReassigned(Event):
    """Runs whose worker was lost were given to others."""

    count: int
    run: str
    severity = Severity.WARN
    message = "{count:run of a lost worker was|runs of lost workers were} placed again, as {run}"


@_known
@dataclass(frozen=True, slots=True)
class RunsLost(Event):
    """Runs ended as lost: their worker is gone and they must not start twice. They are dead letters."""

    job: str
    count: int
    run: str
    severity = Severity.ERROR
    message = "{count:lost run|lost runs} of {job}, as {run}"


@_known
@dataclass(frozen=True, slots=True)
class RunsFailed(Event):
    """Runs failed for good. They are dead letters."""

    job: str
    count: int
    run: str
    error: str
    severity = Severity.ERROR
    message = "{count:run|runs} of {job} failed, as {run}: {error}"


@_known
@dataclass(frozen=True, slots=True)
class RunCancelled(Event):
    """Somebody cancelled a run."""

    run: str
    by: str
    reason: str
    message = "{run} was cancelled"


@_known
@dataclass(frozen=True, slots=True)
class PlanRecovered(Event):
    """A leader died between two steps of a plan, and another one has finished it."""

    plan: str
    jobs: int
    runs_inserted: int
    severity = Severity.WARN
    message = "the plan {plan} of {jobs:job|jobs} was settled; {runs_inserted:run was|runs were} missing"


@_known
@dataclass(frozen=True, slots=True)
class SweepFound(Event):
    """The sweep found what must not be."""

    flaw: str
    where: str
    what: str
    repaired: bool
    severity = Severity.ERROR
    message = "the sweep found {where}: {what}"


@_known
@dataclass(frozen=True, slots=True)
class SweepEnded(Event):
    """A sweep has looked at everything."""

    run: str
    found: int
    took_ms: int
    message = "a sweep ended with {found:finding|findings}"


# --------------------------------------------------------------------------------------------------------------- jobs


@_known
@dataclass(frozen=True, slots=True)
class JobCreated(Event):
    """A job was created."""

    job: str
    by: str
    message = "{job} was created"


@_known
@dataclass(frozen=True, slots=True)
class JobChanged(Event):
    """A job was edited."""

    job: str
    by: str
    message = "{job} was changed"


@_known
@dataclass(frozen=True, slots=True)
class JobPaused(Event):
    """A job was paused."""

    job: str
    by: str
    message = "{job} was paused"


@_known
@dataclass(frozen=True, slots=True)
class JobResumed(Event):
    """A job was resumed."""

    job: str
    by: str
    message = "{job} was resumed"


@_known
@dataclass(frozen=True, slots=True)
class JobDeleted(Event):
    """A job was deleted."""

    job: str
    by: str
    message = "{job} was deleted"


@_known
@dataclass(frozen=True, slots=True)
class AlertGaveUp(Event):
    """A receiver has not taken a notice for a day; it is not tried again."""

    alert: str
    subject: str
    attempts: int
    error: str
    severity = Severity.ERROR
    message = "the alert {alert} gave up telling of {subject} after {attempts:attempt|attempts}: {error}"


@_known
@dataclass(frozen=True, slots=True)
class EventsDropped(Event):
    """More happened than could be told; it was counted instead."""

    count: int
    severity = Severity.WARN
    message = "{count:event was|events were} dropped"


# ------------------------------------------------------------------------------------------------------ as it is kept

MOST_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as it is kept and shown. `id` grows with time, so it is the cursor too; `source` is the node id of
    whoever told it, or `api`.
    """

    id: str
    at: datetime
    source: str
    event: Event


def cursor_of(at: datetime) -> str:
    """A value that every id of an event from `at` or later is greater than: microseconds as hexadecimal digits."""
    return f"{int(at.astimezone(UTC).timestamp() * 1_000_000):014x}"


def event_id(at: datetime, token: str) -> str:
    """The id of an event; `token` tells those of one microsecond apart."""
    return f"{cursor_of(at)}-{token}"


def fields_of(event: Event) -> dict[str, Any]:
    """Its fields, texts cut to a length that a list can show."""
    found = asdict(event)
    return {name: value[:MOST_CHARACTERS] if isinstance(value, str) else value for name, value in found.items()}


def event_of(kind: str, found: Mapping[str, Any]) -> Event | None:
    """The event of this kind; None when another version wrote what this one does not know."""
    known = KINDS.get(kind)
    if known is None or {one.name for one in fields(known)} - found.keys():
        return None
    return known(**{one.name: found[one.name] for one in fields(known)})

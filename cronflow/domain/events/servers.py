"""Events of servers and of the disk."""

from __future__ import annotations

from cronflow.domain.events.base import Event, Severity, event


@event
class ServiceLost(Event):
    service: str
    reason: str
    severity = Severity.ERROR
    message = "{service} is unavailable: {reason}"


@event
class ServiceRecovered(Event):
    service: str
    away_s: float
    message = "{service} is available again after {away_s:g} s"


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
    message = "Redis lost its data, and the leader restored it (term {term})"


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
    """A node stores results on its local disk, because MongoDB is unavailable."""

    node: str
    severity = Severity.WARN
    message = "{node} stores results on its disk while MongoDB is unavailable"


@event
class SpoolDrained(Event):
    node: str
    message = "{node} wrote all results from its disk to MongoDB"

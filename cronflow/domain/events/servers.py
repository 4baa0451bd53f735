"""Events of servers and of the disk."""

from __future__ import annotations

from cronflow.domain.events.base import Event, Severity, event


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

"""A circuit breaker for each host that HTTP jobs of this process talk to.

The rule it protects: a host that is down is not asked by every run that is due; their attempts are put off, which uses
none up. A failure is what happens to a connection, a timeout, or a status of 500 and above that the job does not
expect. Any other answer shows that the host is up.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from cronflow.circuit_breaker import Circuit
from cronflow.domain.run import AttemptResult
from cronflow.ports import EventSink, discard_event

FAILURES_TO_OPEN = 5
RESET_S = 30.0
MOST_HOSTS = 1000


class HostFailed(Exception):
    """The host did not answer, or said that it cannot serve. `attempt_result` is what the attempt comes to."""

    def __init__(self, attempt_result: AttemptResult) -> None:
        self.attempt_result = attempt_result
        super().__init__(attempt_result.error)


class Breakers:
    """The circuits by host, made at the first use; of very many the longest unused closed ones are forgotten."""

    def __init__(
        self,
        *,
        failures: int = FAILURES_TO_OPEN,
        reset_s: float = RESET_S,
        monotonic: Callable[[], float] = time.monotonic,
        most_hosts: int = MOST_HOSTS,
        emit: EventSink = discard_event,
    ) -> None:
        self._failures = failures
        self._reset_s = reset_s
        self._monotonic = monotonic
        self._most_hosts = most_hosts
        self._emit = emit
        self.circuits: OrderedDict[str, Circuit] = OrderedDict()

    def of(self, host: str) -> Circuit:
        """The circuit of `host`, or of `host:port`."""
        circuit = self.circuits.get(host)
        if circuit is None:
            circuit = self.circuits[host] = Circuit(
                host,
                failures=self._failures,
                reset_s=self._reset_s,
                counts=(HostFailed,),
                monotonic=self._monotonic,
                emit=self._emit,
            )
            if len(self.circuits) > self._most_hosts:
                self._forget_one()
        self.circuits.move_to_end(host)
        return circuit

    def states(self) -> dict[str, str]:
        """The states of those that are not closed, by host. May be called from any thread."""
        found = {circuit.service: circuit.state for circuit in list(self.circuits.values())}
        return {host: state for host, state in found.items() if state != "closed"}

    def _forget_one(self) -> None:
        for host, circuit in self.circuits.items():
            if circuit.state == "closed":
                del self.circuits[host]
                return

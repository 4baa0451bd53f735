"""A circuit breaker around a service that other people keep: after some failures in a row nobody asks it for a while.

pybreaker counts and decides; this module makes it fit for coroutines. The rules it protects: a call is judged by how
the awaited work ended (a decorated `async def` would always look fine), and when the circuit is half-open exactly one
call probes the service while all others are refused at once. Time is monotonic, so no clock step holds a circuit open.

What it does not do: it decides nothing about retries, and it knows neither MongoDB nor HTTP. Who calls says which
exceptions are failures; any other one is an answer, or nobody's fault. Only of a probe more is asked: it must end well.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice

import structlog
from pybreaker import (
    STATE_CLOSED,
    STATE_HALF_OPEN,
    CircuitBreaker,
    CircuitBreakerError,
    CircuitBreakerListener,
    CircuitBreakerState,
    CircuitMemoryStorage,
)

from cronflow.domain.events import BreakerClosed, BreakerOpened
from cronflow.domain.metrics import MOST_SERVICES
from cronflow.ports import EventSink, discard_event

log = structlog.get_logger("cronflow.circuit_breaker")


_FIGURES = {"closed": 0, "half-open": 1, "open": 2}


def breaker_figures(states: Mapping[str, str]) -> dict[str, int]:
    """The states of breakers as their metric tells them: some of them, the first ones, where they are very many."""
    return {service: _FIGURES[state] for service, state in islice(states.items(), MOST_SERVICES + 1)}


class CircuitOpen(Exception):
    """The service was not asked; `retry_in_s` says when asking may be worth while."""

    def __init__(self, service: str, retry_in_s: float) -> None:
        self.service, self.retry_in_s = service, retry_in_s
        super().__init__(f"{service}: circuit open")


class Circuit:
    """The breaker of one service. It opens after `failures` in a row; `reset_s` later one call may probe.

    `opened` and `refused` count since the process began; `emit` hears of both. `answered_at` is when a call last went
    through, by the monotonic clock. May be used from several threads.
    """

    def __init__(
        self,
        service: str,
        *,
        failures: int,
        reset_s: float,
        counts: tuple[type[Exception], ...],
        monotonic: Callable[[], float] = time.monotonic,
        emit: EventSink = discard_event,
    ) -> None:
        self.service = service
        self.emit = emit
        self.opened = 0
        self.refused = 0
        self.answered_at = -math.inf
        self._monotonic = monotonic
        self._run_counter = counts
        self._storage = _Storage(reset_s, monotonic)
        self._probe = threading.Lock()
        self._breaker = CircuitBreaker(
            fail_max=failures,
            reset_timeout=reset_s,
            exclude=[self._is_no_failure],
            listeners=[_Listener(self)],
            state_storage=self._storage,
            name=service,
            # The caller sees the failure itself, not pybreaker's word for it.
            throw_new_error_on_trip=False,
        )

    @property
    def state(self) -> str:
        """`closed`, `open` or `half-open`."""
        return self._breaker.current_state

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Put the awaited call inside. Raises CircuitOpen instead when the service shall not be asked now."""
        probing = self.state != STATE_CLOSED
        # pybreaker would let everybody through as soon as the first one has made the circuit half-open.
        if probing and not self._probe.acquire(blocking=False):
            raise self._refusal()
        try:
            with self._admitted():
                yield
            self.answered_at = self._monotonic()
        finally:
            if probing:
                self._probe.release()

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        inside = False
        try:
            with self._breaker.calling():
                inside = True
                yield
        except CircuitBreakerError:
            if inside:
                raise
            raise self._refusal() from None

    def _refusal(self) -> CircuitOpen:
        self.refused += 1
        # While somebody probes, nobody knows when; to ask again at once would be what the circuit is to prevent.
        return CircuitOpen(self.service, self._storage.left_s or self._breaker.reset_timeout / 6)

    def _is_no_failure(self, error: BaseException) -> bool:
        # What pybreaker excludes it takes for a success. A probe that was cancelled, say, has proved nothing.
        return not isinstance(error, self._run_counter) and self.state != STATE_HALF_OPEN


class _Storage(CircuitMemoryStorage):
    """The state of a circuit, with the time since it opened measured by the monotonic clock."""

    def __init__(self, reset_s: float, monotonic: Callable[[], float]) -> None:
        super().__init__(STATE_CLOSED)
        self._reset_s, self._monotonic = reset_s, monotonic
        self._until = monotonic()

    @property
    def left_s(self) -> float:
        """For how long it stays open."""
        return max(0.0, self._until - self._monotonic())

    @property
    def opened_at(self) -> datetime | None:
        """What pybreaker compares with the wall clock: just now as long as it is open, then never."""
        return datetime.now(UTC) if self.left_s > 0 else None

    @opened_at.setter
    def opened_at(self, _: datetime) -> None:
        self._until = self._monotonic() + self._reset_s


class _Listener(CircuitBreakerListener):
    """Tells each change of the state once."""

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit

    def state_change(
        self, cb: CircuitBreaker, old_state: CircuitBreakerState | None, new_state: CircuitBreakerState
    ) -> None:
        """A failure that comes late opens an open circuit once more; that is no news."""
        if old_state is None or old_state.name == new_state.name:
            return
        circuit = self._circuit
        if new_state.name == "open":
            circuit.opened += 1
            log.warning("breaker opened", service=circuit.service, failures=cb.fail_counter)
            circuit.emit(BreakerOpened(circuit.service, cb.fail_counter))
        elif new_state.name == STATE_HALF_OPEN:
            log.info("breaker half-open", service=circuit.service, refused=circuit.refused)
        else:
            log.info("breaker closed", service=circuit.service, opened=circuit.opened, refused=circuit.refused)
            circuit.emit(BreakerClosed(circuit.service))

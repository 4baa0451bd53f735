"""A circuit breaker around an external service: after some consecutive failures, calls are refused for a while.

pybreaker counts and decides; this module adapts it to coroutines. A call is judged by the result of the awaited work (a
decorated `async def` would always look successful). When the circuit is half-open, exactly one call probes the service
while all others are refused at once. Time is monotonic, so no clock step keeps a circuit open.

It does not decide about retries and is independent of MongoDB and HTTP. The caller chooses which exceptions are
failures; any other exception counts as a response. Only a probe must succeed.
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
    """The metric values of breaker states, limited to the first MOST_SERVICES + 1."""
    return {service: _FIGURES[state] for service, state in islice(states.items(), MOST_SERVICES + 1)}


class CircuitOpen(Exception):
    """The call was refused; try again in `retry_in_s` seconds."""

    def __init__(self, service: str, retry_in_s: float) -> None:
        self.service, self.retry_in_s = service, retry_in_s
        super().__init__(f"{service}: circuit open")


class Circuit:
    """The breaker of one service. It opens after `failures` in a row; `reset_s` later one call may probe.

    `opened` and `refused` count since the process started; `emit` receives an event when it opens or closes.
    `answered_at` is the monotonic time of the last successful call. Safe to use from several threads.
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
        self._failures = counts
        self._storage = _Storage(reset_s, monotonic)
        self._probe = threading.Lock()
        self._breaker = CircuitBreaker(
            fail_max=failures,
            reset_timeout=reset_s,
            exclude=[self._is_no_failure],
            listeners=[_Listener(self)],
            state_storage=self._storage,
            name=service,
            # Raise the original failure instead of pybreaker's exception.
            throw_new_error_on_trip=False,
        )

    @property
    def state(self) -> str:
        """`closed`, `open` or `half-open`."""
        return self._breaker.current_state

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Wrap the awaited call. Raises CircuitOpen instead of calling while the service must not be called."""
        probing = self.state != STATE_CLOSED
        # pybreaker admits every call once the first one has made the circuit half-open.
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
        # During a probe the remaining time is unknown; retrying at once would defeat the breaker.
        return CircuitOpen(self.service, self._storage.left_s or self._breaker.reset_timeout / 6)

    def _is_no_failure(self, error: BaseException) -> bool:
        # pybreaker counts excluded exceptions as success, but a cancelled probe proves nothing.
        return not isinstance(error, self._failures) and self.state != STATE_HALF_OPEN


class _Storage(CircuitMemoryStorage):
    """Breaker state that measures the open time with the monotonic clock."""

    def __init__(self, reset_s: float, monotonic: Callable[[], float]) -> None:
        super().__init__(STATE_CLOSED)
        self._reset_s, self._monotonic = reset_s, monotonic
        self._until = monotonic()

    @property
    def left_s(self) -> float:
        """Seconds until a probe is allowed."""
        return max(0.0, self._until - self._monotonic())

    @property
    def opened_at(self) -> datetime | None:
        """pybreaker compares this with the wall clock: now while the circuit must stay open, then None."""
        return datetime.now(UTC) if self.left_s > 0 else None

    @opened_at.setter
    def opened_at(self, _: datetime) -> None:
        self._until = self._monotonic() + self._reset_s


class _Listener(CircuitBreakerListener):
    """Logs and emits each change of state once."""

    def __init__(self, circuit: Circuit) -> None:
        self._circuit = circuit

    def state_change(
        self, cb: CircuitBreaker, old_state: CircuitBreakerState | None, new_state: CircuitBreakerState
    ) -> None:
        """Ignore a late failure that opens an open circuit again."""
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

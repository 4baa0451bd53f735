"""The settings of the circuit breakers of hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronflow.bootstrap.node import http_breakers
from cronflow.circuit_breaker import CircuitOpen
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.http import HostFailed
from cronflow.ports import discard_event
from tests.bootstrap.test_capabilities import settings


def test_a_host_is_left_alone_after_the_failures_and_for_the_time_of_the_settings(tmp_path: Path) -> None:
    chosen = settings(tmp_path, HTTP_BREAKER_FAILURES="2", HTTP_BREAKER_RESET="5m")
    circuit = http_breakers(chosen, discard_event).of("host")
    for _ in range(2):
        assert circuit.state == "closed"
        with pytest.raises((HostFailed, CircuitOpen)), circuit.calling():
            raise HostFailed(AttemptResult(Outcome.ERROR))
    assert circuit.state == "open"
    with pytest.raises(CircuitOpen) as refused, circuit.calling():
        pass
    assert 60 < refused.value.retry_in_s <= 300

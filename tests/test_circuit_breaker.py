"""A circuit breaker that works for coroutines: pybreaker alone neither counts them nor admits a single probe."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from cronflow.circuit_breaker import Circuit, CircuitOpen


class Away(Exception):
    """The service is away."""


class Time:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Service:
    """What stands behind the circuit: asked `asked` times, fails while `away`, and answers once `answer` is set."""

    def __init__(self) -> None:
        self.time = Time()
        self.circuit = Circuit("MongoDB", failures=5, reset_s=5.0, counts=(Away,), monotonic=self.time)
        self.asked = 0
        self.error: BaseException | None = None
        self.answer = asyncio.Event()
        self.answer.set()

    async def ask(self) -> str:
        with self.circuit.calling():
            self.asked += 1
            await self.answer.wait()
            if self.error is not None:
                raise self.error
            return "answer"

    async def fail(self, times: int) -> None:
        self.error = Away()
        for _ in range(times):
            with pytest.raises(Away):
                await self.ask()
        self.error = None

    async def outcomes(self, count: int) -> list[object]:
        return await asyncio.gather(*(self.ask() for _ in range(count)), return_exceptions=True)


@pytest.fixture
async def service() -> Service:
    return Service()


async def test_pybreaker_7_async_calls_trip_the_breaker(service: Service) -> None:
    """pybreaker #7: around a coroutine function the breaker saw only the coroutine made, and never tripped."""
    await service.fail(4)
    assert service.circuit.state == "closed"
    await service.fail(1)
    assert service.circuit.state == "open"
    with pytest.raises(CircuitOpen) as refusal:
        await service.ask()
    assert service.asked == 5
    assert refusal.value.retry_in_s == 5.0


async def test_answered_at_is_the_time_of_the_last_successful_call(service: Service) -> None:
    assert service.circuit.answered_at < 0
    service.time.now = 103.0
    await service.ask()
    service.time.now = 104.0
    await service.fail(1)
    assert service.circuit.answered_at == 103.0


async def test_only_failures_in_a_row_count(service: Service) -> None:
    for _ in range(3):
        await service.fail(4)
        assert await service.ask() == "answer"
    assert service.circuit.state == "closed"


async def test_half_open_admits_one_of_ten(service: Service) -> None:
    await service.fail(5)
    service.time.now += 5.0
    service.answer.clear()
    calls = [asyncio.ensure_future(service.ask()) for _ in range(10)]
    await asyncio.sleep(0)
    assert service.circuit.state == "half-open"
    assert service.asked == 6
    (probe,) = (call for call in calls if not call.done())
    assert {type(call.exception()) for call in calls if call is not probe} == {CircuitOpen}
    service.answer.set()
    assert await probe == "answer"
    assert service.circuit.state == "closed"
    assert await service.outcomes(10) == ["answer"] * 10


async def test_a_probe_that_fails_opens_it_for_another_while(service: Service) -> None:
    await service.fail(5)
    service.time.now += 5.0
    await service.fail(1)
    assert service.circuit.state == "open"
    service.time.now += 4.9
    assert all(isinstance(found, CircuitOpen) for found in await service.outcomes(3))
    service.time.now += 0.1
    assert await service.ask() == "answer"
    assert service.circuit.state == "closed"


async def test_other_exceptions_do_not_trip_it_and_pass_through(service: Service) -> None:
    service.error = KeyError("our own bug")
    for _ in range(20):
        with pytest.raises(KeyError):
            await service.ask()
    assert service.circuit.state == "closed"


async def test_a_cancelled_probe_has_proved_nothing_and_the_next_one_is_admitted(service: Service) -> None:
    await service.fail(5)
    service.time.now += 5.0
    service.answer.clear()
    probe = asyncio.ensure_future(service.ask())
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.wait({probe})
    assert service.circuit.state == "open"
    service.answer.set()
    service.time.now += 5.0
    assert await service.ask() == "answer"


async def test_each_change_of_state_is_emitted_once_with_its_count(service: Service) -> None:
    service.answer.clear()
    service.error = Away()
    with capture_logs() as logs:
        calls = [asyncio.ensure_future(service.ask()) for _ in range(12)]
        await asyncio.sleep(0)
        service.answer.set()
        await asyncio.wait(calls)
        service.error = None
        await service.outcomes(3)
        service.time.now += 5.0
        await service.ask()
    told = [(entry["event"], entry["service"]) for entry in logs]
    assert told == [("breaker opened", "MongoDB"), ("breaker half-open", "MongoDB"), ("breaker closed", "MongoDB")]
    assert (service.circuit.opened, service.circuit.refused) == (1, 3)
    assert (logs[-1]["opened"], logs[-1]["refused"]) == (1, 3)

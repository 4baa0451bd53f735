"""A host that is down is not asked by every run that is due; against a real server on the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from cronflow.domain.events import BreakerClosed, BreakerOpened, Event
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.http import Breakers, HostFailed, HttpExecutor
from tests.executors.web import Server, answer, send
from tests.waiting import eventually


class Time:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def executor(time: Time) -> AsyncIterator[HttpExecutor]:
    async with HttpExecutor(breakers=Breakers(monotonic=time)) as executor:
        yield executor


async def outcomes(executor: HttpExecutor, url: str, times: int, timeout: str = "20s") -> list[Outcome]:
    return [(await send(executor, url, timeout=timeout)).outcome for _ in range(times)]


async def test_after_five_failures_a_host_is_not_asked_and_the_attempt_is_put_off_until_it_may_be(
    server: Server,
    executor: HttpExecutor,
    time: Time,
) -> None:
    server.answers["/hook"] = answer(503)
    assert await outcomes(executor, f"{server.url}/hook", 5) == [Outcome.ERROR] * 5
    time.now += 10
    attempt_result = await send(executor, f"{server.url}/other")
    assert (attempt_result.outcome, attempt_result.delay) == (Outcome.DEFERRED, timedelta(seconds=20))
    assert attempt_result.error is not None
    assert "circuit breaker is open" in attempt_result.error
    assert len(server.requests) == 5


async def test_when_the_time_is_over_one_of_ten_probes_and_the_others_are_put_off(
    server: Server,
    executor: HttpExecutor,
    time: Time,
) -> None:
    server.answers["/hook"] = answer(500)
    await outcomes(executor, f"{server.url}/hook", 5)
    answered = asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        await answered.wait()
        writer.write(answer(200))
        await writer.drain()

    server.answers["/hook"] = slowly
    time.now += 30
    calls = [asyncio.ensure_future(send(executor, f"{server.url}/hook")) for _ in range(10)]
    await eventually(lambda: sum(call.done() for call in calls) == 9, what="nine are put off")
    await eventually(lambda: len(server.requests) == 6, what="the probe")
    answered.set()
    endings: list[AttemptResult] = await asyncio.gather(*calls)
    assert sorted(attempt_result.outcome for attempt_result in endings) == [Outcome.DEFERRED] * 9 + [Outcome.OK]
    assert {attempt_result.delay for attempt_result in endings if attempt_result.outcome is Outcome.DEFERRED} == {
        timedelta(seconds=5)
    }
    assert len(server.requests) == 6
    assert await outcomes(executor, f"{server.url}/hook", 3) == [Outcome.OK] * 3


async def test_a_failed_probe_opens_it_again(server: Server, executor: HttpExecutor, time: Time) -> None:
    server.answers["/hook"] = answer(502)
    await outcomes(executor, f"{server.url}/hook", 5)
    time.now += 30
    assert await outcomes(executor, f"{server.url}/hook", 2) == [Outcome.ERROR, Outcome.DEFERRED]


async def test_a_refused_connection_and_a_timeout_are_failures(
    server: Server,
    executor: HttpExecutor,
    unused_tcp_port: int,
) -> None:
    refused = f"http://127.0.0.1:{unused_tcp_port}/"
    assert await outcomes(executor, refused, 6) == [Outcome.ERROR] * 5 + [Outcome.DEFERRED]
    server.answers["/slow"] = lambda writer: asyncio.sleep(0.5)
    found = await outcomes(executor, f"{server.url}/slow", 6, timeout="20ms")
    assert found == [Outcome.TIMEOUT] * 5 + [Outcome.DEFERRED]


@pytest.mark.parametrize("status", [404, 408, 425, 429])
async def test_an_answer_that_only_this_request_deserves_does_not_speak_against_the_host(
    server: Server,
    executor: HttpExecutor,
    status: int,
) -> None:
    server.answers["/hook"] = answer(status)
    assert Outcome.DEFERRED not in await outcomes(executor, f"{server.url}/hook", 8)
    assert len(server.requests) == 8


async def test_a_status_of_500_that_the_job_expects_is_no_failure(server: Server, executor: HttpExecutor) -> None:
    server.answers["/hook"] = answer(503)
    endings = [await send(executor, f"{server.url}/hook", expect=(503,)) for _ in range(8)]
    assert {attempt_result.outcome for attempt_result in endings} == {Outcome.OK}


async def test_each_host_has_its_own(server: Server, executor: HttpExecutor, unused_tcp_port: int) -> None:
    server.answers["/hook"] = answer(200)
    await outcomes(executor, f"http://127.0.0.1:{unused_tcp_port}/", 6)
    assert await outcomes(executor, f"{server.url}/hook", 1) == [Outcome.OK]


def test_of_very_many_hosts_the_longest_unused_are_forgotten_unless_they_are_down(time: Time) -> None:
    breakers = Breakers(failures=1, most_hosts=3, monotonic=time)
    with pytest.raises(HostFailed), breakers.of("down").calling():
        raise HostFailed(AttemptResult(Outcome.ERROR))
    for host in ("a", "b", "c", "a", "d"):
        breakers.of(host)
    assert list(breakers.circuits) == ["down", "a", "d"]


async def test_breakers_that_are_not_closed_are_reported(server: Server, time: Time) -> None:
    events: list[Event] = []
    breakers = Breakers(monotonic=time, emit=events.append)
    async with HttpExecutor(breakers=breakers) as executor:
        await outcomes(executor, f"{server.url}/hook", 1)
        assert breakers.states() == {}
        server.answers["/hook"] = answer(503)
        await outcomes(executor, f"{server.url}/hook", 5)
        assert breakers.states() == {f"127.0.0.1:{server.port}": "open"}
        server.answers["/hook"] = answer(200)
        time.now += 31
        await outcomes(executor, f"{server.url}/hook", 1)
        assert breakers.states() == {}
    host = f"127.0.0.1:{server.port}"
    assert events == [BreakerOpened(host, 5), BreakerClosed(host)]

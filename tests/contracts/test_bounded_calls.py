"""No call to Redis or MongoDB waits for ever: each method of each port, on connections that have gone silent."""

from __future__ import annotations

import asyncio
import collections.abc
import dataclasses
import enum
import inspect
import re
import socket
import threading
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.circuit_breaker import Circuit
from cronflow.domain import transitions
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert
from cronflow.domain.cluster import NodeReport
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.events import Event, NodeJoined
from cronflow.domain.job import Delivery, Job, JobRecord, PendingRun, Retry
from cronflow.domain.permits import NamedLimit
from cronflow.domain.run import Run
from cronflow.domain.schedule.calendar import Calendar
from cronflow.domain.transitions import Change, ClaimedRun
from cronflow.ports import Assignment, Backends, ServerClock
from cronflow.testing.embedded import MongoServer
from cronflow.testing.tcp_proxy import TcpProxy
from tests.contracts.builders import T0, a_job, a_pend, a_record, a_report, a_run, an_assignment

TIMED_OUT = re.compile(r"did not answer in time|Timeout reading from")
"""The bound of the whole call, or on a busy machine that of the socket, which is as long."""
FOREVER = {"bus.listen"}
"""What runs until it is cancelled, as its contract says."""

HELD = ClaimedRun(run="r", fence=1, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)

EXAMPLES: dict[object, object] = {
    str: "x",
    int: 1,
    float: 1.0,
    bool: True,
    bytes: b"x",
    object: "x",
    datetime: T0,
    timedelta: timedelta(seconds=1),
    Calendar: Calendar(name="x"),
    Job: a_job(),
    JobRecord: a_record(),
    Run: a_run(),
    Assignment: an_assignment(),
    NodeReport: a_report(),
    PendingRun: a_pend(),
    Change: transitions.renew(HELD, timedelta(seconds=45)),
    Alert: Alert(name="x", on=(AlertKind.FAILED,), webhook=Webhook("https://hooks.example/cron")),
    Event: NodeJoined("n1", "1", 1),
    NamedLimit: NamedLimit(name="database", limit=1),
}


def example(hint: Any) -> Any:
    """A small value of this type."""
    if hint in EXAMPLES:
        return EXAMPLES[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return example(next(one for one in arguments if one is not type(None)))
    if origin is collections.abc.Mapping:
        return {example(arguments[0]): example(arguments[1])}
    if origin is tuple:
        return tuple(example(one) for one in arguments if one is not Ellipsis)
    if origin in (collections.abc.Sequence, collections.abc.Collection, list):
        return [example(arguments[0])]
    if origin is frozenset:
        return frozenset({example(arguments[0])})
    if inspect.isclass(hint) and issubclass(hint, enum.Enum):
        return next(iter(hint))
    if inspect.isclass(hint) and hasattr(hint, "_fields"):
        return hint(*(example(one) for one in typing.get_type_hints(hint).values()))
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        needed = [
            one.name
            for one in dataclasses.fields(hint)
            if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        ]
        return hint(**{name: example(hints[name]) for name in needed})  # type: ignore[operator]
    raise AssertionError(f"no example of {hint}: add one to EXAMPLES")


def calls(backends: Backends) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
    """Each method of each port, as `<port>.<method>`, with arguments that it accepts."""
    ports = [(name, hint, getattr(backends, name)) for name, hint in typing.get_type_hints(Backends).items()]
    ports = [one for one in ports if one[0] != "server_clocks"]
    ports += [(name, ServerClock, clock) for name, clock in backends.server_clocks.items()]
    for port, protocol, adapter in ports:
        for name, method in inspect.getmembers(protocol, inspect.iscoroutinefunction):
            if name.startswith("_") or f"{port}.{name}" in FOREVER:
                continue
            hints = typing.get_type_hints(method)
            hints.pop("return", None)
            parameters = inspect.signature(method).parameters
            given = {key: example(hint) for key, hint in hints.items()}
            positional = [
                given.pop(key) for key in list(given) if parameters[key].kind is not inspect.Parameter.KEYWORD_ONLY
            ]
            yield f"{port}.{name}", partial(getattr(adapter, name), *positional, **given)


def patient_circuit() -> Circuit:
    """A circuit that never opens, so that every call is sent."""
    return Circuit("MongoDB", failures=1_000_000, reset_s=1, counts=(BackendUnavailable,))


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less for a whole call than for each of its commands, so that the limit of the call ends it."""
    monkeypatch.setattr("cronflow.backends.redis.clients.CALL_TIMEOUT_S", 1.0)
    monkeypatch.setattr("cronflow.backends.redis.clients.COMMAND_TIMEOUT_S", 60.0)
    monkeypatch.setattr("cronflow.backends.mongo.database.CALL_TIMEOUT_S", 1.0)
    monkeypatch.setattr("cronflow.backends.mongo.database.TIMEOUT_MS", 60_000)


@dataclasses.dataclass
class Silent:
    """Ports on connections that can go silent."""

    backends: Backends
    redis: TcpProxy
    mongo: TcpProxy


@pytest.fixture
async def silent(redis_url: str, mongo_url: str, namespace: str, short_limits: None) -> AsyncIterator[Silent]:
    async with AsyncExitStack() as stack:
        redis_link = await stack.enter_async_context(TcpProxy.to(redis_url))
        mongo_link = await stack.enter_async_context(TcpProxy.to(mongo_url))
        redis = await stack.enter_async_context(RedisConnection(redis_link.url, namespace))
        mongo = await stack.enter_async_context(MongoDatabase(mongo_link.url, namespace, circuit=patient_circuit()))
        yield Silent(adapters(redis, mongo), redis_link, mongo_link)


async def test_each_method_of_each_port_ends_although_its_server_is_silent(silent: Silent) -> None:
    found = dict(calls(silent.backends))
    assert len(found) > 100
    silent.redis.cut()
    silent.mongo.cut()
    answers = await asyncio.gather(*(call() for call in found.values()), return_exceptions=True)
    wrong = {
        verb: answer
        for verb, answer in zip(found, answers, strict=True)
        if not isinstance(answer, BackendUnavailable) or not TIMED_OUT.search(answer.reason)
    }
    assert wrong == {}
    await silent.redis.mend()
    await silent.mongo.mend()
    assert await silent.backends.queue.ping() >= 0
    assert await silent.backends.control.ping() >= 0


@pytest.mark.parametrize("kind", ["redis", "rediss", "redis+sentinel", "redis+cluster", "mongodb"])
async def test_a_connection_to_a_silent_server_is_not_awaited_for_ever(
    kind: str, redis_url: str, namespace: str, short_limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port accepts connections, and nothing ever arrives: no TLS handshake, no master, no slots, no hello."""
    monkeypatch.setattr("cronflow.backends.mongo.database.TIMEOUT_MS", 3000)
    async with AsyncExitStack() as stack:
        links = [await stack.enter_async_context(TcpProxy.to(redis_url)) for _ in range(8)]
        for link in links:
            link.cut()
        hosts = ",".join(link.url.split("/")[2] for link in links)
        connection: RedisConnection | MongoDatabase
        if kind == "mongodb":
            connection = MongoDatabase(f"mongodb://{hosts}/?replicaSet=rs0", namespace)
        else:
            rest = {"redis+sentinel": f"{hosts}/main", "redis+cluster": hosts}.get(kind, hosts.split(",")[0])
            connection = RedisConnection(f"{kind}://{rest}", namespace)
        with pytest.raises(BackendUnavailable, match="did not answer in time"):
            await connection.__aenter__()


@pytest.mark.parametrize("kind", ["redis", "mongodb"])
async def test_a_name_that_is_never_found_is_not_awaited_for_ever(
    kind: str, namespace: str, short_limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver without an answer blocks a thread of the driver for half a minute and longer."""
    given_up, look_up = threading.Event(), socket.getaddrinfo

    def hanging(host: str, *rest: Any, **more: Any) -> Any:
        if host == "store.example":
            given_up.wait(60)
            raise OSError("no answer")
        return look_up(host, *rest, **more)

    monkeypatch.setattr("cronflow.backends.mongo.database.TIMEOUT_MS", 3000)
    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    url = f"{kind}://store.example:6379"
    try:
        with pytest.raises(BackendUnavailable, match="did not answer in time"):
            await (MongoDatabase if kind == "mongodb" else RedisConnection)(url, namespace).__aenter__()
    finally:
        given_up.set()


async def test_closing_does_not_wait_for_a_paused_mongodb(own_mongo: MongoServer, namespace: str) -> None:
    database = await MongoDatabase(own_mongo.url, namespace).__aenter__()
    await database.ping()
    own_mongo.pause()
    resumed = threading.Timer(30, own_mongo.resume)
    resumed.start()
    try:
        await database.__aexit__(None, None, None)
        assert not resumed.finished.is_set(), "it waited until MongoDB answered"
    finally:
        resumed.cancel()
        own_mongo.resume()

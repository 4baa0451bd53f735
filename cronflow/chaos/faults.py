"""Everything that `cronflow chaos` can break: one line of the list below for each.

A fault is an async context manager: it begins when the context is entered and ends when it is left. The experiment
chooses the node of a fault.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any

from cronflow.chaos.jobs import BURST_EVERY_S
from cronflow.domain.errors import BackendUnavailable, NotFound
from cronflow.testing.embedded.server import Server

if TYPE_CHECKING:
    from cronflow.chaos.cluster import ChaosCluster

SLOW_S = 0.25
STEPS_S = (-3600.0, -3.0, 3.0, 3600.0)
INTO_THE_BURST_S, BEFORE_THE_BURST_S = 0.4, 1.0


class FaultPlace(StrEnum):
    """What a fault concerns. A node, Redis and MongoDB have at most one fault at a time."""

    LEADER = "the leader"
    WORKER = "a node that does not lead"
    NODE = "a node"
    REDIS = "Redis"
    MONGO = "MongoDB"


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """The node of a fault, empty for a server; how many seconds the fault lasts; and a source of random numbers."""

    cluster: ChaosCluster
    node: str
    seconds: float
    rng: Random


Inflict = Callable[[FaultTarget], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """`lasts` is the default duration in seconds with a LEADER_TTL of 30 s, 0 for a momentary fault. `fatal`: the
    node's process is killed. `stops`: it exits in order and is restarted. `takes_lead`: the leader loses the lead, at
    once if the fault is `graceful`. `timed`: the option of the fault takes a duration. `waits`: the seconds until its
    moment, at which its node is chosen.
    """

    name: str
    place: FaultPlace
    lasts: float
    help: str
    inflict: Inflict
    fatal: bool = False
    takes_lead: bool = False
    graceful: bool = False
    stops: bool = False
    timed: bool = False
    waits: Callable[[Random], float] | None = None


@asynccontextmanager
async def _kill(target: FaultTarget) -> AsyncIterator[None]:
    target.cluster.kill(target.node)
    try:
        yield
    finally:
        target.cluster.nodes[target.node].may_start.set()


def _in_burst(rng: Random) -> float:
    return _until_burst() + rng.uniform(0, INTO_THE_BURST_S)


def _before_burst(_: Random) -> float:
    return (_until_burst() - BEFORE_THE_BURST_S) % BURST_EVERY_S


def _until_burst() -> float:
    return BURST_EVERY_S - time.time() % BURST_EVERY_S


@asynccontextmanager
async def _pause(target: FaultTarget) -> AsyncIterator[None]:
    child = target.cluster.nodes[target.node]
    child.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        child.send_signal(signal.SIGCONT)


@asynccontextmanager
async def _stop(target: FaultTarget) -> AsyncIterator[None]:
    target.cluster.nodes[target.node].send_signal(signal.SIGTERM)
    yield


@asynccontextmanager
async def _step_down(target: FaultTarget) -> AsyncIterator[None]:
    try:
        await target.cluster.service.cluster.stepdown()
    except (BackendUnavailable, NotFound):
        pass  # Another fault prevents it.
    yield


def _network(*, redis: bool = False, mongo: bool = False, how: str) -> Inflict:
    """Break the connections of a node by a method of its proxies."""

    @asynccontextmanager
    async def inflict(target: FaultTarget) -> AsyncIterator[None]:
        links = target.cluster.links[target.node]
        broken = [*([links.redis] if redis else []), *(links.mongo if mongo else [])]
        for proxy in broken:
            getattr(proxy, how)()
        try:
            yield
        finally:
            for proxy in broken:
                await proxy.mend()

    return inflict


@asynccontextmanager
async def _slow(target: FaultTarget) -> AsyncIterator[None]:
    links = target.cluster.links[target.node].all
    for proxy in links:
        proxy.delay_s = SLOW_S
    try:
        yield
    finally:
        for proxy in links:
            proxy.delay_s = 0.0


@asynccontextmanager
async def _step_clock(target: FaultTarget) -> AsyncIterator[None]:
    target.cluster.step_clock(target.node, target.rng.choice(STEPS_S))
    try:
        yield
    finally:
        target.cluster.step_clock(target.node, 0)


@asynccontextmanager
async def _fill_spool(target: FaultTarget) -> AsyncIterator[None]:
    """The disk is full while MongoDB cannot be reached: only then does a node write its spool."""
    target.cluster.limit_files(target.node, 0)
    try:
        async with _network(mongo=True, how="cut")(target):
            yield
    finally:
        target.cluster.limit_files(target.node, -1)


@asynccontextmanager
async def _flush_redis(target: FaultTarget) -> AsyncIterator[None]:
    from redis.asyncio import Redis

    async with Redis.from_url(target.cluster.redis.url) as redis:
        await redis.flushall()
    yield


@asynccontextmanager
async def _kill_redis(target: FaultTarget) -> AsyncIterator[None]:
    await asyncio.to_thread(target.cluster.redis.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(target.cluster.redis.restart)


@asynccontextmanager
async def _restart_redis(target: FaultTarget) -> AsyncIterator[None]:
    await asyncio.to_thread(target.cluster.redis.restart)
    yield


@asynccontextmanager
async def _roll_back_redis(target: FaultTarget) -> AsyncIterator[None]:
    await target.cluster.roll_back_redis(target.seconds)
    yield


@asynccontextmanager
async def _paused(server: Server) -> AsyncIterator[None]:
    await asyncio.to_thread(server.pause)
    try:
        yield
    finally:
        server.resume()


def _pause_redis(target: FaultTarget) -> AbstractAsyncContextManager[None]:
    return _paused(target.cluster.redis)


@asynccontextmanager
async def _kill_mongo(target: FaultTarget) -> AsyncIterator[None]:
    primary = await asyncio.to_thread(target.cluster.mongo.wait_for_primary)
    await asyncio.to_thread(primary.kill)
    try:
        yield
    finally:
        await asyncio.to_thread(primary.restart)


@asynccontextmanager
async def _pause_mongo(target: FaultTarget) -> AsyncIterator[None]:
    async with _paused(await asyncio.to_thread(target.cluster.mongo.wait_for_primary)):
        yield


@asynccontextmanager
async def _step_down_mongo(target: FaultTarget) -> AsyncIterator[None]:
    await asyncio.to_thread(target.cluster.mongo.step_down)
    yield


_CUT_BOTH, _RESET, _REFUSE, _DROP_REPLIES, _MUTE = (
    _network(redis=True, mongo=True, how=how) for how in ("cut", "reset", "refuse", "drop_replies", "mute")
)
_FATAL = {"fatal": True}
_TAKES_LEAD = {"takes_lead": True}
_GRACEFUL = {"takes_lead": True, "graceful": True}
_STOPS = {"stops": True}
_TIMED = {"timed": True}

LEADER, WORKER, NODE, REDIS, MONGO = FaultPlace

_LIST: Sequence[tuple[str, FaultPlace, float, str, Inflict, Mapping[str, Any]]] = (
    ("kill-leader", LEADER, 20, "Kill the leader.", _kill, _FATAL | _TAKES_LEAD),
    ("kill-worker", WORKER, 20, "Kill a node that does not lead.", _kill, _FATAL),
    (
        "kill-in-burst",
        LEADER,
        20,
        "Kill the leader while it plans many runs.",
        _kill,
        _FATAL | _TAKES_LEAD | {"waits": _in_burst},
    ),
    (
        "kill-before-burst",
        LEADER,
        20,
        "Kill the leader a second before.",
        _kill,
        _FATAL | _TAKES_LEAD | {"waits": _before_burst},
    ),
    ("pause-leader", LEADER, 40, "Stop the leader's process for a time.", _pause, _TIMED | _TAKES_LEAD),
    ("pause-worker", WORKER, 40, "Stop the process of a node that does not lead for a time.", _pause, _TIMED),
    ("stop-leader", LEADER, 0, "Stop the leader gracefully; it is restarted.", _stop, _GRACEFUL | _STOPS),
    ("step-down-leader", LEADER, 0, "Ask the leader to hand over.", _step_down, _GRACEFUL),
    ("cut-redis", NODE, 25, "Cut a node from Redis, silently.", _network(redis=True, how="cut"), _TIMED),
    ("cut-mongo", NODE, 25, "Cut a node from MongoDB, silently.", _network(mongo=True, how="cut"), _TIMED),
    ("cut-both", NODE, 40, "Cut a node from both servers, silently.", _CUT_BOTH, _TIMED),
    ("reset", NODE, 0, "Reset all connections of a node once.", _RESET, {}),
    ("refuse", NODE, 10, "Reset all connections of a node, and each new one.", _REFUSE, _TIMED),
    ("drop-replies", NODE, 8, "Execute what a node asks for, but lose the replies.", _DROP_REPLIES, _TIMED),
    ("half-open", NODE, 15, "Keep back replies on the open connections of a node.", _MUTE, _TIMED),
    ("slow-network", NODE, 20, f"Delay the traffic of a node by {SLOW_S:g} s each way.", _slow, _TIMED),
    ("step-clock", NODE, 20, "Step the clock of a node by 3 s or an hour, and back.", _step_clock, _TIMED),
    ("fill-spool", NODE, 20, "Fill the disk of a node that is cut from MongoDB.", _fill_spool, _TIMED),
    ("flush-redis", REDIS, 0, "Delete everything in Redis (FLUSHALL).", _flush_redis, {}),
    ("restart-redis", REDIS, 0, "Restart Redis.", _restart_redis, {}),
    ("kill-redis", REDIS, 5, "Kill Redis; it starts again after some seconds.", _kill_redis, {}),
    ("pause-redis", REDIS, 10, "Stop the process of Redis for a time.", _pause_redis, _TIMED),
    ("roll-back-redis", REDIS, 10, "Let Redis forget all changes of a time.", _roll_back_redis, _TIMED),
    ("kill-mongo", MONGO, 20, "Kill the primary of MongoDB; it starts again later.", _kill_mongo, {}),
    ("pause-mongo", MONGO, 20, "Stop the process of MongoDB's primary for a time.", _pause_mongo, _TIMED),
    ("step-down-mongo", MONGO, 0, "Let another member of MongoDB become the primary.", _step_down_mongo, {}),
)

FAULTS = {
    name: FaultKind(name=name, place=place, lasts=lasts, help=text, inflict=inflict, **how)
    for name, place, lasts, text, inflict, how in _LIST
}
"""By name, in the order in which they are shown."""

"""The nodes' lists, job locks and signals. Redis may lose any of them: `check_at` in MongoDB finds lost runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from cronflow.backends import codec
from cronflow.backends.redis.connection import RedisAdapter, RedisConnection
from cronflow.domain.errors import BackendUnavailable, Deposed, InvalidInput
from cronflow.ports import AHEAD_VALID_S, START_BY_S, WITHDRAWN_FOR_S, Assignment, JobLock, Signal, Taken

CANCEL_MS = 3_600_000
AHEAD_MS = round(AHEAD_VALID_S * 1000)
WITHDRAWN_MS = round(WITHDRAWN_FOR_S * 1000)
RECONNECT_S = 0.5


class RedisQueue(RedisAdapter):
    """The Queue port. `lock_s` is how long a job lock lasts without renewal; `start_by_s` how long an item may lie in a
    list.
    """

    def __init__(self, connection: RedisConnection, *, lock_s: float = 35.0, start_by_s: float = START_BY_S) -> None:
        super().__init__(connection)
        self._lock_ms = round(lock_s * 1000)
        self._start_by_ms = round(start_by_s * 1000)

    async def dispatch(
        self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]], waited_s: float = 0.0
    ) -> bool:
        keys = [self._keys.term, self._keys.redis_epoch]
        arguments: list[object] = [term, redis_epoch, self._start_by_ms - round(waited_s * 1000)]
        for node, assignments in lists.items():
            keys += [self._keys.queue(node), self._keys.node_signal(node)]
            arguments += [len(assignments), *(codec.item(assignment) for assignment in assignments)]
        answer: bytes = await self._redis.call("dispatch", keys, *arguments)
        if answer == b"stale":
            raise Deposed("Redis has a newer term")
        return answer == b"ok"

    async def take(self, node: str, most: int) -> Taken:
        keys = [self._keys.queue(node), self._keys.held(node), self._keys.term]
        answer = await self._redis.call("take", keys, self._keys.prefix, node, most, self._lock_ms)
        items, put_back, dropped, old, now_ms = answer
        taken, outdated = _readable(items), _readable(old)
        unreadable = len(items) + len(old) - len(taken) - len(outdated)
        left = [(start_by_ms - now_ms) / 1000 for start_by_ms, _ in taken]
        assignments = [assignment for _, assignment in taken]
        behind = [assignment for _, assignment in outdated]
        return Taken(assignments, int(put_back), int(dropped) + unreadable, behind, left)

    async def renew_locks(self, node: str, job_locks: Sequence[JobLock]) -> set[str]:
        words = (self._keys.prefix, node, self._lock_ms, *_words(job_locks))
        return {run.decode() for run in await self._redis.call("renew_locks", [self._keys.held(node)], *words)}

    async def release(self, node: str, job_locks: Sequence[JobLock], ahead: int = 0) -> None:
        keys = [self._keys.held(node), self._keys.signal("room"), self._keys.ahead(node)]
        await self._redis.call("release", keys, self._keys.prefix, ahead, AHEAD_MS, *_words(job_locks))

    async def forget_ended(self, node: str, held: Sequence[JobLock]) -> int:
        words = [word for job_lock in held for word in (job_lock.run, job_lock.fence)]
        return int(await self._redis.call("forget_ended", [self._keys.held(node)], *words))

    async def give_back(self, node: str) -> list[Assignment]:
        items = await self._redis.call("give_back", [self._keys.queue(node)])
        return [assignment for _, assignment in _readable(items)]

    async def cancel(self, runs: Collection[str]) -> None:
        marks = [("SET", self._keys.cancel(run), "1", "PX", CANCEL_MS) for run in runs]
        await self._redis.pipeline([*marks, ("PUBLISH", self._keys.signal("stop"), "cancel")])

    async def cancelled(self, runs: Collection[str]) -> set[str]:
        order = list(runs)
        if not order:
            return set()
        marks = await self._redis.command("MGET", *map(self._keys.cancel, order))
        return {run for run, mark in zip(order, marks, strict=True) if mark is not None}

    async def withdraw(self, fences: Mapping[str, int]) -> None:
        marks = [("SET", self._keys.withdrawn(run), fence, "PX", WITHDRAWN_MS) for run, fence in fences.items()]
        await self._redis.pipeline([*marks, ("PUBLISH", self._keys.signal("stop"), "withdraw")])

    async def withdrawn(self, runs: Collection[str]) -> dict[str, int]:
        order = list(runs)
        if not order:
            return {}
        marks = await self._redis.command("MGET", *map(self._keys.withdrawn, order))
        return {run: int(mark) for run, mark in zip(order, marks, strict=True) if mark is not None}

    async def ping(self) -> float:
        return await self._redis.ping()


class RedisBus(RedisAdapter):
    async def notify(self, signal: Signal) -> None:
        await self._redis.command("PUBLISH", self._keys.signal(signal.value), "look")

    async def listen(self, node: str, signals: Mapping[Signal, Callable[[], None]]) -> None:
        """Reconnects after a lost connection, and then calls every listener."""
        channels = {
            self._keys.node_signal(node) if signal is Signal.NODE else self._keys.signal(signal.value): look
            for signal, look in signals.items()
        }
        while True:
            try:
                async for channel in self._redis.messages(list(channels)):
                    for look in channels.values() if channel is None else (channels[channel],):
                        look()
            except BackendUnavailable:
                # Listeners also poll and report the outage themselves.
                await asyncio.sleep(RECONNECT_S)


def _readable(items: Sequence[bytes]) -> list[tuple[int, Assignment]]:
    """The items that can be read, each with the time by which it must start, in Redis milliseconds."""
    found = []
    for item in items:
        try:
            found.append((codec.start_by_ms(item), codec.assignment(item)))
        except (ValueError, KeyError, InvalidInput):
            # Written by another version. `check_at` redispatches the run, perhaps to a node that can read it.
            continue
    return found


def _words(job_locks: Sequence[JobLock]) -> list[object]:
    return [word for job_lock in job_locks for word in (job_lock.job, job_lock.slot, job_lock.run, job_lock.fence)]

"""The nodes' lists and the job locks. What lies here may vanish at any moment: `check_at` in MongoDB finds what was
lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cronflow.backends import codec
from cronflow.backends.redis.connection import RedisConnection
from cronflow.domain.errors import Deposed, InvalidInput
from cronflow.ports import Assignment, JobLock, Taken

START_BY_S = 5.0
CANCEL_MS = 3_600_000


class RedisQueue:
    """The Queue port. `lock_s` is how long a job lock lasts without renewal; `start_by_s` how long an item may lie in a
    list.
    """

    def __init__(self, connection: RedisConnection, *, lock_s: float = 35.0, start_by_s: float = START_BY_S) -> None:
        self._redis = connection
        self._keys = connection.keys
        self._lock_ms = round(lock_s * 1000)
        self._start_by_ms = round(start_by_s * 1000)

    async def dispatch(self, term: int, redis_epoch: str, lists: Mapping[str, Sequence[Assignment]]) -> bool:
        """See dispatch.lua."""
        keys = [self._keys.term, self._keys.redis_epoch]
        arguments: list[object] = [term, redis_epoch, self._start_by_ms]
        for node, assignments in lists.items():
            keys += [self._keys.queue(node), self._keys.node_signal(node)]
            arguments += [len(assignments), *(codec.item(assignment) for assignment in assignments)]
        answer: bytes = await self._redis.call("dispatch", keys, *arguments)
        if answer == b"stale":
            raise Deposed("Redis knows a newer term")
        return answer == b"ok"

    async def take(self, node: str, most: int) -> Taken:
        """See take.lua."""
        keys = [self._keys.queue(node), self._keys.held(node), self._keys.term]
        answer = await self._redis.call("take", keys, self._keys.prefix, node, most, self._lock_ms)
        items, put_back, dropped, old = answer
        taken, outdated = _readable(items), _readable(old)
        unreadable = len(items) + len(old) - len(taken) - len(outdated)
        return Taken(taken, int(put_back), int(dropped) + unreadable, outdated)

    async def renew_locks(self, node: str, job_locks: Sequence[JobLock]) -> set[str]:
        """See renew_locks.lua."""
        words = (self._keys.prefix, node, self._lock_ms, *_words(job_locks))
        return {run.decode() for run in await self._redis.call("renew_locks", [self._keys.held(node)], *words)}

    async def release(self, node: str, job_locks: Sequence[JobLock]) -> None:
        """See release.lua."""
        keys = [self._keys.held(node), self._keys.signal("room")]
        await self._redis.call("release", keys, self._keys.prefix, *_words(job_locks))

    async def give_back(self, node: str) -> list[Assignment]:
        """See give_back.lua."""
        return _readable(await self._redis.call("give_back", [self._keys.queue(node)]))

    async def cancel(self, runs: Collection[str]) -> None:
        """SET with a TTL for each, then PUBLISH, in one round trip."""
        marks = [("SET", self._keys.cancel(run), "1", "PX", CANCEL_MS) for run in runs]
        await self._redis.pipeline([*marks, ("PUBLISH", self._keys.signal("stop"), "cancel")])

    async def cancelled(self, runs: Collection[str]) -> set[str]:
        """MGET: all keys of a namespace share their slot."""
        order = list(runs)
        if not order:
            return set()
        marks = await self._redis.command("MGET", *map(self._keys.cancel, order))
        return {run for run, mark in zip(order, marks, strict=True) if mark is not None}

    async def ping(self) -> float:
        """PING."""
        return await self._redis.ping()


def _readable(items: Sequence[bytes]) -> list[Assignment]:
    found = []
    for item in items:
        try:
            found.append(codec.assignment(item))
        except (ValueError, KeyError, InvalidInput):
            # Written by another version: `check_at` brings the run back, perhaps to a node that can read it.
            continue
    return found


def _words(job_locks: Sequence[JobLock]) -> list[object]:
    return [word for job_lock in job_locks for word in (job_lock.job, job_lock.slot, job_lock.run, job_lock.fence)]

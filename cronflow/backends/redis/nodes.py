"""Redis: the nodes that are alive, and the key of the one that leads."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from cronflow.backends import codec
from cronflow.backends.redis.connection import RedisAdapter
from cronflow.domain.cluster import Member, NodeReport, Renewal
from cronflow.domain.errors import Conflict


class RedisServerClock(RedisAdapter):
    async def now(self) -> datetime:
        seconds, micros = await self._redis.command("TIME")
        return datetime.fromtimestamp(int(seconds) + int(micros) / 1_000_000, UTC)


class RedisElection(RedisAdapter):
    async def acquire(self, holder: str, ttl_s: float) -> bool:
        answer = await self._redis.command("SET", self._keys.leader, holder, "NX", "PX", round(ttl_s * 1000))
        return answer is not None

    async def install(self, holder: str, term: int, redis_epoch: str) -> bool:
        keys = [self._keys.leader, self._keys.term, self._keys.redis_epoch]
        return bool(await self._redis.call("install", keys, holder, term, redis_epoch))

    async def renew(self, holder: str, ttl_s: float, term: int, redis_epoch: str) -> Renewal:
        keys = [self._keys.leader, self._keys.term, self._keys.redis_epoch, self._keys.resign]
        answer: bytes = await self._redis.call("renew", keys, holder, round(ttl_s * 1000), term, redis_epoch)
        return Renewal(answer.decode())

    async def resign(self, holder: str) -> bool:
        return bool(await self._redis.call("resign", [self._keys.leader, self._keys.signal("leader")], holder))

    async def ask_to_resign(self, term: int) -> None:
        await self._redis.pipeline(
            [("SET", self._keys.resign, term, "PX", 10_000), ("PUBLISH", self._keys.signal("leader"), "resign")]
        )

    async def holder(self) -> tuple[str, float] | None:
        name, ttl_ms = await self._redis.pipeline([("GET", self._keys.leader), ("PTTL", self._keys.leader)])
        # A key without a TTL, which CronFlow never writes, would block every election; it counts as expiring now.
        return None if name is None else (name.decode(), max(0.0, ttl_ms / 1000))


DRAIN_ENDED_MS = 3_600_000


class RedisMembership(RedisAdapter):
    async def report(self, report: NodeReport, ttl_s: float, *, asked: bool = False) -> bool:
        keys = [
            self._keys.node(report.id),
            self._keys.nodes,
            self._keys.name(report.id),
            self._keys.drain(report.name),
        ]
        words = (report.id, codec.report_json(report), round(ttl_s * 1000), int(asked))
        owner, drain = await self._redis.call("report", keys, *words)
        if owner:
            raise Conflict(
                f"a live node is already called {report.name!r} (it is {owner.decode()}); choose another NODE_NAME"
            )
        return bool(drain)

    async def members(self, *, forget: bool = True) -> list[Member]:
        rows = await self._redis.call("members", [self._keys.nodes], self._keys.prefix, int(forget))
        return [
            Member(codec.report_from_json(raw), timedelta(milliseconds=age_ms), queued, held, bool(drain), ahead)
            for raw, age_ms, queued, held, drain, ahead in rows
        ]

    async def leave(self, report: NodeReport) -> None:
        keys = [self._keys.node(report.id), self._keys.nodes, self._keys.name(report.id), self._keys.signal("leader")]
        await self._redis.call("leave", keys, report.id)

    async def holdings(self, nodes: Collection[str]) -> dict[str, tuple[bool, dict[str, int]]]:
        order = sorted(nodes)
        commands: list[tuple[object, ...]] = []
        for node in order:
            commands += [("EXISTS", self._keys.node(node)), ("HGETALL", self._keys.held(node))]
        answers = await self._redis.pipeline(commands)
        return {
            node: (bool(answers[2 * k]), {run.decode(): int(fence) for run, fence in answers[2 * k + 1].items()})
            for k, node in enumerate(order)
        }

    async def drain(self, name: str, *, wanted: bool, until: datetime | None = None) -> bool:
        """`0` distinguishes a cancelled request from one that Redis lost, which the node restores."""
        said = ("1",) if wanted else ("0", "PX", DRAIN_ENDED_MS)
        key = self._keys.drain(name)
        deadline = 0 if until is None else round(until.timestamp() * 1000)
        before, *_ = await self._redis.pipeline(
            [
                ("GET", key),
                ("SET", self._keys.drain_deadline(name), deadline, *(() if wanted else ("PX", DRAIN_ENDED_MS))),
                ("SET", key, *said),
                ("PUBLISH", self._keys.signal("stop"), "drain"),
            ]
        )
        return bool(before == b"1")

    async def drain_deadline(self, name: str, known: datetime | None) -> datetime | None:
        """`0`: there is none."""
        [found] = await self._redis.pipeline([("GET", self._keys.drain_deadline(name))])
        if found is None:
            return known
        return datetime.fromtimestamp(int(found) / 1000, UTC) if int(found) else None

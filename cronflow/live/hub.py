"""The hub reads the live stream into a ring buffer and serves every socket of this replica from it.

Each tick is serialized once, and compressed at most once, however many sockets there are; a socket holds a position in
the ring and no copy. If the stream no longer has the position read last, because Redis was wiped or this replica was
away for too long, every socket gets a new snapshot, because events may be missing.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson
import structlog

from cronflow.domain import metrics
from cronflow.domain.errors import BackendUnavailable
from cronflow.live.session import StreamSession
from cronflow.live.state import Builder, ClusterConfig, point_of
from cronflow.live.subscriptions import Following
from cronflow.ports import UNMETERED, Backends, Clock, Entry, Meter, Reading

LOOK_EVERY_S = 0.05
QUIET_S = 0.9
"""After a tick, wait this long: anything that arrives before the next tick is sent with it."""
AGAIN_S = 1.0
FAILED_S = 5.0
REACH_WITHIN_S = 2.0
"""How long a client waits for a tick that another replica has read already."""
RING = 900
SERIES = 600
NODE_POINT_EVERY = 5
MOST_NODES_IN_SERIES = 50
PAGE = 500

_ID = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")

log = structlog.get_logger("cronflow.live")


class Tick:
    """A tick: its id in the stream, and its message without the end, to which each socket appends its own part."""

    def __init__(self, id: str, text: str) -> None:  # noqa: A002
        self.id = id
        self.text = text

    def message(self, lines: Sequence[str] = (), dropped: int = 0) -> str:
        """The message with these chunks of log lines, after `dropped` ticks that were left out."""
        return f'{self.text},"logs":[{",".join(lines)}],"dropped":{dropped}}}'

    @cached_property
    def compressed(self) -> bytes:
        """The message with nothing of one socket's own."""
        return zlib.compress(self.message().encode())


class Snapshot:
    """A snapshot message; `id` is the tick that it belongs to."""

    def __init__(self, id: str, text: str) -> None:  # noqa: A002
        self.id = id
        self.text = text

    @cached_property
    def compressed(self) -> bytes:
        return zlib.compress(self.text.encode())


class Hub:
    """The live stream of one API replica. `run` it, and `open` a session per socket once it is `ready`: then it has
    read every tick from which a client can continue.
    """

    def __init__(self, backends: Backends, clock: Clock, config: ClusterConfig, meter: Meter = UNMETERED) -> None:
        self._feed = backends.feed
        self._clock = clock
        self._builder = Builder(backends, clock, config)
        self.following = Following(backends, clock)
        self.sessions: set[StreamSession] = set()
        self.generation = 0
        self.ticks: deque[Tick] = deque(maxlen=RING)
        self.end = 0
        self.ready = asyncio.Event()
        self.meter = meter
        self._ticked_at: float | None = None
        self._reset()

    def _reset(self) -> None:
        self._read_to = ""
        self._events: list[str] = []
        self._doc: dict[str, Any] = {}
        self._points: deque[dict[str, Any]] = deque(maxlen=SERIES)
        self._node_points: deque[tuple[str, dict[str, dict[str, Any]]]] = deque(maxlen=SERIES // NODE_POINT_EVERY)
        self._snapshot = Snapshot("", "")
        self.ticks.clear()

    # ----------------------------------------------------------------------------------------------------- sockets

    def open(self, since: str | None, *, compressed: bool = False) -> StreamSession:
        """Open a session that continues after the tick `since`, or starts with a snapshot."""
        session = StreamSession(self, since, compressed=compressed)
        self.sessions.add(session)
        return session

    def close(self, session: StreamSession) -> None:
        self.sessions.discard(session)
        self.following.forget(session)

    async def reach(self, since: str | None) -> None:
        """Wait until the tick `since` is read here too: another replica may have sent it up to a second earlier."""
        until = self._clock.monotonic() + REACH_WITHIN_S
        while since is not None and _order(since) > _order(self._read_to) and self._clock.monotonic() < until:
            await self._clock.sleep(LOOK_EVERY_S)

    @property
    def oldest(self) -> int:
        """Position of the oldest tick in the ring."""
        return self.end - len(self.ticks)

    @property
    def doc(self) -> Mapping[str, Any]:
        """The state of the cluster in the newest tick; empty before the first one."""
        return self._doc

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest tick was read; None before the first one."""
        return None if self._ticked_at is None else self._clock.monotonic() - self._ticked_at

    def tick_at(self, place: int) -> Tick:
        return self.ticks[place - self.oldest]

    def place_after(self, since: str | None) -> int | None:
        """The position after a tick; None if it is no longer in the ring."""
        if since is None:
            return None
        for back, tick in enumerate(reversed(self.ticks)):
            if tick.id == since:
                return self.end - back
        return None

    def snapshot(self) -> dict[str, Any]:
        """The state of the cluster with the series of ten minutes; empty before the first tick."""
        if not self._doc:
            return {}
        columns = {name: [point[name] for point in self._points] for name in self._points[0]}
        shown = [node["name"] for node in self._doc["nodes"][:MOST_NODES_IN_SERIES]]
        nodes = {
            name: {
                field: [nodes.get(name, {}).get(field) for _, nodes in self._node_points]
                for field in ("cpu", "memory", "lag_s", "in_flight")
            }
            for name in shown
        }
        at = [at for at, _ in self._node_points]
        return {**self._doc, "series": {"cluster": columns, "nodes": {"at": at, "by_name": nodes}}}

    def snapshot_message(self) -> Snapshot:
        """The snapshot message, serialized once per tick."""
        newest = self.ticks[-1].id
        if self._snapshot.id != newest:
            text = orjson.dumps({"t": "snap", "seq": newest, "doc": self.snapshot()}).decode()
            self._snapshot = Snapshot(newest, text)
        return self._snapshot

    # ---------------------------------------------------------------------------------------------------- the roles

    async def run(self) -> None:
        """Build ticks, read the stream and follow lines until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, step in (
                    ("builder", self._builder.step),
                    ("stream", self.step),
                    ("lines", self.following.step),
                ):
                    group.create_task(self._repeat(name, step), name=name)
        finally:
            try:
                await self._builder.resign()
            except BackendUnavailable:
                # The claim expires by itself.
                pass

    async def _repeat(self, name: str, step: Callable[[], Awaitable[float]]) -> None:
        while True:
            try:
                pause = await step()
            except BackendUnavailable as error:
                log.debug("live stream interrupted", reason=str(error))
                pause = AGAIN_S
            except Exception:
                # A bug, or an entry of another version, which is not read again. The routes must go on.
                log.exception("live stream failed", role=name)
                pause = FAILED_S
            if (task := asyncio.current_task()) is not None and task.cancelling():
                # A driver may have turned the cancellation into another error.
                raise asyncio.CancelledError
            await self._clock.sleep(pause)

    async def step(self) -> float:
        """Read new entries. Returns the seconds until the next read."""
        entries = await self._feed.read(self._read_to, PAGE)
        if entries is None:
            log.warning("live stream lost its place")
            self._reset()
            self.generation += 1
            return 0.0
        before = self.end
        for entry in entries:
            self._take(entry)
        if self.end > before:
            for session in self.sessions:
                session.wake()
        if len(entries) == PAGE:
            return 0.0
        self.ready.set()
        return QUIET_S if self.end > before else LOOK_EVERY_S

    def _take(self, entry: Entry) -> None:
        self._read_to = entry.id
        if entry.kind == "event":
            self._events.append(entry.text.decode()[1:-1])
            return
        doc = orjson.loads(entry.text)
        point, nodes = point_of(doc)
        self._doc = doc
        if not self._points or self.end % NODE_POINT_EVERY == 0:
            self._node_points.append((point["at"], nodes))
        self._points.append(point)
        events, self._events = ",".join(self._events), []
        text = (
            f'{{"t":"tick","seq":"{entry.id}","ts":"{self._doc["at"]}","patch":{entry.text.decode()},'
            f'"events":[{events}]'
        )
        self.ticks.append(Tick(entry.id, text))
        self.end += 1
        self._ticked_at = self._clock.monotonic()
        self.meter.add(metrics.STREAM_TICKS)


def _order(entry: str) -> tuple[int, ...]:
    """The place of the id of an entry among others; the first one for what is no id."""
    return tuple(int(part) for part in entry.split("-")) if _ID.fullmatch(entry) else ()


def register_cluster_metrics(meter: Meter, hub: Hub) -> None:

    def queue(field: str) -> Reading:
        found: float | None = hub.doc.get("queue", {}).get(field)
        return found

    def plain(field: str) -> Reading:
        found: float | None = hub.doc.get(field)
        return found

    def jobs() -> Reading:
        counts = hub.doc.get("jobs")
        return None if counts is None else {state: counts[state] for state in ("active", "paused", "idle")}

    def leader_known() -> Reading:
        doc = hub.doc
        return float(doc["leader"] is not None) if doc else None

    def maintenance() -> Reading:
        found = hub.doc.get("maintenance")
        return None if found is None else float(found["on"])

    meter.read(metrics.LEADER_KNOWN, leader_known)
    meter.read(metrics.MAINTENANCE, maintenance)
    meter.read(metrics.TERM, lambda: plain("term"))
    meter.read(metrics.LEASE_LEFT, lambda: plain("lease_left_s"))
    meter.read(metrics.CLUSTER_SLOTS, lambda: queue("slots"))
    meter.read(metrics.CLUSTER_IN_FLIGHT, lambda: queue("in_flight"))
    meter.read(metrics.QUEUE_DEPTH, lambda: queue("queued"))
    meter.read(metrics.RUNS_OPEN, lambda: queue("open"))
    meter.read(metrics.DEAD_LETTERS, lambda: plain("dead_letters"))
    meter.read(metrics.JOBS, jobs)
    meter.read(metrics.STREAM_AGE, lambda: hub.age_s)

"""Follows log lines by topic: history from MongoDB, joined without gaps or duplicates by lines that nodes publish.

A topic is `run:<id>` or `logs?level=warn&job=x&node=y`. Redis only carries hints: lines that it loses are read from
MongoDB at most five seconds later. The lines of a run are numbered; if a batch does not continue where the last one
ended, the hub reads MongoDB. Lines of many runs have no common order, so each is sent once, by its id. Where lines are
really missing, a gap gives their number if it is known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import parse_qsl

import orjson

from cronflow.domain.errors import Conflict, InvalidInput, Problem
from cronflow.domain.run import at_least, job_of
from cronflow.live.session import StreamSession
from cronflow.ports import Backends, Clock, LineQuery, LogLine, LogStore
from cronflow.schemas.runs import log_schema

LOOK_EVERY_S = 0.05
IDLE_S = 0.25
RECHECK_S = 5.0
GIVE_UP_S = 10.0
SETTLED_S = 1.5
UNSETTLED_S = 0.1
WANTED_S = 15.0
MOST_TOPICS = 20
MOST_TAIL = 1000
PAGE = 1000
REMEMBERED = 10_000
LOOK_BACK = timedelta(seconds=15)

Place = tuple[int, int]


class Follower:
    """A session that follows a topic. While it reads its history, new lines are buffered."""

    def __init__(self, session: StreamSession) -> None:
        self.session = session
        self.joining = True
        self.waiting: list[LogLine] = []
        self.after: Place | None = None
        self.known: set[tuple[str, int, int]] = set()

    def fresh(self, line: LogLine) -> bool:
        """Whether the line is not part of its history."""
        if self.after is not None:
            return (line.fence, line.n) > self.after
        return _id(line) not in self.known


class Tail:
    """A topic that a session of this replica follows."""

    def __init__(self, topic: Topic, logs: LogStore, now: datetime, monotonic: float) -> None:
        self.topic = topic
        self.followers: dict[StreamSession, Follower] = {}
        self._logs = logs
        self._place: Place | None = None
        self._since = now
        self._sent: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self.unsettled(monotonic)
        self._seen_to: Place = (0, -1)
        self._seen_at = monotonic

    def unsettled(self, monotonic: float) -> None:
        """Nodes start publishing within a second of a request; lines written until then are read from MongoDB."""
        self._settled_at = monotonic + SETTLED_S
        self.recheck_at = monotonic + UNSETTLED_S

    async def join(self, session: StreamSession, tail: int) -> None:
        """Add a follower, starting with the last `tail` lines."""
        follower = self.followers[session] = Follower(session)
        topic = self.topic
        if topic.run is not None:
            lines: Sequence[LogLine] = await self._logs.tail(topic.run, max(tail, 1))
            follower.after = (lines[-1].fence, lines[-1].n) if lines else (0, -1)
            if self._place is None:
                self._place = follower.after
        else:
            # Remember every line that a later read could return again, even if fewer are requested.
            query = LineQuery(levels=topic.levels, job=topic.job, node=topic.node, limit=PAGE)
            lines = list(reversed((await self._logs.find(query)).lines))
            follower.known = {_id(line) for line in lines}
        self._give(follower, lines[-tail:] if tail else [], 0)
        follower.joining = False
        self._give(follower, [line for line in follower.waiting if follower.fresh(line)], 0)
        follower.waiting = []

    def receive(self, lines: Sequence[LogLine], monotonic: float) -> bool:
        """Process published lines. Returns False if lines before them are missing and must be read."""
        lines = [line for line in lines if self.topic.covers(line)]
        if self.topic.run is None:
            self._send([line for line in lines if self._is_new(line)], 0)
            return True
        if lines:
            self._seen_to = max(self._seen_to, (lines[-1].fence, lines[-1].n))
            self._seen_at = monotonic
        for line in lines:
            if self._place is not None and (line.fence, line.n) <= self._place:
                continue
            if self._place is None or (line.fence, line.n) != (self._place[0], self._place[1] + 1):
                return False
            self._place = (line.fence, line.n)
            self._send([line], 0)
        return True

    async def read(self, now: datetime, monotonic: float) -> None:
        """Send lines that are in MongoDB and were not sent."""
        topic = self.topic
        self.recheck_at = monotonic + (UNSETTLED_S if monotonic < self._settled_at else RECHECK_S)
        if topic.run is not None:
            place = self._place
            if place is None:
                return
            lines = await self._logs.read(topic.run, after=place, limit=PAGE)
            for line in lines:
                same = self._place is not None and line.fence == self._place[0]
                missed = line.n - (self._place[1] + 1 if same and self._place is not None else 0)
                if self._place is None or (line.fence, line.n) > self._place:
                    self._place = (line.fence, line.n)
                    self._send([line], max(0, missed))
            if len(lines) == PAGE:
                self.recheck_at = monotonic
            elif self._place is not None and self._place < self._seen_to and monotonic - self._seen_at < GIVE_UP_S:
                # The line was published and is not in MongoDB yet.
                self.recheck_at = monotonic + IDLE_S
            return
        query = LineQuery(
            levels=topic.levels, job=topic.job, node=topic.node, since=self._since - LOOK_BACK, limit=PAGE
        )
        found = await self._logs.find(query)
        self._since = now
        self._send([line for line in reversed(found.lines) if self._is_new(line)], None if found.following else 0)

    def _is_new(self, line: LogLine) -> bool:
        if _id(line) in self._sent:
            return False
        self._sent[_id(line)] = None
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        return True

    def _send(self, lines: Sequence[LogLine], gap: int | None) -> None:
        if not lines and gap == 0:
            return
        chunk = _chunk(self.topic.text, lines, gap)
        for follower in list(self.followers.values()):
            if follower.joining:
                follower.waiting += lines
                continue
            fresh = [line for line in lines if follower.fresh(line)]
            if len(fresh) == len(lines):
                follower.session.lines(self.topic.text, chunk, len(lines))
            else:
                self._give(follower, fresh, gap)

    def _give(self, follower: Follower, lines: Sequence[LogLine], gap: int | None) -> None:
        if lines:
            follower.session.lines(self.topic.text, _chunk(self.topic.text, lines, gap), len(lines))


class Following:
    """All followed topics of this replica; call `step` repeatedly."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._live_tail = backends.live_tail
        self._logs = backends.logs
        self._clock = clock
        self._followed: dict[str, Tail] = {}
        self._read_to: str | None = None
        self._wanted_until = 0.0

    async def subscribe(self, session: StreamSession, text: str, tail: int) -> None:
        """Follow a topic from its last lines on. Raises InvalidInput for an unknown topic, Conflict if the session
        follows too many.
        """
        topic = topic_of(text)
        if sum(session in one.followers for one in self._followed.values()) >= MOST_TOPICS:
            raise Conflict(f"a socket follows at most {MOST_TOPICS} topics")
        monotonic = self._clock.monotonic()
        if self._read_to is None:
            await self._want(monotonic)
            self._read_to = await self._live_tail.newest()
        found = self._followed.setdefault(text, Tail(topic, self._logs, self._clock.now(), monotonic))
        found.unsettled(monotonic)
        try:
            await found.join(session, min(max(tail, 0), MOST_TAIL))
        except BaseException:
            self.unsubscribe(session, text)
            raise

    def unsubscribe(self, session: StreamSession, text: str) -> None:
        tail = self._followed.get(text)
        if tail is not None:
            tail.followers.pop(session, None)
            if not tail.followers:
                del self._followed[text]

    def forget(self, session: StreamSession) -> None:
        """Remove all subscriptions of a closed socket."""
        for text in list(self._followed):
            self.unsubscribe(session, text)

    async def step(self) -> float:
        """Read published lines, and MongoDB where a recheck is due."""
        if not self._followed:
            self._read_to = None
            return IDLE_S
        monotonic = self._clock.monotonic()
        if monotonic >= self._wanted_until - WANTED_S / 2:
            await self._want(monotonic)
        if self._read_to is not None:
            await self._read_published(self._read_to, monotonic)
        for tail in list(self._followed.values()):
            if tail.recheck_at <= monotonic:
                await tail.read(self._clock.now(), monotonic)
        return LOOK_EVERY_S

    async def _want(self, monotonic: float) -> None:
        await self._live_tail.add_viewer(WANTED_S)
        self._wanted_until = monotonic + WANTED_S

    async def _read_published(self, after: str, monotonic: float) -> None:
        batches = await self._live_tail.read(after)
        if batches is None:
            self._read_to = await self._live_tail.newest()
        for tail in self._followed.values():
            if batches is None:
                tail.recheck_at = monotonic
                continue
            for batch in batches:
                if not tail.receive(batch.lines, monotonic) or batch.omitted:
                    tail.recheck_at = monotonic
        if batches:
            self._read_to = batches[-1].id


def _id(line: LogLine) -> tuple[str, int, int]:
    return line.run, line.fence, line.n


def _chunk(topic: str, lines: Sequence[LogLine], gap: int | None) -> str:
    return orjson.dumps({"topic": topic, "gap": gap, "lines": [log_schema(line) for line in lines]}).decode()


@dataclass(frozen=True, slots=True)
class Topic:
    """A parsed topic and its text. `run` is set for the lines of one run, `job` if all lines belong to one job."""

    text: str
    run: str | None = None
    levels: Collection[str] = ()
    job: str | None = None
    node: str | None = None

    def covers(self, line: LogLine) -> bool:
        if self.run is not None:
            return line.run == self.run
        return (
            (not self.levels or line.level in self.levels)
            and (self.job is None or line.job == self.job)
            and (self.node is None or line.node == self.node)
        )


def topic_of(text: str) -> Topic:
    """Parse a topic. Raises InvalidInput."""
    kind, mark, rest = text.partition(":")
    if kind == "run" and mark and rest:
        return Topic(text, run=rest, job=job_of(rest))
    path, _, query = text.partition("?")
    found = dict(parse_qsl(query))
    if path != "logs" or found.keys() - {"level", "job", "node"}:
        what = f"unknown topic {text[:100]!r}"
        raise InvalidInput(Problem("topic", what, "write run:<id> or logs?level=warn&job=name&node=name"))
    levels = at_least(found["level"]) if "level" in found else ()
    return Topic(text, levels=levels, job=found.get("job"), node=found.get("node"))

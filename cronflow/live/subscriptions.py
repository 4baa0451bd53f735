"""Following lines: history from MongoDB, joined by what nodes publish, without a gap and without a double.

The rules it protects. What Redis carries is a hint: whatever it loses is read from MongoDB, at the latest five seconds
later. The lines of a run have numbers: a batch that does not follow on what was sent makes the hub read instead of
guess. Lines of many runs have no order among them; there each is sent once, by its id. Where lines really are missing,
a gap says so, with their number if it is known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta

import orjson

from cronflow.domain.errors import Conflict
from cronflow.live.session import StreamSession
from cronflow.live.topics import Topic, topic_of
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
    """A session and a topic. While it joins, what comes is kept; afterwards it gets what lies behind its history."""

    def __init__(self, session: StreamSession) -> None:
        self.session = session
        self.joining = True
        self.waiting: list[LogLine] = []
        self.after: Place | None = None
        self.known: set[tuple[str, int, int]] = set()

    def fresh(self, line: LogLine) -> bool:
        """Whether its history did not have this line."""
        if self.after is not None:
            return (line.fence, line.n) > self.after
        return _id(line) not in self.known


class Tail:
    """A topic that somebody of this replica follows."""

    def __init__(self, topic: Topic, logs: LogStore, now: datetime, monotonic: float) -> None:
        self.topic = topic
        self.followers: dict[StreamSession, Follower] = {}
        self._logs = logs
        self._place: Place | None = None
        self._since = now
        self._sent: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self.unsettled(monotonic)
        self._heard_to: Place = (0, -1)
        self._heard_at = monotonic

    def unsettled(self, monotonic: float) -> None:
        """Nodes notice within a second that somebody looks on; what they write until then is read from MongoDB."""
        self._settled_at = monotonic + SETTLED_S
        self.recheck_at = monotonic + UNSETTLED_S

    async def join(self, session: StreamSession, tail: int) -> None:
        """Begin with that many of the last lines."""
        follower = self.followers[session] = Follower(session)
        topic = self.topic
        if topic.run is not None:
            lines: Sequence[LogLine] = await self._logs.tail(topic.run, max(tail, 1))
            follower.after = (lines[-1].fence, lines[-1].n) if lines else (0, -1)
            if self._place is None:
                self._place = follower.after
        else:
            # All that a look back could find again, also when fewer are wanted.
            query = LineQuery(levels=topic.levels, job=topic.job, node=topic.node, limit=PAGE)
            lines = list(reversed((await self._logs.find(query)).lines))
            follower.known = {_id(line) for line in lines}
        self._give(follower, lines[-tail:] if tail else [], 0)
        follower.joining = False
        self._give(follower, [line for line in follower.waiting if follower.fresh(line)], 0)
        follower.waiting = []

    def heard(self, lines: Sequence[LogLine], monotonic: float) -> bool:
        """Lines that a node published. False when some are missing before them, and are to be read."""
        lines = [line for line in lines if self.topic.covers(line)]
        if self.topic.run is None:
            self._send([line for line in lines if self._is_new(line)], 0)
            return True
        if lines:
            self._heard_to = max(self._heard_to, (lines[-1].fence, lines[-1].n))
            self._heard_at = monotonic
        for line in lines:
            if self._place is not None and (line.fence, line.n) <= self._place:
                continue
            if self._place is None or (line.fence, line.n) != (self._place[0], self._place[1] + 1):
                return False
            self._place = (line.fence, line.n)
            self._send([line], 0)
        return True

    async def read(self, now: datetime, monotonic: float) -> None:
        """What MongoDB has and was not sent."""
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
            elif self._place is not None and self._place < self._heard_to and monotonic - self._heard_at < GIVE_UP_S:
                # Published, and on its way to MongoDB.
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
    """All topics of this replica. `step` is to be repeated."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._live_tail = backends.live_tail
        self._logs = backends.logs
        self._clock = clock
        self._followed: dict[str, Tail] = {}
        self._read_to: str | None = None
        self._wanted_until = 0.0

    async def subscribe(self, session: StreamSession, text: str, tail: int) -> None:
        """Follow a topic from its last lines on. Raises InvalidInput for one that there is not; Conflict when the
        session follows too many.
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
        """Follow it no longer."""
        tail = self._followed.get(text)
        if tail is not None:
            tail.followers.pop(session, None)
            if not tail.followers:
                del self._followed[text]

    def forget(self, session: StreamSession) -> None:
        """The socket has gone."""
        for text in list(self._followed):
            self.unsubscribe(session, text)

    async def step(self) -> float:
        """Read what nodes published, and what MongoDB has where that is due."""
        if not self._followed:
            self._read_to = None
            return IDLE_S
        monotonic = self._clock.monotonic()
        if monotonic >= self._wanted_until - WANTED_S / 2:
            await self._want(monotonic)
        if self._read_to is not None:
            await self._hear(self._read_to, monotonic)
        for tail in list(self._followed.values()):
            if tail.recheck_at <= monotonic:
                await tail.read(self._clock.now(), monotonic)
        return LOOK_EVERY_S

    async def _want(self, monotonic: float) -> None:
        await self._live_tail.add_viewer(WANTED_S)
        self._wanted_until = monotonic + WANTED_S

    async def _hear(self, after: str, monotonic: float) -> None:
        batches = await self._live_tail.read(after)
        if batches is None:
            self._read_to = await self._live_tail.newest()
        for tail in self._followed.values():
            if batches is None:
                tail.recheck_at = monotonic
                continue
            for batch in batches:
                if not tail.heard(batch.lines, monotonic) or batch.omitted:
                    tail.recheck_at = monotonic
        if batches:
            self._read_to = batches[-1].id


def _id(line: LogLine) -> tuple[str, int, int]:
    return line.run, line.fence, line.n


def _chunk(topic: str, lines: Sequence[LogLine], gap: int | None) -> str:
    return orjson.dumps({"topic": topic, "gap": gap, "lines": [log_schema(line) for line in lines]}).decode()

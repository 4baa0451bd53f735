"""Where a follower of the live stream stands: what it says hello with, and what is new in what it is sent. This part
awaits nothing.

The rules it protects. What was yielded once is not yielded again, on whatever replica it goes on. Where something may
be missing a gap says so: before a snapshot that came instead of the missed ticks, and in the lines of a topic whose
last ones before the loss are no longer among those that come with the new connection.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import orjson
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from cronflow.client.calls import PREFIX, ApiError
from cronflow.schemas.runs import LogSchema
from cronflow.schemas.stream import LinesSchema, StreamErrorSchema, StreamMessage, TickSchema

SILENT_S = 30.0
"""A connection that says nothing for so long is given up: a tick comes each second."""
RENEW_S = 600.0
"""A login on the stream is good for 900 s."""
CLOSE_S = 2.0
LARGEST_MESSAGE = 64 * 1024 * 1024
RESUMED_TAIL = 1000
"""The most that the server sends of what was before."""
REMEMBERED = 10_000
CLOCKS_DIFFER = timedelta(seconds=15)
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0
LOGIN_OVER = 4401
REFUSALS = 3
AWAY = frozenset({0, 429, 502, 503, 504})

LOST = (OSError, WebSocketException, ApiError)
"""What ends a connection; which of them are the end of following is for `Patience` to say."""


class Interrupted(OSError):
    """The connection is of no use: what was asked for on it was not obeyed because a server is away."""


def stream_url(url: str) -> str:
    """Where the stream of this API is."""
    return f"ws{url.removeprefix('http')}{PREFIX}/stream"


def auth_text(ticket: str) -> str:
    """The message that renews the login."""
    return orjson.dumps({"op": "auth", "ticket": ticket}).decode()


class Place:
    """A follower of these topics, behind the tick `since`; `tail` lines of each topic come first."""

    def __init__(self, topics: Sequence[str], since: str | None, tail: int) -> None:
        self._seen = {topic: Seen(topic, tail) for topic in dict.fromkeys(topics)}
        self._seq = since
        self._tail = tail
        self._came = False

    def hello(self, ticket: str) -> str:
        """The first message on a connection."""
        tail = self._tail
        if self._came:
            tail = RESUMED_TAIL
            for seen in self._seen.values():
                seen.resume()
        message = {"op": "hello", "ticket": ticket, "since": self._seq, "topics": [*self._seen], "tail": tail}
        return orjson.dumps(message).decode()

    def take(self, text: str | bytes) -> Iterator[StreamMessage]:
        """What is new in a message. Raises ApiError when a topic is refused, Interrupted when it is for now."""
        message: Any = orjson.loads(text)
        match message["t"]:
            case "snap":
                if self._seq is not None:
                    yield {"t": "gap", "missed": None}
                self._came_to(message["seq"], message["doc"]["at"])
                yield message
            case "tick":
                self._came_to(message["seq"], message["ts"])
                yield self._tick(message)
            case "error":
                refused = cast(StreamErrorSchema, message)
                if message.get("again"):
                    raise Interrupted(refused["detail"])
                raise ApiError(422, refused["detail"])

    def _came_to(self, seq: str, at: str) -> None:
        self._seq = seq
        if not self._came:
            self._came = True
            for seen in self._seen.values():
                seen.began = datetime.fromisoformat(at) - CLOCKS_DIFFER

    def _tick(self, tick: TickSchema) -> TickSchema:
        chunks = [self._seen[chunk["topic"]].take(chunk) for chunk in tick["logs"]]
        return {**tick, "logs": [chunk for chunk in chunks if chunk["lines"] or chunk["gap"] != 0]}


class Seen:
    """The lines of one topic that were yielded. Those of one run have an order; of others the newest ids are kept."""

    def __init__(self, topic: str, tail: int) -> None:
        self.began: datetime | None = None
        self._ordered = topic.startswith("run:")
        self._last: tuple[int, int] | None = None
        self._ids: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self._tail = tail
        self._joining = False

    def resume(self) -> None:
        """The lines that come next are the last ones before and since the loss."""
        self._joining = True

    def take(self, chunk: LinesSchema) -> LinesSchema:
        """Without what was yielded before, and with a gap where the old and the new do not meet."""
        lines, gap = chunk["lines"], chunk["gap"]
        fresh = [line for line in lines if not self._knows(line)]
        if self._joining and lines:
            self._joining = False
            if self._last is None and self._tail == 0 and self.began is not None:
                # Nothing was yielded yet, and what was there before was not asked for.
                fresh = [line for line in fresh if datetime.fromisoformat(line["at"]) >= self.began]
            elif len(fresh) == len(lines) >= RESUMED_TAIL:
                gap = None
        for line in fresh:
            self._remember(line)
        return {**chunk, "gap": gap, "lines": fresh}

    def _knows(self, line: LogSchema) -> bool:
        if self._ordered:
            return self._last is not None and (line["fence"], line["n"]) <= self._last
        return (line["run"], line["fence"], line["n"]) in self._ids

    def _remember(self, line: LogSchema) -> None:
        self._last = (line["fence"], line["n"])
        if not self._ordered:
            self._ids[line["run"], line["fence"], line["n"]] = None
            if len(self._ids) > REMEMBERED:
                self._ids.popitem(last=False)


class Patience:
    """How long to go on trying. `seconds` without a message are the end; None: there is none."""

    def __init__(self, url: str, seconds: float | None) -> None:
        self._url = url
        self._seconds = seconds
        self.heard()

    def heard(self) -> None:
        """A message came."""
        self._heard_at = time.monotonic()
        self._losses = 0
        self._refusals = 0

    def pause_s(self, error: BaseException) -> float:
        """How long to wait before the next connection. Raises ApiError when there is to be none."""
        self._give_up(error)
        self._losses += 1
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._losses - 1)) * random.uniform(0.5, 1.0)
        waited = time.monotonic() - self._heard_at
        if self._seconds is not None and waited + pause > self._seconds:
            what = f"{self._url} had no live stream for {waited:.0f} s: {_reason(error)}"
            status = error.status if isinstance(error, ApiError) else 0
            raise ApiError(status, what) from error
        return pause

    def _give_up(self, error: BaseException) -> None:
        """Raise for what no other connection would change."""
        if isinstance(error, ApiError) and error.status not in AWAY:
            raise error
        if isinstance(error, InvalidStatus) and 400 <= error.response.status_code < 500:
            raise ApiError(error.response.status_code, "the stream was refused; is this the address of the API?")
        if isinstance(error, ConnectionClosed) and error.rcvd is not None:
            if error.rcvd.code == LOGIN_OVER:
                # A login that ended while it was followed is renewed by the next ticket; fresh tickets that are
                # refused are not.
                self._refusals += 1
                if self._refusals >= REFUSALS:
                    raise ApiError(401, error.rcvd.reason or "the login is over") from error
            elif error.rcvd.code == 1007:
                raise ApiError(400, error.rcvd.reason) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        return error.rcvd.reason or f"closed with {error.rcvd.code}"
    return str(error) or type(error).__name__

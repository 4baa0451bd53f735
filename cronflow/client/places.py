"""The position of a follower in the live stream: its hello message, and the new part of each message. It does no I/O.

The rules it protects. A message is yielded once, whichever replica the follower reconnects to. A gap marks possible
losses: before a snapshot that replaces missed ticks, and in the lines of a topic whose last lines before the loss are
no longer among those of the new connection.
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
from cronflow.domain.errors import BackendUnavailable
from cronflow.schemas.runs import LogSchema
from cronflow.schemas.stream import LinesSchema, StreamErrorSchema, StreamMessage, TickSchema

SILENT_S = 30.0
"""A connection without messages for this long is replaced: a tick comes each second."""
RENEW_S = 600.0
"""A login on the stream is valid for 900 s."""
CLOSE_S = 2.0
LARGEST_MESSAGE = 64 * 1024 * 1024
RESUMED_TAIL = 1000
"""The most earlier lines that the server sends."""
REMEMBERED = 10_000
CLOCKS_DIFFER = timedelta(seconds=15)
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0
LOGIN_OVER = 4401
REFUSALS = 3
AWAY = frozenset({0, 429, 502, 503, 504})

LOST = (OSError, WebSocketException, ApiError, BackendUnavailable)
"""Errors that end a connection; `Patience` decides which of them end following."""


class Interrupted(OSError):
    """The request on this connection failed because a server is unavailable."""


def stream_url(url: str) -> str:
    """The URL of this API's stream."""
    return f"ws{url.removeprefix('http')}{PREFIX}/stream"


def auth_text(ticket: str) -> str:
    """The message that renews the login."""
    return orjson.dumps({"op": "auth", "ticket": ticket}).decode()


class Place:
    """A follower of these topics, after the tick `since`; `tail` lines of each topic come first."""

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
        """The new part of a message. Raises ApiError when a topic is refused, Interrupted when only for now."""
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
    """The yielded lines of one topic. Lines of one run have an order; for others the newest ids are stored."""

    def __init__(self, topic: str, tail: int) -> None:
        self.began: datetime | None = None
        self._ordered = topic.startswith("run:")
        self._last: tuple[int, int] | None = None
        self._ids: OrderedDict[tuple[str, int, int], None] = OrderedDict()
        self._tail = tail
        self._joining = False

    def resume(self) -> None:
        """The next lines are the last ones before and since the loss."""
        self._joining = True

    def take(self, chunk: LinesSchema) -> LinesSchema:
        """Without lines that were yielded before; with a gap if old and new lines do not join."""
        lines, gap = chunk["lines"], chunk["gap"]
        fresh = [line for line in lines if not self._has(line)]
        if self._joining and lines:
            self._joining = False
            if self._last is None and self._tail == 0 and self.began is not None:
                # Nothing was yielded yet, and earlier lines were not requested.
                fresh = [line for line in fresh if datetime.fromisoformat(line["at"]) >= self.began]
            elif len(fresh) == len(lines) >= RESUMED_TAIL:
                gap = None
        for line in fresh:
            self._remember(line)
        return {**chunk, "gap": gap, "lines": fresh}

    def _has(self, line: LogSchema) -> bool:
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
    """How long to retry: `seconds` without a message; None: forever.

    BackendUnavailable, which only clients of commands raise, is retried once the API was reached (`connected`): a
    command whose first request fails should end at once.
    """

    def __init__(self, url: str, seconds: float | None, *, connected: bool = False) -> None:
        self._url = url
        self._seconds = seconds
        self.reset()
        self._connected = connected

    def reset(self) -> None:
        """A message arrived."""
        self._connected = True
        self._reset_at = time.monotonic()
        self._losses = 0
        self._refusals = 0

    def pause_s(self, error: BaseException) -> float:
        """How long to wait before the next connection. Raises ApiError to give up."""
        self._give_up(error)
        self._losses += 1
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._losses - 1)) * random.uniform(0.5, 1.0)
        waited = time.monotonic() - self._reset_at
        if self._seconds is not None and waited + pause > self._seconds:
            if isinstance(error, BackendUnavailable):
                raise error
            what = f"{self._url} had no live stream for {waited:.0f} s: {_reason(error)}"
            status = error.status if isinstance(error, ApiError) else 0
            raise ApiError(status, what) from error
        return pause

    def _give_up(self, error: BaseException) -> None:
        """Raise for errors that a new connection would not solve."""
        if isinstance(error, ApiError) and error.status not in AWAY:
            raise error
        if isinstance(error, BackendUnavailable) and not self._connected:
            raise error
        if isinstance(error, InvalidStatus) and 400 <= error.response.status_code < 500:
            raise ApiError(error.response.status_code, "the stream was refused; is this the address of the API?")
        if isinstance(error, ConnectionClosed) and error.rcvd is not None:
            if error.rcvd.code == LOGIN_OVER:
                # The next ticket renews a login that ended meanwhile; refused fresh tickets mean that it is over.
                self._refusals += 1
                if self._refusals >= REFUSALS:
                    raise ApiError(401, error.rcvd.reason or "the login has ended") from error
            elif error.rcvd.code == 1007:
                raise ApiError(400, error.rcvd.reason) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionClosed) and error.rcvd is not None:
        return error.rcvd.reason or f"closed with {error.rcvd.code}"
    return str(error) or type(error).__name__

"""Generated from `following.py` by `make client`; edit that file.

The rules it protects: a lost connection is replaced, on any replica that answers, and missed messages are replayed
first; a gap marks what is lost. Lines of one run are never lost: lines that the stream does not have in order are read
over REST.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from websockets.sync.client import connect

from cronflow.client.calls import ApiError, Call, get, given, path_of
from cronflow.client.places import (
    CLOSE_S,
    LARGEST_MESSAGE,
    LOST,
    RENEW_S,
    SILENT_S,
    Patience,
    Place,
    auth_text,
    stream_url,
)
from cronflow.domain.errors import BackendUnavailable
from cronflow.schemas.runs import LogSchema, RunDetailSchema
from cronflow.schemas.stream import LineMessage, RunMessage, StreamMessage

if TYPE_CHECKING:
    from cronflow.client.blocking import Client

PAGE = 500


def follow(
    client: Client, topics: Sequence[str], since: str | None, tail: int, patience_s: float | None
) -> Generator[StreamMessage, None]:
    """See `Client.follow`."""
    place = Place(topics, since, tail)
    patience = Patience(client.url, patience_s)
    while True:
        try:
            ticket = _ticket(client)
            with connect(
                stream_url(client.url), compression=None, max_size=LARGEST_MESSAGE, close_timeout=CLOSE_S
            ) as socket:
                socket.send(place.hello(ticket))
                renew_at = time.monotonic() + RENEW_S
                while True:
                    if time.monotonic() >= renew_at:
                        socket.send(auth_text(_ticket(client)))
                        renew_at = time.monotonic() + RENEW_S
                    text = socket.recv(SILENT_S)
                    patience.reset()
                    for message in place.take(text):
                        yield message
        except LOST as error:
            pause = patience.pause_s(error)
        time.sleep(pause)


def _ticket(client: Client) -> str:
    answer = client.send(Call("POST", path_of("auth", "ws-ticket"), repeatable=True))
    return str(answer["ticket"])


class RunReader(Protocol):
    """Reads one run."""

    def run(self) -> RunDetailSchema:
        """The current state."""

    def lines(self, after: tuple[int, int]) -> tuple[Sequence[LogSchema], bool]:
        """Lines after (fence, n), in order, and whether there may be more."""


def follow_run(topic: str, messages: Iterator[StreamMessage], reader: RunReader) -> Generator[RunMessage, None]:
    """The states and lines of a run until it has ended, from its first line on. `messages` follow its topic.

    Lines of the stream that do not continue the last one's number trigger a read, so every line is yielded once, in
    order. The state is read at each tick.
    """
    last_state: tuple[object, ...] | None = None
    place = (0, -1)
    missing = True
    for message in messages:
        run = reader.run()
        over = run["ended_at"] is not None
        if not over and last_state != (run["state"], run["attempt"], run["node"]):
            last_state = (run["state"], run["attempt"], run["node"])
            yield {"t": "state", "run": run}
        for chunk in message["logs"] if message["t"] == "tick" else ():
            missing = missing or (chunk["topic"] == topic and chunk["gap"] != 0)
            for line in chunk["lines"] if chunk["topic"] == topic and not missing else ():
                if (line["fence"], line["n"]) <= place:
                    continue
                if (line["fence"], line["n"]) != (place[0], place[1] + 1):
                    missing = True
                    break
                place = (line["fence"], line["n"])
                yield {"t": "line", "line": line}
        # Lines from before the end are stored once the run has ended.
        missing = missing or over
        while missing:
            lines, missing = reader.lines(place)
            for line in lines:
                place = (line["fence"], line["n"])
                yield {"t": "line", "line": line}
        if over:
            yield {"t": "state", "run": run}
            return


def follow_lines(topic: str, messages: Iterator[StreamMessage]) -> Generator[LineMessage, None]:
    """The lines of a topic, with gaps for missing ones. `messages` follow it."""
    for message in messages:
        for chunk in message["logs"] if message["t"] == "tick" else ():
            if chunk["topic"] != topic:
                continue
            if chunk["gap"] != 0:
                yield {"t": "gap", "missed": chunk["gap"]}
            for line in chunk["lines"]:
                yield {"t": "line", "line": line}


def run_topic(id: str) -> str:  # noqa: A002  the public name
    """The lines of a run."""
    return f"run:{id}"


def lines_topic(level: str | None = None, job: str | None = None, node: str | None = None) -> str:
    """The lines of all runs that match."""
    query = urlencode(given(level=level, job=job, node=node))
    return f"logs?{query}" if query else "logs"


class ApiRunReader:
    """Reads a run over REST, and retries while the API is unavailable."""

    def __init__(self, client: Client, id: str, patience_s: float | None) -> None:  # noqa: A002
        self._client = client
        self._id = id
        self._patience_s = patience_s

    def run(self) -> RunDetailSchema:
        """The current state."""
        found: RunDetailSchema = self._read(get(path_of("runs", self._id)))
        return found

    def lines(self, after: tuple[int, int]) -> tuple[Sequence[LogSchema], bool]:
        """A page after (fence, n)."""
        place = None if after[1] < 0 else f"{after[0]}:{after[1]}"
        page = self._read(get(path_of("runs", self._id, "logs"), after=place, limit=PAGE))
        return page["items"], len(page["items"]) == PAGE

    def _read(self, call: Call) -> Any:
        patience = Patience(self._client.url, self._patience_s, connected=True)
        while True:
            try:
                return self._client.send(call)
            except (ApiError, BackendUnavailable) as error:
                pause = patience.pause_s(error)
            time.sleep(pause)


def follow_run_of(
    client: Client,
    id: str,  # noqa: A002
    patience_s: float | None,
) -> Generator[RunMessage, None]:
    """See `Runs.follow`."""
    topic = run_topic(id)
    # The last stored line shows whether any was written between the first read and the start of the stream.
    with (
        closing(follow(client, [topic], None, 1, patience_s)) as messages,
        closing(follow_run(topic, messages, ApiRunReader(client, id, patience_s))) as found,
    ):
        for message in found:
            yield message


def follow_lines_of(
    client: Client, level: str | None, job: str | None, node: str | None, tail: int, patience_s: float | None
) -> Generator[LineMessage, None]:
    """See `Logs.follow`."""
    topic = lines_topic(level, job, node)
    with (
        closing(follow(client, [topic], None, tail, patience_s)) as messages,
        closing(follow_lines(topic, messages)) as found,
    ):
        for message in found:
            yield message

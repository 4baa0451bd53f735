"""Where the views that follow get their messages: from the API, for who is logged in, or from the servers themselves.

The rule it protects: both say the same in the shapes of `cronflow.schemas`, so a view knows nothing of where it comes
from. Ctrl-C is how following ends; it is no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from cronflow.cli import connect, interrupt
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.run import RunState

if TYPE_CHECKING:
    from cronflow.client import AsyncClient
    from cronflow.live.hub import Hub
    from cronflow.schemas.events import EventSchema
    from cronflow.schemas.runs import LogSchema, RunDetailSchema, RunSchema
    from cronflow.schemas.stream import LineMessage, RunMessage, StreamMessage
    from cronflow.usecases.service import Service

READY_S = 10.0
PAGE = 500

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of all runs."""

    text: str = ""
    level: str | None = None
    job: str | None = None
    node: str | None = None
    since: datetime | None = None


class Source(Protocol):
    """What can be followed, and what is read beside it."""

    def messages(self, *topics: str, tail: int = 0) -> AsyncGenerator[StreamMessage, None]:
        """The live stream."""

    def run(self, run_id: str) -> AsyncGenerator[RunMessage, None]:
        """The states and lines of a run until it has ended, from its first line on."""

    def lines(self, wanted: Wanted, tail: int) -> AsyncGenerator[LineMessage, None]:
        """The last lines and those to come. Text and instant do not count here."""

    async def search(self, wanted: Wanted, limit: int) -> tuple[list[LogSchema], bool]:
        """The newest of those lines, the oldest first, and whether there are more."""

    async def runs(self, job: str | None, states: Sequence[RunState], limit: int) -> list[RunSchema]:
        """Runs, those that fell due last first."""

    async def get(self, run_id: str) -> RunDetailSchema:
        """A run."""

    async def events(self, limit: int) -> list[EventSchema]:
        """The newest events, the oldest first."""

    async def ask(self, job: str, args: Mapping[str, object] | None) -> str:
        """Run a job now. Returns the run's id."""


class ApiSource:
    """The API, for who is logged in."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def messages(self, *topics: str, tail: int = 0) -> AsyncGenerator[StreamMessage, None]:
        """Over the websocket."""
        return self._client.follow(*topics, tail=tail)

    def run(self, run_id: str) -> AsyncGenerator[RunMessage, None]:
        """Over the websocket, and by REST."""
        return self._client.runs.follow(run_id)

    def lines(self, wanted: Wanted, tail: int) -> AsyncGenerator[LineMessage, None]:
        """Over the websocket."""
        return self._client.logs.follow(level=wanted.level, job=wanted.job, node=wanted.node, tail=tail)

    async def search(self, wanted: Wanted, limit: int) -> tuple[list[LogSchema], bool]:
        """By REST."""
        pages = self._client.logs.search(
            wanted.text, level=wanted.level, job=wanted.job, node=wanted.node, since=wanted.since
        )
        found = await _first(pages, limit + 1)
        return found[:limit][::-1], len(found) > limit

    async def runs(self, job: str | None, states: Sequence[RunState], limit: int) -> list[RunSchema]:
        """By REST."""
        return await _first(self._client.runs.list(job=job, state=[*states]), limit)

    async def get(self, run_id: str) -> RunDetailSchema:
        """By REST."""
        return await self._client.runs.get(run_id)

    async def events(self, limit: int) -> list[EventSchema]:
        """By REST."""
        return (await _first(self._client.events.list(), limit))[::-1]

    async def ask(self, job: str, args: Mapping[str, object] | None) -> str:
        """By REST."""
        return (await self._client.jobs.run(job, args))["id"]


class ServerSource:
    """The servers, with the live stream in this process."""

    def __init__(self, service: Service, hub: Hub) -> None:
        self._service = service
        self._hub = hub

    async def messages(self, *topics: str, tail: int = 0) -> AsyncGenerator[StreamMessage, None]:
        """From the hub. A second snapshot has a gap before it."""
        import orjson

        try:
            async with asyncio.timeout(READY_S):
                await self._hub.ready.wait()
        except TimeoutError:
            raise BackendUnavailable("Redis", "the live stream", "it does not answer") from None
        session = self._hub.open(None)
        try:
            for topic in topics:
                await self._hub.following.subscribe(session, topic, tail)
            began = False
            while True:
                message = orjson.loads(await session.next())
                if began and message["t"] == "snap":
                    yield {"t": "gap", "missed": None}
                began = True
                yield message
        finally:
            self._hub.close(session)

    async def run(self, run_id: str) -> AsyncGenerator[RunMessage, None]:
        """The stream's lines, joined with those of MongoDB."""
        from cronflow.client.following import follow_run, run_topic

        topic = run_topic(run_id)
        reader = _ServiceRunReader(self._service, run_id)
        await reader.run()
        async with (
            aclosing(self.messages(topic, tail=1)) as messages,
            aclosing(follow_run(topic, messages, reader)) as found,
        ):
            async for message in found:
                yield message

    async def lines(self, wanted: Wanted, tail: int) -> AsyncGenerator[LineMessage, None]:
        """The stream's."""
        from cronflow.client.following import follow_lines, lines_topic

        topic = lines_topic(wanted.level, wanted.job, wanted.node)
        async with (
            aclosing(self.messages(topic, tail=tail)) as messages,
            aclosing(follow_lines(topic, messages)) as found,
        ):
            async for message in found:
                yield message

    async def search(self, wanted: Wanted, limit: int) -> tuple[list[LogSchema], bool]:
        """MongoDB's."""
        from cronflow.domain.log_levels import at_least
        from cronflow.ports import LineQuery
        from cronflow.schemas.runs import log_schema

        found: list[LogSchema] = []
        before = None
        while len(found) <= limit:
            page = await self._service.find_lines(
                LineQuery(
                    text=wanted.text,
                    levels=() if wanted.level is None else at_least(wanted.level),
                    job=wanted.job,
                    node=wanted.node,
                    since=wanted.since,
                    before=before,
                    limit=min(limit + 1 - len(found), PAGE),
                )
            )
            found += [log_schema(line) for line in page.lines]
            before = page.following
            if before is None:
                break
        return found[:limit][::-1], len(found) > limit

    async def runs(self, job: str | None, states: Sequence[RunState], limit: int) -> list[RunSchema]:
        """MongoDB's."""
        from cronflow.ports import RunQuery
        from cronflow.schemas.runs import run_schema

        return [run_schema(run) for run in await self._service.runs(RunQuery(job=job, states=states, limit=limit))]

    async def get(self, run_id: str) -> RunDetailSchema:
        """MongoDB's."""
        return await _ServiceRunReader(self._service, run_id).run()

    async def events(self, limit: int) -> list[EventSchema]:
        """MongoDB's."""
        from cronflow.schemas.events import event_schema

        return [event_schema(happened) for happened in reversed(await self._service.events(limit=limit))]

    async def ask(self, job: str, args: Mapping[str, object] | None) -> str:
        """As the API does."""
        from cronflow.cli.trigger import ask

        return await ask(self._service, job, args)


class _ServiceRunReader:
    """Reads a run from MongoDB."""

    def __init__(self, service: Service, run_id: str) -> None:
        self._service = service
        self._id = run_id

    async def run(self) -> RunDetailSchema:
        from cronflow.schemas.runs import run_detail_schema

        return run_detail_schema(await self._service.run(self._id), await self._service.late(self._id))

    async def lines(self, after: tuple[int, int]) -> tuple[Sequence[LogSchema], bool]:
        from cronflow.schemas.runs import log_schema

        found = await self._service.logs(self._id, after=after, limit=PAGE)
        return [log_schema(line) for line in found], len(found) == PAGE


@asynccontextmanager
async def open_source() -> AsyncIterator[Source]:
    """The source of this process. Raises BackendUnavailable, or ApiError, when nobody answers."""
    client = connect.client()
    if client is not None:
        async with client:
            yield ApiSource(client)
        return
    async with connect.open_live(connect.settings()) as (service, hub), connect.suggesting(service):
        yield ServerSource(service, hub)


def following(use: Callable[[Source], Awaitable[Answer]], *, awaited: bool = False) -> Answer | None:
    """Connect, follow, disconnect. None after Ctrl-C; where an end is `awaited` that is not what was asked for, and the
    interrupt goes on.
    """

    async def run() -> Answer:
        async with open_source() as source:
            return await use(source)

    try:
        return interrupt.run(run())
    except KeyboardInterrupt:
        if awaited:
            raise
        return None


Item = TypeVar("Item")


async def _first(items: AsyncIterator[Item], limit: int) -> list[Item]:
    found: list[Item] = []
    async for item in items:
        found.append(item)
        if len(found) == limit:
            break
    return found

"""A client with scripted messages and answers, for live views."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from cronflow.domain.errors import NotFound
from cronflow.domain.run import RunState


class ScriptedClient:
    """Yields its messages, and then ends or raises KeyboardInterrupt."""

    def __init__(self, *, interrupted: bool = True) -> None:
        self.stream: list[Any] = []
        self.of_run: list[Any] = []
        self.of_lines: list[Any] = []
        self.stored: list[Any] = []
        self.happened: list[Any] = []
        self.polls: list[list[Any]] = []
        self.details: dict[str, Any] = {}
        self.requested: list[tuple[str, Any]] = []
        self.topics: list[tuple[str, ...]] = []
        self.wanted: list[dict[str, Any]] = []
        self.interrupted = interrupted
        self.runs = SimpleNamespace(
            follow=lambda _run: self._each(self.of_run), list=self._runs, get=self._run, why=self._why
        )
        self.logs = SimpleNamespace(follow=self._lines, search=self._search)
        self.events = SimpleNamespace(list=self._events)
        self.jobs = SimpleNamespace(get=self._job, run=self._request)
        self.nodes = SimpleNamespace(list=lambda: self._each([{"name": "node-c"}], end=False))

    @asynccontextmanager
    async def open(self, **_: object) -> AsyncIterator[ScriptedClient]:
        """Replaces `connect.open_client`."""
        yield self

    def follow(self, *topics: str, tail: int = 0) -> AsyncGenerator[Any, None]:
        self.topics.append(topics)
        return self._each(self.stream)

    async def _each(self, messages: Sequence[Any], *, end: bool = True) -> AsyncGenerator[Any, None]:
        for message in messages:
            yield message
        if end and self.interrupted:
            raise KeyboardInterrupt

    def _lines(self, **wanted: Any) -> AsyncGenerator[Any, None]:
        self.wanted.append(wanted)
        return self._each(self.of_lines)

    def _search(self, q: str = "", *, limit: int, **wanted: Any) -> AsyncGenerator[Any, None]:
        self.wanted.append({"q": q, "limit": limit, **wanted})
        return self._each(self.stored[::-1][:limit], end=False)

    def _runs(self, *, job: str | None, state: Sequence[RunState], limit: int) -> AsyncGenerator[Any, None]:
        """The runs of the next poll that have these states."""
        if state[0] in (RunState.DISPATCHED,) and len(self.polls) > 1:
            self.polls.pop(0)
        found = [run for run in self.polls[0] if run["state"] in state and job in (None, run["job"])]
        return self._each(found[:limit], end=False)

    async def _run(self, run_id: str) -> Any:
        if run_id not in self.details:
            raise NotFound("run", run_id)
        return self.details[run_id]

    async def _why(self, _run: str) -> Any:
        return {"chain": [{"step": "started"}]}

    def _events(self, *, limit: int) -> AsyncGenerator[Any, None]:
        return self._each(self.happened[::-1][:limit], end=False)

    async def _job(self, name: str) -> Any:
        return {"name": name, "run": {"python": "shop.jobs:do"}}

    async def _request(self, job: str, args: Mapping[str, object] | None) -> Any:
        self.requested.append((job, args))
        return {"id": f"{job}@manual-1"}

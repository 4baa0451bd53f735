"""A source of messages for the views that follow: what it tells is written down beforehand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from cronflow.cli.source import Wanted
from cronflow.domain.errors import NotFound
from cronflow.domain.run import RunState


class Told:
    """Tells these messages, and then ends, or is interrupted as by Ctrl-C."""

    def __init__(self, *, interrupted: bool = True) -> None:
        self.stream: list[Any] = []
        self.of_run: list[Any] = []
        self.of_lines: list[Any] = []
        self.stored: list[Any] = []
        self.happened: list[Any] = []
        self.looks: list[list[Any]] = []
        self.details: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []
        self.topics: list[tuple[str, ...]] = []
        self.wanted: list[tuple[Wanted, int]] = []
        self._interrupted = interrupted

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Told]:
        """What the command line calls instead of connecting."""
        yield self

    async def _each(self, messages: Sequence[Any]) -> AsyncGenerator[Any, None]:
        for message in messages:
            yield message
        if self._interrupted:
            raise KeyboardInterrupt

    def messages(self, *topics: str, tail: int = 0) -> AsyncGenerator[Any, None]:
        self.topics.append(topics)
        return self._each(self.stream)

    def run(self, run_id: str) -> AsyncGenerator[Any, None]:
        return self._each(self.of_run)

    def lines(self, wanted: Wanted, tail: int) -> AsyncGenerator[Any, None]:
        self.wanted.append((wanted, tail))
        return self._each(self.of_lines)

    async def search(self, wanted: Wanted, limit: int) -> tuple[list[Any], bool]:
        self.wanted.append((wanted, limit))
        return self.stored[max(0, len(self.stored) - limit) :], len(self.stored) > limit

    async def runs(self, job: str | None, states: Sequence[RunState], limit: int) -> list[Any]:
        """The next look: of the runs that it has, those in these states."""
        if states[0] in (RunState.DISPATCHED,) and len(self.looks) > 1:
            self.looks.pop(0)
        return [run for run in self.looks[0] if run["state"] in states and job in (None, run["job"])][:limit]

    async def get(self, run_id: str) -> Any:
        if run_id not in self.details:
            raise NotFound("run", run_id)
        return self.details[run_id]

    async def events(self, limit: int) -> list[Any]:
        return self.happened[-limit:]

    async def ask(self, job: str, args: Mapping[str, object] | None) -> str:
        self.asked.append((job, args))
        return f"{job}@manual-1"

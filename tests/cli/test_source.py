"""Following without a login: the live stream in this process, on the memory backend, joined with what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.cli import bars, connect
from cronflow.cli.output import diagnostics
from cronflow.cli.source import ServerSource, Wanted, open_source
from cronflow.domain.errors import NotFound
from cronflow.domain.run import OPEN, RunState
from cronflow.live.hub import Hub
from cronflow.live.state import ClusterConfig
from cronflow.ports import LogLine
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases.service import Service
from tests.cli.scene import FENCE, RUNNING, RUNS, SUCCEEDED
from tests.contracts.builders import T0

WITHIN_S = 30.0


class Open:
    """What the command line opens instead of connecting to servers."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.backends: MemoryBackends = memory_backends(clock)
        self.service = Service(self.backends, clock)
        self.hub = Hub(self.backends, clock, ClusterConfig())

    @asynccontextmanager
    async def live(self, _settings: object) -> AsyncIterator[tuple[Service, Hub]]:
        await self.backends.runs.insert(RUNS)
        running = asyncio.create_task(self.hub.run())
        try:
            yield self.service, self.hub
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def write(self, *numbers: int, published: bool) -> None:
        """Lines of the run: stored, and perhaps published too."""
        lines = [a_line(n) for n in numbers]
        if published:
            await self.backends.live_tail.publish(lines)
        await self.backends.logs.append(lines)

    def end(self) -> None:
        runs: dict[str, Any] = self.backends.documents.runs
        runs[RUNNING] = replace(runs[RUNNING], state=RunState.SUCCEEDED, ended_at=T0)


def a_line(n: int, level: str = "info") -> LogLine:
    at = T0 + timedelta(seconds=n)
    return LogLine(run=RUNNING, job="reindex-search", fence=FENCE, attempt=1, n=n, at=at, level=level, text=f"line {n}")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    made = Open()
    monkeypatch.setattr(connect, "open_live", made.live)
    return made


async def test_a_run_is_followed_from_its_first_line_through_a_hole_to_its_end(opened: Open) -> None:
    found: list[str] = []
    async with open_source() as source, asyncio.timeout(WITHIN_S):
        await opened.write(0, 1, published=False)
        async with aclosing(source.run(RUNNING)) as messages:
            async for message in messages:
                found.append(message["line"]["text"] if message["t"] == "line" else message["run"]["state"])
                if found[-1] == "line 1":
                    await opened.write(2, published=True)
                if found[-1] == "line 2":
                    await opened.write(3, published=False)
                    await opened.write(4, published=True)
                if found[-1] == "line 4":
                    await opened.write(5, published=False)
                    opened.end()
    assert found == ["running", *(f"line {n}" for n in range(6)), "succeeded"]


async def test_lines_are_searched_to_a_limit_and_followed(opened: Open) -> None:
    async with open_source() as source, asyncio.timeout(WITHIN_S):
        await opened.write(0, 1, 2, published=False)
        lines, more = await source.search(Wanted(text="LINE", job="reindex-search"), 2)
        assert ([line["text"] for line in lines], more) == (["line 1", "line 2"], True)
        assert await source.search(Wanted(level="warn"), 2) == ([], False)
        found = []
        async with aclosing(source.lines(Wanted(job="reindex-search"), 1)) as messages:
            async for message in messages:
                assert message["t"] == "line"
                found.append(message["line"]["text"])
                if len(found) == 1:
                    await opened.write(3, published=True)
                else:
                    break
    assert found == ["line 2", "line 3"]


async def test_runs_are_looked_at_and_a_snapshot_that_comes_again_has_a_gap_before_it(opened: Open) -> None:
    async with open_source() as source, asyncio.timeout(WITHIN_S):
        assert {run["state"] for run in await source.runs(None, sorted(OPEN), 10)} == OPEN
        assert (await source.get(SUCCEEDED))["id"] == SUCCEEDED
        assert await source.events(5) == []
        with pytest.raises(NotFound):
            await anext(source.run("nothing@1"))
        seen = []
        async with aclosing(source.messages()) as messages:
            async for message in messages:
                seen.append(message["t"])
                if seen == ["snap"]:
                    opened.hub.generation += 1
                if seen[-2:] == ["gap", "snap"]:
                    break
        assert seen[0] == "snap"
        assert not opened.hub.sessions
        assert isinstance(source, ServerSource)


def test_how_far_a_command_is_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with bars.counted(1000, "applying") as done:
        done(1000)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    for total in (5, 1000):
        assert diagnostics().is_terminal
        with bars.counted(total, "applying") as done:
            done(total)
        out, err = capsys.readouterr()
        assert out == ""
        assert ("applying" in err, f"{total}/{total}" in err) == (total == 1000, total == 1000)


@pytest.mark.parametrize(
    ("share", "shown"), [(-1.0, "····"), (0.0, "····"), (0.5, "██··"), (0.53, "██▏·"), (1.0, "████"), (7.0, "████")]
)
def test_a_bar_is_as_long_as_its_share(share: float, shown: str) -> None:
    assert bars.bar(share, 4, "").plain == shown


def test_a_curve_shows_the_last_values_and_tells_little_from_nothing() -> None:
    assert bars.curve([], 4) == "▁▁▁▁"
    assert bars.curve([9, 0, 0.01, 8], 3) == "▁▂█"
    assert bars.curve([8], 3) == "▁▁█"

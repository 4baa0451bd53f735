"""The output of a development cluster while it runs: a line per ended run, and the output of its processes.

It only prints; a busy second is cut to a few lines and a count.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from rich.console import Console
from rich.text import Text

from cronflow.cli.terminal.formatting import GRAY, clean, run_state
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.formatting import span
from cronflow.domain.run import Run
from cronflow.ports import RunQuery
from cronflow.usecases.all import UseCases

POLL_S = 0.5
LINES_PER_POLL = 12
LOOK_BACK = timedelta(minutes=2)


class Live:
    """Prints to one console, line by line."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._shown: dict[str, datetime] = {}

    def print_line(self, process: str, line: str) -> None:
        """A line of output of one of the processes."""
        if not self._quiet:
            self._console.print(Text.assemble((f"{process:<8} │ ", GRAY), clean(line)))

    async def follow(self, service: UseCases, since: datetime) -> None:
        """Print the runs that end, until this is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                runs = await service.backends.runs.find(
                    RunQuery(since=max(since, _newest(self._shown, since) - LOOK_BACK), limit=500)
                )
            except BackendUnavailable:
                # The nodes report that themselves; try again.
                continue
            self._show([run for run in reversed(runs) if not run.is_open and run.id not in self._shown])

    def _show(self, ended: list[Run]) -> None:
        for run in ended:
            self._shown[run.id] = run.fire_at
        if self._quiet:
            return
        for run in ended[:LINES_PER_POLL]:
            self._console.print(_line(run))
        if len(ended) > LINES_PER_POLL:
            self._console.print(Text(f"{'':<8} │ … and {len(ended) - LINES_PER_POLL:,} more runs ended", style=GRAY))


def _newest(shown: dict[str, datetime], since: datetime) -> datetime:
    if len(shown) > 20_000:
        for run in sorted(shown, key=lambda run: shown[run])[:10_000]:
            del shown[run]
    return max(shown.values(), default=since)


def _line(run: Run) -> Text:
    late = "" if run.lateness is None else f"+{span(run.lateness)}"
    took = "" if run.duration is None else span(run.duration)
    where = node_name(run.node) if run.node else ""
    line = Text.assemble((f"{'run':<8} │ ", GRAY), f"{run.fire_at:%H:%M:%S}  {run.job:<24} ")
    line.append_text(run_state(run.state))
    line.append(" " * max(1, 12 - len(run.state)))
    line.append(f"late {late:<8} took {took:<7} {where:<8}" if run.started_at else f"{run.reason or ''}")
    if run.attempt > 1:
        line.append(f" attempt {run.attempt}")
    if run.error:
        line.append(f" {clean(run.error).splitlines()[0][:60]}", style=GRAY)
    return line

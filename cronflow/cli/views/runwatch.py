"""The live view of `runs watch`: open runs with their progress, and runs that ended recently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.connect import collect
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import Liveness, beside, clock, unless_unavailable
from cronflow.cli.terminal.tables import Cell, Column, lines
from cronflow.cli.views.lines import progress_text
from cronflow.cli.views.runs import node_of
from cronflow.domain.run import OPEN, RunState

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.runs import LogSchema, RunSchema
    from cronflow.schemas.stream import StreamMessage

MOST_OPEN = 200
ENDED = 50
LOOKED_UP = 50
BAR = 16
REMEMBERED = 5000
ENDED_STATES = tuple(sorted(set(RunState) - OPEN))
_ORDER = (RunState.RUNNING, RunState.DISPATCHED, RunState.RETRYING)


class Runs:
    """The open runs, and the last that ended; `changed` are those that the last message changed, the oldest first."""

    def __init__(self, cluster: Cluster, job: str | None) -> None:
        self._cluster = cluster
        self._job = job
        self._liveness = Liveness()
        self._open: dict[str, RunSchema] = {}
        self._ended: dict[str, RunSchema] = {}
        self._shown: dict[str, tuple[object, ...]] = {}
        self._progress: dict[str, tuple[int, str]] = {}
        self._rates: dict[str, float] = {}
        self.changed: Sequence[RunSchema] = ()

    async def take(self, message: StreamMessage) -> None:
        """Read the runs again, and their progress from the message."""
        self._liveness.beat()
        if message["t"] == "tick":
            self._rates = message["patch"]["rates"]
            for chunk in message["logs"]:
                for line in chunk["lines"]:
                    self._read(line)
        if message["t"] != "gap":
            await self._refresh()

    def _read(self, line: LogSchema) -> None:
        if line["fence"] >= self._progress.get(line["run"], (0, ""))[0]:
            self._progress[line["run"]] = (line["fence"], line["text"])

    async def _refresh(self) -> None:
        found = await unless_unavailable(self._runs(sorted(OPEN), MOST_OPEN))
        ended = await unless_unavailable(self._runs(ENDED_STATES, ENDED))
        if found is None or ended is None:
            return
        now_open = {run["id"]: run for run in found}
        latest = {run["id"]: run for run in ended}
        for name in [name for name in self._open if name not in now_open and name not in latest][:LOOKED_UP]:
            run = await unless_unavailable(self._cluster.runs.get(name))
            if run is not None and run["ended_at"] is not None:
                latest[name] = run
        self._open = {name: run for name, run in now_open.items() if name not in latest}
        newest = sorted((self._ended | latest).values(), key=_ended_at, reverse=True)[:ENDED]
        self._ended = {run["id"]: run for run in newest}
        self._progress = {name: one for name, one in self._progress.items() if name in self._open}
        self._mark_changed([*self._open.values(), *reversed(newest)])

    async def _runs(self, states: Sequence[RunState], limit: int) -> list[RunSchema]:
        return await collect(self._cluster.runs.list(job=self._job, state=states, limit=limit))

    def _mark_changed(self, runs: Sequence[RunSchema]) -> None:
        began = bool(self._shown)
        self.changed = [run for run in runs if self._shown.get(run["id"]) != _progress_key(run)]
        self._shown |= {run["id"]: _progress_key(run) for run in self.changed}
        for name in list(self._shown)[: max(0, len(self._shown) - REMEMBERED)]:
            if name not in self._open:
                del self._shown[name]
        if not began:
            # Runs that ended before the view opened are not changes.
            self.changed = [run for run in self.changed if run["ended_at"] is None]

    def frame(self, width: int, height: int) -> Sequence[Text]:
        """A line for each run: those that run first, those that ended last at the end."""
        shown = sorted(self._open.values(), key=lambda run: (_ORDER.index(RunState(run["state"])), run["fire_at"]))
        room = max(height - 5, 3)
        counts = ", ".join(
            f"{count} {state.value}"
            for state in _ORDER
            if (count := sum(run["state"] == state for run in self._open.values()))
        )
        of = "" if self._job is None else f" of {self._job}"
        rate = f"   {self._rates['ended']:.1f} ended per second" if self._rates.get("ended") else ""
        head = Text.assemble((f"{counts or 'no open runs'}{of}", "bold"), (rate, "dim"))
        found = [beside(head, Text.assemble(self._liveness.text(), (f"  {clock()}", "dim")), width), Text()]
        # Show some of both, however many there are.
        opens = shown[: max(room - min(len(self._ended), room // 3), 1)]
        ended = list(self._ended.values())[: max(room - len(opens) - (len(shown) > len(opens)), 0)]
        now = times.now()
        rows = [self._row(run, now) for run in (*opens, *ended)]
        if not rows:
            return [*found, Text("No runs yet. See what is due next: cronflow jobs list")]
        columns = [
            Column("STATE"),
            Column("RUN"),
            Column("TOOK", align="right", drop=2),
            Column("TRY", align="right", drop=4),
            Column("PROGRESS", drop=1),
            Column("NODE", drop=3),
            Column("ENDED", drop=6),
            Column("WHY", drop=5, least=16),
        ]
        table = lines(columns, rows, width)
        found += table[: 1 + len(opens)]
        if len(shown) > len(opens):
            found.append(Text(f"… and {len(shown) - len(opens)} more open", style="dim"))
        return [*found, *table[1 + len(opens) :]]

    def _row(self, run: RunSchema, now: datetime) -> Sequence[Cell]:
        fence, text = self._progress.get(run["id"], (0, ""))
        running = run["state"] == RunState.RUNNING
        return [
            formatting.run_state(run["state"]),
            run["id"],
            _took(run, now),
            f"{run['attempt']}/{run['max_attempts']}" if run["attempt"] else "",
            progress_text(text, BAR) if text and running and fence == run["fence"] else "",
            node_of(run),
            "" if run["ended_at"] is None else times.relative(run["ended_at"], now),
            formatting.gist(run["error"] or run["reason"]),
        ]


def _took(run: RunSchema, now: datetime) -> Cell:
    if run["duration_ms"] is not None:
        return times.duration(run["duration_ms"])
    if run["state"] == RunState.RUNNING and run["started_at"] is not None:
        # Whole seconds: it is drawn several times a second.
        ran = math.floor((now - times.parsed(run["started_at"])).total_seconds())
        return Text(f"{times.span(timedelta(seconds=max(ran, 0)))}…", style=formatting.BLUE)
    if run["state"] == RunState.RETRYING and run["check_at"] is not None and run["attempt"]:
        return Text(times.relative(run["check_at"], now), style=formatting.ORANGE)
    return ""


def changed_text(run: RunSchema) -> Text:
    """A run that has changed, on a line."""
    text = Text.assemble((f"{times.absolute(times.now())} ", "dim"))
    state = formatting.run_state(run["state"])
    text.append_text(state).append(" " * max(1, 13 - state.cell_len)).append(run["id"])
    if run["attempt"] > 1:
        text.append(f"  attempt {run['attempt']}")
    if run["duration_ms"] is not None:
        text.append(f"  took {times.duration(run['duration_ms'])}")
    if run["node"] is not None:
        text.append(f"  {node_of(run)}", style="dim")
    why = formatting.gist(run["error"] or run["reason"])
    return text.append(f"  {why}") if why else text


def _progress_key(run: RunSchema) -> tuple[object, ...]:
    return run["state"], run["attempt"], run["node"]


def _ended_at(run: RunSchema) -> str:
    return run["ended_at"] or run["fire_at"]

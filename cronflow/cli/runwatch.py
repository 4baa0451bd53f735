"""`cronflow runs watch`: the runs that are open, how far they are, and those that ended lately, as it happens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.follow import progress_text
from cronflow.cli.frames import Pulse, beside, clock, draw, drawn, unless_away
from cronflow.cli.output import Format, console, write_json
from cronflow.cli.tables import Cell, Column, lines
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.log_levels import PROGRESS
from cronflow.domain.run import OPEN, RunState

if TYPE_CHECKING:
    from cronflow.cli.source import Source
    from cronflow.schemas.runs import LogSchema, RunSchema
    from cronflow.schemas.stream import StreamMessage

MOST_OPEN = 200
ENDED = 50
LOOKED_UP = 50
BAR = 16
REMEMBERED = 5000
ENDED_STATES = tuple(sorted(set(RunState) - OPEN))
_ORDER = (RunState.RUNNING, RunState.DISPATCHED, RunState.RETRYING)


def watch(
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Of this job alone.", show_default=False)] = None,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="A view for people, or json: a run a line, whenever it changes.")
    ] = Format.TABLE,
) -> None:
    """The runs that are open, with how far they are, and those that ended lately; until Ctrl-C."""
    if output not in (Format.TABLE, Format.JSON):
        raise InvalidInput(Problem("--output", f"{output.value!r} is not offered here", "use table or json"))
    from cronflow.cli.source import following
    from cronflow.client.following import lines_topic

    topic = lines_topic(PROGRESS, job)

    async def use(source: Source) -> None:
        runs = Runs(source, job)
        if output is Format.TABLE and drawn():
            await draw(source.messages(topic, tail=1000), runs)
            return
        async with aclosing(source.messages()) as messages:
            async for message in messages:
                await runs.take(message)
                for run in runs.changed:
                    if output is Format.JSON:
                        write_json(run, lines=True)
                    else:
                        console().print(_line(run))

    following(use)


class Runs:
    """The open runs, and the last that ended; `changed` are those that the last message changed, the oldest first."""

    def __init__(self, source: Source, job: str | None) -> None:
        self._source = source
        self._job = job
        self._pulse = Pulse()
        self._open: dict[str, RunSchema] = {}
        self._ended: dict[str, RunSchema] = {}
        self._told: dict[str, tuple[object, ...]] = {}
        self._progress: dict[str, tuple[int, str]] = {}
        self._rates: dict[str, float] = {}
        self.changed: Sequence[RunSchema] = ()

    async def take(self, message: StreamMessage) -> None:
        """Read the runs anew, and how far they are."""
        self._pulse.beat()
        if message["t"] == "tick":
            self._rates = message["patch"]["rates"]
            for chunk in message["logs"]:
                for line in chunk["lines"]:
                    self._see(line)
        if message["t"] != "gap":
            await self._look()

    def _see(self, line: LogSchema) -> None:
        if line["fence"] >= self._progress.get(line["run"], (0, ""))[0]:
            self._progress[line["run"]] = (line["fence"], line["text"])

    async def _look(self) -> None:
        found = await unless_away(self._source.runs(self._job, sorted(OPEN), MOST_OPEN))
        ended = await unless_away(self._source.runs(self._job, ENDED_STATES, ENDED))
        if found is None or ended is None:
            return
        now_open = {run["id"]: run for run in found}
        latest = {run["id"]: run for run in ended}
        for name in [name for name in self._open if name not in now_open and name not in latest][:LOOKED_UP]:
            run = await unless_away(self._source.get(name))
            if run is not None and run["ended_at"] is not None:
                latest[name] = run
        self._open = {name: run for name, run in now_open.items() if name not in latest}
        newest = sorted((self._ended | latest).values(), key=_ended_at, reverse=True)[:ENDED]
        self._ended = {run["id"]: run for run in newest}
        self._progress = {name: told for name, told in self._progress.items() if name in self._open}
        self._tell([*self._open.values(), *reversed(newest)])

    def _tell(self, runs: Sequence[RunSchema]) -> None:
        began = bool(self._told)
        self.changed = [run for run in runs if self._told.get(run["id"]) != _standing(run)]
        self._told |= {run["id"]: _standing(run) for run in self.changed}
        for name in list(self._told)[: max(0, len(self._told) - REMEMBERED)]:
            if name not in self._open:
                del self._told[name]
        if not began:
            # What was over before is no news.
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
        rate = f"   {self._rates['ended']:.1f} ended a second" if self._rates.get("ended") else ""
        head = Text.assemble((f"{counts or 'nothing open'}{of}", "bold"), (rate, "dim"))
        found = [beside(head, Text.assemble(self._pulse.text(), (f"  {clock()}", "dim")), width), Text()]
        # Whatever happens, something of both is to be seen.
        opens = shown[: max(room - min(len(self._ended), room // 3), 1)]
        ended = list(self._ended.values())[: max(room - len(opens) - (len(shown) > len(opens)), 0)]
        now = times.now()
        rows = [self._row(run, now) for run in (*opens, *ended)]
        if not rows:
            return [*found, Text("Nothing has run yet. cronflow jobs list shows what is next.")]
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
            words.run_state(RunState(run["state"])),
            run["id"],
            _took(run, now),
            f"{run['attempt']}/{run['max_attempts']}" if run["attempt"] else "",
            progress_text(text, BAR) if text and running and fence == run["fence"] else "",
            "" if run["node"] is None else words.clean(node_name(run["node"])),
            "" if run["ended_at"] is None else times.relative(datetime.fromisoformat(run["ended_at"]), now),
            words.gist(run["error"] or run["reason"]),
        ]


def _took(run: RunSchema, now: datetime) -> Cell:
    if run["duration_ms"] is not None:
        return times.span(timedelta(milliseconds=run["duration_ms"]))
    if run["state"] == RunState.RUNNING and run["started_at"] is not None:
        # Whole seconds: it is drawn several times a second.
        ran = math.floor((now - datetime.fromisoformat(run["started_at"])).total_seconds())
        return Text(f"{times.span(timedelta(seconds=max(ran, 0)))}…", style=words.BLUE)
    if run["state"] == RunState.RETRYING and run["check_at"] is not None and run["attempt"]:
        return Text(times.relative(datetime.fromisoformat(run["check_at"]), now), style=words.ORANGE)
    return ""


def _line(run: RunSchema) -> Text:
    """A run that has changed, where nothing is drawn."""
    text = Text.assemble((f"{times.absolute(times.now())} ", "dim"))
    state = words.run_state(RunState(run["state"]))
    text.append_text(state).append(" " * max(1, 13 - state.cell_len)).append(run["id"])
    if run["attempt"] > 1:
        text.append(f"  attempt {run['attempt']}")
    if run["duration_ms"] is not None:
        text.append(f"  took {times.span(timedelta(milliseconds=run['duration_ms']))}")
    if run["node"] is not None:
        text.append(f"  {words.clean(node_name(run['node']))}", style="dim")
    why = words.gist(run["error"] or run["reason"])
    return text.append(f"  {why}") if why else text


def _standing(run: RunSchema) -> tuple[object, ...]:
    return run["state"], run["attempt"], run["node"]


def _ended_at(run: RunSchema) -> str:
    return run["ended_at"] or run["fire_at"]

"""Prints the log lines of runs, and follows a run until it ends.

The rule: a line is printed as soon as it arrives, and cannot control the terminal. On a terminal, a status line below
is redrawn and finally removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import bar
from cronflow.cli.terminal.output import LineFormat, console, diagnostics, note, screen, write_json, yaml_text
from cronflow.cli.views.runs import is_open, node_of
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import CronFlowError
from cronflow.domain.run import PROGRESS, RunState

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.runs import LogSchema, RunDetailSchema, RunSchema

REDRAWS_A_SECOND = 8
POLL_S = 0.5
BAR = 24

_LEVELS = {
    "debug": formatting.GRAY,
    "info": formatting.BLUE,
    "success": formatting.GREEN,
    "warn": formatting.ORANGE,
    "error": formatting.RED,
    "progress": formatting.PURPLE,
}


class LinePrinter:
    """Prints a heading before each retry of a run; for `many` runs, the id of the run after each line."""

    def __init__(self, form: LineFormat, *, many: bool = False, out: Console | None = None) -> None:
        self._form = form
        self._many = many
        self._out = out
        self._fence: int | None = None
        self.written = 0

    def write(self, lines: Iterable[LogSchema]) -> None:
        for line in lines:
            self.written += 1
            match self._form:
                case LineFormat.JSON:
                    write_json(line, lines=True)
                case LineFormat.YAML:
                    typer.echo(yaml_text([line]), nl=False)
                case LineFormat.TABLE:
                    self._print(line)

    def end(self) -> bool:
        """Print `[]` for an empty YAML list. Returns whether any line was printed."""
        if not self.written and self._form is LineFormat.YAML:
            typer.echo("[]")
        return self.written > 0

    def _print(self, line: LogSchema) -> None:
        out = self._out or console()
        if not self._many and self._fence not in (None, line["fence"]):
            out.print(Text(f"── attempt {line['attempt']}, fence {line['fence']} ──", style="dim"), soft_wrap=True)
        self._fence = line["fence"]
        out.print(line_text(line, many=self._many), soft_wrap=True)


def line_text(line: LogSchema, *, many: bool) -> Text:
    at = times.parsed(line["at"])
    text = Text.assemble(
        (f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}Z ", "dim"),
        (f"{line['level'].upper():<8} ", _LEVELS.get(line["level"], "")),
        formatting.clean(line["text"]),
    )
    return text.append(f"  {line['run']}", style="dim") if many else text


async def follow_run(
    cluster: Cluster, run_id: str, form: LineFormat, *, states: bool
) -> tuple[RunDetailSchema, LinePrinter]:
    """Print its lines until it has ended. `states`: print its states to stderr if there is no status line."""
    drawn = form is LineFormat.TABLE and console().is_terminal
    out = screen() if drawn else None
    printer = LinePrinter(form, out=out)
    status = Status(run_id)
    last: RunDetailSchema | None = None
    live = nullcontext()
    if out is not None:
        from rich.live import Live

        live = Live(  # type: ignore[assignment]
            get_renderable=status.text, console=out, transient=True, refresh_per_second=REDRAWS_A_SECOND
        )
    with live:
        async with aclosing(cluster.runs.follow(run_id)) as messages:
            async for message in messages:
                if message["t"] == "state":
                    last = status.run = message["run"]
                    if states and not drawn and last["ended_at"] is None:
                        print_state(last)
                    continue
                status.read(message["line"])
                if not (drawn and message["line"]["level"] == PROGRESS):
                    printer.write([message["line"]])
    assert last is not None
    return last, printer


class Status:
    """The status line: the state of the run, and its progress."""

    def __init__(self, run_id: str) -> None:
        self.run: RunDetailSchema | None = None
        self._id = run_id
        self._progress: tuple[int, str] | None = None

    def read(self, line: LogSchema) -> None:
        if line["level"] == PROGRESS:
            self._progress = (line["fence"], line["text"])

    def text(self) -> Text:
        run = self.run
        if run is None:
            return Text(f"◌ {self._id}", style=formatting.BLUE)
        found = Text.assemble(formatting.run_state(run["state"]), f"  {self._id}")
        if run["started_at"] is not None and run["state"] == RunState.RUNNING:
            found.append(f"  {times.span(times.now() - times.parsed(run['started_at']))}")
        if self._progress is not None and self._progress[0] == run["fence"]:
            found.append("  ").append_text(progress_text(self._progress[1], BAR))
        return found


def progress_text(text: str, width: int) -> Text:
    """A progress line such as `12/40` as a bar; unchanged if the total is unknown."""
    done, slash, total = text.partition("/")
    if not (slash and done.isdigit() and total.isdigit() and int(total)):
        return Text(formatting.one_line(text))
    share = int(done) / int(total)
    filled = bar(share, width, formatting.GREEN if share >= 1 else formatting.BLUE)
    return Text.assemble(filled, f" {share:4.0%}  {done}/{total}")


async def wait_for_end(cluster: Cluster, run: RunDetailSchema, limit: timedelta | None = None) -> RunDetailSchema:
    """Print the states of a requested run until it has ended. Raises CronFlowError after `limit`; the run continues."""
    ends = None if limit is None else times.now() + limit
    note(f"requested {run['id']}; it continues if you interrupt this command")
    shown = None
    while is_open(run):
        if (run["state"], run["attempt"]) != shown:
            shown = (run["state"], run["attempt"])
            print_state(run)
        if ends is not None and limit is not None and times.now() >= ends:
            after = format_duration(limit)
            error = CronFlowError(f"run {run['id']} has not ended after {after}: it is {run['state']}, and continues")
            error.add_note(f"why it waits: cronflow runs why {run['id']}; cancel it: cronflow runs cancel {run['id']}")
            raise error
        await times.sleep(POLL_S)
        run = await cluster.runs.get(run["id"])
    return run


def print_state(run: RunSchema) -> None:
    if run.get("part_states") is not None and run["state"] == RunState.RETRYING:
        diagnostics().print(Text("◌ waiting for its parts", style=formatting.BLUE))
        return
    if not run["attempt"]:
        diagnostics().print(Text("◌ waiting for a node", style=formatting.BLUE))
        return
    where = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
    if run["state"] == RunState.RETRYING:
        if run["check_at"] is not None:
            where += f", next try {times.relative(run['check_at'], times.now())}"
    elif run["node"] is not None:
        where += f", {node_of(run)}"
    diagnostics().print(Text.assemble(formatting.run_state(run["state"]), where))

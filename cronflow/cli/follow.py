"""Following a run until it has ended: its lines as they come, and on a terminal where it is and how far.

The rule: lines scroll by and stay; below them, on a terminal alone, stands one line that is drawn again and goes away.
"""

from __future__ import annotations

from contextlib import aclosing, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bars import bar
from cronflow.cli.lines import LineFormat, LinePrinter
from cronflow.cli.output import console, diagnostics, screen
from cronflow.domain.cluster import node_name
from cronflow.domain.log_levels import PROGRESS
from cronflow.domain.run import RunState

if TYPE_CHECKING:
    from cronflow.cli.source import Source
    from cronflow.schemas.runs import LogSchema, RunDetailSchema, RunSchema

REDRAWS_A_SECOND = 8
BAR = 24


async def follow_run(source: Source, run_id: str, form: LineFormat, *, tell: bool) -> tuple[RunDetailSchema, int]:
    """Write its lines until it has ended. Returns the run, and how many lines it wrote. With `tell` stderr says where
    it is, if nothing is drawn.
    """
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
        async with aclosing(source.run(run_id)) as messages:
            async for message in messages:
                if message["t"] == "state":
                    last = status.run = message["run"]
                    if tell and not drawn and last["ended_at"] is None:
                        tell_state(last)
                    continue
                status.see(message["line"])
                if not (drawn and message["line"]["level"] == PROGRESS):
                    printer.write([message["line"]])
    assert last is not None
    return last, printer.written


class Status:
    """The line below: the state of the run, and how far it is."""

    def __init__(self, run_id: str) -> None:
        self.run: RunDetailSchema | None = None
        self._id = run_id
        self._progress: tuple[int, str] | None = None

    def see(self, line: LogSchema) -> None:
        """A line that may tell how far it is."""
        if line["level"] == PROGRESS:
            self._progress = (line["fence"], line["text"])

    def text(self) -> Text:
        """As it is now."""
        run = self.run
        if run is None:
            return Text(f"◌ {self._id}", style=words.BLUE)
        found = Text.assemble(words.run_state(RunState(run["state"])), f"  {self._id}")
        if run["started_at"] is not None and run["state"] == RunState.RUNNING:
            found.append(f"  {times.span(times.now() - datetime.fromisoformat(run['started_at']))}")
        if self._progress is not None and self._progress[0] == run["fence"]:
            found.append("  ").append_text(progress_text(self._progress[1], BAR))
        return found


def progress_text(text: str, width: int) -> Text:
    """What a line of level progress says, `12/40`, as a bar; as it stands where the total is not known."""
    done, slash, total = text.partition("/")
    if not (slash and done.isdigit() and total.isdigit() and int(total)):
        return Text(words.one_line(text))
    share = int(done) / int(total)
    return Text.assemble(bar(share, width, words.GREEN if share >= 1 else words.BLUE), f" {share:4.0%}  {done}/{total}")


def tell_state(run: RunSchema) -> None:
    """Where a run is, while somebody waits."""
    if not run["attempt"]:
        diagnostics().print(Text("◌ waiting for a node", style=words.BLUE))
        return
    where = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
    if run["state"] == RunState.RETRYING:
        if run["check_at"] is not None:
            where += f", next try {times.relative(datetime.fromisoformat(run['check_at']), times.now())}"
    elif run["node"] is not None:
        where += f", {words.clean(node_name(run['node']))}"
    diagnostics().print(Text.assemble(words.run_state(RunState(run["state"])), where))

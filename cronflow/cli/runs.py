"""`cronflow runs …`: what ran, what runs, and what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import runview, times, words
from cronflow.cli.cancel import cancel
from cronflow.cli.connect import PAGE, call
from cronflow.cli.lazy import new_group
from cronflow.cli.letters import ack, report, retry
from cronflow.cli.output import Format, Output, console, note, show, write_json, yaml_text
from cronflow.domain.run import Run, RunState
from cronflow.shapes.runs import log_shape, run_detail_shape, run_shape

if TYPE_CHECKING:
    from cronflow.ports import LateResult, LogLine
    from cronflow.service import Service

LINES = 1000
LOOK_EVERY_S = 1.0

runs = new_group("What ran, what runs, and what it wrote.")
RunId = Annotated[str, typer.Argument(metavar="ID", help="The run, as runs list shows it.", show_default=False)]


@runs.command("list")
def list_runs(
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Of this job alone.", show_default=False)] = None,
    state: Annotated[
        list[RunState] | None,
        typer.Option(metavar="STATE", help=f"{', '.join(RunState)}; more than once for several.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="1h|INSTANT", help="Due in this last time, or from this instant on.", show_default=False),
    ] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Failed or lost, and neither replayed nor acknowledged.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, help="At most so many.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """Runs, those that fell due last first."""
    from_instant = None if since is None else times.instant_or_ago(since, "--since")
    found, more = call(lambda service: _find(service, job, state or (), from_instant, limit, dead=dead))

    def view() -> None:
        if found:
            runview.run_table(found, times.now())
        elif dead:
            console().print("There is no dead letter: whatever failed has been replayed or acknowledged.")
        elif job or state or since:
            console().print("No run matches. Leave out --job, --state or --since to see more.")
        else:
            console().print(
                "Nothing has run yet. cronflow jobs list shows what is next; cronflow jobs run NAME runs now."
            )

    show(output, [run_shape(run) for run in found], [run.id for run in found], view)
    if more:
        note(f"older ones are not shown; --limit {limit * 5} shows more")


async def _find(
    service: Service,
    job: str | None,
    states: Sequence[RunState],
    since: datetime | None,
    limit: int,
    *,
    dead: bool = False,
) -> tuple[list[Run], bool]:
    """The newest, and whether there are more."""
    from cronflow.ports import RunQuery

    if job is not None and not await service.runs(RunQuery(job=job, limit=1)):
        # No runs of a job that exists is an answer; a job that does not exist is a mistake.
        await service.job(job)
    found: list[Run] = []
    while len(found) <= limit:
        before = (found[-1].fire_at, found[-1].id) if found else None
        asked = min(limit + 1 - len(found), PAGE)
        page = await service.runs(RunQuery(job=job, states=states, since=since, dead=dead, before=before, limit=asked))
        found += page
        if len(page) < asked:
            break
    return found[:limit], len(found) > limit


@runs.command("show")
def show_run(run_id: RunId, output: Output = Format.TABLE) -> None:
    """A run: when, where, how it went, its result or error, every attempt, and outcomes that came too late."""

    async def read(service: Service) -> tuple[Run, list[LateResult]]:
        found = await service.run(run_id)
        return await service.whole(found) if output.has_all else found, await service.late(run_id)

    run, late = call(read)
    show(output, run_detail_shape(run, late), [run.id], lambda: runview.run_page(run, times.now(), late))


runs.command()(report)
runs.command()(retry)
runs.command()(ack)


runs.command()(cancel)


class LogFormat(StrEnum):
    """The forms of a log."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@runs.command()
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more, until the run has ended.")] = False,
    output: Annotated[
        LogFormat, typer.Option("--output", "-o", help="Lines for people, a JSON object a line, or a YAML list.")
    ] = LogFormat.TABLE,
) -> None:
    """What a run wrote, of all its attempts."""
    printer = _Printer(output)

    async def read(service: Service) -> Run:
        after = (0, -1)
        while True:
            # Read the state first: what the run wrote before it ended is then among the lines.
            run = await service.run(run_id)
            while lines := await service.logs(run_id, after=after, limit=LINES):
                printer.write(lines)
                after = (lines[-1].fence, lines[-1].n)
            if not follow or not run.is_open:
                return run
            await times.sleep(LOOK_EVERY_S)

    run = call(read)
    if not printer.written:
        if output is LogFormat.YAML:
            typer.echo("[]")
        if run.is_open:
            note(f"it has written nothing yet and is {run.state.value}; wait for lines with -f")
        else:
            note("it wrote nothing, or its lines are older than they are kept")
    if follow:
        note(f"{run.id} {run.state.value}")


class _Printer:
    """Writes lines as they come; a heading where an attempt begins."""

    def __init__(self, form: LogFormat) -> None:
        self._form = form
        self._fence: int | None = None
        self.written = 0

    def write(self, lines: Sequence[LogLine]) -> None:
        self.written += len(lines)
        if self._form is LogFormat.YAML:
            typer.echo(yaml_text([log_shape(line) for line in lines]), nl=False)
            return
        out = console()
        for line in lines:
            if self._form is LogFormat.JSON:
                write_json(log_shape(line), lines=True)
                continue
            if self._fence is not None and line.fence != self._fence:
                out.print(Text(f"── attempt {line.attempt}, fence {line.fence} ──", style="dim"))
            self._fence = line.fence
            out.print(
                Text.assemble(
                    (f"{line.at:%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03d}Z ", "dim"),
                    (f"{line.level.upper():<8} ", _LEVELS.get(line.level, "")),
                    words.clean(line.text),
                )
            )


_LEVELS = {
    "debug": words.GRAY,
    "info": words.BLUE,
    "success": words.GREEN,
    "warn": words.ORANGE,
    "error": words.RED,
    "progress": words.PURPLE,
}

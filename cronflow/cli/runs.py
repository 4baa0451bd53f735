"""`cronflow runs …`: what ran, what runs, and what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import runview, times
from cronflow.cli.cancel import cancel
from cronflow.cli.connect import PAGE, call
from cronflow.cli.lazy import new_group
from cronflow.cli.letters import ack, report, retry
from cronflow.cli.lines import LineFormat, LinePrinter
from cronflow.cli.output import Format, Output, console, note, show
from cronflow.cli.runwatch import watch
from cronflow.domain.run import Run, RunState
from cronflow.schemas.runs import log_schema, run_detail_schema, run_schema

if TYPE_CHECKING:
    from cronflow.ports import LateResult
    from cronflow.remote.usecases import UseCases

LINES = 1000
WROTE_NOTHING = "it wrote nothing, or its lines are older than they are kept"

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

    show(output, [run_schema(run) for run in found], [run.id for run in found], view)
    if more:
        note(f"older ones are not shown; --limit {limit * 5} shows more")


async def _find(
    service: UseCases,
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

    async def read(service: UseCases) -> tuple[Run, list[LateResult]]:
        found = await service.run(run_id)
        return await service.whole(found) if output.has_all else found, await service.late(run_id)

    run, late = call(read)
    show(output, run_detail_schema(run, late), [run.id], lambda: runview.run_page(run, times.now(), late))


runs.command()(report)
runs.command()(retry)
runs.command()(ack)


runs.command()(cancel)
runs.command()(watch)


@runs.command()
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more, until the run has ended.")] = False,
    output: Annotated[
        LineFormat, typer.Option("--output", "-o", help="Lines for people, a JSON object a line, or a YAML list.")
    ] = LineFormat.TABLE,
) -> None:
    """What a run wrote, of all its attempts."""
    if follow:
        _follow(run_id, output)
        return
    printer = LinePrinter(output)

    async def read(service: UseCases) -> Run:
        after = (0, -1)
        # Read the state first: what the run wrote before it ended is then among the lines.
        run = await service.run(run_id)
        while lines := await service.logs(run_id, after=after, limit=LINES):
            printer.write(map(log_schema, lines))
            after = (lines[-1].fence, lines[-1].n)
        return run

    run = call(read)
    if not printer.written:
        if output is LineFormat.YAML:
            typer.echo("[]")
        if run.is_open:
            note(f"it has written nothing yet and is {run.state.value}; wait for lines with -f")
        else:
            note(WROTE_NOTHING)


def _follow(run_id: str, output: LineFormat) -> None:
    from cronflow.cli.follow import follow_run
    from cronflow.cli.source import following

    found = following(lambda source: follow_run(source, run_id, output, tell=False))
    if found is None:
        return
    run, written = found
    if not written:
        if output is LineFormat.YAML:
            typer.echo("[]")
        note(WROTE_NOTHING)
    note(f"{run_id} {run['state']}")

"""`cronflow runs cancel`: one run, or all that match, with their number told before anything is done.

The rule: whoever cancels many says so twice, by the filter and by a yes. A run that has not started ends at once; one
that runs is asked to end, and `--wait` tells how it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import runview, times, words
from cronflow.cli.bars import counted
from cronflow.cli.bulk import who
from cronflow.cli.connect import PAGE, call
from cronflow.cli.errors import FAILED
from cronflow.cli.output import Format, Output, console, note, show, warn
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import OPEN, Run, RunState
from cronflow.schemas.runs import run_schema

if TYPE_CHECKING:
    from datetime import datetime

    from cronflow.remote.usecases import UseCases

LOOK_EVERY_S = 0.5
CHUNK = 100


def cancel(
    run_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The run, as runs list shows it.", show_default=False)
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="All open runs of this job.", show_default=False)
    ] = None,
    state: Annotated[
        list[RunState] | None,
        typer.Option(metavar="STATE", help="All in this state: dispatched, running or retrying.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="1h|INSTANT", help="All that fell due in this last time.", show_default=False),
    ] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept with the run.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Until they have ended; exit code 1 if one was not cancelled.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before several are cancelled.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Cancel a run, or all open runs that match. What runs is stopped, within ten seconds by force."""
    many = bool(job or state or since)
    if many == (run_id is not None):
        raise InvalidInput(Problem("", "name a run, or say which with --job, --state or --since", "one of the two"))
    ended = sorted(set(state or ()) - OPEN)
    if ended:
        raise InvalidInput(Problem("--state", f"{ended[0]} runs have ended", "use dispatched, running or retrying"))
    from_instant = None if since is None else times.instant_or_ago(since, "--since")
    by = who()

    async def act(service: UseCases) -> list[Run]:
        if run_id is not None:
            runs = [await service.cancel(run_id, reason, by=by)]
        else:
            found = await _open_runs(service, job, state or (), from_instant)
            if not found or not _agreed(len(found), yes):
                return []
            runs = await _cancel_all(service, [run.id for run in found], reason, by)
        while wait and any(run.is_open for run in runs):
            await times.sleep(LOOK_EVERY_S)
            runs = [await service.run(run.id) for run in runs]
        return runs

    runs = call(act)

    def view() -> None:
        if runs:
            runview.run_table(runs, times.now())
        else:
            console().print("No open run matches; nothing was cancelled.")

    show(output, [run_schema(run) for run in runs], [run.id for run in runs], view)
    if any(run.is_open for run in runs):
        note("what runs was asked to end; --wait waits for it")
    other = [run for run in runs if not run.is_open and run.state is not RunState.CANCELLED]
    for run in other:
        warn(f"{run.id} {run.state.value} before it could be stopped")
    if other:
        raise typer.Exit(FAILED)


async def _cancel_all(service: UseCases, ids: Sequence[str], reason: str, by: str) -> list[Run]:
    cancelled: list[Run] = []
    with counted(len(ids), "cancelling") as done:
        for at in range(0, len(ids), CHUNK):
            chunk = ids[at : at + CHUNK]
            cancelled += await service.cancel_all(chunk, reason, by=by)
            done(len(chunk))
    return cancelled


async def _open_runs(
    service: UseCases, job: str | None, states: list[RunState] | tuple[()], since: datetime | None
) -> list[Run]:
    from cronflow.ports import RunQuery

    if job is not None:
        await service.job(job)
    found: list[Run] = []
    while True:
        before = (found[-1].fire_at, found[-1].id) if found else None
        page = await service.runs(
            RunQuery(job=job, states=states or sorted(OPEN), since=since, before=before, limit=PAGE)
        )
        found += page
        if len(page) < PAGE:
            return found


def _agreed(count: int, yes: bool) -> bool:
    """Say how many, and ask."""
    told = words.plural(count, "open run")
    if yes:
        note(f"cancelling {told}")
        return True
    if not typer.confirm(f"Cancel {told}?", err=True):
        raise typer.Exit(FAILED)
    return True

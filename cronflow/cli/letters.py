"""`cronflow runs report, retry, ack`: what failed, by reason, and what to do about it.

The rule: a run that failed or was lost stays on the list until somebody replays or acknowledges it; both are written
down with name and instant, and neither changes how the run ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import bulk, times, words
from cronflow.cli.bars import counted
from cronflow.cli.connect import call
from cronflow.cli.output import Format, Output, console, note, show, warn
from cronflow.cli.tables import Column, table
from cronflow.cli.trigger import read_args
from cronflow.domain.errors import Conflict, InvalidInput, Problem
from cronflow.domain.run import DEAD, Run, RunState
from cronflow.schemas.runs import report_schema

if TYPE_CHECKING:
    from cronflow.domain.failures import Failure
    from cronflow.remote.usecases import UseCases

CHUNK = 100

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID…]", help="The runs, as runs list shows them.", show_default=False)
]
State = Annotated[
    list[RunState] | None, typer.Option("--state", metavar="STATE", help="failed or lost.", show_default=False)
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Kept with it.", show_default=False)]


def report(
    since: Annotated[str, typer.Option(metavar="7d|INSTANT", help="Due in this last time.")] = "7d",
    job: bulk.OfJob = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, help="At most so many reasons.")] = 100,
    output: Output = Format.TABLE,
) -> None:
    """What failed, by reason: how often, when, which jobs, and a run to look at."""
    begin = times.instant_or_ago(since, "--since")

    async def read(service: UseCases) -> tuple[Sequence[Failure], bool, int]:
        failures, more = await service.report(begin, job)
        if not failures and job is not None:
            await service.job(job)
        return failures, more, await service.dead_letters(job)

    failures, more, dead = call(read)
    shown = failures[:limit]
    answer = report_schema(begin, job, dead, failures, limit, more=more)
    show(output, answer, [failure.example for failure in shown], lambda: _report(shown, dead, since))
    if more:
        note("only the newest runs were looked at; a shorter --since shows all of its own")
    elif len(failures) > limit:
        note(f"{words.plural(len(failures) - limit, 'reason')} more; --limit {len(failures)} shows all")


def _report(failures: Sequence[Failure], dead: int, since: str) -> None:
    out, now = console(), times.now()
    if not failures:
        out.print(f"Nothing that fell due since {since} has failed.")
    else:
        table(
            [
                Column("COUNT", align="right"),
                Column("OPEN", drop=2, align="right"),
                Column("REASON", least=24),
                Column("LAST", drop=1),
                Column("FIRST", drop=4),
                Column("JOBS", drop=3, least=12),
                Column("LOOK AT", drop=5),
            ],
            [
                [
                    str(failure.count),
                    str(failure.open),
                    words.one_line(failure.reason),
                    times.relative(failure.last, now),
                    times.relative(failure.first, now),
                    ", ".join(failure.jobs),
                    failure.example,
                ]
                for failure in failures
            ],
        )
    if dead:
        out.print()
        told = f"{words.plural(dead, 'dead letter')} open: cronflow runs list --dead, then runs retry or runs ack"
        out.print(Text(told, style="dim"))


def retry(
    run_ids: Ids = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Arguments instead of the original's.", show_default=False),
    ] = None,
    job: bulk.OfJob = None,
    state: State = None,
    since: bulk.Since = None,
    text: Note = "",
    yes: bulk.Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Replay runs that have ended: new runs for the same instants, under the jobs as they are now.

    Without ID: the dead letters of --job, --state and --since.
    """
    begin = bulk.chosen(run_ids, job, state, since)
    args = read_args(arg or ()) if arg else None
    _check_states(state)

    async def act(service: UseCases) -> list[tuple[str, str]]:
        if run_ids:
            runs = [await service.run(run) for run in dict.fromkeys(run_ids)]
        else:
            runs = await bulk.find(service, job, state or (), begin, dead=True)
        if args is not None:
            await _takes_args(service, {run.job for run in runs})
        if not run_ids and runs:
            bulk.confirm(len(runs), "replay", yes=yes)
        return await _replay(service, runs, args, text, only_dead=not run_ids)

    replayed = call(act)

    def view() -> None:
        for original, replay in replayed:
            console().print(Text.assemble(("↻ ", words.BLUE), f"{replay}", (f"  replays {original}", "dim")))
        if not replayed:
            console().print("There is no dead letter of this choice.")

    answer = [{"id": replay, "replay_of": original} for original, replay in replayed]
    show(output, answer, [replay for _, replay in replayed], view)


async def _replay(
    service: UseCases, runs: Sequence[Run], args: dict[str, object] | None, text: str, *, only_dead: bool
) -> list[tuple[str, str]]:
    replayed: list[tuple[str, str]] = []
    with counted(len(runs), "replaying") as done:
        for run in runs:
            try:
                replay = await service.replay(run.id, args, by=bulk.who(), note=text, only_dead=only_dead)
            except Conflict as error:
                if not only_dead:
                    raise
                warn(str(error))
                continue
            finally:
                done(1)
            replayed.append((run.id, replay))
    return replayed


async def _takes_args(service: UseCases, jobs: set[str]) -> None:
    for name in sorted(jobs):
        if not (await service.job(name)).job.takes_args:
            what = f"{name} is not a Python job, so arguments would have no effect"
            raise InvalidInput(Problem("--arg", what, "remove it"))


def ack(
    run_ids: Ids = None,
    text: Note = "",
    job: bulk.OfJob = None,
    state: State = None,
    since: bulk.Since = None,
    yes: bulk.Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Acknowledge dead letters: they are known, and nothing more is to be done.

    Without ID: those of --job, --state and --since.
    """
    begin = bulk.chosen(run_ids, job, state, since)
    _check_states(state)

    async def act(service: UseCases) -> list[str]:
        if run_ids:
            runs = [await service.run(run) for run in dict.fromkeys(run_ids)]
            for run in runs:
                _check_dead(run)
            runs = [run for run in runs if run.is_dead]
        else:
            runs = await bulk.find(service, job, state or (), begin, dead=True)
            if runs:
                bulk.confirm(len(runs), "acknowledge", yes=yes)
        done: set[str] = set()
        with counted(len(runs), "acknowledging") as more:
            for at in range(0, len(runs), CHUNK):
                ids = [run.id for run in runs[at : at + CHUNK]]
                done |= await service.acknowledge(ids, by=bulk.who(), note=text)
                more(len(ids))
        return [run.id for run in runs if run.id in done]

    done = call(act)

    def view() -> None:
        for run in done:
            console().print(Text.assemble(("✓ ", words.GREEN), f"{run} is acknowledged"))
        if not done and not run_ids:
            console().print("There is no dead letter of this choice.")

    show(output, [{"id": run} for run in done], done, view)


def _check_states(states: Sequence[RunState] | None) -> None:
    for state in states or ():
        if state not in DEAD:
            what = f"runs that are {state} are no dead letters"
            raise InvalidInput(Problem("--state", what, "choose failed or lost, or name the runs"))


def _check_dead(run: Run) -> None:
    """One that is settled already is told, not refused: whoever repeats the command has what was asked for."""
    if run.resolution is not None:
        by = f" by {run.resolution.by}" if run.resolution.by else ""
        note(f"{run.id} was {run.resolution.how} already{by}, {times.relative(run.resolution.at, times.now())}")
    elif run.state not in DEAD:
        raise Conflict(f"run {run.id} is {run.state}: only what failed or was lost can be acknowledged")

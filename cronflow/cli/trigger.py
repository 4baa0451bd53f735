"""`cronflow jobs run`: run a job now, and with `--wait` tell how it ended.

The rule: the id is told as soon as the run exists, so that whatever happens to this terminal afterwards, the run can
be found. Waiting is looking; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import connect, runview, times
from cronflow.cli.bulk import who
from cronflow.cli.errors import RUN_FAILED
from cronflow.cli.follow import follow_run, tell_state
from cronflow.cli.lines import LineFormat
from cronflow.cli.output import Format, Output, console, note, show, warn, write_json
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.schemas.runs import run_schema

if TYPE_CHECKING:
    from cronflow.cli.source import Source
    from cronflow.remote.usecases import UseCases
    from cronflow.schemas.runs import RunDetailSchema

LOOK_EVERY_S = 0.5


def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job.", show_default=False)],
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="An argument of a Python job, beside its own. JSON where it reads as such, else text.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has ended; exit code 4 when it failed.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="The same, with the lines that it writes and how far it is.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Run a job now, beside its schedule."""
    args = read_args(arg or ())
    if follow:
        _follow(name, args or None, output)
        return
    run = connect.call(lambda service: _run(service, name, args, wait=wait, whole=output.has_all))

    def view() -> None:
        if wait:
            runview.run_page(run, times.now())
        else:
            console().print(Text.assemble(("asked for ", "dim"), run.id))

    show(output, run_schema(run), [run.id], view)
    if wait and not well(run):
        raise typer.Exit(RUN_FAILED)


async def _run(service: UseCases, name: str, args: Mapping[str, object], *, wait: bool, whole: bool) -> Run:
    run = await service.run(await ask(service, name, args or None))
    if not wait:
        note(f"look at it: cronflow runs show {run.id}")
        return run
    run = await until_ended(service, run)
    return await service.whole(run) if whole else run


async def ask(service: UseCases, name: str, args: Mapping[str, object] | None) -> str:
    """Ask for a run. Returns its id. Raises InvalidInput for arguments that would have no effect."""
    record = await service.job(name)
    if args and not record.job.takes_args:
        what = f"{name} is not a Python job, so arguments would have no effect"
        raise InvalidInput(Problem("--arg", what, "remove it"))
    run_id = await service.trigger(name, args, by=who())
    if not await service.members():
        warn("no node is up; the run waits until one is: cronflow node")
    return run_id


def _follow(name: str, args: Mapping[str, object] | None, output: Format) -> None:
    """Ask for a run and write its lines until it has ended; JSON: a message a line, the last one its end."""
    from cronflow.cli.source import following

    async def use(source: Source) -> RunDetailSchema:
        run_id = await source.ask(name, args)
        note(f"asked for {run_id}; it goes on when this stops following")
        if output is Format.TABLE:
            return (await follow_run(source, run_id, LineFormat.TABLE, tell=True))[0]
        async with aclosing(source.run(run_id)) as messages:
            async for message in messages:
                if output is Format.JSON:
                    write_json(message, lines=True)
                if message["t"] == "state":
                    run = message["run"]
        return run

    run = following(use, awaited=True)
    assert run is not None
    if output is not Format.JSON:
        show(output, run, [run["id"]], lambda: runview.end_of_run(run))
    if not went_well(run["state"], run["outcome"]):
        raise typer.Exit(RUN_FAILED)


async def until_ended(service: UseCases, run: Run) -> Run:
    """Wait for the end of a run that was asked for, and tell where it is meanwhile."""
    note(f"asked for {run.id}; it goes on when this stops waiting")
    told = None
    while run.is_open:
        if (run.state, run.attempt) != told:
            told = (run.state, run.attempt)
            tell_state(run_schema(run))
        await times.sleep(LOOK_EVERY_S)
        run = await service.run(run.id)
    return run


def well(run: Run) -> bool:
    """Whether a run did not fail."""
    return went_well(run.state, run.outcome)


def went_well(state: RunState, outcome: Outcome | None) -> bool:
    """The same; a job that says itself that there was nothing to do has not failed."""
    return state == RunState.SUCCEEDED or (state == RunState.SKIPPED and outcome == Outcome.SKIPPED)


def read_args(pairs: Sequence[str]) -> dict[str, object]:
    """`key=value` pairs as arguments. Raises InvalidInput with every pair that is none."""
    import orjson

    args: dict[str, object] = {}
    problems = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            problems.append(Problem("--arg", f"{pair!r} is not KEY=VALUE", "write --arg region=eu"))
        elif key in args:
            problems.append(Problem("--arg", f"{key} is given twice", "remove one of the two"))
        try:
            args[key] = orjson.loads(value)
        except orjson.JSONDecodeError:
            args[key] = value
    if problems:
        raise InvalidInput(problems)
    return args

"""`cronflow jobs run`: run a job now, and with `--wait` tell how it ended.

The rule: the id is told as soon as the run exists, so that whatever happens to this terminal afterwards, the run can
be found. Waiting is looking; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import connect, runview, times, words
from cronflow.cli.bulk import who
from cronflow.cli.errors import RUN_FAILED
from cronflow.cli.output import Format, Output, console, diagnostics, note, show, warn
from cronflow.domain.cluster import node_name
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.shapes.runs import run_shape

if TYPE_CHECKING:
    from cronflow.service import Service

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
    output: Output = Format.TABLE,
) -> None:
    """Run a job now, beside its schedule."""
    args = read_args(arg or ())
    run = connect.call(lambda service: _run(service, name, args, wait=wait, whole=output.has_all))

    def view() -> None:
        if wait:
            runview.run_page(run, times.now())
        else:
            console().print(Text.assemble(("asked for ", "dim"), run.id))

    show(output, run_shape(run), [run.id], view)
    if wait and not well(run):
        raise typer.Exit(RUN_FAILED)


async def _run(service: Service, name: str, args: Mapping[str, object], *, wait: bool, whole: bool) -> Run:
    record = await service.job(name)
    if args and not record.job.takes_args:
        what = f"{name} is not a Python job, so arguments would have no effect"
        raise InvalidInput(Problem("--arg", what, "remove it"))
    run = await service.run(await service.trigger(name, args or None, by=who()))
    if not await service.members():
        warn("no node is up; the run waits until one is: cronflow node")
    if not wait:
        note(f"look at it: cronflow runs show {run.id}")
        return run
    run = await until_ended(service, run)
    return await service.whole(run) if whole else run


async def until_ended(service: Service, run: Run) -> Run:
    """Wait for the end of a run that was asked for, and tell where it is meanwhile."""
    note(f"asked for {run.id}; it goes on when this stops waiting")
    told = None
    while run.is_open:
        if (run.state, run.attempt) != told:
            told = (run.state, run.attempt)
            _tell(run)
        await times.sleep(LOOK_EVERY_S)
        run = await service.run(run.id)
    return run


def _tell(run: Run) -> None:
    """Where it is, while somebody waits."""
    if not run.attempt:
        diagnostics().print(Text("◌ waiting for a node", style=words.BLUE))
        return
    where = f", attempt {run.attempt}" if run.attempt > 1 else ""
    if run.state is RunState.RETRYING:
        where += "" if run.check_at is None else f", next try {times.relative(run.check_at, times.now())}"
    elif run.node is not None:
        where += f", {words.clean(node_name(run.node))}"
    diagnostics().print(Text.assemble(words.run_state(run.state), where))


def well(run: Run) -> bool:
    """Whether a run did not fail; a job that says itself that there was nothing to do has not."""
    return run.state is RunState.SUCCEEDED or (run.state is RunState.SKIPPED and run.outcome is Outcome.SKIPPED)


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

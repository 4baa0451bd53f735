"""`cronflow jobs …`: look at jobs, pause, resume and delete them. `apply` and `run` stand in modules of their own.

The rule: a job is named as people named it, never shortened; what it will do next is told in UTC and as a distance.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cronflow.cli import jobview, times
from cronflow.cli.apply import apply
from cronflow.cli.bulk import who
from cronflow.cli.connect import all_jobs, call
from cronflow.cli.firetable import fire_table
from cronflow.cli.lazy import new_group
from cronflow.cli.output import Format, Output, console, note, show
from cronflow.cli.trigger import run
from cronflow.cli.why import TIMES_LIKE_OPTIONS, history, why
from cronflow.domain.job import SYSTEM_PREFIX
from cronflow.schemas.base import iso
from cronflow.schemas.jobs import deleted_schema, fires_schema, job_schema

if TYPE_CHECKING:
    from cronflow.domain.job import JobRecord
    from cronflow.domain.run import Run
    from cronflow.remote.usecases import UseCases

jobs = new_group("Define jobs, look at them, run, pause and delete them.")
jobs.command()(apply)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The job.", show_default=False)]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="One or more jobs.", show_default=False)]


@jobs.command("list")
def list_jobs(
    everything: Annotated[bool, typer.Option("--all", help="The system's own jobs, too.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """All jobs, by name: when they run, when next, and whether they are active."""
    found = [record for record in call(all_jobs) if everything or not record.name.startswith(SYSTEM_PREFIX)]

    def view() -> None:
        if not found:
            console().print("There are no jobs yet. Define some: cronflow jobs apply -f jobs.yaml")
            return
        jobview.job_table(found, times.now())

    show(output, [job_schema(record) for record in found], [record.name for record in found], view)


@jobs.command("show")
def show_job(name: Name, output: Output = Format.TABLE) -> None:
    """A job: its state, its latest runs, and its document with every default."""
    from cronflow.ports import RunQuery

    async def read(service: UseCases) -> tuple[JobRecord, list[Run]]:
        return await service.job(name), await service.runs(RunQuery(job=name, limit=5))

    record, latest = call(read)
    show(output, job_schema(record), [record.name], lambda: jobview.job_page(record, latest, times.now()))


jobs.command("run")(run)


@jobs.command("next")
def next_fires(
    name: Name,
    count: Annotated[int, typer.Option("-n", metavar="COUNT", min=1, max=1000, help="How many.")] = 10,
    output: Output = Format.TABLE,
) -> None:
    """The next instants at which a job falls due."""

    async def read(service: UseCases) -> tuple[JobRecord, list[datetime]]:
        return await service.job(name), await service.next_fires(name, count)

    record, fires = call(read)

    def view() -> None:
        fire_table(fires, getattr(record.job.schedule, "tz", "UTC"), times.now())

    show(output, fires_schema(record, fires), [iso(fire) for fire in fires], view)
    if record.job.schedule is None:
        note(f"{name} has no schedule; it is run by hand: cronflow jobs run {name}")
    elif not fires:
        note(f"{name} will not fall due again")
    elif not record.job.enabled:
        note(f"{name} is disabled: none of these will run until its document says enabled: true")
    elif record.paused:
        note(f"{name} is paused: none of these will run until cronflow jobs resume {name}")


jobs.command(context_settings=TIMES_LIKE_OPTIONS)(why)
jobs.command()(history)


@jobs.command()
def pause(names: Names, output: Output = Format.TABLE) -> None:
    """Plan no more fires of these jobs, until they are resumed. What runs goes on."""
    _change(names, lambda service, name: service.pause(name, by=who()), output)


@jobs.command()
def resume(names: Names, output: Output = Format.TABLE) -> None:
    """Go on with the next fire; those that fell due meanwhile are recorded as skipped."""
    _change(names, lambda service, name: service.resume(name, by=who()), output)


@jobs.command()
def delete(names: Names, output: Output = Format.TABLE) -> None:
    """Remove jobs. Their runs and logs stay until their time is over."""
    changed = _all(names, lambda service, name: service.delete(name, by=who()))

    def view() -> None:
        for record in changed:
            console().print(Text.assemble(("- ", "bright_black"), f"{record.name} is deleted; its history stays"))

    show(
        output,
        [deleted_schema(record) for record in changed],
        [record.name for record in changed],
        view,
    )


Change = Callable[["UseCases", str], Coroutine[Any, Any, "JobRecord"]]


def _all(names: Sequence[str], change: Change) -> list[JobRecord]:
    """Each of the jobs changed; before the first is, all of them must exist."""

    async def run_all(service: UseCases) -> list[JobRecord]:
        for name in names:
            await service.job(name)
        return [await change(service, name) for name in dict.fromkeys(names)]

    return call(run_all)


def _change(names: Sequence[str], change: Change, output: Format) -> None:
    changed = _all(names, change)
    show(
        output,
        [job_schema(record) for record in changed],
        [record.name for record in changed],
        lambda: jobview.job_table(changed, times.now()),
    )

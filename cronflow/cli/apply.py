"""`cronflow jobs apply`: make the cluster have the jobs of files and apps.

The rule: everything is read and checked before a server is contacted, and told at once. Applying is repeatable: the
second time all are unchanged. `--dry-run` compares with what is stored and writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.app import load_app
from cronflow.cli import connect, jobview, times, words
from cronflow.cli.bars import counted
from cronflow.cli.bulk import who
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.tables import Column, table
from cronflow.domain.errors import Conflict, InvalidInput, Problem
from cronflow.domain.job import Job
from cronflow.schemas.jobs import comparison_schema

if TYPE_CHECKING:
    from cronflow.remote.usecases import UseCases
    from cronflow.usecases.compare import Comparison


def apply(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE…", help="More files, as in -f *.yaml.", show_default=False)
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.", show_default=False),
    ] = None,
    app: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:APP", help="The jobs of an App in Python.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; change nothing.")] = False,
    check_python: Annotated[
        bool, typer.Option("--import/--no-import", help="Import Python targets to see whether they exist.")
    ] = True,
    output: Output = Format.TABLE,
) -> None:
    """Create and change jobs, so that the cluster has those of the files and apps. Others stay as they are."""
    wanted = _read([*(file or ()), *(files or ())], app or (), check_python=check_python)
    applied = connect.call(lambda service: service.compare(wanted) if dry_run else _apply(service, wanted))
    show(
        output,
        [comparison_schema(one) for one in applied],
        [one.record.name for one in applied],
        lambda: _view(applied, times.now(), dry_run=dry_run),
    )


def _read(files: Sequence[Path], apps: Sequence[str], *, check_python: bool) -> list[Job]:
    """The jobs, as the files and apps have them. Raises InvalidInput with the problems of all."""
    from cronflow.files.jobs import read_job_files

    if not files and not apps:
        what = "neither files nor an app are given"
        raise InvalidInput(Problem("", what, "cronflow jobs apply -f jobs.yaml, or --app package.module:app"))
    retry = connect.retry()
    problems: list[Problem] = []
    wanted: list[Job] = []
    paths = [Path("/dev/stdin") if str(path) == "-" else path for path in files]
    try:
        wanted += read_job_files(paths, check_python=check_python, retry=retry) if paths else []
    except InvalidInput as error:
        problems += error.problems
    seen = {job.name: "the files" for job in wanted}
    for address in apps:
        try:
            found = load_app(address).jobs_with(retry)
        except InvalidInput as error:
            problems += error.problems
            continue
        if not found:
            problems.append(Problem(address, "this App has no jobs", "write @app.job(...) above a function"))
        for job in found:
            if (other := seen.setdefault(job.name, address)) != address:
                problems.append(Problem(address, f"the name {job.name!r} is taken by {other}", "rename one of the two"))
        wanted += found
    if problems:
        raise InvalidInput(problems)
    return wanted


async def _apply(service: UseCases, wanted: Sequence[Job]) -> list[Comparison]:
    with counted(len(wanted), "applying") as done:
        try:
            return await service.applied(wanted, by=who(), each=lambda: done(1))
        except Conflict as error:
            error.add_note("the jobs before it are applied; applying all of them again is harmless")
            raise


def _view(applied: Sequence[Comparison], now: datetime, *, dry_run: bool) -> None:
    columns = [
        Column("RESULT"),
        Column("NAME"),
        Column("STATE", drop=2),
        Column("NEXT", drop=1),
        Column("NEXT FIRE (UTC)", drop=3, style="dim"),
    ]
    table(
        columns,
        [
            [words.word(one.result), one.record.name, jobview.state_of(one.record), *jobview.next_of(one.record, now)]
            for one in applied
        ],
    )
    out = console()
    for one in applied:
        if one.differences:
            out.print(Text(f"\n{one.record.name}", style="bold"))
            for path, old, new in one.differences:
                out.print(Text.assemble(f"  {path}: ", (_value(old), "strike dim"), " → ", _value(new)))
    counts = [
        f"{sum(one.result == result for one in applied)} {result}" for result in ("created", "changed", "unchanged")
    ]
    out.print(Text(f"\n{words.plural(len(applied), 'job')}: {', '.join(counts)}", style="dim"))
    if dry_run:
        out.print(Text("Nothing was written. Run it again without --dry-run to apply it.", style="dim"))


def _value(value: object) -> str:
    import orjson

    if value is None:
        return "nothing"
    return words.one_line(orjson.dumps(value).decode())

"""`cronflow jobs apply`: make the cluster have the jobs of files and apps.

The rule: everything is read and checked before a server is contacted, and told at once. Applying is repeatable: the
second time all are unchanged. `--dry-run` compares with what is stored and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.text import Text

from cronflow.app import load_app
from cronflow.cli import connect, jobview, times, words
from cronflow.cli.bulk import who
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.tables import Column, table
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.job import Job, JobRecord
from cronflow.shapes.jobs import job_state
from cronflow.shapes.plain import Shape, optional_iso

if TYPE_CHECKING:
    from cronflow.service import Service


class Applied(NamedTuple):
    """What became, or would become, of a job. `differences` are known of a dry run alone."""

    record: JobRecord
    result: str
    differences: Sequence[tuple[str, object, object]] = ()


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
    applied = connect.call(lambda service: (_compare if dry_run else _apply)(service, wanted))
    show(
        output,
        [_shape(one) for one in applied],
        [one.record.name for one in applied],
        lambda: _view(applied, times.now(), dry_run=dry_run),
    )


def _read(files: Sequence[Path], apps: Sequence[str], *, check_python: bool) -> list[Job]:
    """The jobs, without a server. Raises InvalidInput with the problems of all files and apps."""
    from cronflow.jobfiles import read_job_files

    if not files and not apps:
        what = "neither files nor an app are given"
        raise InvalidInput(Problem("", what, "cronflow jobs apply -f jobs.yaml, or --app package.module:app"))
    retry = connect.settings().retry
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


async def _apply(service: Service, wanted: Sequence[Job]) -> list[Applied]:
    try:
        results = await service.apply(wanted, by=who())
    except Conflict as error:
        error.add_note("the jobs before it are applied; applying all of them again is harmless")
        raise
    return [Applied(await service.job(name), result) for name, result in results]


async def _compare(service: Service, wanted: Sequence[Job]) -> list[Applied]:
    from cronflow.domain.planning import first_fire
    from cronflow.editing import consumed

    compared = []
    now = times.now()
    for job in wanted:
        try:
            stored = await service.job(job.name)
        except NotFound:
            new = JobRecord(job=job, next_fire=first_fire(job, now), created_at=now, updated_at=now)
            compared.append(Applied(new, "created"))
            continue
        if stored.job == job:
            compared.append(Applied(stored, "unchanged"))
            continue
        planned = replace(stored, job=job)
        if (stored.job.schedule, stored.job.enabled) != (job.schedule, job.enabled):
            # As the editor will do it: the cursor begins anew, behind what is covered.
            planned = replace(planned, next_fire=first_fire(job, now, consumed(stored, now)))
        compared.append(Applied(planned, "changed", _differences(stored.job, job)))
    return compared


def _differences(before: Job, after: Job) -> list[tuple[str, object, object]]:
    """Path, old and new value of each part of the document that differs."""
    from cronflow.documents import job_document

    old, new = _flat(job_document(before)), _flat(job_document(after))
    return [(path, old.get(path), new.get(path)) for path in {**old, **new} if old.get(path) != new.get(path)]


def _flat(document: Mapping[str, object], place: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in document.items():
        path = f"{place}.{key}" if place else key
        if isinstance(value, Mapping):
            flat.update(_flat(value, path))
        else:
            flat[path] = value
    return flat


def _shape(one: Applied) -> Shape:
    shape: Shape = {
        "name": one.record.name,
        "result": one.result,
        "state": job_state(one.record),
        "next_fire": optional_iso(one.record.next_fire),
    }
    if one.differences:
        shape["changes"] = [{"field": path, "before": old, "after": new} for path, old, new in one.differences]
    return shape


def _view(applied: Sequence[Applied], now: datetime, *, dry_run: bool) -> None:
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

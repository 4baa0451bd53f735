"""`cronflow jobs apply`, `check`, `diff`, `export` and `schema`: jobs as code.

The rules: files and apps are checked completely before anything is requested, and applying twice changes nothing the
second time. `check` needs no cluster. `diff` shows exactly what `apply` with the same options would change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.bootstrap.garbage_collection import rare_garbage_collection
from cronflow.cli import applying, connect
from cronflow.cli.completion import job_names
from cronflow.cli.errors import FAILED, USAGE, expected, report
from cronflow.cli.job_sources import owner_of, paths_of, read_sources, with_owner
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, note, show
from cronflow.cli.views.applied import applied_page, warn_about
from cronflow.cli.views.checked import CheckFormat, print_checked
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.comparison import DAYS, MOST_DAYS

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.domain.job import Job

JOBS_ARE_NO_GARBAGE = 100_000
"""New objects between two searches for garbage."""
DIFFERENT = 1
"""The exit code of `jobs diff` when something would change, as that of `diff`."""

MoreFiles = Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="More files, as in -f *.yaml.")]
Files = Annotated[
    list[Path] | None, typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.")
]
Apps = Annotated[list[str] | None, typer.Option(metavar="MODULE:APP", help="Apply the jobs of a Python App.")]
Days = Annotated[
    int,
    typer.Option(
        metavar="DAYS",
        min=0,
        max=MOST_DAYS,
        help="Show which runs of the coming days appear and vanish; 0: do not compare them.",
    ),
]
CheckPython = Annotated[
    bool, typer.Option("--import/--no-import", help="Import Python targets to check that they exist.")
]
PruneOthers = Annotated[
    bool, typer.Option("--prune", help="Also delete the jobs of the same owner that are not in the files and apps.")
]
Owner = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The owner of the jobs: adds the label owner to those without one."),
]


def apply(
    files: MoreFiles = None,
    file: Files = None,
    app: Apps = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without applying them.")] = False,
    prune: PruneOthers = False,
    owner: Owner = None,
    days: Days = DAYS,
    check_python: CheckPython = True,
    output: Output = Format.TABLE,
) -> None:
    """Create and change jobs to match the files and apps. Other jobs are left alone, unless you give --prune: then
    those of the same owner are deleted.
    """
    # The search for garbage among thousands of jobs, which are kept until the end, would take a fifth of the time.
    with rare_garbage_collection(JOBS_ARE_NO_GARBAGE):
        wanted = _wanted([*(file or ()), *(files or ())], app or (), owner, prune=prune, check_python=check_python)
        send, use = (applying.plan, connect.call) if dry_run else (applying.apply, connect.change)
        applied = use(lambda cluster: send(cluster, wanted, days))
    show(
        output,
        applied,
        [one["name"] for one in applied],
        lambda: applied_page(applied, times.now(), days=days, dry_run=dry_run),
    )
    warn_about(applied)


def diff(
    files: MoreFiles = None,
    file: Files = None,
    app: Annotated[list[str] | None, typer.Option(metavar="MODULE:APP", help="The jobs of a Python App.")] = None,
    prune: PruneOthers = False,
    owner: Owner = None,
    days: Days = 0,
    check_python: CheckPython = True,
    output: Output = Format.TABLE,
) -> None:
    """Show what `jobs apply` would change, key by key, without changing it. The exit code is 0 without changes, 1 with
    changes, and 2 or more after an error, like that of `diff`.
    """
    try:
        with rare_garbage_collection(JOBS_ARE_NO_GARBAGE):
            wanted = _wanted([*(file or ()), *(files or ())], app or (), owner, prune=prune, check_python=check_python)
            found = connect.call(lambda cluster: applying.plan(cluster, wanted, days))
    except Exception as error:
        if (refused := expected(error)) is None:
            raise
        raise typer.Exit(max(report(refused), USAGE)) from None
    from cronflow.cli.views.diff import diff_page, with_created

    changed = with_created([one for one in found if one["result"] != "unchanged"], wanted.jobs)
    show(output, changed, [one["name"] for one in changed], lambda: diff_page(changed, found, days))
    warn_about(found)
    if changed:
        raise typer.Exit(DIFFERENT)


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of jobs, alerts, limits or calendars.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are problems.")] = False,
    check_python: CheckPython = True,
    output: Annotated[
        CheckFormat,
        typer.Option("--output", "-o", help="A line per problem for people, JSON, or annotations of GitHub Actions."),
    ] = CheckFormat.TEXT,
) -> None:
    """Check files without a cluster: all problems with file, line and key, and warnings about schedules that are
    likely mistakes. The exit code is 0 without problems, 1 with problems.
    """
    from cronflow.cli.target import settings
    from cronflow.files.check import check_files

    read = settings()
    found = check_files(paths_of(files), times.now(), check_python=check_python, retry=read.retry, tz=read.timezone)
    print_checked(found, output, strict=strict)
    if found.problems or (strict and found.warnings):
        raise typer.Exit(FAILED)


def export(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Names of jobs, or patterns such as 'etl-*'.", autocompletion=job_names),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="KEY[=VALUE]", help="Jobs with this label; repeatable, all must match."),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Write a file per job into this folder; - is stdout.")
    ] = Path("-"),
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Write jobs as YAML that applies again without a change; all jobs by default. Secrets stay references."""
    from cronflow.cli.selection import Selection
    from cronflow.files.export import file_text, job_of, write_folder

    if names and label:
        raise InvalidInput(Problem("", "names and --label cannot be combined", "give one of them"))
    selection = Selection(names or (), label or (), everything=not names and not label)

    async def read(cluster: Cluster) -> list[Job]:
        found, masked = set(await selection.find(cluster)), connect.api_in_use is not None
        if selection.named:
            return [job_of(await cluster.jobs.get(name), may_be_masked=masked) for name in sorted(found)]
        listed = cluster.jobs.list(label=label or ())
        return [job_of(job, may_be_masked=masked) async for job in listed if job["name"] in found]

    found = connect.call(read)
    if not found:
        note("no jobs to export")
        return
    if str(out) == "-":
        typer.echo(file_text(found), nl=False)
        return
    count = len(write_folder(found, out, force=force))
    note(f"wrote {count} file{'' if count == 1 else 's'}; apply: cronflow jobs apply -f {out}/*.yaml")


def schema() -> None:
    """Print the JSON Schema of job files, for editors and other tools."""
    from cronflow.files.schema import schema_text

    typer.echo(schema_text(), nl=False)


def _wanted(
    files: Sequence[Path], apps: Sequence[str], owner: str | None, *, prune: bool, check_python: bool
) -> applying.WantedJobs:
    read = read_sources(files, apps, check_python=check_python)
    jobs = read.jobs if owner is None else with_owner(read.jobs, owner)
    return applying.WantedJobs(jobs, read.implicit_misfires, (owner or owner_of(jobs)) if prune else None)

"""`cronflow ledger …`: what became of each instant that was due, as a check of a cluster and as a file for auditors.

The rule: the instants are derived anew from the versions of the jobs, without the code that planned them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.completion import job_names
from cronflow.cli.connect import call
from cronflow.cli.errors import FAILED
from cronflow.cli.main import new_group
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, show
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.ledger.derivation import LedgerSpan

SHA256 = re.compile(r"[0-9a-fA-F]{64}")

ledger = new_group("Check, export and verify what became of each instant that was due.")

First = Annotated[str, typer.Option("--from", metavar="1d|INSTANT", help="The first instant, or this long ago.")]
Last = Annotated[
    str, typer.Option("--to", metavar="1h|INSTANT", help="Until before this instant, or this long ago; now at most.")
]
OfJobs = Annotated[
    list[str] | None,
    typer.Option("--job", metavar="NAME", help="Only this job; repeatable.", autocompletion=job_names),
]


@ledger.command()
def check(first: First, last: Last = "0s", job: OfJobs = None, output: Output = Format.TABLE) -> None:
    """Check that each instant that was due has exactly one run. Exit code 1: some are lost or doubled."""
    from cronflow.cli.views.ledger import report_page
    from cronflow.ledger.report import read_report

    _, passed = _spans(first, last)
    found = call(lambda cluster: read_report(cluster, passed, job or ()))
    violations = [f"{entry['job']} {entry['instant']}" for entry in found["violations"]]
    show(output, found, violations, lambda: report_page(found))
    if not found["whole"]:
        raise typer.Exit(FAILED)


@ledger.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    first: First,
    last: Last = "0s",
    job: OfJobs = None,
    output: Output = Format.TABLE,
) -> None:
    """Write a file with an entry for each instant that was due. Each line contains the hash of the one before it."""
    from cronflow.cli.views.ledger import export_page
    from cronflow.ledger.export import export_ledger

    asked, passed = _spans(first, last)
    found = call(lambda cluster: export_ledger(cluster, file, asked, passed, job or (), times.now()))
    show(output, found, [found["file"]], lambda: export_page(found))


@ledger.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `cronflow ledger export` wrote.")],
    hash_: Annotated[
        str | None, typer.Option("--hash", metavar="SHA256", help="The hash that was noted down when it was exported.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Check a file without a cluster: that nothing in it was changed, and that no instant lacks an entry. Exit code 1:
    something is wrong.
    """
    from cronflow.cli.views.ledger import checked_page
    from cronflow.ledger.verification import verify_ledger

    if hash_ is not None and not SHA256.fullmatch(hash_):
        raise InvalidInput(Problem("--hash", "is no SHA-256", "give the 64 hexadecimal digits that export printed"))
    found = verify_ledger(file, hash_)
    names = [] if found["flaw"] is None else [f"{file}:{found['flaw']['line'] or ''}".rstrip(":")]
    show(output, found, names, lambda: checked_page(found, noted=hash_ is not None))
    if not found["whole"]:
        raise typer.Exit(FAILED)


def _spans(first: str, last: str) -> tuple[LedgerSpan, LedgerSpan]:
    """The span that was asked for, and as much of it as has passed. Raises InvalidInput."""
    from cronflow.ledger.derivation import LedgerSpan

    begin, end = times.instant_or_ago(first, "--from"), times.instant_or_ago(last, "--to")
    now = times.now()
    if begin >= end:
        raise InvalidInput(
            Problem("--from", f"{times.absolute(begin)} is not before {times.absolute(end)}", "swap them")
        )
    if begin >= now:
        raise InvalidInput(
            Problem("--from", f"{times.absolute(begin)} is in the future", "give an instant that has passed")
        )
    return LedgerSpan(begin, end), LedgerSpan(begin, min(end, now))

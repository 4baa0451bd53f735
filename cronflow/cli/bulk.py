"""Acting on many runs at once: which they are, how many, and whether that is meant.

The rule it protects: whoever does not name the runs is told how many there are before anything happens, and says yes;
where nobody can be asked, `--yes` has to say it.
"""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli import times, words
from cronflow.cli.connect import PAGE
from cronflow.cli.output import diagnostics
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.run import Run, RunState

if TYPE_CHECKING:
    from cronflow.remote.usecases import UseCases

OfJob = Annotated[str | None, typer.Option("--job", metavar="NAME", help="Those of this job.", show_default=False)]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="1h|INSTANT", help="Due in this last time, or from this instant on.", show_default=False
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def who() -> str:
    """Who acts, as far as this machine knows."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def chosen(
    ids: Sequence[str] | None, job: str | None, states: Collection[RunState] | None, since: str | None
) -> datetime | None:
    """Check that either runs are named or a choice is made. Returns the instant of `--since`. Raises InvalidInput."""
    choice = job is not None or bool(states) or since is not None
    if bool(ids) == choice:
        what = "runs are named and also chosen by --job, --state or --since" if ids else "no run is named"
        remedy = "name them, or choose them with --job, --state or --since; not both"
        raise InvalidInput(Problem("ID", what, remedy))
    return None if since is None else times.instant_or_ago(since, "--since")


async def find(
    service: UseCases, job: str | None, states: Collection[RunState], since: datetime | None, *, dead: bool = False
) -> list[Run]:
    """All runs of the choice, the newest first. Raises NotFound for a job that does not exist and has no runs."""
    from cronflow.ports import RunQuery

    found: list[Run] = []
    while True:
        before = (found[-1].fire_at, found[-1].id) if found else None
        page = await service.runs(RunQuery(job=job, states=states, since=since, before=before, dead=dead, limit=PAGE))
        found += page
        if len(page) < PAGE:
            break
    if not found and job is not None:
        await service.job(job)
    return found


def confirm(count: int, what: str, *, yes: bool) -> None:
    """Tell how many, and ask. Raises InvalidInput where nobody can be asked, `typer.Exit` after a no."""
    told = f"{words.plural(count, 'run')} to {what}"
    if yes:
        diagnostics().print(told)
        return
    if not interactive():
        raise InvalidInput(Problem("--yes", f"{told}, and nobody can be asked here", "add --yes to do it"))
    if not typer.confirm(f"{told}. Go on?", err=True):
        raise typer.Exit(1)


def interactive() -> bool:
    """Whether somebody sits at the other end."""
    return sys.stdin.isatty()

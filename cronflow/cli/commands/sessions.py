"""`cronflow sessions …`: who is logged in, how and from where; and ending it at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.connect import call, change, collect
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, show
from cronflow.cli.terminal.tables import Column, table_of
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.schemas.access import SessionSchema

sessions = new_group("List and revoke the sessions of users.")


@sessions.command("list")
def list_sessions(
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only sessions of this user.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """List who is logged in: all users for an admin, your own sessions otherwise."""
    found = call(lambda cluster: collect(cluster.sessions.list(user=user)))
    found = sorted(found, key=lambda one: (one["user"], one["created_at"] or ""))
    show(output, found, [one["id"] for one in found], lambda: _table(found))


@sessions.command("revoke")
def revoke_sessions(
    session: Annotated[str | None, typer.Argument(metavar="ID", help="The session, from `sessions list`.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Revoke all sessions of this user.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Revoke a session, or all sessions of a user. It takes effect at once."""
    if (session is None) == (user is None):
        raise InvalidInput(Problem("", "give the ID of a session or --user", "list them: cronflow sessions list"))
    if user is not None:
        ended = [one["id"] for one in change(lambda cluster: cluster.sessions.revoke_all(user))]
        view = f"{formatting.plural(len(ended), 'session')} of {formatting.clean(user)} revoked"
    else:
        change(lambda cluster: cluster.sessions.revoke(str(session)))
        ended, view = [str(session)], f"session {formatting.clean(str(session))} revoked"
    show(output, {"revoked": ended}, ended, view)


def _table(found: Sequence[SessionSchema]) -> None:
    now = times.now()
    table_of(
        found,
        [
            (Column("SESSION"), lambda one: f"{one['id']} *" if one["current"] else one["id"]),
            (Column("USER"), lambda one: one["user"]),
            (Column("BY"), lambda one: one["method"]),
            (Column("FROM", drop=1), lambda one: one["address"] or "unknown"),
            (Column("SINCE", drop=3), lambda one: _ago(one["created_at"], now)),
            (Column("LAST USED"), lambda one: _ago(one["last_used_at"], now)),
            (Column("EXPIRES", drop=2), lambda one: times.relative(one["expires_at"], now)),
            (Column("PROGRAM", drop=4), lambda one: formatting.clean(one["agent"])),
        ],
        empty="Nobody is logged in.",
    )


def _ago(instant: str | None, now: datetime) -> str:
    return "unknown" if instant is None else times.relative(instant, now)

"""`cronflow users …`: who may log in, and as what.

The rule: a password is never an argument, which every process of the machine could read; it comes from a prompt, or is
the first line of stdin. The admin of the settings is none of these users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bulk import who
from cronflow.cli.connect import call, every
from cronflow.cli.lazy import new_group
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.prompts import hidden_value
from cronflow.cli.tables import Column, table
from cronflow.domain.access import Role
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.schemas.access import user_schema

if TYPE_CHECKING:
    from cronflow.domain.access import User
    from cronflow.remote.usecases import UseCases

users = new_group("Who may log in to the API, and as what.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.", show_default=False)]


@users.command("list")
def list_users(output: Output = Format.TABLE) -> None:
    """All users, by name; the admin of the settings is none of them."""

    async def read(service: UseCases) -> list[User]:
        return await every(service.users.find)

    found = call(read)
    show(output, [user_schema(user) for user in found], [user.name for user in found], lambda: _table(found))


@users.command()
def create(
    name: Name,
    role: Annotated[Role, typer.Option(help="What the user may do.")] = Role.VIEWER,
    output: Output = Format.TABLE,
) -> None:
    """Create a user. The password is asked for, or is the first line of stdin."""
    password = hidden_value("Password", confirmed=True)
    user = call(lambda service: service.users.create(name, role, password, by=who()))
    show(output, user_schema(user), [name], lambda: _table([user]))


@users.command()
def change(
    name: Name,
    role: Annotated[Role | None, typer.Option(help="What the user may do from now on.", show_default=False)] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether the user may log in.", show_default=False)
    ] = None,
    password: Annotated[bool, typer.Option("--password", help="A new one, from a prompt or stdin.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Change a user, who has to log in again."""
    if role is None and enabled is None and not password:
        raise InvalidInput(Problem("", "nothing is to change", "give --role, --enable, --disable or --password"))
    new = hidden_value("New password", confirmed=True) if password else None
    user = call(lambda service: service.users.change(name, role=role, enabled=enabled, password=new, by=who()))
    show(output, user_schema(user), [name], lambda: _table([user]))


@users.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete a user, whose sessions end."""
    call(lambda service: service.users.delete(name, by=who()))

    def view() -> None:
        console().print(Text.assemble(("- ", "bright_black"), f"user {words.clean(name)} is deleted"))

    show(output, {"name": name, "deleted": True}, [name], view)


def _table(found: list[User]) -> None:
    if not found:
        console().print("There are no users but the admin of the settings. Create one: cronflow users create NAME")
        return
    table(
        [Column("USER"), Column("ROLE"), Column("STATE"), Column("CREATED", drop=1)],
        [
            [
                user.name,
                user.role.value,
                words.word("active" if user.enabled else "disabled"),
                times.absolute(user.created_at),
            ]
            for user in found
        ],
    )

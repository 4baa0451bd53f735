"""`cronflow secrets …`: values that jobs name as `${secret:NAME}`.

The rule: a value goes in and never comes out. It is read from a prompt or from stdin, never from an argument.
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
from cronflow.domain.secret import check_secret_name
from cronflow.schemas.access import secret_schema

if TYPE_CHECKING:
    from cronflow.domain.access import Secret
    from cronflow.remote.usecases import UseCases

secrets = new_group("Values that jobs name and nobody reads.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The secret.", show_default=False)]


@secrets.command("list")
def list_secrets(output: Output = Format.TABLE) -> None:
    """The names of all secrets."""

    async def read(service: UseCases) -> list[Secret]:
        return await every(service.secrets.find)

    found = call(read)

    def view() -> None:
        if not found:
            console().print("There are no secrets. Set one: cronflow secrets set NAME")
            return
        table(
            [Column("SECRET"), Column("SET", drop=1), Column("BY", drop=2)],
            [[one.name, times.absolute(one.updated_at), words.clean(one.updated_by)] for one in found],
        )

    show(output, [secret_schema(one) for one in found], [one.name for one in found], view)


@secrets.command("set")
def set_secret(name: Name, output: Output = Format.TABLE) -> None:
    """Set a secret, new or not. The value is asked for, or is all of stdin but its last line break."""
    check_secret_name(name)
    value = hidden_value("Value", whole=True)
    new = call(lambda service: service.secrets.set(name, value, by=who()))

    def view() -> None:
        console().print(f"{name} is {'set' if new else 'replaced'}; jobs name it ${{secret:{name}}}")

    show(output, {"name": name, "new": new}, [name], view)


@secrets.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete a secret; attempts of jobs that name it fail from now on."""
    call(lambda service: service.secrets.delete(name, by=who()))

    def view() -> None:
        console().print(Text.assemble(("- ", "bright_black"), f"secret {words.clean(name)} is deleted"))

    show(output, {"name": name, "deleted": True}, [name], view)

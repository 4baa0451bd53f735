"""`cronflow keys …`: what scripts log in with.

The rule: the text of a key is told once, on stdout, when it is created; afterwards only its hash is known.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bulk import who
from cronflow.cli.connect import call, every
from cronflow.cli.lazy import new_group
from cronflow.cli.output import Format, Output, console, note, show
from cronflow.cli.tables import Column, table
from cronflow.domain.access import Role
from cronflow.domain.durations import parse_duration
from cronflow.schemas.access import key_schema

if TYPE_CHECKING:
    from cronflow.domain.access import ApiKey
    from cronflow.remote.usecases import UseCases

keys = new_group("API keys: what scripts log in with.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The key.", show_default=False)]


@keys.command("list")
def list_keys(output: Output = Format.TABLE) -> None:
    """All keys, by name."""

    async def read(service: UseCases) -> list[ApiKey]:
        return await every(service.keys.find)

    found = call(read)
    show(output, [key_schema(key) for key in found], [key.name for key in found], lambda: _table(found))


@keys.command()
def create(
    name: Name,
    role: Annotated[Role, typer.Option(help="What may be done with it.")] = Role.VIEWER,
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only for jobs such as billing-*; may be repeated.", show_default=False),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="90d", help="How long it is good for.", show_default="for ever")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a key and show it, this once."""
    length: timedelta | None = None if expires_in is None else parse_duration(expires_in)
    until = None if length is None else times.now() + length
    key, text = call(lambda service: service.keys.create(name, role, jobs=tuple(job or ()), expires_at=until, by=who()))
    show(output, {**key_schema(key), "key": text}, [text], lambda: console().print(text))
    note("this is the only time that it is shown; send it as `Authorization: Bearer …`")


@keys.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete a key; from now on it lets nobody in."""
    call(lambda service: service.keys.delete(name, by=who()))

    def view() -> None:
        console().print(Text.assemble(("- ", "bright_black"), f"key {words.clean(name)} is deleted"))

    show(output, {"name": name, "deleted": True}, [name], view)


def _table(found: list[ApiKey]) -> None:
    if not found:
        console().print("There are no keys. Create one: cronflow keys create NAME")
        return
    now = times.now()
    table(
        [Column("KEY"), Column("ROLE"), Column("JOBS", drop=2), Column("EXPIRES", drop=1), Column("LAST USED", drop=3)],
        [
            [
                key.name,
                key.role.value,
                " ".join(key.jobs) or "all",
                "never" if key.expires_at is None else times.relative(key.expires_at, now),
                "never" if key.last_used_at is None else times.relative(key.last_used_at, now),
            ]
            for key in found
        ],
    )

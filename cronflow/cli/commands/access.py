"""`cronflow users …`, `keys …` and `secrets …`: who may use the API, and the values that jobs refer to by name.

The rules: a password or a secret is never an argument, which every process of the machine could read; it is read from a
prompt or from stdin. An API key is printed once, on stdout, when it is created; afterwards only its hash exists. The
admin of the settings is not one of these users.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.connect import call, collect
from cronflow.cli.lazy import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, console, note, show, show_deleted
from cronflow.cli.terminal.prompts import hidden_value
from cronflow.cli.terminal.tables import Column, table
from cronflow.domain.access import Role
from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.secret import check_secret_name

if TYPE_CHECKING:
    from cronflow.schemas.access import KeySchema, UserSchema

users = new_group("Users of the API and their roles.")
keys = new_group("API keys, for scripts.")
secrets = new_group("Secret values that jobs refer to by name.")

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user.", show_default=False)]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The key.", show_default=False)]
SecretName = Annotated[str, typer.Argument(metavar="NAME", help="The secret.", show_default=False)]


# --------------------------------------------------------------------------------------------------------------- users


@users.command("list")
def list_users(output: Output = Format.TABLE) -> None:
    """All users, by name; without the admin of the settings."""

    found = call(lambda cluster: collect(cluster.users.list()))
    show(output, found, [user["name"] for user in found], lambda: _user_table(found))


@users.command("create")
def create_user(
    name: UserName,
    role: Annotated[Role, typer.Option(help="The user's role.")] = Role.VIEWER,
    output: Output = Format.TABLE,
) -> None:
    """Create a user. The password is read from a prompt, or is the first line of stdin."""
    password = hidden_value("Password", confirmed=True)

    user = call(lambda cluster: cluster.users.create(name, role, password))
    show(output, user, [name], lambda: _user_table([user]))


@users.command("change")
def change_user(
    name: UserName,
    role: Annotated[Role | None, typer.Option(help="The user's new role.", show_default=False)] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Whether the user may log in.", show_default=False)
    ] = None,
    password: Annotated[bool, typer.Option("--password", help="A new one, from a prompt or stdin.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Change a user, who has to log in again."""
    if role is None and enabled is None and not password:
        raise InvalidInput(Problem("", "nothing to change", "give --role, --enable, --disable or --password"))
    new = hidden_value("New password", confirmed=True) if password else None

    user = call(lambda cluster: cluster.users.change(name, role=role, enabled=enabled, password=new))
    show(output, user, [name], lambda: _user_table([user]))


@users.command("delete")
def delete_user(name: UserName, output: Output = Format.TABLE) -> None:
    """Delete a user and end the user's sessions."""

    call(lambda cluster: cluster.users.delete(name))
    show_deleted("user", name, output)


def _user_table(found: Sequence[UserSchema]) -> None:
    if not found:
        console().print("No users yet, except the admin of the settings. Create one: cronflow users create NAME")
        return
    table(
        [Column("USER"), Column("ROLE"), Column("STATE"), Column("CREATED", drop=1)],
        [
            [
                user["name"],
                user["role"],
                formatting.word("active" if user["enabled"] else "disabled"),
                times.absolute(user["created_at"]),
            ]
            for user in found
        ],
    )


# ---------------------------------------------------------------------------------------------------------------- keys


@keys.command("list")
def list_keys(output: Output = Format.TABLE) -> None:
    """All API keys, by name."""

    found = call(lambda cluster: collect(cluster.keys.list()))
    show(output, found, [key["name"] for key in found], lambda: _key_table(found))


@keys.command("create")
def create_key(
    name: KeyName,
    role: Annotated[Role, typer.Option(help="The key's role.")] = Role.VIEWER,
    job: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only for jobs such as billing-*; repeatable.", show_default=False),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="90d", help="How long it is valid.", show_default="no expiry")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a key and print it, only this once."""
    length: timedelta | None = None if expires_in is None else parse_duration(expires_in)
    until = None if length is None else times.now() + length

    key = call(lambda cluster: cluster.keys.create(name, role, jobs=job or (), expires_at=until))
    show(output, key, [key["key"]], lambda: console().print(key["key"]))
    note("this key is not shown again; send it as `Authorization: Bearer …`")


@keys.command("delete")
def delete_key(name: KeyName, output: Output = Format.TABLE) -> None:
    """Delete a key; it stops working at once."""

    call(lambda cluster: cluster.keys.delete(name))
    show_deleted("key", name, output)


def _key_table(found: Sequence[KeySchema]) -> None:
    if not found:
        console().print("No API keys yet. Create one: cronflow keys create NAME")
        return
    now = times.now()
    table(
        [Column("KEY"), Column("ROLE"), Column("JOBS", drop=2), Column("EXPIRES", drop=1), Column("LAST USED", drop=3)],
        [
            [
                key["name"],
                key["role"],
                " ".join(key["jobs"]) or "all",
                "never" if key["expires_at"] is None else times.relative(key["expires_at"], now),
                "never" if key["last_used_at"] is None else times.relative(key["last_used_at"], now),
            ]
            for key in found
        ],
    )


# ------------------------------------------------------------------------------------------------------------- secrets


@secrets.command("list")
def list_secrets(output: Output = Format.TABLE) -> None:
    """The names of all secrets."""

    found = call(lambda cluster: collect(cluster.secrets.list()))

    def view() -> None:
        if not found:
            console().print("No secrets yet. Create one: cronflow secrets set NAME")
            return
        rows = [
            [one["name"], times.absolute(one["updated_at"]), formatting.clean(one["updated_by"] or "")] for one in found
        ]
        table([Column("SECRET"), Column("SET", drop=1), Column("BY", drop=2)], rows)

    show(output, found, [one["name"] for one in found], view)


@secrets.command("set")
def set_secret(name: SecretName, output: Output = Format.TABLE) -> None:
    """Create or replace a secret. The value is read from a prompt, or is all of stdin without its last line break."""
    check_secret_name(name)
    value = hidden_value("Value", whole=True)

    found = call(lambda cluster: cluster.secrets.set(name, value))

    def view() -> None:
        result = "created" if found["new"] else "replaced"
        console().print(f"secret {name} {result}; jobs refer to it as ${{secret:{name}}}")

    show(output, found, [name], view)


@secrets.command("delete")
def delete_secret(name: SecretName, output: Output = Format.TABLE) -> None:
    """Delete a secret; from now on, attempts of jobs that refer to it fail."""

    call(lambda cluster: cluster.secrets.delete(name))
    show_deleted("secret", name, output)

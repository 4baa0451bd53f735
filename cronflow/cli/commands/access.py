"""`cronflow users …`, `keys …` and `secrets …`: access to the API, and the values that jobs refer to by name.

The rules: passwords and secrets are read from a prompt or from stdin, never from an argument, which every process on
the machine could read. An API key is printed once, when it is created; only its hash is stored. The admin defined in
the settings is not listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.connect import call, change, collect
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, hidden_value, note, show, show_deleted
from cronflow.cli.terminal.tables import Column, table, table_of
from cronflow.domain.access import Role
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.secret import check_secret_name

if TYPE_CHECKING:
    from cronflow.schemas.access import KeySchema, UserSchema

users = new_group("Manage users of the API and their roles.")
keys = new_group("Manage API keys for scripts.")
secrets = new_group("Manage secret values that jobs refer to by name.")

UserName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option("--job", "--jobs", metavar="PATTERN", help="Only for jobs that match, such as billing-*; repeatable."),
]
MAY_RUN_COMMANDS = "An editor may also write jobs that run commands."
MAY_USE_SECRETS = "An editor may also write jobs that use secrets."
SecretName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the secret.")]


@users.command("list")
def list_users(output: Output = Format.TABLE) -> None:
    """List all users except the admin defined in the settings."""
    found = call(lambda cluster: collect(cluster.users.list()))
    show(output, found, [user["name"] for user in found], lambda: _user_table(found))


@users.command("create")
def create_user(
    name: UserName,
    role: Annotated[Role, typer.Option(help="The user's role.")] = Role.VIEWER,
    jobs: Patterns = None,
    allow_shell: Annotated[bool, typer.Option("--allow-shell", help=MAY_RUN_COMMANDS)] = False,
    allow_secrets: Annotated[bool, typer.Option("--allow-secrets", help=MAY_USE_SECRETS)] = False,
    output: Output = Format.TABLE,
) -> None:
    """Create a user. The password is read from a prompt or from the first line of stdin."""
    password = hidden_value("password", confirmed=True)
    user = change(
        lambda cluster: cluster.users.create(
            name, role, password, jobs=jobs, allow_shell=allow_shell, allow_secrets=allow_secrets
        )
    )
    show(output, user, [name], lambda: _user_table([user]))


@users.command("change")
def change_user(
    name: UserName,
    role: Annotated[Role | None, typer.Option(help="The user's new role.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether the user may log in.")] = None,
    password: Annotated[
        bool, typer.Option("--password", help="Set a new password, read from a prompt or stdin.")
    ] = False,
    jobs: Patterns = None,
    allow_shell: Annotated[bool | None, typer.Option("--allow-shell/--no-shell", help=MAY_RUN_COMMANDS)] = None,
    allow_secrets: Annotated[bool | None, typer.Option("--allow-secrets/--no-secrets", help=MAY_USE_SECRETS)] = None,
    output: Output = Format.TABLE,
) -> None:
    """Change a user's role, password or access. The user has to log in again."""
    if not password and not jobs and all(given is None for given in (role, enabled, allow_shell, allow_secrets)):
        remedy = "give --role, --jobs, --allow-shell, --allow-secrets, --enable, --disable or --password"
        raise InvalidInput(Problem("", "nothing to change", remedy))
    new = hidden_value("new password", confirmed=True) if password else None
    user = change(
        lambda cluster: cluster.users.change(
            name,
            role=role,
            enabled=enabled,
            password=new,
            jobs=jobs,
            allow_shell=allow_shell,
            allow_secrets=allow_secrets,
        )
    )
    show(output, user, [name], lambda: _user_table([user]))


@users.command("delete")
def delete_user(name: UserName, output: Output = Format.TABLE) -> None:
    """Delete a user and end their sessions."""
    change(lambda cluster: cluster.users.delete(name))
    show_deleted("user", name, output)


def _user_table(found: Sequence[UserSchema]) -> None:
    table_of(
        found,
        [
            (Column("USER"), lambda user: user["name"]),
            (Column("ROLE"), lambda user: user["role"]),
            (Column("JOBS", drop=2), lambda user: " ".join(user["jobs"]) or "all"),
            (Column("RIGHTS", drop=3), _rights),
            (Column("SOURCE", drop=4), lambda user: user["source"]),
            (Column("STATE"), lambda user: formatting.word("active" if user["enabled"] else "disabled")),
            (Column("CREATED", drop=1), lambda user: times.absolute(user["created_at"])),
        ],
        empty="No users yet except the admin defined in the settings. Create one: cronflow users create NAME",
    )


def _rights(account: UserSchema | KeySchema) -> str:
    """The rights of an editor, in a cell."""
    return " ".join(right for right in ("shell", "secrets") if account[f"allow_{right}"])  # type: ignore[literal-required]


@keys.command("list")
def list_keys(output: Output = Format.TABLE) -> None:
    """List all API keys."""
    found = call(lambda cluster: collect(cluster.keys.list()))
    show(output, found, [key["name"] for key in found], lambda: _key_table(found))


@keys.command("create")
def create_key(
    name: KeyName,
    role: Annotated[Role, typer.Option(help="The key's role.")] = Role.VIEWER,
    jobs: Patterns = None,
    allow_shell: Annotated[bool, typer.Option("--allow-shell", help=MAY_RUN_COMMANDS)] = False,
    allow_secrets: Annotated[bool, typer.Option("--allow-secrets", help=MAY_USE_SECRETS)] = False,
    expires_in: Annotated[
        str | None, typer.Option(metavar="90d", help="How long the key is valid.", show_default="no expiry")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a key and print it. It cannot be shown again."""
    length: timedelta | None = None if expires_in is None else times.length_of(expires_in, "--expires-in")
    until = None if length is None else times.now() + length
    key = change(
        lambda cluster: cluster.keys.create(
            name, role, jobs=jobs, allow_shell=allow_shell, allow_secrets=allow_secrets, expires_at=until
        )
    )
    show(output, key, [key["key"]], key["key"])
    note("this key cannot be shown again; send it as `Authorization: Bearer …`")


@keys.command("delete")
def delete_key(name: KeyName, output: Output = Format.TABLE) -> None:
    """Delete a key. It stops working immediately."""
    change(lambda cluster: cluster.keys.delete(name))
    show_deleted("key", name, output)


def _key_table(found: Sequence[KeySchema]) -> None:
    now = times.now()
    table_of(
        found,
        [
            (Column("KEY"), lambda key: key["name"]),
            (Column("ROLE"), lambda key: key["role"]),
            (Column("JOBS", drop=2), lambda key: " ".join(key["jobs"]) or "all"),
            (Column("RIGHTS", drop=4), _rights),
            (
                Column("EXPIRES", drop=1),
                lambda key: "never" if key["expires_at"] is None else times.relative(key["expires_at"], now),
            ),
            (
                Column("LAST USED", drop=3),
                lambda key: "never" if key["last_used_at"] is None else times.relative(key["last_used_at"], now),
            ),
        ],
        empty="No API keys yet. Create one: cronflow keys create NAME",
    )


@secrets.command("list")
def list_secrets(output: Output = Format.TABLE) -> None:
    """List the names of all secrets."""
    found = call(lambda cluster: collect(cluster.secrets.list()))

    def view() -> None:
        rows = [
            [one["name"], times.absolute(one["updated_at"]), formatting.clean(one["updated_by"] or "")] for one in found
        ]
        columns = [Column("SECRET"), Column("SET", drop=1), Column("BY", drop=2)]
        table(columns, rows, empty="No secrets yet. Create one: cronflow secrets set NAME")

    show(output, found, [one["name"] for one in found], view)


@secrets.command("set")
def set_secret(name: SecretName, output: Output = Format.TABLE) -> None:
    """Create or replace a secret. The value is read from a prompt, or from stdin without the trailing newline."""
    check_secret_name(name)
    value = hidden_value("value", whole=True)
    found = change(lambda cluster: cluster.secrets.set(name, value))

    result = "created" if found["new"] else "replaced"
    show(output, found, [name], f"secret {name} {result}; jobs refer to it as ${{secret:{name}}}")


@secrets.command("delete")
def delete_secret(name: SecretName, output: Output = Format.TABLE) -> None:
    """Delete a secret. Jobs that refer to it will fail."""
    change(lambda cluster: cluster.secrets.delete(name))
    show_deleted("secret", name, output)

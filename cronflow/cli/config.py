"""`cronflow config …`: the settings as this process would have them, and what is wrong with them.

The rule: a password is never shown, and every problem is told at once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli import words
from cronflow.cli.connect import current_login, settings
from cronflow.cli.lazy import new_group
from cronflow.cli.output import Format, Output, console, note, show, warn
from cronflow.cli.tables import Column, table
from cronflow.domain.errors import InvalidInput

if TYPE_CHECKING:
    from cronflow.config import Settings
    from cronflow.remote.login import Login, LoginFile

config = new_group("The settings, and where each comes from.")


@config.command("show")
def show_config(output: Output = Format.TABLE) -> None:
    """Every setting: its value, and whether a flag, the environment, a file or the default gave it."""
    from cronflow.config import describe

    read = settings()
    found = _login()
    rows = [_kept(row, found) if row[0] == "API_URL" else row for row in describe(read)]

    def view() -> None:
        table(
            [Column("SETTING"), Column("VALUE"), Column("SOURCE", drop=1, least=8)],
            [
                [
                    name,
                    words.clean(value),
                    Text(words.clean(source), style="dim" if source == "default" else words.BLUE),
                ]
                for name, value, source in rows
            ],
        )

    answer = [{"name": name, "value": value, "source": source} for name, value, source in rows]
    show(output, answer, [name for name, _, _ in rows], view)
    _notes(read)
    _way(found)


@config.command()
def check(output: Output = Format.TABLE) -> None:
    """Tell all that is wrong with the settings; exit code 2 when something is."""
    from cronflow.config import describe

    read = settings()
    sources = Counter(source for _, _, source in describe(read))
    sources.pop("default", None)
    found = current_login()

    def view() -> None:
        given = ", ".join(sorted(sources)) or "all are defaults"
        console().print(Text.assemble(words.word("ok"), f"  the settings are understood and fit together ({given})"))

    show(output, {"ok": True, "sources": sorted(sources), "notes": list(read.notes)}, ["ok"], view)
    _notes(read)
    _way(found)
    unset = [name for name, value in (("REDIS_URL", read.redis_url), ("MONGO_URL", read.mongo_url)) if value is None]
    if unset and found is None:
        note(f"{' and '.join(unset)} unset: commands that need servers will ask for CRONFLOW_{unset[0]}")


Found = tuple["Login", "LoginFile | None"]


def _login() -> Found | None:
    """The login that counts; one that cannot be used is told, and is no reason not to show the settings."""
    try:
        return current_login()
    except InvalidInput as error:
        warn(str(error))
        return None


def _kept(row: tuple[str, str, str], found: Found | None) -> tuple[str, str, str]:
    """The address of the API, also where a login that is kept says it."""
    login, file = found or (None, None)
    return row if login is None or file is None else (row[0], login.url, f"login {file.path}")


def _way(found: Found | None) -> None:
    """Which way commands take, when it is not the one to the servers."""
    if found is None:
        return
    login, _ = found
    whose = f"the login of {login.user}" if login.user else "an API key"
    note(f"commands go via {words.clean(login.url)}, by {words.clean(whose)}")
    note("REDIS_URL and MONGO_URL are for cronflow node, api and doctor alone")


def _notes(read: Settings) -> None:
    for text in read.notes:
        note(f"note: {words.clean(text)}")

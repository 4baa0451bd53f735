"""`cronflow config …` and `version`: the effective settings and their problems; the installed version.

The rule: a password is never shown, and all problems are reported at once.
"""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import version as installed
from typing import TYPE_CHECKING

from rich.text import Text

from cronflow.cli.connect import current_login
from cronflow.cli.main import new_group
from cronflow.cli.target import settings
from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import Format, Output, note, show, warn
from cronflow.cli.terminal.tables import Column, facts, table
from cronflow.domain.errors import InvalidInput

if TYPE_CHECKING:
    from cronflow.client.session import Login, LoginFile
    from cronflow.config import Settings

config = new_group("Show and check the settings.")


@config.command("show")
def show_config(output: Output = Format.TABLE) -> None:
    """Show every setting with its value and its source: a flag, the environment, a file or the default."""
    from cronflow.config import describe

    read = settings()
    found = _login()
    rows = [_with_login(row, found) if row[0] == "API_URL" else row for row in describe(read)]

    def view() -> None:
        table(
            [Column("SETTING"), Column("VALUE"), Column("SOURCE", drop=1, least=8)],
            [
                [
                    name,
                    formatting.clean(value),
                    Text(formatting.clean(source), style="dim" if source == "default" else formatting.BLUE),
                ]
                for name, value, source in rows
            ],
        )

    answer = [{"name": name, "value": value, "source": source} for name, value, source in rows]
    show(output, answer, [name for name, _, _ in rows], view)
    _notes(read)
    _note_api(found)


@config.command()
def check(output: Output = Format.TABLE) -> None:
    """Check the settings and print every problem; exit code 2 if there are any."""
    from cronflow.config import describe, oidc_config

    read = settings()
    oidc_config(read)
    sources = Counter(source for _, _, source in describe(read))
    sources.pop("default", None)
    found = current_login()

    given = ", ".join(sorted(sources)) or "all defaults"
    view = Text.assemble(formatting.word("ok"), f"  the settings are valid and consistent ({given})")
    show(output, {"ok": True, "sources": sorted(sources), "notes": list(read.notes)}, ["ok"], view)
    _notes(read)
    _note_api(found)
    unset = [name for name, value in (("REDIS_URL", read.redis_url), ("MONGO_URL", read.mongo_url)) if value is None]
    if unset and found is None:
        are = "are" if len(unset) > 1 else "is"
        note(f"{' and '.join(unset)} {are} not set: commands that connect to the servers need both")


Found = tuple["Login", "LoginFile | None"]


def _login() -> Found | None:
    """The active login; None with a warning if it is unusable, so that the settings are still shown."""
    try:
        return current_login()
    except InvalidInput as error:
        warn(str(error))
        return None


def _with_login(row: tuple[str, str, str], found: Found | None) -> tuple[str, str, str]:
    """The address of the API, which may come from the login file."""
    login, file = found or (None, None)
    return row if login is None or file is None else (row[0], login.url, f"login {file.path}")


def _note_api(found: Found | None) -> None:
    if found is None:
        return
    login, _ = found
    how = f"as {login.user}" if login.user else "with an API key"
    note(f"commands use the API at {formatting.clean(login.url)} {formatting.clean(how)}")
    note("only cronflow node, api and doctor use REDIS_URL and MONGO_URL")


def _notes(read: Settings) -> None:
    for text in read.notes:
        note(f"note: {formatting.clean(text)}")


def version(output: Output = Format.TABLE) -> None:
    """Show the installed versions of CronFlow and Python, and the platform."""
    own = installed("cronflow")
    answer = {"cronflow": own, "python": platform.python_version(), "platform": platform.platform()}
    show(output, answer, [own], lambda: facts(answer.items()))

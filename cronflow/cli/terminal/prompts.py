"""Questions to the user, and who the user is.

The rule it protects: a command that acts on many runs prints how many there are and asks first; where nobody can be
asked, it needs `--yes`. Passwords and secrets are never arguments.
"""

from __future__ import annotations

import getpass
import socket
import sys

import typer

from cronflow.cli.terminal.formatting import plural
from cronflow.cli.terminal.output import diagnostics
from cronflow.domain.errors import InvalidInput, Problem


def author() -> str:
    """The name under which changes are recorded when there is no login: `user@machine`."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def interactive() -> bool:
    """Whether questions can be asked."""
    return sys.stdin.isatty()


def confirm(count: int, what: str, *, yes: bool) -> None:
    """Print how many runs there are, and ask. Raises InvalidInput without a terminal, `typer.Exit` after a no."""
    summary = f"{plural(count, 'run')} to {what}"
    if yes:
        diagnostics().print(summary)
        return
    if not interactive():
        raise InvalidInput(Problem("--yes", f"{summary}, and there is no terminal to confirm on", "add --yes to do it"))
    if not typer.confirm(f"{summary}. Continue?", err=True):
        raise typer.Exit(1)


def hidden_value(what: str, *, confirmed: bool = False, whole: bool = False) -> str:
    """From a prompt without echo; without a terminal the first line of stdin, or with `whole` all of it. Raises
    InvalidInput when it is empty.
    """
    if interactive():
        return str(typer.prompt(what, hide_input=True, confirmation_prompt=confirmed, err=True))
    return _not_empty(what, sys.stdin.read() if whole else sys.stdin.readline())


def first_line(what: str) -> str:
    """The first line of stdin, also from a terminal. Raises InvalidInput when it is empty."""
    return _not_empty(what, sys.stdin.readline())


def _not_empty(what: str, text: str) -> str:
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise InvalidInput(Problem("stdin", f"is empty; expected the {what.lower()}", "pipe it in, or use a terminal"))
    return value

"""Output as a view for people, or as JSON, YAML and names for scripts; and prompts.

The rules: stdout carries the answer and nothing else, in the requested format; notes, warnings and prompts go to
stderr. Only terminals get colours, and NO_COLOR is honoured. A command that acts on many runs asks first, or needs
`--yes` without a terminal. Passwords and secrets are never arguments.
"""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.formatting import plural
from cronflow.domain.errors import InvalidInput, Problem

UNLIMITED = 100_000
BLOCK = 1000

Item = TypeVar("Item")


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def has_all(self) -> bool:
        """Whether long values are printed in full."""
        return self in (Format.JSON, Format.YAML)

    def check_live(self) -> None:
        """Raises InvalidInput for a format that live views do not support."""
        if self not in (Format.TABLE, Format.JSON):
            raise InvalidInput(
                Problem("--output", f"{self.value!r} is not supported by this command", "use table or json")
            )


Output = Annotated[
    Format, typer.Option("--output", "-o", help="A table for people, JSON, YAML, or only names.", show_default=True)
]


LiveOutput = Annotated[
    Format, typer.Option("--output", "-o", help="A live view for people, or one JSON object per line.")
]


class LineFormat(StrEnum):
    """The output formats of a list that may not end."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


LineOutput = Annotated[
    LineFormat, typer.Option("--output", "-o", help="Lines for people, one JSON object per line, or a YAML list.")
]


def console() -> Console:
    """Stdout. Piped output is never cut to the width of a terminal."""
    return _console(stderr=False)


def screen() -> Console:
    """Stdout for a live view, cut to the size of the terminal."""
    made = console()
    made.soft_wrap = False
    return made


def diagnostics() -> Console:
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    made.push_theme(formatting.palette(made.color_system))
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = UNLIMITED
    return made


def note(text: str) -> None:
    diagnostics().print(Text(text, style="dim"))


def warn(text: str) -> None:
    diagnostics().print(Text.assemble(("! ", f"bold {formatting.ORANGE}"), text))


def show(form: Format, answer: object, names: Iterable[str], view: Callable[[], None] | Text | str) -> None:
    """Print `view` for people, `names` one per line, or `answer` as JSON or YAML."""
    match form:
        case Format.TABLE:
            if callable(view):
                view()
            else:
                console().print(view)
        case Format.JSON:
            write_json(answer)
        case Format.YAML:
            typer.echo(yaml_text(answer), nl=False)
        case Format.NAME:
            for name in names:
                typer.echo(name)


async def show_list(
    form: Format, items: AsyncIterator[Item], name: Callable[[Item], str], view: Callable[[Sequence[Item]], None]
) -> None:
    """Print a list of any length while it is read, in blocks: `view` gets each of them, or once an empty one."""
    before = "["
    async for block in _blocks(items):
        match form:
            case Format.TABLE:
                view(block)
            case Format.JSON:
                typer.echo(before + _json_items(block), nl=False)
                before = ","
            case Format.YAML:
                typer.echo(yaml_text(block), nl=False)
            case Format.NAME:
                typer.echo("".join(f"{name(item)}\n" for item in block), nl=False)
    if form is Format.JSON:
        typer.echo("\n]" if block else "]")


async def _blocks(items: AsyncIterator[Item]) -> AsyncIterator[list[Item]]:
    block: list[Item] = []
    count = 0
    async for item in items:
        block.append(item)
        if len(block) == BLOCK:
            yield block
            count, block = count + len(block), []
    if block or not count:
        yield block


def _json_items(items: Sequence[object]) -> str:
    """What `write_json` writes for a list, without its brackets."""
    import orjson

    return orjson.dumps(items, option=orjson.OPT_INDENT_2).decode()[1:-1].rstrip("\n")


def show_deleted(kind: str, name: str, output: Format) -> None:
    view = Text.assemble(("- ", "bright_black"), f"{kind} {formatting.clean(name)} deleted")
    show(output, {"name": name, "deleted": True}, [name], view)


def write_json(answer: object, *, lines: bool = False) -> None:
    import orjson

    typer.echo(orjson.dumps(answer, option=0 if lines else orjson.OPT_INDENT_2))
    sys.stdout.flush()


def yaml_text(answer: object) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_multi_representer(StrEnum, lambda dumper, word: dumper.represent_str(word.value))
    return yaml.dump(answer, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=UNLIMITED)


def author() -> str:
    """`user@machine`, recorded as the author of changes when there is no login."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (OSError, KeyError):
        return socket.gethostname()


def interactive() -> bool:
    return sys.stdin.isatty()


def may_ask(output: Format, *, yes: bool) -> bool:
    """Whether to ask before a change that a script may make without being asked."""
    return not yes and output is Format.TABLE and interactive()


def confirm(count: int, what: str, *, yes: bool, kind: str = "run") -> None:
    """Print the count and ask. Raises InvalidInput without a terminal, `typer.Exit` if the answer is no."""
    summary = f"{plural(count, kind)} to {what}"
    if yes:
        diagnostics().print(summary)
        return
    if not interactive():
        raise InvalidInput(
            Problem("--yes", f"{summary}, but there is no terminal to ask for confirmation", "add --yes to continue")
        )
    if not typer.confirm(f"{summary}. Continue?", err=True):
        raise typer.Exit(1)


def hidden_value(what: str, *, confirmed: bool = False, whole: bool = False) -> str:
    """From a prompt without echo; without a terminal the first line of stdin, or with `whole` all of it. Raises
    InvalidInput when it is empty.
    """
    if interactive():
        return str(typer.prompt(what.capitalize(), hide_input=True, confirmation_prompt=confirmed, err=True))
    return _not_empty(what, sys.stdin.read() if whole else sys.stdin.readline())


def first_line(what: str) -> str:
    """The first line of stdin, also from a terminal. Raises InvalidInput when it is empty."""
    return _not_empty(what, sys.stdin.readline())


def _not_empty(what: str, text: str) -> str:
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise InvalidInput(Problem("stdin", f"no {what} given", "pipe it in, or run this in a terminal"))
    return value

"""Where output goes and in which form: a view for people, or JSON, YAML and names for scripts.

The rule it protects: stdout carries the answer and nothing else, in the requested form; notes and warnings go to
stderr. Only terminals get colours, and NO_COLOR is honoured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from cronflow.cli.terminal import formatting
from cronflow.domain.errors import InvalidInput, Problem

UNLIMITED = 100_000


class Format(StrEnum):
    """The output formats of a command."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def has_all(self) -> bool:
        """Whether everything is printed, however long."""
        return self in (Format.JSON, Format.YAML)

    def check_live(self) -> None:
        """Raises InvalidInput for a format that live views do not have."""
        if self not in (Format.TABLE, Format.JSON):
            raise InvalidInput(Problem("--output", f"{self.value!r} is not supported here", "use table or json"))


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="A view for people, JSON, YAML, or only names.", show_default=True),
]


LiveOutput = Annotated[
    Format, typer.Option("--output", "-o", help="A live view for people, or json: a JSON object per line.")
]


def console() -> Console:
    """Stdout, as it is now. Piped output is never cut to the width of a terminal."""
    return _console(stderr=False)


def screen() -> Console:
    """Stdout for a live view: it is cut to the terminal."""
    made = console()
    made.soft_wrap = False
    return made


def diagnostics() -> Console:
    """Stderr, as it is now."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    made.push_theme(formatting.palette(made.color_system))
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = UNLIMITED
    return made


def note(text: str) -> None:
    """Print a note about the answer."""
    diagnostics().print(Text(text, style="dim"))


def warn(text: str) -> None:
    """Print a warning."""
    diagnostics().print(Text.assemble(("! ", f"bold {formatting.ORANGE}"), text))


def show(form: Format, answer: object, names: Iterable[str], view: Callable[[], None]) -> None:
    """Print the answer: `view` for people, `names` one per line, JSON and YAML from `answer`, plain values."""
    match form:
        case Format.TABLE:
            view()
        case Format.JSON:
            write_json(answer)
        case Format.YAML:
            typer.echo(yaml_text(answer), nl=False)
        case Format.NAME:
            for name in names:
                typer.echo(name)


def show_deleted(kind: str, name: str, output: Format) -> None:
    """The answer of a command that deletes one thing."""

    def view() -> None:
        console().print(Text.assemble(("- ", "bright_black"), f"{kind} {formatting.clean(name)} deleted"))

    show(output, {"name": name, "deleted": True}, [name], view)


def write_json(answer: object, *, lines: bool = False) -> None:
    """Print JSON, indented, or on a single line."""
    import orjson

    typer.echo(orjson.dumps(answer, option=0 if lines else orjson.OPT_INDENT_2))
    sys.stdout.flush()


def yaml_text(answer: object) -> str:
    """YAML, in the order of the answer."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes a member of an enumeration as text."""

    Dumper.add_multi_representer(StrEnum, lambda dumper, word: dumper.represent_str(word.value))
    return yaml.dump(answer, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=UNLIMITED)

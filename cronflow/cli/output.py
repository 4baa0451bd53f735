"""Where output goes and in which form: a view for people, or JSON, YAML and names for scripts.

The rule it protects: stdout carries the answer and nothing else, in the form that was asked for; whatever is said
about it goes to stderr. Colours are for terminals alone, and NO_COLOR is honoured.
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

from cronflow.cli import words

UNLIMITED = 100_000


class Format(StrEnum):
    """The forms of an answer."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"

    @property
    def has_all(self) -> bool:
        """Whether everything that is known is written, however long."""
        return self in (Format.JSON, Format.YAML)


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="A view for people, JSON, YAML, or names alone.", show_default=True),
]


def console() -> Console:
    """Stdout, as it is at this moment. What is piped is never cut to the width of a terminal."""
    return _console(stderr=False)


def screen() -> Console:
    """Stdout for a view that is drawn again and again: it is cut to the terminal."""
    made = console()
    made.soft_wrap = False
    return made


def diagnostics() -> Console:
    """Stderr, as it is at this moment."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    made.push_theme(words.palette(made.color_system))
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = UNLIMITED
    return made


def note(text: str) -> None:
    """Say something about the answer."""
    diagnostics().print(Text(text, style="dim"))


def warn(text: str) -> None:
    """Say something that should be looked at."""
    diagnostics().print(Text.assemble(("! ", f"bold {words.ORANGE}"), text))


def show(form: Format, answer: object, names: Iterable[str], view: Callable[[], None]) -> None:
    """Write the answer: `view` writes it for people, `names` one a line, everything else is `answer`, plain values."""
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


def write_json(answer: object, *, lines: bool = False) -> None:
    """JSON on stdout, indented, or on a single line."""
    import orjson

    typer.echo(orjson.dumps(answer, option=0 if lines else orjson.OPT_INDENT_2))
    sys.stdout.flush()


def yaml_text(answer: object) -> str:
    """YAML, in the order of the answer; what would not be text when it is read back is quoted."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes a word of an enumeration as text."""

    Dumper.add_multi_representer(StrEnum, lambda dumper, word: dumper.represent_str(word.value))
    return yaml.dump(answer, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=UNLIMITED)

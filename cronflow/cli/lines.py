"""How the lines of runs are written: for people, as a JSON object a line, or as a YAML list.

The rule: a line is written as it comes, and nothing in it steers the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.text import Text

from cronflow.cli import words
from cronflow.cli.output import console, write_json, yaml_text

if TYPE_CHECKING:
    from cronflow.schemas.runs import LogSchema


class LineFormat(StrEnum):
    """The forms of lines."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class LinePrinter:
    """Writes lines. Of one run: a heading where an attempt begins; of `many`: the run beside each."""

    def __init__(self, form: LineFormat, *, many: bool = False, out: Console | None = None) -> None:
        self._form = form
        self._many = many
        self._out = out
        self._fence: int | None = None
        self.written = 0

    def write(self, lines: Iterable[LogSchema]) -> None:
        """Write these."""
        for line in lines:
            self.written += 1
            match self._form:
                case LineFormat.JSON:
                    write_json(line, lines=True)
                case LineFormat.YAML:
                    typer.echo(yaml_text([line]), nl=False)
                case LineFormat.TABLE:
                    self._print(line)

    def _print(self, line: LogSchema) -> None:
        out = self._out or console()
        if not self._many and self._fence not in (None, line["fence"]):
            out.print(Text(f"── attempt {line['attempt']}, fence {line['fence']} ──", style="dim"), soft_wrap=True)
        self._fence = line["fence"]
        out.print(line_text(line, many=self._many), soft_wrap=True)


def line_text(line: LogSchema, *, many: bool) -> Text:
    """A line for people."""
    at = datetime.fromisoformat(line["at"])
    text = Text.assemble(
        (f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}Z ", "dim"),
        (f"{line['level'].upper():<8} ", _LEVELS.get(line["level"], "")),
        words.clean(line["text"]),
    )
    return text.append(f"  {line['run']}", style="dim") if many else text


_LEVELS = {
    "debug": words.GRAY,
    "info": words.BLUE,
    "success": words.GREEN,
    "warn": words.ORANGE,
    "error": words.RED,
    "progress": words.PURPLE,
}

"""The result of `jobs check`: lines for people, JSON, or annotations of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import console, write_json

if TYPE_CHECKING:
    from cronflow.files.check import Checked
    from cronflow.files.file_problems import FileProblem

SINGULAR = {"jobs": "job", "alerts": "alert", "limits": "limit", "calendars": "calendar"}


class CheckFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


def print_checked(found: Checked, output: CheckFormat, *, strict: bool) -> None:
    match output:
        case CheckFormat.TEXT:
            _print_text(found, strict=strict)
        case CheckFormat.JSON:
            write_json(
                {
                    "problems": [_entry(one) for one in found.problems],
                    "warnings": [_entry(one) for one in found.warnings],
                    "checked": found.counts,
                }
            )
        case CheckFormat.GITHUB:
            for level, one in _levels(found, strict=strict):
                typer.echo(annotation(level, one))


def _levels(found: Checked, *, strict: bool) -> Iterator[tuple[str, FileProblem]]:
    for one in found.problems:
        yield "error", one
    for one in found.warnings:
        yield "error" if strict else "warning", one


def _print_text(found: Checked, *, strict: bool) -> None:
    out = console()
    for level, one in _levels(found, strict=strict):
        style = formatting.RED if level == "error" else formatting.ORANGE
        place = f"{formatting.clean(one.place)}: " if one.place else ""
        out.print(Text.assemble(place, (f"{level}: ", f"bold {style}"), formatting.one_line(one.what)))
        if one.remedy:
            out.print(Text(f"  → {formatting.one_line(one.remedy)}", style="dim"))
    checked = _counted(found.counts)
    problems = formatting.plural(len(found.problems), "problem")
    warnings = formatting.plural(len(found.warnings), "warning")
    if found.problems or found.warnings:
        out.print(Text(f"{problems}, {warnings}; valid: {checked}", style="dim"))
    else:
        out.print(Text.assemble(formatting.word("ok"), f": {checked}"))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(formatting.plural(count, SINGULAR[kind]) for kind, count in counts.items() if count) or "nothing"


def _entry(one: FileProblem) -> dict[str, object]:
    return {
        "file": one.file or None,
        "line": one.line,
        "key": one.key or None,
        "problem": one.what,
        "remedy": one.remedy or None,
    }


def annotation(level: str, one: FileProblem) -> str:
    """A workflow command of GitHub Actions, which shows the problem beside its line in a pull request."""
    fields = {"file": one.file, "line": "" if one.line is None else str(one.line), "title": one.key}
    given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in fields.items() if value)
    text = one.what + (f" ({one.remedy})" if one.remedy else "")
    return f"::{level} {given}::{_escaped(text)}" if given else f"::{level}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Percent-encode what would end a field or the command."""
    return "".join(f"%{ord(one):02X}" if one in "%\r\n" + more else one for one in text)

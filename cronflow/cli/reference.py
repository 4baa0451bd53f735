"""`docs/reference/cli.md` from the commands themselves: `python -m cronflow.cli.reference`, or `make docs`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from cronflow.cli.errors import FAILED, NOT_FOUND, RUN_FAILED, UNREACHABLE, USAGE
from cronflow.cli.main import PLACES, app

HEAD = f"""# The commands

Made from the commands by `make docs`; do not edit it. `--help` after any command says the same.

Every command ends with one of these exit codes:

| code | |
|---|---|
| 0 | done |
| {FAILED} | it failed, or what was asked for does not hold |
| {USAGE} | the command, a file or a setting cannot be understood |
| {NOT_FOUND} | what was named does not exist |
| {RUN_FAILED} | the run that was waited for did not succeed |
| {UNREACHABLE} | Redis, MongoDB or the API does not answer |
| 130 | Ctrl-C |
"""


def page() -> str:
    """The page."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="cronflow")
    return "\n".join([HEAD, *_contents(), *(line for name in PLACES for line in _command(context, name))]).rstrip()


def _contents() -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    yield from (f"| [`cronflow {name}`](#cronflow-{name}) | {place.help} |" for name, place in PLACES.items())
    yield ""


def _command(parent: Any, name: str) -> Iterator[str]:
    _, command, _ = parent.command.resolve_command(parent, [name])
    context = command.context_class(command, info_name=name, parent=parent)
    inner = getattr(command, "commands", {})
    yield from (f"{'##' if parent.parent is None else '###'} {context.command_path}", "")
    yield from (*_paragraphs(command.help), "")
    if not inner:
        # An argument that may be left out, or be repeated, has its brackets or dots more than once.
        usage = " ".join(re.sub(r"^\[\[(.*)\]\]$", r"[\1]", part) for part in command.collect_usage_pieces(context))
        yield from ("```text", f"{context.command_path} {usage}", "```", "")
        yield from _parameters(command, context)
    for one in inner:
        yield from _command(context, one)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    # Of a hidden option there is none.
    found = (param.get_help_record(context) for param in command.get_params(context) if "--help" not in param.opts)
    records = [record for record in found if record is not None]
    if records:
        yield from ("| | |", "|---|---|")
        yield from (f"| `{_cell(names)}` | {_cell(text)} |" for names, text in records)
        yield ""


def _paragraphs(text: str) -> Iterator[str]:
    yield from (line.rstrip() for line in text.strip().splitlines())


def _cell(text: str) -> str:
    """Bars would end the cell, also within code."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")

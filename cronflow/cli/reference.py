"""`docs/reference/cli.md` from the commands themselves: `python -m cronflow.cli.reference`, or `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from cronflow.cli.errors import FAILED, NOT_FOUND, RUN_FAILED, UNREACHABLE, USAGE
from cronflow.cli.main import COMMANDS, app

HEAD = f"""# The commands

Made from the commands by `make docs`; do not edit it. `--help` prints the same.

Every command ends with one of these exit codes:

| code | |
|---|---|
| 0 | done |
| {FAILED} | it failed, or a check found problems |
| {USAGE} | the command, a file or a setting is invalid |
| {NOT_FOUND} | not found |
| {RUN_FAILED} | the run did not succeed |
| {UNREACHABLE} | Redis, MongoDB or the API does not answer |
| 130 | Ctrl-C |
"""


def page() -> str:
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="cronflow")
    return "\n".join([HEAD, *_contents(), *(line for name in COMMANDS for line in _command(context, name))]).rstrip()


def _contents() -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    yield from (f"| [`cronflow {name}`](#cronflow-{name}) | {entry.help} |" for name, entry in COMMANDS.items())
    yield ""


def _command(parent: Any, name: str) -> Iterator[str]:
    _, command, _ = parent.command.resolve_command(parent, [name])
    context = command.context_class(command, info_name=name, parent=parent)
    inner = getattr(command, "commands", {})
    yield from (f"{'##' if parent.parent is None else '###'} {context.command_path}", "")
    yield from (*_paragraphs(command.help), "")
    if not inner:
        usage = " ".join(command.collect_usage_pieces(context))
        yield from ("```text", f"{context.command_path} {usage}", "```", "")
        yield from _parameters(command, context)
    for one in inner:
        yield from _command(context, one)


def _parameters(command: Any, context: Any) -> Iterator[str]:
    # Hidden options have no help record.
    found = (param.get_help_record(context) for param in command.get_params(context) if "--help" not in param.opts)
    records = [record for record in found if record is not None]
    if records:
        yield from ("| | |", "|---|---|")
        yield from (f"| `{_cell(names)}` | {_cell(text)} |" for names, text in records)
        yield ""


def _paragraphs(text: str) -> Iterator[str]:
    yield from (line.rstrip() for line in text.strip().splitlines())


def _cell(text: str) -> str:
    """Escape bars, which would end the cell, even in code."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")

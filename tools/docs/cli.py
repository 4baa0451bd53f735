"""Generates `docs/reference/cli.md` from the commands: `python -m tools.docs.cli`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer.main

from cronflow.cli.errors import FAILED, NOT_FOUND, RUN_FAILED, UNREACHABLE, USAGE
from cronflow.cli.main import COMMANDS, app

HEAD = f"""# The commands

Generated from the commands by `make docs`; do not edit it. `--help` after any command prints the same.

Exit codes of every command:

| code | |
|---|---|
| 0 | done |
| {FAILED} | it failed, or the condition it checked does not hold |
| {USAGE} | the command, a file or a setting is invalid |
| {NOT_FOUND} | not found |
| {RUN_FAILED} | the awaited run did not succeed |
| {UNREACHABLE} | Redis, MongoDB or the API is unavailable |
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
    # A hidden option has no help record.
    found = (param.get_help_record(context) for param in command.get_params(context) if "--help" not in param.opts)
    records = [record for record in found if record is not None]
    if records:
        yield from ("| | |", "|---|---|")
        yield from (f"| `{_cell(names)}` | {_cell(text)} |" for names, text in records)
        yield ""


def _paragraphs(text: str) -> Iterator[str]:
    yield from (line.rstrip() for line in text.strip().splitlines())


def _cell(text: str) -> str:
    """A bar would end the cell, even within code."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page() + "\n")

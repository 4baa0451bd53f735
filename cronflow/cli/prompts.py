"""Asking for what must not be seen."""

from __future__ import annotations

import sys

import typer

from cronflow.cli.bulk import interactive
from cronflow.domain.errors import InvalidInput, Problem


def hidden_value(what: str, *, confirmed: bool = False, whole: bool = False) -> str:
    """From a prompt that shows nothing; without a terminal the first line of stdin, or `whole` all of it. Raises
    InvalidInput when there is nothing.
    """
    if interactive():
        return str(typer.prompt(what, hide_input=True, confirmation_prompt=confirmed, err=True))
    return _given(what, sys.stdin.read() if whole else sys.stdin.readline())


def first_line(what: str) -> str:
    """Of stdin, whatever stands at its other end. Raises InvalidInput when there is nothing."""
    return _given(what, sys.stdin.readline())


def _given(what: str, text: str) -> str:
    value = text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise InvalidInput(Problem("stdin", f"is empty, and holds no {what.lower()}", "pipe it in, or use a terminal"))
    return value

"""The short way past typer's checks takes and refuses what typer takes and refuses."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from cronflow.cli import quick
from tests.cli.conftest import Cli


class Colour(StrEnum):
    """Two words."""

    RED = "red"
    BLUE = "blue"


seen: list[dict[str, Any]] = []


def command(
    place: Annotated[Path, typer.Argument()],
    more: Annotated[list[str] | None, typer.Argument()] = None,
    colour: Annotated[Colour, typer.Option()] = Colour.RED,
    colours: Annotated[list[Colour] | None, typer.Option()] = None,
    count: Annotated[int, typer.Option(min=1, max=9)] = 5,
    amount: Annotated[float, typer.Option()] = 0.5,
    text: Annotated[str | None, typer.Option()] = None,
    flag: Annotated[bool, typer.Option("--flag/--no-flag")] = True,
) -> None:
    """Every kind of parameter that the command line has, and one that it has not."""
    seen.append(
        {
            "place": place,
            "more": list(more or ()),
            "colour": colour,
            "colours": list(colours or ()),
            "count": count,
            "amount": amount,
            "text": text,
            "flag": flag,
        }
    )


def outcome(args: list[str], *, quickened: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any, str]:
    """Exit code, what the command got with the types of it, and what was said."""
    app = typer.Typer(add_completion=False)
    app.command()(command)
    made = typer.main.get_command(app)
    if quickened:
        quick.quicken(made)
    monkeypatch.setattr("typer.testing._get_command", lambda _app: made)
    seen.clear()
    result = CliRunner().invoke(app, args)
    got = {name: (type(value), value) for name, value in seen[0].items()} if seen else None
    return result.exit_code, got, result.output


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["x"], 0),
        (["x", "a", "b", "--colour", "blue", "--count", "9", "--text", "", "--no-flag"], 0),
        (["x", "--colours", "red", "--colours", "blue", "--amount", "1.5"], 0),
        ([], 2),
        (["x", "--colour", "green"], 2),
        (["x", "--colours", "red", "--colours", "green"], 2),
        (["x", "--count", "10"], 2),
        (["x", "--count", "0"], 2),
        (["x", "--count", "three"], 2),
        (["x", "--count", " 3"], 0),
        (["x", "--amount", "much"], 2),
        (["--help"], 0),
    ],
)
def test_it_agrees_with_typer(args: list[str], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = outcome(args, quickened=False, monkeypatch=monkeypatch)
    assert outcome(args, quickened=True, monkeypatch=monkeypatch) == slow
    assert slow[0] == code


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["runs", "list", "--limit", "0"], "--limit"),
        (["jobs", "next", "x", "-n", "1001"], "-n"),
        (["jobs", "list", "-o", "jsn"], "'json'"),
        (["jobs", "show"], "NAME"),
    ],
)
def test_usage_errors_of_the_real_commands_exit_2(cli: Cli, args: list[str], said: str) -> None:
    result = cli(*args)
    assert result.exit_code == 2
    assert said in result.stderr

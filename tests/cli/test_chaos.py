"""`cronflow chaos`: its options, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronflow.chaos.faults import FAULTS
from tests.children import ROOT
from tests.cli.conftest import Cli


def test_without_a_fault_it_starts_nothing_and_names_the_remedy(cli: Cli, tmp_path: Path) -> None:
    result = cli("chaos", "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert "no fault is selected" in result.stderr
    assert "add --random, or a fault such as --kill-leader" in result.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--random", "--for", "soon"), "--for"),
        (("--pause-leader", "long"), "--pause-leader"),
        (("--random", "--look-ahead", "5s"), "look_ahead"),
        (("--random", "--leader-ttl", "100ms"), "leader_ttl"),
    ],
)
def test_a_wrong_option_is_named_before_anything_starts(
    cli: Cli, arguments: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    result = cli("chaos", *arguments, "--data", str(tmp_path / "data"))
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not (tmp_path / "data").exists()


def test_an_existing_folder_is_refused(cli: Cli, tmp_path: Path) -> None:
    result = cli("chaos", "--random", "--data", str(tmp_path))
    assert result.exit_code == 2
    assert "name a new folder" in result.stderr


def test_every_fault_has_an_option_and_says_what_it_does(cli: Cli) -> None:
    shown = " ".join(cli("chaos", "--help").stdout.replace("│", " ").split())
    for kind in FAULTS.values():
        assert f"--{kind.name} " in shown
        assert kind.help in shown


def test_the_page_about_the_tests_lists_every_fault() -> None:
    page = (ROOT / "docs" / "concepts" / "proof.md").read_text()
    assert [name for name in FAULTS if f"`{name}`" not in page] == []

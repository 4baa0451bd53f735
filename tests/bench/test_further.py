"""Which parts `make bench-peers` runs, and what it keeps of them."""

from __future__ import annotations

import argparse
import importlib
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.bench import against_peers, results
from tests.bench.further import FURTHER, Further
from tests.bench.results import Figure


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The commands that were run instead of benchmarks; figures are forgotten in a file of the test."""
    found: list[str] = []

    def run(command: list[str], **_: Any) -> None:
        found.append(" ".join(command[command.index("-m") :]))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(results, "forget", partial(results.forget, file=tmp_path / "results.json"))
    return found


def test_parts_are_run_in_their_order_whatever_the_order_of_the_option() -> None:
    assert against_peers.parts("lists,bare") == ["bare", "lists"]
    assert against_peers.parts(",".join(against_peers.PARTS)) == list(against_peers.PARTS)
    with pytest.raises(argparse.ArgumentTypeError, match="there is no part 'soak'"):
        against_peers.parts("bare,soak")


def test_every_run_of_a_benchmark_is_a_process_and_its_old_figures_are_forgotten(
    ran: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    results.record("idle_cpu", 1.0, "%", "python -m tests.bench.idle --jobs 5", file=file)
    results.record("apply_file", 1.0, "jobs/s", "python -m tests.bench.apply", file=file)
    part = Further("tests.bench.idle", full=["--jobs 10", "--jobs 20"], quick=["--jobs 1"])
    part.run(str(tmp_path), quick=False)
    assert ran == ["-m tests.bench.idle --jobs 10", "-m tests.bench.idle --jobs 20"]
    assert set(results.latest(file=file)) == {"apply_file"}
    part.run(str(tmp_path), quick=True)
    assert ran[2:] == ["-m tests.bench.idle --jobs 1"]


def test_a_benchmark_that_cannot_run_here_is_skipped_with_the_reason(
    ran: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = Further("tests.bench.traffic", full=[""], quick=[""], missing=lambda: "npm was not found")
    part.run(str(tmp_path), quick=False)
    assert ran == []
    assert "skipped: npm was not found" in capsys.readouterr().out


@pytest.mark.parametrize("name", FURTHER)
def test_each_benchmark_records_its_figures_under_the_name_of_its_module(name: str) -> None:
    module = importlib.import_module(FURTHER[name].module)
    assert f"python -m {FURTHER[name].module}" == module.COMMAND


def test_the_page_names_the_commands_that_measured_less() -> None:
    at = "2026-01-02T03:04:05+00:00"
    figures = [
        Figure("bare_path", 1.0, "runs/s", against_peers.commands("bare")[0], at),
        Figure("drain_best", 1.0, "runs/s", against_peers.commands("own")[1], at),
        Figure("idle_cpu", 1.0, "%", "python -m tests.bench.idle --jobs 5", at),
    ]
    (line,) = against_peers.others({figure.name: figure for figure in figures})
    assert line == (
        'Other commands: `make bench-peers ARGS="--only own --quick"` (2026-01-02),'
        " `python -m tests.bench.idle --jobs 5` (2026-01-02)"
    )
    assert against_peers.others({}) == []

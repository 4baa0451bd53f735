"""The figures of all benchmarks, in one file that `make bench-peers` reads.

Each benchmark records its figures when it ends. The report shows the latest figure of each name, so that benchmarks may
run separately.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.children import ROOT

FILE = ROOT / "build" / "bench" / "results.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. `unit` follows the value, such as `runs/s`; `command` measures it again."""

    name: str
    value: float
    unit: str
    command: str
    at: str


def record(name: str, value: float, unit: str, command: str, *, file: Path = FILE) -> None:
    """Append a figure to the file. Several processes may do so at the same time."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    _change(file, lambda figures: [*figures, Figure(name, value, unit, command, at)])


def forget(command: str, *, file: Path = FILE) -> None:
    """Remove the figures of a command with any options, so that those of its runs are not mixed."""
    _change(file, lambda figures: [one for one in figures if not f"{one.command} ".startswith(f"{command} ")])


def latest(*, file: Path = FILE) -> dict[str, Figure]:
    """The newest figure of each name."""
    return {figure.name: figure for figure in _read(file)}


def _change(file: Path, change: Callable[[list[Figure]], list[Figure]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / f"{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new = file.with_suffix(".new")
        new.write_text(json.dumps([asdict(figure) for figure in change(_read(file))], indent=1) + "\n")
        new.replace(file)


def _read(file: Path) -> list[Figure]:
    try:
        return [Figure(**row) for row in json.loads(file.read_text())]
    except FileNotFoundError:
        return []

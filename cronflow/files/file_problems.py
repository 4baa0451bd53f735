"""A problem of a file, with its parts: a tool that annotates files needs file, line and key on their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cronflow.domain.errors import Problem


@dataclass(frozen=True, slots=True)
class FileProblem(Problem):
    """A Problem whose place is `file:line: key`. `line` is None for the file as a whole."""

    file: str = ""
    line: int | None = None
    key: str = ""


def in_file(path: Path | str, line: int | None, what: str, remedy: str = "", *, key: str = "") -> FileProblem:
    place = str(path) if line is None else f"{path}:{line}"
    return FileProblem(f"{place}: {key}" if key else place, what, remedy, str(path), line, key)

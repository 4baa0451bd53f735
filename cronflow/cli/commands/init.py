"""`cronflow init`: a folder with jobs, settings and deployment files to begin with.

The rule: nothing is overwritten; if one of the files exists, none is written. What it writes runs as it is.
"""

from __future__ import annotations

from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from cronflow.cli.terminal.output import Format, Output, console, show
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.files.schema import FILE_NAME, schema_text

FILES = {
    "cronflow.toml": ("cronflow.toml", "settings"),
    "jobs.py": ("jobs.py.txt", "a job in Python"),
    "jobs.yaml": ("jobs.yaml", "a job that runs a command"),
    "tests/test_jobs.py": ("test_jobs.py.txt", "a test of the job in Python"),
    "docker-compose.yml": ("docker-compose.yml", "a cluster on one machine"),
    "Dockerfile": ("Dockerfile", "the image of its nodes"),
    ".env.example": ("env.example", "the secrets that it needs"),
    "cronflow-node.service": ("cronflow-node.service", "a node with systemd"),
    ".github/workflows/jobs.yml": ("workflow.yml", "check in pull requests, apply on main"),
    ".gitignore": ("gitignore", "what git ignores"),
}
"""Each path, the file of the package that it comes from, and what it is."""
SCHEMA = "the schema of jobs.yaml, for editors"
VERSION = "@VERSION@"


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder; it is created if it does not exist.")
    ] = Path(),
    output: Output = Format.TABLE,
) -> None:
    """Write a folder to begin with: jobs, settings, a test, and files to deploy them. It overwrites nothing."""
    texts = {path: _text(source) for path, (source, _) in FILES.items()}
    texts[FILE_NAME] = schema_text()
    _write(folder, texts)
    about = {**{path: what for path, (_, what) in FILES.items()}, FILE_NAME: SCHEMA}
    shown = [{"file": str(folder / path), "what": what} for path, what in about.items()]
    show(output, shown, [one["file"] for one in shown], lambda: _page(folder, about))


def _text(source: str) -> str:
    text = files("cronflow.cli.project").joinpath(source).read_text(encoding="utf-8")
    return text.replace(VERSION, metadata.version("cronflow"))


def _write(folder: Path, texts: dict[str, str]) -> None:
    """Raises InvalidInput, before anything is written, if a file exists."""
    present = [path for path in texts if (folder / path).exists() or (folder / path).is_symlink()]
    if present:
        verb = "exists" if len(present) == 1 else "exist"
        what = f"{', '.join(present)} {verb} in {folder.resolve()}; nothing was written"
        raise InvalidInput(Problem("DIR", what, "name another folder, or move them away"))
    try:
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    except OSError as error:
        place = error.filename or folder
        raise InvalidInput(Problem("DIR", f"{place} cannot be written: {error.strerror}")) from None


def _page(folder: Path, about: dict[str, str]) -> None:
    out = console()
    width = max(map(len, about))
    for path, what in about.items():
        out.print(f"+ {path:{width}}  {what}")
    steps = {
        "cronflow dev jobs.yaml jobs.py": "a cluster on this machine, with both jobs",
        "cronflow jobs check jobs.yaml": "check the file, without a cluster",
        "cronflow jobs diff -f jobs.yaml": "what a real cluster would change",
    }
    out.print("\nNext:")
    if folder != Path():
        out.print(f"  cd {folder}")
    for command, what in steps.items():
        out.print(f"  {command:{max(map(len, steps))}}  {what}")

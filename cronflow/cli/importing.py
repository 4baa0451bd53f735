"""Prints what `cronflow import` read: the YAML on stdout, a summary and the refusals on stderr.

The rule: the exit code is 1 when an entry was refused, and the YAML is complete all the same: it has each refused entry
as a comment.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli.errors import FAILED
from cronflow.cli.terminal.formatting import ORANGE, clean, plural
from cronflow.cli.terminal.output import diagnostics, note
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.importers.imported import ImportedFile

MOST_CHARACTERS = 20_000_000

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files; - is stdin.", show_default=False)]
Zone = Annotated[
    str | None,
    typer.Option("--tz", metavar="ZONE", help="The time zone of schedules that name none, such as Europe/Berlin."),
]
Labels = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="A label of all jobs; can be repeated.")
]
Host = Annotated[
    str | None,
    typer.Option("--host", metavar="NAME", help="Run the jobs only on nodes with the label host=NAME."),
]


def print_imported(
    read: Callable[[Path], ImportedFile], paths: Sequence[Path], labels: Iterable[str] | None, host: str | None
) -> None:
    """Read all files, print the jobs and exit with 1 if some entries were refused."""
    print_files([read(path) for path in paths], labels, host)


def print_files(
    read: Sequence[ImportedFile], labels: Iterable[str] | None, host: str | None, *, shadow: bool = False
) -> None:
    """The same for files that are read already."""
    from cronflow.importers.imported import completed
    from cronflow.importers.yaml_text import write_yaml

    wanted = labels_of(labels or ())
    files = completed(read, wanted, host, shadow=shadow)
    typer.echo(write_yaml(files), nl=False)
    count = sum(len(file.jobs) for file in files)
    refused = [(file, refusal) for file in files for refusal in file.refusals]
    note(f"{plural(count, 'job')} imported" + (f", {len(refused):,} refused" if refused else ""))
    out = diagnostics()
    for file, refusal in refused:
        place = f"{file.source}, {refusal.place}" if refusal.place else file.source
        out.print(Text.assemble(("! ", f"bold {ORANGE}"), clean(f"{place}: {refusal.reason}")))
        out.print(Text(f"  → {clean(refusal.remedy)}"))
    if refused:
        raise typer.Exit(FAILED)


def files_of(paths: Sequence[Path], names: str) -> list[Path]:
    """The paths, with the files of each folder whose whole names match the regular expression in place of it."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(one for one in path.iterdir() if re.fullmatch(names, one.name) and one.is_file())
        if not inside:
            raise InvalidInput(Problem(str(path), "has no files to import", "name the files"))
        found += inside
    return found


def text_of(path: Path) -> str:
    """The text of a file; `-` is stdin. Raises InvalidInput."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidInput(
            Problem(str(path), f"cannot read the file: {what}", "name a text file, or - for stdin")
        ) from None
    if len(text) > MOST_CHARACTERS:
        raise InvalidInput(Problem(str(path), f"has more than {MOST_CHARACTERS:,} characters", "divide the file"))
    return text


def check_zone(tz: str | None) -> str | None:
    """Raises InvalidInput for a zone that does not exist."""
    from cronflow.documents import under
    from cronflow.domain.schedule.zones import find_zone

    if tz is not None:
        try:
            find_zone(tz)
        except InvalidInput as error:
            raise InvalidInput(under("--tz", error.problems)) from None
    return tz


def labels_of(pairs: Iterable[str]) -> dict[str, str]:
    """Raises InvalidInput when a pair is not KEY=VALUE."""
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not key or not sign:
            raise InvalidInput(Problem("--label", f"{pair!r} is not KEY=VALUE", "write it like team=billing"))
        found[key] = value
    return found

"""Finds the unit files for `cronflow import systemd`: timers, the services in their folders, and drop-ins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from cronflow.cli.importing import files_of, text_of
from cronflow.domain.errors import InvalidInput, Problem


def units_of(paths: Sequence[Path]) -> tuple[list[str], Callable[[str], str | None], str]:
    """The names of the timers, how to find the text of a unit, and what to call the source. Raises InvalidInput."""
    from cronflow.importers.unit_file import units_in

    piped: dict[str, str] = {}
    found: list[Path] = []
    for path in files_of(paths, r".+\.timer"):
        if str(path) == "-":
            piped |= units_in(text_of(path))
        else:
            found.append(path)
    given = {path.name: path for path in found}
    timers = [name for name in [*piped, *given] if name.endswith(".timer")]
    if not timers:
        remedy = "name a .timer file, a folder, or pipe: systemctl cat NAME.timer NAME.service"
        raise InvalidInput(Problem(", ".join(map(str, paths)), "has no timers", remedy))
    folders = list(dict.fromkeys(path.parent for path in found))

    def find(name: str) -> str | None:
        if name in piped:
            return piped[name]
        template = re.sub(r"@.*(?=\.)", "@", name)
        places = [given[name]] if name in given else [folder / one for folder in folders for one in (name, template)]
        return next((_with_drop_ins(place) for place in places if place.is_file()), None)

    return timers, find, str(paths[0]) if len(paths) == 1 else f"{len(timers)} timers"


def _with_drop_ins(path: Path) -> str:
    folder = path.with_name(f"{path.name}.d")
    return "\n".join([text_of(path), *(text_of(one) for one in sorted(folder.glob("*.conf")))])

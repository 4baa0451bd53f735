"""Other time zone data for a while: a folder of compiled zones, such as an unpacked release of tzdata.

`zoneinfo` and the caches of the schedules belong to the whole process, so nothing else may run meanwhile.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zone_cache import forget_zone_data


@contextmanager
def zone_data(folder: Path | None) -> Iterator[None]:
    """Use the zones in this folder. A zone that it lacks is read from the tzdata package."""
    if folder is None:
        yield
        return
    before = zoneinfo.TZPATH
    _use(str(folder.resolve()))
    try:
        yield
    finally:
        _use(*before)


def check_zone_data(folder: Path) -> None:
    """Raises InvalidInput for a folder without compiled zones."""
    if not folder.is_dir():
        raise InvalidInput(Problem("--tzdata", f"{folder} is not a folder", "name a folder of compiled time zones"))
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == b"TZif":
                    return
    what = f"{folder} has no compiled time zones"
    raise InvalidInput(Problem("--tzdata", what, "unpack the release and compile it: zic -d DIR africa europe …"))


def lacking(folder: Path, zones: Iterator[str] | list[str]) -> list[str]:
    """Those of the zones that are not in the folder."""
    return sorted({zone for zone in zones if not (folder / zone).is_file()})


def _use(*folders: str) -> None:
    zoneinfo.reset_tzpath(folders)
    forget_zone_data()

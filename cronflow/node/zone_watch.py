"""Notices that the time zone data of this machine have changed, and makes the process use them.

An update of the system or of the package `tzdata` replaces files that a process has read long ago. A look costs one
small file where the data have a version, and otherwise the times of all their files.
"""

from __future__ import annotations

import hashlib
import zoneinfo
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from cronflow.domain.schedule.zone_cache import forget_zone_data
from cronflow.node.resources import zone_data
from cronflow.node.role_loop import Wake

LOOK_S = 60.0
MAGIC = b"TZif"
OTHER_FOLDERS = frozenset({"posix", "right"})

log = structlog.get_logger("cronflow.node")


class ZoneWatch:
    """`identity` names the data in use: their version, or a digest of their files. Machines with the same data have
    the same. `version` is empty where it is not known. While the process leads, the corrector of cursors decides when
    new data are used.
    """

    def __init__(
        self, leads: Callable[[], bool] = lambda: False, forget: Callable[[], None] = forget_zone_data
    ) -> None:
        self._leads = leads
        self._forget = forget
        self._digest = ""
        self._files: list[ZoneFile] | None = None
        self.version, self.identity = zone_data(), ""
        self.identity = self.found()
        self.wake = Wake()

    def found(self) -> str:
        """The identity of the data that this machine has now; that of the data in use while an update replaces them."""
        version = zone_data()
        if version:
            return version
        try:
            return self._digest_of_files()
        except OSError as error:
            log.warning("time zone data not readable", reason=str(error), used=self.identity)
            return self.identity

    def use(self, identity: str) -> None:
        """Use the data that this machine has now. Everything that was computed from others is forgotten."""
        if identity == self.identity:
            return
        log.info("time zone data changed", before=self.identity, after=identity)
        self.identity, self.version = identity, zone_data()
        self._forget()

    async def step(self) -> float:
        if not self._leads():
            self.use(self.found())
        return LOOK_S

    def _digest_of_files(self) -> str:
        files = zone_files()
        if files != self._files:
            self._files, self._digest = files, digest(files)
        return self._digest


class ZoneFile(NamedTuple):
    """A file below a folder of `zoneinfo.TZPATH`, and what changes with its content."""

    folder: str
    name: str
    changed_ns: int
    size: int


def zone_files() -> list[ZoneFile]:
    """The files of all zones, in the order in which `zoneinfo` searches them."""
    found = []
    for folder in zoneinfo.TZPATH:
        for path in sorted(Path(folder).rglob("*")):
            name = path.relative_to(folder)
            if name.parts[0] not in OTHER_FOLDERS and path.is_file():
                stat = path.stat()
                found.append(ZoneFile(folder, name.as_posix(), stat.st_mtime_ns, stat.st_size))
    return found


def digest(files: Sequence[ZoneFile]) -> str:
    """A digest of the names and contents of zones."""
    found = hashlib.sha256()
    for file in files:
        content = Path(file.folder, file.name).read_bytes()
        if content.startswith(MAGIC):
            found.update(file.name.encode() + b"\0" + content)
    return found.hexdigest()[:16]

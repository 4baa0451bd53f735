"""What each process of a command may use at most, and the user that it runs as.

The limits are those of setrlimit(2): each holds for one process, not for the sum of all, except the number of
processes, which counts everything that its user runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from datetime import timedelta

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem

SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(rf"([0-9]{{1,16}})\s*({'|'.join(SIZE_UNITS)})")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_MOST = 1 << 50


def parse_size(text: str) -> int:
    """The bytes of a size such as 512MiB. Raises InvalidInput."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(
            Problem("", f"{text!r} is not a size", f"write a size such as 512MiB; units are {', '.join(SIZE_UNITS)}")
        )
    return int(found[1]) * SIZE_UNITS[found[2]]


def format_size(size: int) -> str:
    """The size in the largest unit that divides it."""
    unit = next(unit for unit in reversed(SIZE_UNITS) if size % SIZE_UNITS[unit] == 0)
    return f"{size // SIZE_UNITS[unit]}{unit}"


def check_user(name: str) -> str:
    """Returns the name of a user of the system, or raises InvalidInput."""
    if not _USER.fullmatch(name):
        raise InvalidInput(
            Problem("", f"{name!r} is not the name of a user", "write a name such as backup, not a number")
        )
    return name


@dataclass(frozen=True, slots=True)
class Limits:
    """None: no limit of the job's own. `cpu` is CPU time in whole seconds; `memory` is address space and `file_size`
    the size of each written file, in bytes; `files` are open descriptors.
    """

    cpu: timedelta | None = None
    memory: int | None = None
    file_size: int | None = None
    files: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        if self.cpu is not None and (self.cpu < timedelta(seconds=1) or self.cpu % timedelta(seconds=1)):
            raise InvalidInput(f"limits.cpu is {format_duration(self.cpu)}; it must be whole seconds, at least 1s")
        for name, least in (("memory", 1 << 20), ("file_size", 1 << 10)):
            size = getattr(self, name)
            if size is not None and not least <= size <= _MOST:
                raise InvalidInput(f"limits.{name} is {format_size(size)}; it must be {format_size(least)} to 1024TiB")
        for name, least in (("files", 10), ("processes", 1)):
            count = getattr(self, name)
            if count is not None and not least <= count <= 1_000_000:
                raise InvalidInput(f"limits.{name} is {count}; it must be {least} to 1000000")

    def shown(self, name: str) -> str:
        """A limit as users write it."""
        value = getattr(self, name)
        if isinstance(value, timedelta):
            return format_duration(value)
        return format_size(value) if name in ("memory", "file_size") else str(value)

    @property
    def given(self) -> list[str]:
        """The names of the limits that are set."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]

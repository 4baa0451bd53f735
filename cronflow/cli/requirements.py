"""What the installed package needs, and whether it is there: names, versions, bounds.

It reads the metadata that the installer wrote. It knows the comparisons that CronFlow's own requirements use, and
takes a version apart into its numbers; pre-releases count as their release.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)(;.*)?")
_BOUND = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9][0-9.]*)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class Package:
    """A package that is needed: `wanted` as it is written, `installed` None when it is not there."""

    name: str
    wanted: str
    installed: str | None

    @property
    def suits(self) -> bool:
        """Whether the installed version is within the bounds."""
        if self.installed is None:
            return False
        return all(
            _COMPARE[sign](_numbers(self.installed), _numbers(bound)) for sign, bound in _BOUND.findall(self.wanted)
        )


def of(distribution: str) -> Iterator[Package]:
    """The packages that it needs everywhere, extras left out, by name."""
    for line in sorted(metadata.requires(distribution) or (), key=str.lower):
        match = _REQUIREMENT.match(line)
        if match is None or match[3]:
            continue
        try:
            installed = metadata.version(match[1])
        except metadata.PackageNotFoundError:
            installed = None
        yield Package(match[1], f"{match[1]}{match[2].strip()}", installed)


def _numbers(version: str) -> tuple[int, ...]:
    """Of equal length, so that 8 and 8.0.0 are the same."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return (*numbers, 0, 0, 0, 0)[:4]

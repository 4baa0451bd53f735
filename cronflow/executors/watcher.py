"""Ends the commands of a node that has died, even if the node was killed with SIGKILL.

    python -I -S watcher.py <pid of the node>

A command's process group outlives its node by a few seconds at most, so its next attempt on another node does not run
in parallel. Each node starts one watcher process with its first command and reports its process groups through a pipe.
When the pipe closes or the node dies, the watcher ends the remaining groups, SIGTERM first. A group is reported just
after the command starts: if the node dies within that moment, the command keeps running.

PR_SET_PDEATHSIG would reach only the command and not its children, fires when the starting *thread* ends, and costs an
interpreter per command. This file imports nothing from CronFlow because it is also the program that watches.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time

GRACE_S = 2.0
KILL_S = 1.0
POLL_S = 0.05
LOOK_S = 0.5
_CLOSE_WITHIN_S = 5.0
# A Python built with a shared library may need it.
_KEPT_VARIABLES = {"HOME", "LD_LIBRARY_PATH"}
_NOT_HEEDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Watcher:
    """The node's end of the pipe. The watcher process starts with the first group."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The pid of the watcher process, once it runs."""
        return None if self._process is None else self._process.pid

    def add(self, group: int) -> None:
        """Report that a command has started. Raises OSError if no watcher can be started."""
        self._groups.add(group)
        self._emit(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        """Report that a group is empty."""
        self._groups.discard(group)
        if self._process is not None:
            try:
                self._emit(b"-%d\n" % group)
            except OSError:
                return  # The next `add` tries to start one again and raises if it cannot.

    def close(self) -> None:
        """Stop the watcher, which ends the remaining groups. May block for some seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_CLOSE_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _emit(self, line: bytes) -> None:
        if self._process is None:
            self._process = _start(self._groups)
            return
        assert self._process.stdin is not None
        try:
            os.write(self._process.stdin.fileno(), line)
        except OSError:
            # The watcher was killed or stopped, so its list is outdated. Start another one with the full list.
            lost, self._process = self._process, None
            lost.kill()
            lost.wait()
            assert lost.stdin is not None
            lost.stdin.close()
            self._process = _start(self._groups)


def _start(groups: set[int]) -> subprocess.Popen[bytes]:
    # Signals that end the node through its terminal or service must not end the watcher. It has its own session and
    # inherits the blocked signals from its first instruction on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_HEEDED)
    try:
        process = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", "-S", __file__, str(os.getpid())],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # Commands run as the same user and could read the variables of a process, which include keys.
            env={name: os.environ[name] for name in _KEPT_VARIABLES & os.environ.keys()},
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    os.write(process.stdin.fileno(), b"".join(b"+%d\n" % group for group in groups))
    return process


# -------------------------------------------------------------------------------------------- the watcher process


def main(node: int) -> None:
    """Wait until the pipe or the node ends, then end the remaining groups."""
    end(watch(node))


def watch(node: int) -> set[int]:
    """Wait for the node to end, and return the remaining groups."""
    groups: set[int] = set()
    rest = b""
    while True:
        # Check the node before the pipe, so that everything it wrote is read. A forked child may keep the pipe open
        # after the node ends.
        gone = os.getppid() != node
        ready, _, _ = select.select([0], [], [], 0 if gone else LOOK_S)
        block = os.read(0, 65536) if ready else b""
        if not block and (ready or gone):
            return groups
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))


def end(groups: set[int]) -> None:
    """Send SIGTERM, wait, then send SIGKILL."""
    for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILL_S)):
        groups = {group for group in groups if _signalled(group, number)}
        deadline = time.monotonic() + wait_s
        while groups and time.monotonic() < deadline:
            time.sleep(POLL_S)
            groups = {group for group in groups if _signalled(group, 0)}


def _signalled(group: int, number: int) -> bool:
    """Whether the group still has a process that can receive the signal."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # The remaining processes run as another user.
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]))

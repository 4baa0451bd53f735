"""Ends the commands of a node that is gone, also of one that was killed with SIGKILL and could end nothing itself.

    python -I -S watcher.py <pid of the node>

The rule: a command's process group does not outlive its node by more than a few seconds, so that its next attempt on
another node does not run beside it. One process for each node, started with its first command, reads from a pipe which
groups there are; once the pipe or the node has ended, it ends those that are left, SIGTERM first. It is told of a group
just after the command began: a node that dies within that moment leaves the command behind.

A signal at the parent's death (PR_SET_PDEATHSIG, as `embedded` uses it) would reach the command alone and not what it
started, comes when the *thread* ends that began it, and costs an interpreter for each command. This file imports
nothing of CronFlow, because it is also the program that watches.
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
_NOT_HEEDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Watcher:
    """The node's end of the pipe; the process begins with the first group."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that watches, once there is one."""
        return None if self._process is None else self._process.pid

    def add(self, group: int) -> None:
        """A command has begun. Raises OSError when nobody watches it, because no process can be started."""
        self._groups.add(group)
        self._emit(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        """It has ended, and nobody of its group is left."""
        self._groups.discard(group)
        if self._process is not None:
            try:
                self._emit(b"-%d\n" % group)
            except OSError:
                return  # The next `add` tries to start one again, and tells if it cannot.

    def close(self) -> None:
        """Let it end. What still runs is ended too. May block for some seconds."""
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
            # Somebody killed or stopped it. Another one is told everything; this one must not act on what it knew.
            lost, self._process = self._process, None
            lost.kill()
            lost.wait()
            assert lost.stdin is not None
            lost.stdin.close()
            self._process = _start(self._groups)


def _start(groups: set[int]) -> subprocess.Popen[bytes]:
    # What ends the node by its terminal or its service must not end the watcher: it has a session of its own, and
    # signals that are blocked here stay so in it from its first instruction on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_HEEDED)
    try:
        process = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-I", "-S", __file__, str(os.getpid())],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    os.write(process.stdin.fileno(), b"".join(b"+%d\n" % group for group in groups))
    return process


# -------------------------------------------------------------------------------------------- the process that watches


def main(node: int) -> None:
    """Read until the pipe or the node has ended, then end the groups that are left."""
    end(watch(node))


def watch(node: int) -> set[int]:
    """The groups that are left once the node has ended."""
    groups: set[int] = set()
    rest = b""
    while True:
        # Asked before the pipe, so that what a node wrote before its end is read. A child that it forked may hold the
        # pipe open beyond that.
        gone = os.getppid() != node
        ready, _, _ = select.select([0], [], [], 0 if gone else LOOK_S)
        block = os.read(0, 65536) if ready else b""
        if not block and (ready or gone):
            return groups
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            (groups.add if line.startswith(b"+") else groups.discard)(int(line[1:]))


def end(groups: set[int]) -> None:
    """SIGTERM, and some time to end; then SIGKILL."""
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILL_S)):
        groups = {group for group in groups if _signalled(group, number)}
        deadline = time.monotonic() + patience_s
        while groups and time.monotonic() < deadline:
            time.sleep(POLL_S)
            groups = {group for group in groups if _signalled(group, 0)}


def _signalled(group: int, number: int) -> bool:
    """Whether anybody of the group is left to get it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # What is left runs as another user.
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]))

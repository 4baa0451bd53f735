"""Becomes a server that the kernel kills when its parent dies.

    python -I -S launch.py <pid of the parent> <program> [<argument>…]

The rule: no server outlives its caller, not even one that was killed with SIGKILL and could clean up nothing. It is a
program of its own, and not a `preexec_fn`, because between fork and exec of a process with threads (every MongoDB
client has some) nothing may run that takes a lock, and Python 3.12 warns of it; it costs 13 ms. It imports nothing of
CronFlow. Where there is no `prctl` (anything but Linux) the server is started without this protection.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tied_to_parent() -> list[str]:
    """The words to put before a command, which begins with the path of a program, so that it dies with this process."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def die_with_parent(parent: int) -> None:
    """Makes the kernel kill this process, a child of `parent`, when the thread that forked it ends."""
    if sys.platform == "linux":
        # Not SIGTERM: a server that is paused (SIGSTOP) heeds nothing but SIGKILL.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the kernel was told; then nobody would ever send the signal.
        if os.getppid() != parent:
            sys.exit("the process that wanted this server is gone")


def main(parent: int, command: list[str]) -> None:
    """Replaces this process, a child of `parent`, by `command`; its first word is the path of the program."""
    die_with_parent(parent)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

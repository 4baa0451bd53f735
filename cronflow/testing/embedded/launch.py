"""Executes a server that the kernel kills when its parent dies.

    python -I -S launch.py <pid of the parent> <program> [<argument>…]

No server outlives its caller, even if SIGKILL leaves the caller no time to clean up. This is a separate program instead
of a `preexec_fn`, because in a process with threads (every MongoDB client has some) nothing that takes a lock may run
between fork and exec. It costs 13 ms and imports nothing of CronFlow. Systems without `prctl` (all but Linux) start the
server without this protection.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tied_to_parent() -> list[str]:
    """The prefix of a command that makes it die with this process. The command starts with the path of a program."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process, a child of `parent`, when the thread that forked it ends."""
    if sys.platform == "linux":
        # Not SIGTERM: a paused server (SIGSTOP) only reacts to SIGKILL.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # If the parent died before prctl, the kernel never sends the signal.
        if os.getppid() != parent:
            sys.exit("the parent process has exited")


def main(parent: int, command: list[str]) -> None:
    """Replace this process, a child of `parent`, by `command`, which starts with the path of a program."""
    die_with_parent(parent)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""What CronFlow asks of Linux beyond POSIX, with a portable fallback for every function. No other module does.

    python -I -S operating_system.py <pid of the parent> <program> [<argument>…]

executes a server that the kernel kills when its parent dies. No server outlives its caller, even if SIGKILL leaves the
caller no time to clean up. This is a separate program instead of a `preexec_fn`, because in a process with threads
(every MongoDB client has some) nothing that takes a lock may run between fork and exec. It costs 13 ms, and therefore
this file imports nothing of CronFlow. Other systems start the server without this protection.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

LINUX = sys.platform == "linux"
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""The unit of `ru_maxrss` in bytes, see getrusage(2)."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_ENV_START, _ENV_END = 50, 51
"""Numbers of fields of /proc/<pid>/stat, see proc(5)."""


def hide_process() -> None:
    """Hide the environment and the memory of this process, which hold keys and passwords, from other processes of its
    user. Call it at the start, before there are threads.

    On Linux, /proc/<pid>/environ is empty afterwards, even for root; memory, core dumps and debuggers are for root
    alone. `os.environ` and the environment of new children stay as they are. No effect on other systems.
    """
    if LINUX:
        _erase_initial_environment()
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _erase_initial_environment() -> None:
    """/proc/<pid>/environ shows the memory that execve filled, whatever became of the variables. So move them to other
    memory, and overwrite that.
    """
    fields = _stat(Path("/proc/self/stat"))
    start, end = (int(fields[number - 3]) for number in (_ENV_START, _ENV_END))
    if not 0 < start < end:
        return  # Some sandboxes do not show the addresses, nor the environment.
    variables = dict(os.environb)
    ctypes.CDLL(None).clearenv()
    for name, value in variables.items():
        os.putenv(name, value)
    ctypes.memset(start, 0, end - start)


def exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the child `pid` ends; None where there is no such thing."""
    try:
        return os.pidfd_open(pid) if LINUX else None
    except OSError:
        return None  # Old kernels and some sandboxes do not support pidfd_open.


def has_running_process(group: int) -> bool:
    """Whether the process group has a process that is not a zombie."""
    return _has_running_on_linux(group) if LINUX else _has_running_elsewhere(group)


def _has_running_on_linux(group: int) -> bool:
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = _stat(process)[:3]
        except OSError:
            continue
        if int(of) == group and state not in "ZX":
            return True
    return False


def _has_running_elsewhere(group: int) -> bool:
    import psutil

    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
        except (psutil.Error, OSError):
            continue
    return False


def _stat(path: Path) -> list[str]:
    """The fields of a stat file after the name in parentheses: field 3, the state, and all that follow."""
    return path.read_text(errors="replace").rpartition(")")[2].split()


def tied_to_parent() -> list[str]:
    """The prefix of a command that makes it die with this process. The command starts with the path of a program."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid())]


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process, a child of `parent`, when the thread that forked it ends."""
    if LINUX:
        # Not SIGTERM: a paused server (SIGSTOP) only reacts to SIGKILL.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # If the parent died before prctl, the kernel never sends the signal.
        if os.getppid() != parent:
            sys.exit("the parent process has exited")


def main(parent: int, command: list[str]) -> None:
    """Replace this process, a child of `parent`, by `command`, which starts with the path of a program."""
    die_with_parent(parent)
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

"""The user and the limits of a command.

Both are in force before the program starts, so none of its processes escapes them. A shell sets the limits and then
becomes the program: code between fork and exec is not safe in a process with threads, limits that are set from outside
come too late, and an interpreter takes ten times as long. Only root can become another user. A node with nothing but
CAP_SETUID is refused, because its commands would inherit the capability.
"""

from __future__ import annotations

import os
import pwd
import resource
import signal
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from cronflow.domain.limits import Limits

CPU_GRACE_S = 1
"""CPU time between SIGXCPU, which a program can handle, and SIGKILL."""


class _Limit(NamedTuple):
    """A limit of setrlimit(2): its unit in bytes or seconds, the option of `ulimit`, and how a program fails that
    reaches it.
    """

    resource: int
    unit: int
    options: tuple[str, ...]
    signal: signal.Signals | None = None
    errors: tuple[str, ...] = ()


_LIMITS = {
    "cpu": _Limit(
        resource.RLIMIT_CPU, 1, ("-t",), signal.SIGXCPU, ("cpu time limit exceeded", "cputime limit exceeded")
    ),
    "memory": _Limit(
        resource.RLIMIT_AS, 1024, ("-v",), None, ("memoryerror", "cannot allocate memory", "out of memory", "bad_alloc")
    ),
    "file_size": _Limit(
        resource.RLIMIT_FSIZE,
        512,
        ("-f",),
        signal.SIGXFSZ,
        ("file too large", "file size limit exceeded", "filesize limit exceeded"),
    ),
    "files": _Limit(resource.RLIMIT_NOFILE, 1, ("-n",), None, ("too many open files",)),
    # The option differs between shells.
    "processes": _Limit(
        resource.RLIMIT_NPROC,
        1,
        ("-u", "-p"),
        None,
        ("cannot fork", "resource temporarily unavailable", "can't start new thread"),
    ),
}


def refusal(run_as: str | None, allowed: Collection[str] | None, node: str) -> str | None:
    """Why a node does not run a command as this user; None if it does. `allowed` are the users of ALLOW_RUN_AS."""
    own = _own_name()
    user = run_as or own
    if allowed is not None and user not in allowed:
        if run_as is None:
            return f"node {node} runs commands only as {', '.join(allowed)}; set run_as to one of them"
        return f"node {node} does not run commands as {user}; add it to ALLOW_RUN_AS"
    if user == own:
        return None
    if allowed is None:
        return f"node {node} does not run commands as {user}; add it to ALLOW_RUN_AS"
    if os.geteuid() != 0:
        return f"node {node} cannot run commands as {user}, because it does not run as root"
    try:
        pwd.getpwnam(user)
    except KeyError:
        return f"node {node} has no user {user}"
    return None


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())  # A user of a container without an entry.


class Account(NamedTuple):
    """Another user that a command runs as."""

    name: str
    uid: int
    gid: int
    home: str

    @property
    def variables(self) -> Mapping[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}

    @property
    def options(self) -> dict[str, Any]:
        """Options of Popen: the user with all its groups."""
        groups = os.getgrouplist(self.name, self.gid)
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}


def account(run_as: str | None) -> Account | None:
    """The account to switch to; None to stay the user of the node. The user must exist, see `refusal`."""
    if run_as is None or run_as == _own_name():
        return None
    found = pwd.getpwnam(run_as)
    return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir)


def limited(words: Sequence[str], limits: Limits) -> list[str]:
    """The command that sets the limits and becomes the command `words`. Limits of the node that are lower stay."""
    steps = [_step(name, limits) for name in limits.given]
    if not steps:
        return list(words)
    return ["/bin/sh", "-c", f'{"; ".join(steps)}; exec "$@"', "sh", *words]


def _step(name: str, limits: Limits) -> str:
    limit, value = _LIMITS[name], getattr(limits, name)
    hard = resource.getrlimit(limit.resource)[1]
    amount = int(value.total_seconds()) if isinstance(value, timedelta) else value
    if hard != resource.RLIM_INFINITY:
        amount = min(amount, hard)
    count = -(-amount // limit.unit)
    commands = [f"ulimit {option} {count}" for option in limit.options]
    if limit.signal is signal.SIGXCPU:
        commands = [f"ulimit -S -t {count} && ulimit -H -t {count + CPU_GRACE_S}"]
        if hard != resource.RLIM_INFINITY and amount + CPU_GRACE_S > hard:
            commands = [f"ulimit -S -t {count}"]
    attempts = " || ".join(f"{{ {command}; }} 2>/dev/null" for command in commands)
    return f"{attempts} || {{ echo 'this system cannot set limits.{name} to {limits.shown(name)}' >&2; exit 125; }}"


def reached(limits: Limits, number: int | None, last_error: str) -> str:
    """The limit that probably ended a command, from its signal or the last line of its standard error; "" if none."""
    said = last_error.lower()
    for name in limits.given:
        limit = _LIMITS[name]
        if (limit.signal is not None and number == limit.signal) or any(error in said for error in limit.errors):
            return f"limits.{name} is {limits.shown(name)}"
    return ""

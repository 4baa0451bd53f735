"""Captures what Python jobs print: inside of `captured`, standard output and error of an attempt become its log lines.

A node replaces `sys.stdout` and `sys.stderr` once, with `capturing_prints`. Each print is assigned by the context in
which it happens, so concurrent attempts do not mix, and `asyncio.to_thread` keeps the assignment. Everything else goes
to the real streams: prints of the node, of threads that a job starts with a context of their own, and of code that
writes to `sys.stdout.buffer` or to a stream that it kept from before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

from cronflow.ports import LineSink

LONGEST_LINE = 8 * 1024
"""In characters; a longer line is logged in parts."""

_attempt: ContextVar[_Prints | None] = ContextVar("prints of the attempt", default=None)


@contextmanager
def capturing_prints() -> Iterator[None]:
    """Replace the standard streams of this process, and restore them at the end."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", _PrintStream(sys.stdout, "info"))
    sys.stderr = cast("TextIO", _PrintStream(sys.stderr, "warn"))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def captured(log: LineSink) -> Iterator[None]:
    """Send what this context prints to `log`, if the streams are replaced. Text after the last newline is a line."""
    prints = _Prints(log)
    token = _attempt.set(prints)
    try:
        yield
    finally:
        _attempt.reset(token)
        prints.end()


class _Prints:
    """The unfinished lines of an attempt. Threads may share it."""

    def __init__(self, log: LineSink) -> None:
        self._log = log
        # By thread too, because `print` writes the text and the end of a line one after the other.
        self._rest: dict[tuple[str, int], str] = {}
        self._one_at_a_time = threading.Lock()

    def write(self, level: str, text: str) -> None:
        place = (level, threading.get_ident())
        with self._one_at_a_time:
            *lines, rest = (self._rest.pop(place, "") + text).split("\n")
            while len(rest) > LONGEST_LINE:
                lines.append(rest[:LONGEST_LINE])
                rest = rest[LONGEST_LINE:]
            if rest:
                self._rest[place] = rest
        # Without the lock: a thread may have to wait here for the event loop, which must not wait for the thread.
        for line in lines:
            self._log(level, line.removesuffix("\r"))

    def end(self) -> None:
        for (level, _), rest in list(self._rest.items()):
            self._log(level, rest.removesuffix("\r"))


class _PrintStream:
    """A standard stream. Everything but text written by an attempt is left to the real one."""

    def __init__(self, real: TextIO, level: str) -> None:
        self._real = real
        self._level = level

    def write(self, text: str) -> int:
        prints = _attempt.get()
        if prints is None:
            return self._real.write(text)
        prints.write(self._level, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

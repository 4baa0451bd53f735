"""Looks whether a file is there, for `when_present` of commands.

A file on a mount that is dead may take forever to be looked at, and nothing can stop that. So each path has at most one
thread of its own, which all runs that look at this path share, and no run waits for longer than LOOKS_FOR_S. The
threads are daemons: they do not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import suppress
from pathlib import Path

LOOKS_FOR_S = 10.0
MOST_LOOKS = 64
"""Paths that are looked at; beyond them a run fails at once, and is retried."""


class FilePresence:
    def __init__(self) -> None:
        self._looks: dict[str, asyncio.Future[OSError | ValueError | None]] = {}

    async def problem(self, path: str) -> OSError | ValueError | None:
        """Why the file cannot be found; None if it is there."""
        look = self._looks.get(path)
        if look is None:
            if len(self._looks) >= MOST_LOOKS:
                return OSError(errno.EAGAIN, f"{MOST_LOOKS} files do not answer", path)
            look = self._begin(path)
        try:
            async with asyncio.timeout(LOOKS_FOR_S):
                return await asyncio.shield(look)
        except TimeoutError:
            return OSError(errno.ETIMEDOUT, f"no answer within {LOOKS_FOR_S:g} s", path)

    def _begin(self, path: str) -> asyncio.Future[OSError | ValueError | None]:
        loop = asyncio.get_running_loop()
        found = self._looks[path] = loop.create_future()

        def end(problem: OSError | ValueError | None) -> None:
            del self._looks[path]
            found.set_result(problem)

        def look() -> None:
            problem: OSError | ValueError | None = None
            try:
                Path(path).stat()
            except (OSError, ValueError) as error:
                problem = error
            with suppress(RuntimeError):  # The loop has ended meanwhile.
                loop.call_soon_threadsafe(end, problem)

        threading.Thread(target=look, name="when_present", daemon=True).start()
        return found

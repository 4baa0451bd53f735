"""The processes of the nodes of `cronflow dev`, and Redis, broken on purpose.

The rules: only processes that `dev` started are ever signalled. Each running node has a file in a folder, with its name
and process id; `dev` removes it when the process ends. The API, another child, gets the path of the folder.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from cronflow.backends.redis.connection import RedisConnection
from cronflow.domain.errors import NotFound


class DevChaos:
    """See `cronflow.api.routes.chaos.Chaos`."""

    def __init__(self, folder: Path, redis_url: str, namespace: str) -> None:
        self._folder = folder
        self._redis_url, self._namespace = redis_url, namespace

    def nodes(self) -> dict[str, bool]:
        """The nodes with a process, and whether it is paused."""
        found = {}
        for file in self._folder.iterdir():
            try:
                found[file.name] = psutil.Process(self._pid(file.name)).status() == psutil.STATUS_STOPPED
            except (NotFound, psutil.NoSuchProcess):
                continue  # It has ended.
        return found

    def kill(self, name: str) -> None:
        self._signal(name, signal.SIGKILL)

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    async def flush(self) -> int:
        """Only the keys of this cluster: a Redis of the settings may have others. Raises BackendUnavailable."""
        async with RedisConnection(self._redis_url, self._namespace) as redis:
            return int(await redis.call("flush", [redis.keys.redis_epoch], f"{redis.keys.prefix}*"))

    def _signal(self, name: str, number: signal.Signals) -> None:
        try:
            os.kill(self._pid(name), number)
        except ProcessLookupError:
            raise NotFound("node", name) from None

    def _pid(self, name: str) -> int:
        # Never build a path from the name, which comes from outside.
        for file in self._folder.iterdir():
            if file.name == name:
                try:
                    return int(file.read_text("ascii"))
                except (FileNotFoundError, ValueError):
                    break  # It has just ended, or is just starting.
        raise NotFound("node", name)

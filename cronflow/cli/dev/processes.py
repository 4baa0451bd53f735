"""The child processes of `cronflow dev`: started, restarted when they die, stopped in order, and broken on purpose.

The rules: a child never outlives its parent, and only processes that `dev` started are ever signalled. Each running
node has a file in a folder, with its name and process id; `dev` removes it when the process ends. The API, another
child, gets the path of the folder.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from cronflow.backends.redis.connection import RedisConnection
from cronflow.domain.errors import NotFound
from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded.server import open_private

RESTART_AFTER_S = 1.0
KILL_AFTER_S = 5.0

PrintLine = Callable[[str, str], None]


class Child:
    """One process, restarted until it is stopped. While it runs, `pid_file` contains its process id."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        print_line: PrintLine,
        pid_file: Path | None = None,
    ) -> None:
        self.name = name
        self._command = [*tied_to_parent(), sys.executable, "-m", "cronflow", *arguments]
        self._environment = dict(environment)
        self._log = log
        self._print_line = print_line
        self._pid_file = pid_file
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Run the process until `stop`; restart it when it dies."""
        while not self._stopping:
            code = await self._run_once()
            if not self._stopping:
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                self._print_line(self.name, f"{how}; restarting")
                await asyncio.sleep(RESTART_AFTER_S)

    async def _run_once(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        if self._pid_file is not None:
            self._pid_file.write_text(str(process.pid), "ascii")
        try:
            with open_private(self._log, append=True) as file:
                async for line in process.stdout:
                    file.write(line)
                    file.flush()
                    self._print_line(self.name, line.decode("utf-8", "replace").rstrip())
            return await process.wait()
        finally:
            if self._pid_file is not None:
                self._pid_file.unlink(missing_ok=True)

    async def stop(self, within_s: float) -> None:
        """Send SIGTERM, a second one after `within_s`, and finally SIGKILL."""
        self._stopping = True
        process = self._process
        for number, patience in (
            (signal.SIGTERM, within_s),
            (signal.SIGTERM, KILL_AFTER_S),
            (signal.SIGKILL, KILL_AFTER_S),
        ):
            if process is None or process.returncode is not None:
                return
            process.send_signal(number)
            # A paused process handles signals only after SIGCONT.
            process.send_signal(signal.SIGCONT)
            try:
                async with asyncio.timeout(patience):
                    await process.wait()
            except TimeoutError:
                continue


def base_environment() -> dict[str, str]:
    """The environment without settings of CronFlow."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CRONFLOW_")}


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

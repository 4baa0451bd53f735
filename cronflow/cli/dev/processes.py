"""The child processes of `cronflow dev`: started, watched, restarted when they die, stopped in order.

The rule: a child never outlives its parent. Its output goes to a file in the data folder, and line by line with its
name to a callback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cronflow.testing.embedded.launch import tied_to_parent

RESTART_AFTER_S = 1.0
KILL_AFTER_S = 5.0

PrintLine = Callable[[str, str], None]


class Child:
    """One process, kept running until it is stopped. While it runs its process id is in `pid_file`."""

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
        """The current process id."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Until `stop`: start it, pass its lines on, and restart it when it dies."""
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
            with self._log.open("ab") as file:
                async for line in process.stdout:
                    file.write(line)
                    file.flush()
                    self._print_line(self.name, line.decode("utf-8", "replace").rstrip())
            return await process.wait()
        finally:
            if self._pid_file is not None:
                self._pid_file.unlink(missing_ok=True)

    async def stop(self, within_s: float) -> None:
        """SIGTERM, then after that many seconds a second one, then SIGKILL."""
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
            # A paused process handles the other signals only when it continues.
            process.send_signal(signal.SIGCONT)
            try:
                async with asyncio.timeout(patience):
                    await process.wait()
            except TimeoutError:
                continue


def base_environment() -> dict[str, str]:
    """The environment of a child without settings, which are passed one by one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CRONFLOW_")}

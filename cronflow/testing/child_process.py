"""A process of CronFlow as a child: restarted when it dies, stopped in order, and killed or paused on purpose.

A child never outlives its parent. Its output goes to a file and, line by line, to the caller.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded.server import open_private

RESTART_AFTER_S = 1.0
KILL_AFTER_S = 5.0

PrintLine = Callable[[str, str], None]


class Child:
    """One process, restarted until it is stopped. While it runs, `pid_file` contains its process id.

    `may_start` is set at first; as long as it is clear, the process is not restarted.
    """

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
        self.may_start = asyncio.Event()
        self.may_start.set()
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process exists; a paused one does."""
        return self._process is not None and self._process.returncode is None

    async def run(self) -> None:
        """Run the process until `stop`; restart it when it dies."""
        while not self._stopping:
            code = await self._run_once()
            if not self._stopping:
                how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                self._print_line(self.name, f"{how}; restarting")
                await asyncio.sleep(RESTART_AFTER_S)
                await self.may_start.wait()

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

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self._process is not None and self.alive:
            self._process.send_signal(number)

    async def stop(self, within_s: float) -> None:
        """Send SIGTERM, a second one after `within_s`, and finally SIGKILL."""
        self._stopping = True
        self.may_start.set()
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

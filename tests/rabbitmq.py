"""Debian's RabbitMQ, one for the session, with its own data folder and its own registry of Erlang nodes.

It runs as processes of the tests, on the loopback, and dies with them. Starting one costs several seconds of processor
time, so the tests that need one run in the same worker (see `tests.conftest`), each with queues of its own.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from cronflow.operating_system import tied_to_parent
from cronflow.testing.embedded.server import free_port
from tests.children import ROOT, child_environment
from tests.waiting import eventually

EXTRACTED, INSTALLED = ROOT / ".venv" / "rabbitmq" / "usr" / "lib", Path("/usr/lib")
"""Where `make test` extracts the packages in CI, and where the packages are when they are installed."""
START_WITHIN_S = 120
NODE = "cronflow-tests@localhost"
CONFIGURATION = """
listeners.tcp.1 = 127.0.0.1:{port}
log.console = true
log.console.level = warning
log.file = false
"""


class RabbitServer:
    """A broker in a folder."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder = folder
        self._erlang = programs / "erlang" / "bin"
        self._program = programs / "rabbitmq" / "bin" / "rabbitmq-server"
        self._registry, distribution, self.port = free_port(), free_port(), free_port()
        self._cookie = secrets.token_hex(16)
        (folder / "rabbitmq.conf").write_text(CONFIGURATION.format(port=self.port))
        (folder / "plugins").write_text("[].")
        self._environment = child_environment(
            PATH=f"{self._erlang}:{os.environ['PATH']}",
            HOME=str(folder),
            ERL_EPMD_ADDRESS="127.0.0.1",
            ERL_EPMD_PORT=str(self._registry),
            RABBITMQ_CONF_ENV_FILE="/nonexistent",
            RABBITMQ_CONFIG_FILE=str(folder / "rabbitmq.conf"),
            RABBITMQ_DIST_PORT=str(distribution),
            RABBITMQ_ENABLED_PLUGINS_FILE=str(folder / "plugins"),
            RABBITMQ_LOG_BASE=str(folder / "log"),
            RABBITMQ_MNESIA_BASE=str(folder / "data"),
            RABBITMQ_NODENAME=NODE,
            RABBITMQ_PID_FILE=str(folder / "pid"),
            # The script then becomes the broker, which dies with the tests, and does not start it as a child.
            RUNNING_UNDER_SYSTEMD="yes",
            RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=(
                f"-setcookie {self._cookie} -kernel inet_dist_use_interface {{127,0,0,1}} +sbwt none"
            ),
        )
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}"

    def start(self) -> None:
        # Erlang would start a registry that outlives the tests.
        self._run(str(self._erlang / "epmd"), "-address", "127.0.0.1", "-port", str(self._registry))
        broker = self._run(str(self._program))
        deadline = time.monotonic() + START_WITHIN_S
        while not self._answers():
            log = (self._folder / "log.txt").read_text(errors="replace")
            if broker.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"RabbitMQ did not start:\n{log[-3000:]}", pytrace=False)
            time.sleep(0.1)

    def stop(self) -> None:
        """End the processes that were started, by their ids."""
        for child in reversed(self._children):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def restart(self) -> None:
        """Stop the broker as an operator does, and start it again. Connections break, durable queues stay."""
        self.call("rabbit", "stop")
        self.call("rabbit", "start")

    def call(self, module: str, function: str) -> None:
        """Call a function without arguments in the broker."""
        command = [str(self._erlang / "erl_call"), "-sname", NODE, "-c", self._cookie, "-a", f"{module} {function} []"]
        subprocess.run(command, env=self._environment, check=True, stdout=subprocess.DEVNULL, timeout=60)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log.txt").open("ab") as log:
            child = subprocess.Popen(
                [*tied_to_parent(), *command],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._children.append(child)
        return child

    def _answers(self) -> bool:
        """It listens only when it has started."""
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True


@contextmanager
def rabbit_server() -> Iterator[RabbitServer]:
    """A broker. Without the packages, the test fails in CI and is skipped elsewhere."""
    for programs in (EXTRACTED, INSTALLED):
        if (programs / "rabbitmq" / "bin" / "rabbitmq-server").exists():
            break
    else:
        missing = "NOT CHECKED: RabbitMQ not found; install the Debian package rabbitmq-server"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    # The folders of pytest have names that are too long for some of its files.
    with tempfile.TemporaryDirectory(prefix="rabbit-") as folder:
        server = RabbitServer(Path(folder), programs)
        try:
            server.start()
            yield server
        finally:
            server.stop()


async def taken(channel: AbstractChannel, queue: str) -> AbstractIncomingMessage:
    """The next message of a queue."""
    found = await channel.get_queue(queue)

    async def look() -> list[AbstractIncomingMessage]:
        message = await found.get(no_ack=True, fail=False)
        return [] if message is None else [message]

    [message] = await eventually(look, what=f"a message in {queue}")
    return message

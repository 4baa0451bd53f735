"""Serves the API of a scene with uvicorn on loopback, for commands that use it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import uvicorn
from structlog.testing import capture_logs

from tests.auth.bench import PASSWORD, Replica, routes
from tests.cli.conftest import Cli
from tests.cli.scene import Scene
from tests.waiting import eventually


@dataclass
class Served:
    """An address and the application that currently answers there."""

    url: str
    app: Any = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests.append((scope["method"], scope["path"]))
        await self.app(scope, receive, send)

    def serve(self, scene: Scene, **rest: Any) -> Replica:
        """Serve this scene, whose service becomes that of the API."""
        replica = Replica(scene.backends, scene.clock, notifier=scene.notifier, **rest)
        scene.service = replica.service
        self.app = replica.app
        return replica

    def log_in(self, cli: Cli, user: str = "admin", password: str = PASSWORD) -> None:
        """Make the commands of this test use the API."""
        result = cli("login", self.url, "--user", user, "--password-stdin", stdin=f"{password}\n")
        assert result.exit_code == 0, result.output


@contextmanager
def serving() -> Iterator[Served]:
    """Run a server in a thread."""
    # Keep the log of the API out of the output of the commands, which run in the same process.
    with socket.socket() as listening, capture_logs():
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        served = Served(f"http://127.0.0.1:{listening.getsockname()[1]}")
        config = uvicorn.Config(served, lifespan="off", ws="none", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        # Build the application before the thread starts: Python 3.11 may fail when two threads read source files at the
        # same time, and the description of the routes is made from docstrings.
        routes(False)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            asyncio.run(eventually(lambda: server.started, what="the server listens"))
            yield served
        finally:
            server.should_exit = True
            thread.join()

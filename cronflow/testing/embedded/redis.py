"""A Redis (or Valkey) for `cronflow dev` and tests, configured as CronFlow needs it in production.

It refuses writes when memory is full instead of evicting a lock. Unless `durable=False`, it writes every command to its
append-only file before it answers, so a kill loses nothing. The readiness check imports no client.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import ClassVar

from cronflow.testing.embedded.binaries import Binary, CannotStart, all_redis, not_found
from cronflow.testing.embedded.server import HOST, Server

ANSWER_WITHIN_S = 1.0


class RedisServer(Server):
    """A Redis on 127.0.0.1; see `Server`. With `durable=False` it starts empty, for tests that start many."""

    service: ClassVar[str] = "Redis"
    name: ClassVar[str] = "redis"
    version_in_log: ClassVar[str] = r"(?:Redis|Valkey) version=([\w.]+)"

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        durable: bool = True,
        binary: Binary | None = None,
        password: str | None = None,
    ) -> None:
        super().__init__(data_dir, port, binary=binary, password=password)
        self.durable = durable

    @property
    def url(self) -> str:
        """`redis://127.0.0.1:PORT/0`, with the password; RuntimeError before the first start."""
        return f"redis://{f':{self._password}@' if self._password else ''}{HOST}:{self.port}/0"

    def _found(self) -> list[Binary]:
        return all_redis()

    def _not_found(self) -> CannotStart:
        return not_found(self.service, "redis-server or valkey-server", "CRONFLOW_REDIS_URL")

    def _arguments(self, port: int, folder: Path) -> list[str]:
        options = {
            "port": str(port),
            "bind": HOST,
            "dir": str(folder),
            "daemonize": "no",
            "appendonly": "yes" if self.durable else "no",
            # No snapshots: the append-only file has everything.
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        return [
            *([] if self._password is None else [str(self._private_file("conf", f"requirepass {self._password}\n"))]),
            *(argument for name, value in options.items() for argument in (f"--{name}", value)),
        ]

    def _ready(self, port: int, pid: int) -> bool:
        try:
            with (
                socket.create_connection((HOST, port), ANSWER_WITHIN_S) as connection,
                connection.makefile("rb") as replies,
            ):
                if self._password is not None:
                    connection.sendall(f"AUTH {self._password}\r\n".encode())
                    self._obstacle = replies.readline().decode(errors="replace").strip()
                    if self._obstacle != "+OK":
                        return False
                connection.sendall(b"PING\r\nINFO server\r\n")
                pong = replies.readline().strip()
                size = replies.readline().strip()
                report = replies.read(int(size[1:])) if size.startswith(b"$") else b""
        except OSError as error:
            self._obstacle = str(error)
            return False
        if pong != b"+PONG":
            self._obstacle = pong.decode(errors="replace")
            return False
        owner = re.search(rb"^process_id:(\d+)", report, flags=re.MULTILINE)
        self._obstacle = f"another process answers on port {port}"
        return owner is not None and int(owner[1]) == pid

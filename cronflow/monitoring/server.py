"""Serves `/metrics` on its own port in a thread, so it responds even while the event loop is blocked.

Access needs no login, and metrics contain no secrets. It serves one path only, and drops silent clients.
"""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import ClassVar, Self

import structlog

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.ports.metrics import Exposition

PATH = "/metrics"
SILENCE_S = 10.0

log = structlog.get_logger("cronflow.monitoring")


class MetricsServer:
    """The server, as a context manager. Port 0 picks a free port. Entering raises InvalidInput if the port is taken or
    the host is not an address of this machine.
    """

    def __init__(self, host: str, port: int, exposition: Exposition) -> None:
        self._host, self._port = host, port
        self._exposition = exposition
        self._server: ThreadingHTTPServer | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        try:
            server = _ServerV6 if ":" in self._host else _Server
            self._server = server((self._host, self._port), _handler(self._exposition))
        except OSError as error:
            what = f"cannot listen on port {self._port} of {self._host}: {error.strerror or error}"
            remedy = "give each process of a machine its own port, and METRICS_HOST an address of this machine"
            raise InvalidInput(Problem("METRICS_PORT", what, remedy)) from None
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        log.info("metrics served", address=f"http://{self._host}:{self.port}{PATH}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Bind without the host name lookup of HTTPServer, which can block on a slow name server."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def handle_error(self, request: object, client_address: object) -> None:
        """The client disconnected, or a gauge could not be read."""
        log.warning("metrics request failed", exc_info=True)


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def _handler(exposition: Exposition) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        source = exposition

    return Handler


class _Handler(BaseHTTPRequestHandler):
    source: ClassVar[Exposition]
    timeout = SILENCE_S

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(404, explain=f"the metrics are at {PATH}")
            return
        text = self.source.text()
        self.send_response(200)
        self.send_header("Content-Type", self.source.media_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def version_string(self) -> str:
        """Hide the Python version."""
        return "cronflow"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the library's
        """Do not log every scrape."""

"""One cluster for all pages: an API, a node that allows every kind of job, a webhook receiver and a mail server."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from cronflow.testing.embedded.server import free_port
from tests.api.test_process import status
from tests.children import ADMIN, cluster_environment
from tests.docs.blocks import ROOT
from tests.docs.commands import CLIENT, PASSWORD
from tests.forked import process
from tests.provider import ROLES, SECRET
from tests.servers import fresh_namespace
from tests.waiting import eventually

APPS = ROOT / "tests" / "docs" / "apps"
TABLE = ROOT / "docs" / "examples" / "table"
NODE = "node-3"


class Receiver(BaseHTTPRequestHandler):
    """A webhook receiver that accepts every notification."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing among the output of the tests."""


class Mailbox:
    """Accepts every mail, and keeps the subjects."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  its name
        content = envelope.content
        assert isinstance(content, bytes)
        self.subjects.append(str(message_from_bytes(content, policy=policy.default)["Subject"]))
        return "250 OK"


@dataclass
class Cluster:
    """The addresses of the cluster, and its REST API as admin."""

    url: str
    hooks: str
    environment: dict[str, str]
    program: str
    """The text of the program `cronflow`."""
    client: httpx2.Client
    provider_port: int
    """Where the API expects the identity provider, which two pages start."""
    mail: list[str]
    """The subjects of the mails that were sent."""

    def __post_init__(self) -> None:
        self.log_in()

    def log_in(self) -> None:
        """An access token is valid for 15 minutes, and the pages may take longer."""
        given = self.call("POST", "auth/token", {"username": "admin", "password": PASSWORD})
        self.client.headers["Authorization"] = f"Bearer {given['access_token']}"

    @property
    def token(self) -> str:
        return self.client.headers["Authorization"].removeprefix("Bearer ")

    def call(self, method: str, path: str, body: object = None) -> Any:
        """A request that must succeed."""
        answer = self.client.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def reset(self) -> None:
        """Delete everything that a page defined, and cancel its open runs."""
        self.log_in()
        self.call("POST", f"nodes/{NODE}/undrain")
        self.call("PUT", "cluster/maintenance", {"on": False})
        self.call("POST", "runs/cancel", {"filter": {"state": ["dispatched", "running", "retrying"]}})
        # A job that others follow cannot be deleted before them.
        while jobs := [one for one in self.call("GET", "jobs")["items"] if not one["name"].startswith("_sys:")]:
            for one in jobs:
                if not one["followers"]:
                    self.call("DELETE", f"jobs/{one['name']}")
        for group in ("users", "api-keys", "secrets", "alerts"):
            for one in self.call("GET", group)["items"]:
                self.call("DELETE", f"{group}/{one.get('id') or one['name']}")

    async def run(self, state: str, **args: str) -> str:
        """A run of `nightly-report` that has reached a state."""
        run: str = self.call("POST", "jobs/nightly-report/run", {"args": args})["id"]
        await eventually(lambda: self.call("GET", f"runs/{run}")["state"] == state, what=f"{run} is {state}")
        return run


@pytest.fixture(scope="module")
def cluster(redis_url: str, mongo_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder, port, provider_port = tmp_path_factory.mktemp("docs"), free_port(), free_port()
    mail = Controller(box := Mailbox(), hostname="127.0.0.1", port=free_port(), server_hostname="localhost")
    own = {
        "CRONFLOW_SECRETS_KEY": base64.b64encode(bytes(32)).decode(),
        "CRONFLOW_ALLOW_SHELL": "true",
        "CRONFLOW_SMTP_URL": f"smtp://127.0.0.1:{mail.port}",
        "CRONFLOW_SMTP_FROM": "cronflow@example.com",
        "TABLE_OUT": str(folder / "table"),
    }
    environment = cluster_environment(redis_url, mongo_url, fresh_namespace(), **own)
    node = {
        "CRONFLOW_ALLOW_PYTHON": "billing,table_handlers",
        "CRONFLOW_DRAIN_TIMEOUT": "1s",
        "PYTHONPATH": os.pathsep.join(map(str, (APPS, TABLE, ROOT))),
    }
    sign_in = {
        "CRONFLOW_OIDC_ISSUER": f"http://127.0.0.1:{provider_port}",
        "CRONFLOW_OIDC_CLIENT_ID": "cronflow",
        "CRONFLOW_OIDC_CLIENT_SECRET": SECRET,
        "CRONFLOW_OIDC_SCOPES": "openid profile email groups offline_access",
        "CRONFLOW_OIDC_ROLES": ROLES,
        "CRONFLOW_PUBLIC_URL": f"http://127.0.0.1:{port}",
    }
    # The temporary directories of pytest are too long for the address of a socket.
    commands = Path(tempfile.mkdtemp()) / "commands"
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever).start()
    mail.start()
    with ExitStack() as stack:
        stack.callback(mail.stop)
        stack.callback(shutil.rmtree, commands.parent)
        stack.callback(receiver.server_close)
        stack.callback(receiver.shutdown)
        stack.enter_context(
            process(
                ["cronflow", "node", "--name", NODE, "--label", "disk=large"], environment | node, folder / "node.log"
            )
        )
        stack.enter_context(
            process(["cronflow", "api", "--port", str(port)], environment | ADMIN | sign_in, folder / "api.log")
        )
        stack.enter_context(process(["tests.docs.commands", str(commands)], environment, folder / "commands.log"))
        url = f"http://127.0.0.1:{port}"
        asyncio.run(eventually(lambda: status(f"{url}/readyz")[0] == 200, what="the API is ready"))
        asyncio.run(eventually(commands.exists, what="the command server accepts commands"))
        program = CLIENT.format(python=sys.executable, path=str(commands))
        hooks = f"http://127.0.0.1:{receiver.server_address[1]}"
        with httpx2.Client(base_url=f"{url}/api/v1", timeout=30) as client:
            yield Cluster(url, hooks, environment, program, client, provider_port, box.subjects)

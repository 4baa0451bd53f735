"""The API as a process on real servers: it starts, rejects requests without a login, and stops."""

from __future__ import annotations

import asyncio
import re
import signal
import urllib.error
import urllib.request
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert
from cronflow.testing.embedded.server import free_port
from cronflow.usecases import UseCases
from tests.children import ADMIN, cluster_environment, process
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture
def environment(redis_url: str, mongo_url: str, namespace: str) -> dict[str, str]:
    return cluster_environment(redis_url, mongo_url, namespace, **ADMIN)


def status(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """The status of a response; 0 while no process listens."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()
    except OSError:
        return 0, b""


async def test_the_api_process_serves_rejects_and_stops(environment: dict[str, str], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "api.log"
    with process(["cronflow", "api", "--port", str(port)], environment, log) as child:
        base = f"http://127.0.0.1:{port}"
        await eventually(lambda: status(f"{base}/readyz")[0] == 200, what="the API is ready")
        assert status(f"{base}/livez") == (200, b'{"status":"ok"}')
        code, body = status(f"{base}/api/v1/jobs")
        assert (code, orjson.loads(body)["title"]) == (401, "Unauthorized")
        code, body = status(f"{base}/api/v1/runs/cancel", b"{}")
        assert code == 401
        code, body = status(f"{base}/nowhere", b"{}")
        assert (code, orjson.loads(body)["status"]) == (404, 404)
        assert orjson.loads(status(f"{base}/openapi.json")[1])["openapi"] == "3.1.0"
        code, body = status(f"{base}/metrics")
        assert code == 200
        assert b'cronflow_api_requests_total{method="GET",route="/livez",status="200"} 1.0' in body
        assert b'cronflow_breaker_state{service="MongoDB"} 0.0' in body
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert "JWT_SECRET" not in log.read_text(), "it is not weak"


async def test_the_api_warns_about_weak_credentials(environment: dict[str, str], tmp_path: Path) -> None:
    weak = {"CRONFLOW_ADMIN_PASSWORD": "password", "CRONFLOW_JWT_SECRET": "x" * 40}
    log = tmp_path / "api.log"
    with process(["cronflow", "api", "--port", str(free_port())], {**environment, **weak}, log) as child:
        await eventually(lambda: "is easy to guess" in log.read_text(), what="the warning")
        assert "has only 8 characters" in log.read_text()
        child.send_signal(signal.SIGTERM)
        child.wait(20)


async def test_an_api_without_any_node_reports_the_missing_leader(
    environment: dict[str, str], redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    got = asyncio.Queue[bytes]()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = re.findall(rb"content-length: (\d+)", head.lower())
        got.put_nowait(await reader.readexactly(int(length)))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async with (
        open_backends(redis_url, mongo_url, namespace) as backends,
        await asyncio.start_server(receive, "127.0.0.1", 0) as receiver,
    ):
        url = f"http://127.0.0.1:{receiver.sockets[0].getsockname()[1]}/hook"
        alert = Alert(name="a", on=(AlertKind.NO_LEADER,), webhook=Webhook(url), no_leader_after=timedelta(seconds=5))
        await UseCases(backends, SystemClock()).alerts.define(alert)
        await backends.control.begin_term("gone#1")
        environment = {**environment, "CRONFLOW_LEADER_RENEW": "1s"}
        with process(["cronflow", "api", "--port", str(free_port())], environment, tmp_path / "api.log"):
            async with asyncio.timeout(PATIENCE_S):
                body = orjson.loads(await got.get())
        assert (body["kind"], "the last one was gone (term 1)" in body["text"]) == ("no_leader", True)

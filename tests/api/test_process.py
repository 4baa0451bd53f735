"""The API as a process on real servers: it starts, rejects requests without a login, and stops."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from pathlib import Path

import orjson
import pytest

from cronflow.testing.embedded.server import free_port
from tests.children import ADMIN, cluster_environment, process
from tests.waiting import eventually


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

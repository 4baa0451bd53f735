"""The API as a process on real servers: it starts, refuses who has no login, stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from cronflow.testing.embedded.server import free_port
from tests.waiting import eventually

PASSWORD = "only-for-this-test"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(redis_url: str, mongo_url: str, namespace: str) -> dict[str, str]:
    """This process's, with the servers of the tests."""
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith("CRONFLOW_")},
        "CRONFLOW_REDIS_URL": redis_url,
        "CRONFLOW_MONGO_URL": mongo_url,
        "CRONFLOW_NAMESPACE": namespace,
        "CRONFLOW_ADMIN_PASSWORD": PASSWORD,
        "CRONFLOW_JWT_SECRET": "of-thirty-two-bytes-or-some-more",
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ended by its id, whatever happens."""
    with log.open("wb") as out:
        child = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=out, stderr=out)
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def status(url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Of an answer; 0 while nobody listens."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()
    except OSError:
        return 0, b""


async def test_the_api_process_serves_refuses_and_stops(environment: dict[str, str], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "api.log"
    with process(["cronflow", "api", "--port", str(port)], environment, log) as child:
        base = f"http://127.0.0.1:{port}"
        await eventually(lambda: status(f"{base}/readyz")[0] == 200, 60, "the API is ready")
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

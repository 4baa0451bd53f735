"""`/metrics`: on a port of its own, of the API, of a node on real servers; and a port that is taken."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import httpx2
import pytest

from cronflow.api.app import create_api
from cronflow.api.middleware import Measured
from cronflow.domain.errors import InvalidInput
from cronflow.domain.metrics import MetricSource
from cronflow.monitoring.prometheus import PrometheusMeter
from cronflow.monitoring.server import MetricsServer
from cronflow.testing.embedded.server import free_port
from tests.api.conftest import AS, HeaderGate
from tests.api.test_process import environment as environment
from tests.api.test_process import status
from tests.cli.scene import Scene
from tests.forked import process
from tests.monitoring.scraping import Figures, figures
from tests.waiting import eventually


def test_a_port_of_its_own_answers_one_path_until_it_is_closed() -> None:
    meter = PrometheusMeter([MetricSource.NODE])
    with MetricsServer("127.0.0.1", 0, meter) as server:
        base = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{base}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"] == meter.media_type
            assert "Python" not in answer.headers["Server"]
            assert figures(answer.read())["cronflow_events_total"]["node_lost",] == 0
        for path in ("/", "/metrics/x", "/api/v1/jobs"):
            assert status(f"{base}{path}")[0] == 404
        assert status(f"{base}/metrics", b"{}")[0] == 501
    assert status(f"{base}/metrics") == (0, b"")


def test_a_port_that_is_taken_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with (
            pytest.raises(InvalidInput) as refused,
            MetricsServer("127.0.0.1", port, PrometheusMeter([MetricSource.NODE])),
        ):
            pass
    [problem] = refused.value.problems
    assert problem.place == "METRICS_PORT"
    assert problem.what == f"cannot listen on port {port} of 127.0.0.1: Address already in use"


async def test_a_node_whose_port_is_taken_reports_it_and_exits(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = {"CRONFLOW_METRICS_PORT": str(other.getsockname()[1])}
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "cronflow", "node"],
            env=environment | taken,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert "METRICS_PORT" in done.stderr
    assert "Address already in use" in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_node_on_real_servers_reports_their_latency(environment: dict[str, str], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "node.log"
    about = {"CRONFLOW_METRICS_PORT": str(port), "CRONFLOW_SPOOL_DIR": str(tmp_path), "CRONFLOW_NODE_NAME": "n1"}

    def told() -> dict[str, Figures]:
        return figures(status(f"http://127.0.0.1:{port}/metrics")[1])

    with process(["cronflow", "node"], environment | about, log):
        await eventually(lambda: told().get("cronflow_leader") == {(): 1}, what="the node leads and says so")
        await eventually(lambda: told().get("cronflow_cluster_slots") == {(): 16}, what="it has seen itself")
        found = told()
    assert found["cronflow_backend_seconds_count"]["redis",] > 0
    assert found["cronflow_backend_seconds_count"]["mongodb",] > 0
    assert found["cronflow_backend_failures_total"] == {("redis",): 0, ("mongodb",): 0}
    assert found["cronflow_breaker_state"] == {("MongoDB",): 0}
    [about_it] = found["cronflow_build_info"]
    assert {"n1", "node", environment["CRONFLOW_NAMESPACE"]} < set(about_it)
    assert "metrics served" in log.read_text()


async def test_answers_are_counted_by_the_template_of_their_route_and_never_by_what_a_client_chose() -> None:
    scene = Scene()
    meter = PrometheusMeter([MetricSource.API])
    app = Measured(create_api(scene.service, HeaderGate(), exposition=meter), meter)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://api") as http:
        for name in ("one", "two"):
            assert (await http.get(f"/api/v1/jobs/{name}", headers={AS: "viewer"})).status_code == 404
        assert (await http.get("/api/v1/jobs")).status_code == 401
        assert (await http.get("/nowhere/at/all")).status_code == 404
        assert (await http.request("BREW", "/api/v1/jobs")).status_code == 405
        # Without a login, as Prometheus has none.
        answer = await http.get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, meter.media_type)
    found = figures(answer.content)
    assert found["cronflow_api_requests_total"] == {
        ("GET", "/api/v1/jobs/{name}", "404"): 2,
        ("GET", "/api/v1/jobs", "401"): 1,
        ("GET", "other", "404"): 1,
        ("other", "/api/v1/jobs", "405"): 1,
    }
    assert found["cronflow_api_request_seconds_count"]["GET", "/api/v1/jobs/{name}"] == 2


async def test_an_answer_that_never_came_is_counted_as_a_failure() -> None:
    meter = PrometheusMeter([MetricSource.API])

    async def broken(*_: object) -> None:
        raise RuntimeError("boom")

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=Measured(broken, meter)), base_url="http://api"
    ) as http:
        with pytest.raises(RuntimeError, match="boom"):
            await http.get("/")
    assert figures(meter.text())["cronflow_api_requests_total"] == {("GET", "other", "500"): 1}


async def test_an_api_whose_metrics_have_a_port_has_none_at_its_own() -> None:
    scene = Scene()
    app = create_api(scene.service, HeaderGate())
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://api") as http:
        assert (await http.get("/metrics")).status_code == 404

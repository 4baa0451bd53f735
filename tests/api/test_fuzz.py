"""Schemathesis over the whole OpenAPI document, and hostile requests: no 5xx, every answer is in the document, and the
answer to a bad request is small.

It asks a real uvicorn over a cluster in memory, so what the server makes of a request is tested too. The number of
examples is small on purpose: other seeds are tried each day, and `-k fuzz --hypothesis-seed` repeats one. `make prove`
tries many more, and the hostile requests on real servers.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import httpx2
import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cronflow.api.app import create_api
from cronflow.api.bodies import Deployment
from cronflow.api.middleware import guarded
from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.usecases import UseCases
from tests.api.conftest import AS, HeaderGate, the_api, the_document
from tests.api.fuzzing import LARGEST_ANSWER, hostile_requests
from tests.cli.scene import FAILED, Scene

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES, EXAMPLES_IN_PROOF = 8, 100
SEED = 20261121
HOSTILE, HOSTILE_IN_PROOF = 300, 5000
STATEFUL, STATEFUL_IN_PROOF = 3, 100
KNOWN = {
    "/api/v1/jobs/{name}": {"name": "nightly-report"},
    "/api/v1/runs/{id}": {"id": FAILED},
    "/api/v1/nodes/{name}": {"name": "node-a"},
    "/api/v1/alerts/{name}": {"name": "billing"},
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server in a thread, with a cluster in memory and its own event loop."""
    scene = Scene()
    # Behind the middleware, because it limits the size of bodies.
    app = guarded(create_api(scene.service, HeaderGate(), Deployment()))
    config = uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    ready = threading.Event()

    async def serve() -> None:
        await scene.fill()
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        while not server.should_exit:
            # A deletion waits for starts that may not be recorded yet.
            await scene.clock.advance(0.05)
            await asyncio.sleep(0.01)
        await serving

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    [socket] = server.servers[0].sockets
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


DOCUMENT: dict[str, Any] = deepcopy(the_document().content)
OPERATIONS = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if path.startswith("/api/")
]


@pytest.fixture(scope="module")
def schema(address: str) -> Any:
    """What Schemathesis makes of the document; its references are resolved once for all operations."""
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.config.update(base_url=address)
    return schema


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_response_matches_the_openapi_document(
    schema: Any, method: str, path: str, request: pytest.FixtureRequest
) -> None:
    operation = schema[path][method]
    known = next((parameters for prefix, parameters in KNOWN.items() if path.startswith(prefix)), None)

    @settings(
        max_examples=EXAMPLES_IN_PROOF if request.config.getoption("--prove") else EXAMPLES,
        deadline=None,
        derandomize=False,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), exists=st.booleans())
    def check(case: Any, exists: bool) -> None:
        if exists and known is not None:
            case.path_parameters = dict(known)
        case.call_and_validate(headers={AS: "admin"}, checks=CHECKS, timeout=30)

    check()


def test_no_sequence_of_requests_fails(schema: Any, request: pytest.FixtureRequest) -> None:
    machine: Any = schema.as_state_machine()
    wanted = STATEFUL_IN_PROOF if request.config.getoption("--prove") else STATEFUL
    failures: list[BaseException] = []
    begun = 0

    class Sequences(machine):  # type: ignore[misc]
        """Requests that use what earlier ones made."""

        def setup(self) -> None:
            nonlocal begun
            begun += 1
            super().setup()

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": {AS: "admin"}, "timeout": 30}

        def validate_response(self, response: Any, case: Any, additional_checks: Any = None, **kwargs: Any) -> None:
            try:
                case.validate_response(response, checks=CHECKS, transport_kwargs=kwargs)
            except (AssertionError, FailureGroup) as error:
                failures.append(error)
                raise

    for _ in range(wanted):
        # The cluster keeps what a sequence has made, so the same choices can lead to other requests in a later one.
        with suppress(FlakyStrategyDefinition):
            run_state_machine_as_test(
                Sequences,
                settings=settings(
                    max_examples=wanted - begun,
                    stateful_step_count=10,
                    deadline=None,
                    database=None,
                    phases=[Phase.explicit, Phase.generate],
                    suppress_health_check=list(HealthCheck),
                ),
            )
        # Hypothesis repeats a failure, which may end in that error instead.
        assert not failures, failures[0]
        if begun >= wanted:
            break
    assert begun >= wanted


async def test_hostile_requests_are_answered_briefly_and_never_with_a_5xx(
    request: pytest.FixtureRequest, namespace: str
) -> None:
    async def ask(service: UseCases, count: int) -> None:
        api = the_api()
        api.state.service = service
        transport = httpx2.ASGITransport(app=guarded(api), raise_app_exceptions=True)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api") as http:
            for seed, one in enumerate(hostile_requests(DOCUMENT, SEED, count)):
                headers = {AS: "admin", "X-CronFlow-Page": "1"}
                answer = await http.request(one.method, one.path, content=one.content, headers=headers)
                where = f"request {seed}: {one.method} {one.path[:200]} {(one.content or b'')[:200]!r}"
                assert answer.status_code < 500, f"{where}: {answer.text[:500]}"
                assert answer.status_code < 400 or len(answer.content) <= LARGEST_ANSWER, where
                assert "x-evil" not in answer.headers, where

    if not request.config.getoption("--prove"):
        scene = Scene()
        await scene.fill()
        await ask(scene.service, HOSTILE)
        return
    urls = request.getfixturevalue("redis_url"), request.getfixturevalue("mongo_url")
    async with open_backends(*urls, namespace) as backends:
        await ask(UseCases(backends, SystemClock()), HOSTILE_IN_PROOF)

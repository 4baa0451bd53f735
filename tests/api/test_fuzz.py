"""Schemathesis over the whole OpenAPI document: whatever it makes up, no 5xx, and every answer is in the document.

It asks a real uvicorn over a cluster in memory, so what the server makes of a request is tested too. The number of
examples is small on purpose: other seeds are tried each day, and `-k fuzz --hypothesis-seed` repeats one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cronflow.api.app import create_api
from cronflow.api.bodies import Deployment
from tests.api.conftest import AS, HeaderGate, the_document
from tests.cli.scene import FAILED, Scene

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 25
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
    config = uvicorn.Config(
        create_api(scene.service, HeaderGate(), Deployment()), port=0, log_config=None, access_log=False, lifespan="off"
    )
    server = uvicorn.Server(config)
    ready = threading.Event()

    async def serve() -> None:
        await scene.fill()
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready.set()
        await serving

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(30)
    [socket] = server.servers[0].sockets
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    thread.join(30)


DOCUMENT: dict[str, Any] = the_document().content
OPERATIONS = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method in operations
    if path.startswith("/api/")
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_response_matches_the_openapi_document(address: str, method: str, path: str) -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.config.update(base_url=address)
    operation = schema[path][method]
    known = next((parameters for prefix, parameters in KNOWN.items() if path.startswith(prefix)), None)

    @settings(
        max_examples=EXAMPLES,
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

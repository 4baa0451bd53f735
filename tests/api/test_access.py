"""Every route of the application, with every role."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from cronflow.api.access import ClosedGate, needed_by
from cronflow.api.app import create_api
from cronflow.api.bodies import Deployment
from cronflow.api.reference_pages import ASSETS, FILES, START
from cronflow.domain.access import Role
from tests.api.conftest import Client, the_api
from tests.auth.bench import application
from tests.cli.scene import Scene

PROVIDER = ("start", "callback", "device", "device/token", "loopback", "loopback/token")
LOGIN = (
    *("token", "refresh", "logout", "session", "session/refresh", "session/logout", "options"),
    *(f"oidc/{path}" for path in PROVIDER),
)
REFERENCE = ("/docs", "/redoc", *(f"{ASSETS}/{name}" for name in (*FILES, START)))
PUBLIC = {"/livez", "/readyz", *REFERENCE, *(f"/api/v1/auth/{path}" for path in LOGIN)}
"""Routes without a login: everything in this list is public."""


def routes(api: FastAPI) -> Iterator[tuple[str, str, APIRoute]]:
    for context in iter_route_contexts(api.routes):
        route = context.original_route
        if isinstance(route, APIRoute):
            for method in sorted(route.methods or ()):
                yield method, str(context.path_format), route


MATRIX = [
    (method, path, role)
    for method, path, route in routes(the_api())
    if path not in PUBLIC and (role := needed_by(route.dependant)) is not None
]


def test_every_route_has_a_role_or_is_listed_as_public() -> None:
    without = {path for _, path, route in routes(the_api()) if needed_by(route.dependant) is None}
    assert without == PUBLIC
    assert len(MATRIX) >= 30


def test_a_route_without_a_role_is_detected() -> None:
    api = create_api(Scene().service, ClosedGate())

    @api.get("/api/v1/treasure")
    async def treasure() -> dict[str, str]:
        return {}

    assert "/api/v1/treasure" in {path for _, path, route in routes(api) if needed_by(route.dependant) is None}


READS = ("/jobs/plan", "/calendars/{name}/plan", "/schedules/preview")
EDITED = ("/jobs", "/jobs/apply", "/jobs/spread", "/jobs/spread/apply", "/calendars/{name}/read")


def test_the_roles_match_the_interface() -> None:
    writes = {(method, path.removeprefix("/api/v1")): role for method, path, role in MATRIX}
    for (method, path), role in writes.items():
        if path.startswith(("/users", "/api-keys", "/secrets", "/audit", "/cluster/config")):
            assert role is Role.ADMIN, path
        elif path.startswith("/sessions"):
            assert role is Role.VIEWER, "everybody manages their own"
        elif method == "GET" or path == "/auth/ws-ticket" or path in READS:
            assert role is Role.VIEWER, path
        elif path.startswith("/alerts"):
            assert role is Role.ADMIN, path
        elif path == "/cluster/maintenance":
            assert role is Role.OPERATOR
        elif method in ("PUT", "PATCH", "DELETE") or path in EDITED:
            assert role is Role.EDITOR, path
        else:
            assert role is Role.OPERATOR, path


@pytest.mark.parametrize(("method", "path", "needed"), MATRIX)
async def test_each_role_can_use_only_its_routes(
    scene: Scene, client: Client, method: str, path: str, needed: Role
) -> None:
    path = path.removeprefix("/api/v1").replace("{name}", "nobody").replace("{id}", "nobody@1")
    before = scene.backends.faults.calls.copy()
    anybody = await client.ask(method, path, {"x": 1}, who=None)
    assert (anybody.status_code, anybody.headers["www-authenticate"]) == (401, "Bearer")
    for role in Role:
        if role.covers(needed):
            continue
        answer = await client.ask(method, path, {"x": 1}, who=role.value)
        assert answer.status_code == 403
        assert f"this requires {needed.value}" in answer.json()["detail"]
    assert scene.backends.faults.calls == before, "who is refused costs no call"
    for role in Role:
        if role.covers(needed):
            # The input is invalid, so an admitted request fails because of it, or because the object does not exist.
            answer = await client.ask(method, path, {"x": 1}, who=role.value)
            assert answer.status_code not in (401, 403)


def test_the_openapi_document_has_the_role_of_every_route_with_a_login() -> None:
    paths = the_api().openapi()["paths"]
    found = {
        (method.upper(), path): Role(operation["x-role"])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if "x-role" in operation
    }
    assert found == {(method, path): role for method, path, role in MATRIX}
    without = {path for path, operations in paths.items() for one in operations.values() if "x-role" not in one}
    assert without == PUBLIC - {*REFERENCE}


async def test_the_closed_gate_admits_no_request(scene: Scene) -> None:
    import httpx2

    transport = httpx2.ASGITransport(app=application(scene.service, ClosedGate(), Deployment(), None))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as http:
        for method, path, _ in MATRIX:
            assert (await http.request(method, path, headers={"X-As": "admin"})).status_code == 401
        assert (await http.get("/livez")).status_code == 200

"""The API over a cluster in memory, called without a socket. Responses are validated against the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import httpx2
import jsonschema_rs
import orjson
import pytest
from fastapi import FastAPI, Request

from cronflow.api.access import NotAuthenticated
from cronflow.api.app import create_api
from cronflow.api.bodies import Deployment
from cronflow.auth.tokens import AccessTokens
from cronflow.auth.vault import Vault
from cronflow.domain.access import Principal, Role
from cronflow.usecases import UseCases
from cronflow.usecases.accounts import SecretValues
from cronflow.usecases.logins import Logins, settings_admin
from tests.auth.bench import QUICK, SECRET, application
from tests.cli.scene import Scene

AS = "x-as"


class HeaderGate:
    """Trusts a header that contains the role."""

    async def admit(self, request: Request) -> Principal:
        role = request.headers.get(AS)
        if role is None:
            raise NotAuthenticated
        return Principal(f"the-{role}", Role(role))


class UncountedLogins(Logins):
    """Tests send more requests than a person."""

    async def count_attempt(self, address: str) -> None:
        """Count nothing."""

    async def count_sign_in(self, address: str) -> None:
        """Count nothing."""


class Document:
    """The OpenAPI document, to validate responses."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._paths = [
            (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), operations)
            for path, operations in sorted(self.content["paths"].items(), key=lambda pair: "{" in pair[0])
        ]
        self._validators: dict[str, Any] = {}

    def check(self, answer: httpx2.Response) -> None:
        """Check the status, the media type and the body."""
        operation = self._operation(answer.request.method, answer.request.url.path)
        media = answer.headers.get("content-type", "").partition(";")[0]
        if operation is None:
            assert answer.status_code in (404, 405), answer.text
            described = self.content["components"]["responses"][f"Problem{answer.status_code}"]
        else:
            assert str(answer.status_code) in operation["responses"], (answer.request.url, answer.text)
            described = operation["responses"][str(answer.status_code)]
            if "$ref" in described:
                described = self.content["components"]["responses"][described["$ref"].rpartition("/")[2]]
        if answer.status_code == 204:
            assert (answer.content, "content" in described) == (b"", False)
            return
        assert media in described["content"], (answer.status_code, media)
        self.validator(described["content"][media]["schema"]).validate(orjson.loads(answer.content))
        if answer.status_code >= 400:
            assert media == "application/problem+json"
            assert orjson.loads(answer.content)["status"] == answer.status_code

    def validator(self, schema: dict[str, Any]) -> Any:
        key = orjson.dumps(schema).decode()
        if key not in self._validators:
            whole = {**schema, "components": self.content["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return self._validators[key]

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        for pattern, operations in self._paths:
            if pattern.fullmatch(path):
                found: dict[str, Any] | None = operations.get(method.lower())
                return found
        return None


@lru_cache
def the_api() -> FastAPI:
    """An application whose service each test replaces, because creating an application is slow."""
    scene = Scene()
    tokens = AccessTokens(SECRET, "default", scene.clock)
    admin = settings_admin("admin", QUICK.hash("a long password"), SECRET, "a long password")
    sessions = UncountedLogins(scene.backends, scene.clock, tokens, admin, scene.service.passwords)
    return create_api(scene.service, HeaderGate(), Deployment(version="1.2.3"), sessions)


def api_of(service: UseCases, deployment: Deployment) -> FastAPI:
    """An application that shares its routes with others, for requests whose header contains the role."""
    return application(service, HeaderGate(), deployment, None)


@lru_cache
def the_document() -> Document:
    return Document(orjson.loads(orjson.dumps(the_api().openapi())))


class Client:
    """Sends requests with a role, and validates every response against the OpenAPI document."""

    def __init__(self, api: FastAPI, http: httpx2.AsyncClient) -> None:
        self.api, self._http = api, http
        self.document = the_document()

    async def ask(
        self, method: str, path: str, body: object = None, *, who: str | None = "admin", **rest: Any
    ) -> httpx2.Response:
        """`rest` is `headers`, `params` or `content`."""
        headers = {"X-CronFlow-Page": "1", **({} if who is None else {AS: who}), **rest.pop("headers", {})}
        if body is not None:
            rest["content"] = orjson.dumps(body)
        path = path if path.startswith(("/livez", "/readyz", "/metrics", "/docs", "/openapi")) else f"/api/v1{path}"
        answer = await self._http.request(method, path, headers=headers, **rest)
        if path.startswith("/api/"):
            self.document.check(answer)
        return answer

    async def get(self, path: str, status: int = 200, **rest: Any) -> Any:
        return self._json(await self.ask("GET", path, **rest), status)

    async def post(self, path: str, body: object = None, status: int = 200, **rest: Any) -> Any:
        return self._json(await self.ask("POST", path, body, **rest), status)

    async def all(self, path: str, **params: Any) -> list[Any]:
        """Every item of a list, from all pages."""
        items, cursor = [], None
        while True:
            page = await self.get(path, params={**params, **({} if cursor is None else {"cursor": cursor})})
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return items

    def _json(self, answer: httpx2.Response, status: int) -> Any:
        assert answer.status_code == status, answer.text
        return orjson.loads(answer.content)


@asynccontextmanager
async def client_of(service: UseCases, api: FastAPI | None = None, **rest: Any) -> AsyncIterator[Client]:
    """A client of the given application, or of the shared one."""
    api = api or api_of(service, Deployment(version="1.2.3", **rest))
    api.state.service = service
    transport = httpx2.ASGITransport(app=api, raise_app_exceptions=True)
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as http:
        yield Client(api, http)


@pytest.fixture
async def scene() -> Scene:
    """The cluster of `tests.cli.scene`: a dozen jobs, runs in every state, three nodes. It is noon."""
    scene = Scene()
    scene.service.secrets = SecretValues(scene.backends.secrets, scene.clock, scene.service.audit, Vault([bytes(32)]))
    await scene.fill()
    return scene


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    """A client of its API."""
    async with client_of(scene.service, the_api()) as client:
        yield client

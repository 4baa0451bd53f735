"""An API in this process, any number of replicas over the same stores, and clients that speak HTTP to them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import httpx2
from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.exceptions import VerifyMismatchError
from fastapi import FastAPI
from starlette.datastructures import State

from cronflow.api.access import ClosedGate, Gate, TokenGate
from cronflow.api.app import create_api
from cronflow.api.bodies import Deployment
from cronflow.api.middleware import guarded
from cronflow.api.routes.chaos import Chaos
from cronflow.auth.passwords import Passwords
from cronflow.auth.tokens import AccessTokens
from cronflow.auth.vault import Vault
from cronflow.bootstrap.sign_in import sign_in_parts
from cronflow.config import load_settings
from cronflow.domain.job import CommandTarget, Job
from cronflow.ports import Backends, Clock, NotificationSender
from cronflow.usecases import UseCases
from cronflow.usecases.accounts import UserAccounts
from cronflow.usecases.logins import Logins, settings_admin
from cronflow.usecases.single_sign_on import SingleSignOn

SECRET = "a secret of the tests that is long enough"
PASSWORD = "correct horse battery"
SEALING_KEY = b"01234567890123456789012345678901"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""As weak as can be: the tests are about who hashes when."""


class CountingHasher(PasswordHasher):
    """Counts the hashes that were really made to compare, by their parameters; what is no hash costs none."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.made: list[Parameters] = []

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002  its name there
        """As it is there."""
        try:
            found = super().verify(hash, password)
        except VerifyMismatchError:
            self.made.append(extract_parameters(str(hash)))
            raise
        self.made.append(extract_parameters(str(hash)))
        return found


class CountedPasswords(Passwords):
    """Counts the comparisons."""

    def __init__(self) -> None:
        self.hasher = CountingHasher()
        super().__init__(self.hasher)

    @property
    def compared(self) -> int:
        """How many there were; all of them cost the same."""
        assert len(set(map(str, self.hasher.made))) <= 1
        return len(self.hasher.made)


@cache
def routes(of_dev: bool) -> FastAPI:
    """The application whose routes others share, because making them takes half a second. That of `dev` has more."""
    deployment = Deployment(chaos=cast("Chaos", object()) if of_dev else None)
    return create_api(cast("UseCases", None), ClosedGate(), deployment)


def application(
    service: UseCases,
    gate: Gate,
    deployment: Deployment,
    logins: Logins | None,
    sign_in: SingleSignOn | None = None,
) -> FastAPI:
    """An application with a state of its own."""
    made = copy(routes(deployment.chaos is not None))
    made.state = State(
        {"service": service, "gate": gate, "deployment": deployment, "logins": logins, "single_sign_on": sign_in}
    )
    return made


@dataclass
class Replica:
    """One API process, as far as it matters here."""

    backends: Backends
    clock: Clock
    passwords: CountedPasswords = field(default_factory=CountedPasswords)
    admin_password: str = PASSWORD
    per_s: int = 1000
    guards: dict[str, Any] = field(default_factory=dict)
    notifier: NotificationSender | None = None
    deployment: Deployment = field(default_factory=Deployment)
    oidc: dict[str, str] | None = None
    """Settings of single sign-on."""
    passwords_for_all: bool = True

    def __post_init__(self) -> None:
        self.service = UseCases(self.backends, self.clock, vault=Vault([SEALING_KEY]), notifier=self.notifier)
        # Its own hashes with the strength of a real one.
        self.service.users = UserAccounts(
            self.backends.users, self.clock, self.service.audit, self.passwords, reserved="admin"
        )
        self.tokens = AccessTokens(SECRET, "default", self.clock)
        admin = settings_admin("admin", QUICK.hash(self.admin_password), SECRET, self.admin_password)
        settings = load_settings({}, environ=self.oidc or {}, folder=Path("/nowhere"))
        oidc = sign_in_parts(settings, self.backends, self.clock, SECRET)
        self.logins = Logins(
            self.backends,
            self.clock,
            self.tokens,
            admin,
            self.passwords,
            people=None if oidc is None else oidc.people,
            passwords_for_all=self.passwords_for_all,
        )
        self.sign_in = None if oidc is None else oidc.single_sign_on(self.backends, self.clock, self.logins)
        gate = TokenGate(self.logins, self.service.keys, self.backends.limiter, per_s=self.per_s)
        api = application(self.service, gate, self.deployment, self.logins, self.sign_in)
        self.app = guarded(api, **self.guards)

    async def send(
        self,
        method: str,
        path: str,
        json: object = None,
        *,
        token: str | None = None,
        address: str = "192.0.2.1",
        headers: dict[str, str] | None = None,
        content: Any = None,
        scheme: str = "http",
    ) -> httpx2.Response:
        """One request from an address."""
        headers = dict(headers or {})
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx2.ASGITransport(app=self.app, client=(address, 40000))
        given = {"json": json} if json is not None else {"content": content} if content is not None else {}
        async with httpx2.AsyncClient(transport=transport, base_url=f"{scheme}://api") as client:
            where = path if path.startswith("/livez") else f"/api/v1{path}"
            return await client.request(method, where, headers=headers, **given)

    async def login(self, name: str = "admin", password: str = PASSWORD, **rest: Any) -> httpx2.Response:
        """Ask for tokens."""
        return await self.send("POST", "/auth/token", {"username": name, "password": password}, **rest)

    async def tokens_of(self, name: str = "admin", password: str = PASSWORD) -> dict[str, Any]:
        """IssuedTokens of a login that must succeed."""
        answer = await self.login(name, password)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def refresh(self, refresh_token: str) -> httpx2.Response:
        """Ask for the next tokens."""
        return await self.send("POST", "/auth/refresh", {"refresh_token": refresh_token})

    async def lets_in(self, token: str, path: str = "/jobs") -> bool:
        """Whether a token is good."""
        answer = await self.send("GET", path, token=token)
        assert answer.status_code in (200, 401), answer.text
        return answer.status_code == 200


def a_job(name: str = "report", **fields: Any) -> Job:
    """A job that is run by hand."""
    return Job(name=name, target=CommandTarget("true"), **fields)

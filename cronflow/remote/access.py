"""Users, API keys and secrets through the API, and out of their shapes; the counterpart of `cronflow.schemas.access`.

What logs in, or is sealed, never comes over the API, and is empty here.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cronflow.client.aio import AsyncClient
from cronflow.client.calls import Call, given, path_of
from cronflow.domain.access import ApiKey, Principal, Role, Secret, User
from cronflow.remote.pages import Pages
from cronflow.remote.plain import instant, optional_instant, understood
from cronflow.schemas.access import KeySchema, PrincipalSchema, SecretSchema, UserSchema
from cronflow.schemas.base import optional_iso


def principal_of(shape: PrincipalSchema) -> Principal:
    """Who asks."""
    return Principal(shape["name"], Role(shape["role"]), tuple(shape["jobs"]))


def user_of(shape: UserSchema) -> User:
    """A user."""
    return User(
        name=shape["name"],
        role=Role(shape["role"]),
        password_hash="",
        stamp="",
        created_at=instant(shape["created_at"]),
        enabled=shape["enabled"],
    )


def key_of(shape: KeySchema) -> ApiKey:
    """An API key."""
    return ApiKey(
        name=shape["name"],
        role=Role(shape["role"]),
        key_hash="",
        created_at=instant(shape["created_at"]),
        created_by=shape["created_by"] or "",
        jobs=tuple(shape["jobs"]),
        expires_at=optional_instant(shape["expires_at"]),
        last_used_at=optional_instant(shape["last_used_at"]),
    )


def secret_of(shape: SecretSchema) -> Secret:
    """The name of a secret, and who set it."""
    return Secret(
        name=shape["name"], sealed="", updated_at=instant(shape["updated_at"]), updated_by=shape["updated_by"] or ""
    )


class RemoteUsers:
    """`cronflow.usecases.accounts.Users`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._pages = Pages(client, user_of, lambda user: user.name)

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        """By name, those behind `after`."""
        return await self._pages.page(path_of("users"), after or None, limit)

    async def create(self, name: str, role: Role, password: str, *, by: str = "") -> User:
        """Raises InvalidInput, and Conflict when the name exists."""
        body = {"name": name, "role": role, "password": password}
        return understood(user_of, await self._client.send(Call("POST", path_of("users"), body=body)))

    async def change(
        self,
        name: str,
        *,
        role: Role | None = None,
        enabled: bool | None = None,
        password: str | None = None,
        by: str = "",
    ) -> User:
        """Change what is given. Raises NotFound, InvalidInput, Conflict."""
        body = given(role=role, enabled=enabled, password=password)
        return understood(user_of, await self._client.send(Call("PATCH", path_of("users", name), body=body)))

    async def delete(self, name: str, *, by: str = "") -> None:
        """Raises NotFound."""
        await self._client.send(Call("DELETE", path_of("users", name)))


class RemoteKeys:
    """`cronflow.usecases.accounts.Keys`, for those who manage them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._pages = Pages(client, key_of, lambda key: key.name)

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        """By name, those behind `after`."""
        return await self._pages.page(path_of("api-keys"), after or None, limit)

    async def create(
        self,
        name: str,
        role: Role,
        *,
        jobs: tuple[str, ...] = (),
        expires_at: datetime | None = None,
        by: str = "",
    ) -> tuple[ApiKey, str]:
        """The key, and its text. Raises InvalidInput, and Conflict when the name exists."""
        body = {"name": name, "role": role, "jobs": [*jobs], "expires_at": optional_iso(expires_at)}
        answer: Any = await self._client.send(Call("POST", path_of("api-keys"), body=body))
        return understood(lambda shape: (key_of(shape), str(shape["key"])), answer)

    async def delete(self, name: str, *, by: str = "") -> None:
        """Raises NotFound."""
        await self._client.send(Call("DELETE", path_of("api-keys", name)))


class RemoteSecrets:
    """`cronflow.usecases.secrets.Secrets`, for those who set them."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._pages = Pages(client, secret_of, lambda secret: secret.name)

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        """By name, those behind `after`."""
        return await self._pages.page(path_of("secrets"), after or None, limit)

    async def set(self, name: str, value: str, *, by: str = "") -> bool:
        """Whether there was none of this name. Raises InvalidInput."""
        answer: Any = await self._client.send(Call("POST", path_of("secrets"), body={"name": name, "value": value}))
        return understood(lambda shape: bool(shape["new"]), answer)

    async def delete(self, name: str, *, by: str = "") -> None:
        """Raises NotFound."""
        await self._client.send(Call("DELETE", path_of("secrets", name)))

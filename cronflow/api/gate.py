"""Authentication by the Authorization header, and the rate limit of each principal.

Only `Bearer` with an access token or an API key is accepted. There is no cookie, so no other site can send requests in
a user's name. While Redis is unreachable requests are not limited: operators need the API most then.
"""

from __future__ import annotations

from fastapi import Request

from cronflow.api.access import NotAuthenticated
from cronflow.domain.access import KEY_PREFIX, Principal
from cronflow.domain.errors import BackendUnavailable, TooSoon
from cronflow.ports import RateLimiter
from cronflow.usecases.accounts import ApiKeys
from cronflow.usecases.logins import Logins

REQUESTS_PER_S = 100


class TokenGate:
    """The Gate of an API with logins. `per_s`: requests per second of each principal."""

    def __init__(self, logins: Logins, keys: ApiKeys, limiter: RateLimiter, *, per_s: int = REQUESTS_PER_S) -> None:
        self._logins = logins
        self._keys = keys
        self._limiter = limiter
        self._per_s = per_s

    async def admit(self, request: Request) -> Principal:
        """See Gate. Raises TooSoon."""
        scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not credential:
            raise NotAuthenticated("log in, and send the token as `Authorization: Bearer …`")
        known_by = self._keys if credential.startswith(KEY_PREFIX) else self._logins
        found = await known_by.principal(credential)
        if found is None:
            raise NotAuthenticated("the token or key is not valid, or not any more")
        wait_s = await self._wait(found)
        if wait_s:
            raise TooSoon(wait_s)
        return found

    async def _wait(self, principal: Principal) -> float:
        try:
            return await self._limiter.take(f"api:{principal.name}", self._per_s, self._per_s)
        except BackendUnavailable:
            return 0.0

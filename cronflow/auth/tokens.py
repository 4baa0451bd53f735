"""Access tokens: JWTs, signed with HS256 and read with no other algorithm, whatever they say of themselves."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import jwt

from cronflow.ports import Clock

ACCESS_S = 15 * 60
ALGORITHM = "HS256"
ISSUER = "cronflow"
_REQUIRED = ("iss", "aud", "sub", "sid", "jti", "iat", "exp")


class Claims(NamedTuple):
    """Who an access token was made for, and in which session."""

    user: str
    session: str


class AccessTokens:
    """Makes and reads access tokens of one cluster. `audience` is its namespace."""

    def __init__(self, secret: str, audience: str, clock: Clock) -> None:
        self._secret = secret
        self._audience = audience
        self._clock = clock

    def make(self, claims: Claims) -> str:
        """A token for the next ACCESS_S seconds."""
        now = int(self._clock.now().timestamp())
        content = {
            "iss": ISSUER,
            "aud": self._audience,
            "sub": claims.user,
            "sid": claims.session,
            "jti": secrets.token_hex(16),
            "iat": now,
            "exp": now + ACCESS_S,
        }
        return jwt.encode(content, self._secret, ALGORITHM)

    def read(self, text: str) -> Claims | None:
        """What it says, or None: not signed by this cluster, expired, or not all there."""
        try:
            found = jwt.decode(
                text,
                self._secret,
                algorithms=[ALGORITHM],
                audience=self._audience,
                issuer=ISSUER,
                # Times are compared below, with the clock that made them.
                options={"require": list(_REQUIRED), "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except jwt.InvalidTokenError:
            return None
        user, session, until = found["sub"], found["sid"], found["exp"]
        whole = isinstance(until, int) and not isinstance(until, bool) and isinstance(session, str)
        if not whole or self._clock.now().timestamp() >= until:
            return None
        return Claims(user, session)

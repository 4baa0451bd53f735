"""Access tokens, and the random texts that people and scripts present: refresh tokens, API keys, tickets.

An access token is a JWT signed with HS256; no other algorithm is accepted, whatever the header claims. The random texts
carry no information. Only their SHA-256 is stored, which for 256 random bits is as strong as a slow hash. Their form
shows the kind: `cfk.<name>.<random>` is an API key, `<session>.<random>` a refresh token.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

import jwt

from cronflow.domain.access import KEY_PREFIX
from cronflow.ports import Clock

ACCESS_S = 15 * 60
ALGORITHM = "HS256"
ISSUER = "cronflow"
_REQUIRED = ("iss", "aud", "sub", "sid", "jti", "iat", "exp")


class Claims(NamedTuple):
    """The user and session of an access token."""

    user: str
    session: str


class AccessTokens:
    """Makes and reads the access tokens of one cluster. `audience` is its namespace."""

    def __init__(self, secret: str, audience: str, clock: Clock) -> None:
        self._secret = secret
        self._audience = audience
        self._clock = clock

    def make(self, claims: Claims, lasts_s: int = ACCESS_S) -> str:
        """A token for the next seconds."""
        now = int(self._clock.now().timestamp())
        content = {
            "iss": ISSUER,
            "aud": self._audience,
            "sub": claims.user,
            "sid": claims.session,
            "jti": secrets.token_hex(16),
            "iat": now,
            "exp": now + lasts_s,
        }
        return jwt.encode(content, self._secret, ALGORITHM)

    def read(self, text: str) -> Claims | None:
        """The claims; None if the token is expired, incomplete or not signed by this cluster."""
        try:
            found = jwt.decode(
                text,
                self._secret,
                algorithms=[ALGORITHM],
                audience=self._audience,
                issuer=ISSUER,
                # Times are compared below, with the clock that issued them.
                options={"require": list(_REQUIRED), "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except jwt.InvalidTokenError:
            return None
        user, session, until = found["sub"], found["sid"], found["exp"]
        whole = isinstance(until, int) and not isinstance(until, bool) and isinstance(session, str)
        if not whole or self._clock.now().timestamp() >= until:
            return None
        return Claims(user, session)


def random_text() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(text: str) -> str:
    """The stored form of a random text."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_text(name: str, random: str) -> str:
    return f"{KEY_PREFIX}{name}.{random}"


def key_parts(text: str) -> tuple[str, str] | None:
    """The name and the random part of an API key; None if the text is not an API key."""
    name, dot, random = text.removeprefix(KEY_PREFIX).rpartition(".")
    return (name, random) if text.startswith(KEY_PREFIX) and dot and name and random else None


def refresh_text(session: str, random: str) -> str:
    return f"{session}.{random}"


def refresh_parts(text: str) -> tuple[str, str] | None:
    """The session and the random part of a refresh token; None if the text is not a refresh token."""
    session, dot, random = text.partition(".")
    return (session, random) if dot and session and random else None

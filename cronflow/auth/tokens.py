"""What people and scripts present: access tokens, refresh tokens, API keys, tickets.

Access tokens are JWTs, signed with HS256 and read with no other algorithm, whatever they say of themselves. All others
are random and mean nothing by themselves; of each a SHA-256 is kept, which for 256 random bits is as good as a slow
hash. The form of a text says what it is: `cfk.<name>.<random>` is an API key, `<session>.<random>` a refresh token.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import NamedTuple

import jwt

from cronflow.ports import Clock

ACCESS_S = 15 * 60
ALGORITHM = "HS256"
ISSUER = "cronflow"
KEY_PREFIX = "cfk."
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


def random_text() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(32)


def hashed(text: str) -> str:
    """What is kept of a random text."""
    return hashlib.sha256(text.encode()).hexdigest()


def key_text(name: str, random: str) -> str:
    """An API key as it is shown, once."""
    return f"{KEY_PREFIX}{name}.{random}"


def key_parts(text: str) -> tuple[str, str] | None:
    """The name and the random part of an API key; None for what has not its form."""
    name, dot, random = text.removeprefix(KEY_PREFIX).rpartition(".")
    return (name, random) if text.startswith(KEY_PREFIX) and dot and name and random else None


def refresh_text(session: str, random: str) -> str:
    """A refresh token as it is given out."""
    return f"{session}.{random}"


def refresh_parts(text: str) -> tuple[str, str] | None:
    """The session and the random part of a refresh token; None for what has not its form."""
    session, dot, random = text.partition(".")
    return (session, random) if dot and session and random else None

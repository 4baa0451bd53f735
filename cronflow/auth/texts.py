"""What people and scripts present beside access tokens: refresh tokens, API keys, tickets.

They are random and mean nothing by themselves; of each a SHA-256 is kept, which for 256 random bits is as good as a
slow hash. The form of a text says what it is: `cfk.<name>.<random>` is an API key, `<session>.<random>` a refresh
token.
"""

from __future__ import annotations

import hashlib
import secrets

KEY_PREFIX = "cfk."


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

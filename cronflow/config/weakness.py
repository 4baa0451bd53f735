"""Guessable credentials, which the API accepts and warns about when it starts."""

from __future__ import annotations

import math
import re
from collections import Counter

from cronflow.config.settings import Credentials
from cronflow.domain.errors import Problem

ENOUGH_CHARACTERS = 12
ENOUGH_BITS = 96
COMMON = re.compile(
    r"(?i)admin|change.?me|cronflow|default|example|letmein|pass.?w.?(or)?d|qwert|secret|test|welcome|1234"
)
BETTER_PASSWORD = "set one made by `openssl rand -base64 18`"  # noqa: S105  a remedy
BETTER_SECRET = "set one made by `openssl rand -base64 48`, the same for every API; it ends all logins"  # noqa: S105


def weaknesses(given: Credentials) -> list[Problem]:
    """What is weak, without the values. A password of which only the hash is known cannot be checked."""
    found = []
    password, secret = given.password, given.jwt_secret
    if password is not None:
        if len(password) < ENOUGH_CHARACTERS:
            what = f"has only {len(password)} characters; {ENOUGH_CHARACTERS} or more are hard to guess"
            found.append(Problem("ADMIN_PASSWORD", what, BETTER_PASSWORD))
        elif len(set(password)) < ENOUGH_CHARACTERS // 2 or _is_common(password, given.admin):
            found.append(Problem("ADMIN_PASSWORD", "is easy to guess", BETTER_PASSWORD))
    if _bits(secret) < ENOUGH_BITS or _is_common(secret, given.admin):
        what = "is easy to guess; anyone who knows it can log in as any user"
        found.append(Problem("JWT_SECRET", what, BETTER_SECRET))
    return found


def _is_common(text: str, name: str) -> bool:
    """Whether the text is hardly more than well-known words."""
    rest = COMMON.sub("", re.sub(re.escape(name), "", text, flags=re.IGNORECASE))
    return len(rest) < ENOUGH_CHARACTERS // 2


def _bits(text: str) -> float:
    """How much the text could contain at most, from the frequency of its characters."""
    return -sum(n * math.log2(n / len(text)) for n in Counter(text).values())

"""Passwords and tokens in values that people read: in the audit log, in plans, and in the definitions of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from cronflow.domain.secret import HIDDEN

_SENSITIVE = re.compile(
    r"(?i)(authorization|cookie|passw(or)?d|passphrase|secret|token|credential|signature|api[-_.]?key|private[-_.]?key)"
)
# Repetitions are bounded, so that no document takes long.
_IN_TEXT = (
    (re.compile(r"(?<=://)[^/@\s]+@"), f"{HIDDEN}@"),
    (
        re.compile(r"(?i)([?&][^=&\s]{0,100}(?:passw|secret|token|key|sig)[^=&\s]{0,100}=)[^&\s#]+"),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    # PASSWORD=..., --password ..., "password": "..."; but neither $PASSWORD nor ${secret:PASSWORD}.
    (
        re.compile(
            r"""(?ix) ( (?<!\$\{) (?:passw(?:or)?d|passphrase|secret|token|api[-_.]?key|private[-_.]?key)
            (?: [\w.-]{0,40} ["']? \s{0,5} [:=] \s{0,5} | (?<=-password) \s{1,5} | (?<=-token) \s{1,5} ) ["']? )
            (?! [$*\s] | (?:true|false|null|none)\b ) [^\s"'&;,|<>()}]+"""
        ),
        rf"\1{HIDDEN}",
    ),
    # curl -u user:password
    (
        re.compile(r"""(?x) ( (?:\s-u|--user) [\s=]{0,5} ["']? [A-Za-z_][\w.@-]{0,100} : ) (?!\$) [^\s"']+"""),
        rf"\1{HIDDEN}",
    ),
)
_SIGNS = (
    "://", "?", "&", "-u", "author", "bas", "bearer", "cook", "credent", "gnature", "key", "passphrase", "passw",
    "secret", "token",
)  # fmt: skip
"""`_SENSITIVE` and each pattern of `_IN_TEXT` match only text that contains one of these once it is casefolded. They
have no i, because patterns match the Turkish letters too, which casefolding keeps.
"""
_REFERENCE = re.compile(r"[^$]*\$\{secret:[^}]*\}\s*")


def masked(value: Any) -> Any:
    """Replace values under password-like keys, and passwords and tokens in URLs and headers within text. References to
    secrets stay.
    """
    return value if _has_no_signs(value) else _masked(value)


def _has_no_signs(value: object) -> bool:
    """Whether one look at the whole value rules out that anything in it is masked."""
    try:
        text = orjson.dumps(value).decode().casefold()
    except orjson.JSONEncodeError:
        return False
    return not any(sign in text for sign in _SIGNS)


def _masked(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: (_hidden if _SENSITIVE.search(str(key)) else _masked)(item) for key, item in value.items()}
        case list() | tuple():
            return [_masked(item) for item in value]
        case str():
            for pattern, replacement in _IN_TEXT:
                value = pattern.sub(replacement, value)
    return value


def _hidden(value: object) -> object:
    match value:
        case Mapping():
            return {key: _hidden(item) for key, item in value.items()}
        case list() | tuple():
            return [_hidden(item) for item in value]
        case None | bool() | "":
            return value
        case str() if _REFERENCE.fullmatch(value):
            return value
    return HIDDEN

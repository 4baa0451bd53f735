"""The audit log: one entry for every change made through a use case; and the masking of passwords in documents.

An entry is written after the change stands. If writing it fails, the caller gets an error although the change was made;
versions, runs and dead letters store their author themselves. Values that look like passwords are masked. The edge that
accepts a request sets `client_address`.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from cronflow.domain.access import AuditEntry, entry_id
from cronflow.domain.events import Event
from cronflow.domain.secret import HIDDEN
from cronflow.ports import AuditStore, Clock, EventSink, discard_event

client_address: ContextVar[str | None] = ContextVar("client_address", default=None)
"""The address of the client whose request is being handled; None outside a request."""
client_agent: ContextVar[str] = ContextVar("client_agent", default="")
"""The program of the client, from its User-Agent header."""

_count = itertools.count()
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


class Changed(NamedTuple):
    """An action on a target, with the state before and after."""

    action: str
    target: str
    before: object = None
    after: object = None


class Auditor:
    """Writes audit entries, and emits the events that belong to them."""

    def __init__(self, audit: AuditStore, clock: Clock, emit: EventSink = discard_event) -> None:
        self._audit = audit
        self._clock = clock
        self.emit = emit

    async def record_events(self, by: str, *done: tuple[Changed, Event]) -> None:
        """Emit the events and write an entry for each change."""
        for _, event in done:
            self.emit(event)
        await self.record(by, *(changed for changed, _ in done))

    async def record(self, by: str, *changes: Changed) -> None:
        """Write an entry for each change."""
        if not changes:
            return
        now = self._clock.now()
        await self._audit.append(self._entries(by, changes, now))

    def _entries(self, by: str, changes: Sequence[Changed], now: datetime) -> list[AuditEntry]:
        stamp = entry_id(now)
        return [
            AuditEntry(
                # The counter keeps entries of the same instant in order.
                id=f"{stamp}-{next(_count):010}-{secrets.token_hex(6)}",
                at=now,
                by=by,
                action=change.action,
                target=change.target,
                before=masked(change.before),
                after=masked(change.after),
                address=client_address.get(),
            )
            for change in changes
        ]


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

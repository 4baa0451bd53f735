"""The audit log: one entry for each change that was made through the service, whoever asked for it and however.

An entry is written once the change stands. Where that fails the caller learns that a server is away, and the change
may stand without its entry; versions, runs and dead letters keep their author themselves. Values that look like
passwords are masked before they are kept. The address of whoever asks is set by the edge that knows it.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import NamedTuple

from cronflow.domain.access import AuditEntry
from cronflow.domain.secret import HIDDEN
from cronflow.ports import AuditStore, Clock

client_address: ContextVar[str | None] = ContextVar("client_address", default=None)
"""Where the request that is being answered came from; None outside of one."""

_count = itertools.count()
_TELLING = re.compile(
    r"(?i)(authorization|cookie|passw(or)?d|passphrase|secret|token|credential|signature|api[-_.]?key|private[-_.]?key)"
)
_IN_TEXT = (
    (re.compile(r"(?<=://)[^/@\s]+@"), f"{HIDDEN}@"),
    (re.compile(r"(?i)([?&][^=&\s]*(?:passw|secret|token|key|sig)[^=&\s]*=)[^&\s#]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
)
_REFERENCE = re.compile(r"[^$]*\$\{secret:[^}]*\}\s*")


class Changed(NamedTuple):
    """What somebody did, to what, and what that was before and after."""

    action: str
    target: str
    before: object = None
    after: object = None


class Auditor:
    """Writes entries."""

    def __init__(self, audit: AuditStore, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock

    async def record(self, by: str, *changes: Changed) -> None:
        """An entry for each of them."""
        if not changes:
            return
        now = self._clock.now()
        await self._audit.append(self._entries(by, changes, now))

    def _entries(self, by: str, changes: Sequence[Changed], now: datetime) -> list[AuditEntry]:
        stamp = f"{round(now.timestamp() * 1_000_000):016}"
        return [
            AuditEntry(
                # Of one instant those of this process sort as they were made.
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


def masked(value: object) -> object:
    """The same plain value, without what stands under a key that speaks of passwords, and without the passwords and
    tokens of addresses and headers within text. A reference to a secret is none, and stays.
    """
    match value:
        case Mapping():
            return {key: (_hidden if _TELLING.search(str(key)) else masked)(item) for key, item in value.items()}
        case list() | tuple():
            return [masked(item) for item in value]
        case str():
            for pattern, instead in _IN_TEXT:
                value = pattern.sub(instead, value)
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

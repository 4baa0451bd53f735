"""The audit log: one entry for every change made through a use case; and the masking of passwords in documents.

An entry is written after the change stands. If writing it fails, the caller gets an error although the change was made;
versions, runs and dead letters store their author themselves. Values that look like passwords are masked. The edge that
accepts a request sets `client_address`.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import NamedTuple

from cronflow.documents.masking import masked
from cronflow.domain.access import AuditEntry, entry_id
from cronflow.domain.events import Event
from cronflow.ports import AuditStore, Clock, EventSink, discard_event

client_address: ContextVar[str | None] = ContextVar("client_address", default=None)
"""The address of the client whose request is being handled; None outside a request."""
client_agent: ContextVar[str] = ContextVar("client_agent", default="")
"""The program of the client, from its User-Agent header."""

_count = itertools.count()


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

"""Limits, with who holds them and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronflow.documents.limits import LimitForm, limit_document
from cronflow.ports import Waiter
from cronflow.schemas import Schema, iso, optional_iso

if TYPE_CHECKING:
    from cronflow.usecases.limits import LimitUsage


class PermitSchema(Schema):
    """A run that executes under a limit."""

    run: str
    """The run."""
    fence: int
    """The fencing token of its attempt."""
    node: str
    """The node."""
    since: str
    """When it acquired its permit."""


class WaiterSchema(Schema):
    """A run that waits for a limit. A scheduled run may not exist yet."""

    run: str
    """The run."""
    since: str
    """When it began to wait."""


class LimitSchema(Schema, LimitForm):
    """A limit, the runs that hold its permits and those that wait."""

    permits: list[PermitSchema]
    """The runs that hold a permit, longest first."""
    waiting: list[WaiterSchema]
    """The runs that wait, longest first; at most 2000."""
    updated_at: str | None
    """When it was last changed."""
    updated_by: str | None
    """Who last changed it."""


def limit_schema(usage: LimitUsage) -> LimitSchema:
    """A limit."""
    state, waiting = usage
    permits = sorted(state.permits, key=lambda one: one.since)
    return {
        **limit_document(state.definition),
        "permits": [{"run": one.run, "fence": one.fence, "node": one.node, "since": iso(one.since)} for one in permits],
        "waiting": [_waiter(one) for one in waiting],
        "updated_at": optional_iso(state.updated_at),
        "updated_by": state.updated_by or None,
    }


def _waiter(waiter: Waiter) -> WaiterSchema:
    return {"run": waiter.run, "since": iso(waiter.since)}

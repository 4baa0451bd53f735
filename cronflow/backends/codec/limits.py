"""Named limits and the permits of all limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cronflow.backends.codec.values import Document
from cronflow.domain.concurrency import parse_rate
from cronflow.domain.permits import LimitState, NamedLimit, Permit


def named_limit_document(limit: NamedLimit) -> Document:
    """The definition in the document of a named limit. Updates use the milliseconds of its rate."""
    rate = limit.rate
    return {
        "limit": limit.limit,
        "rate": None if rate is None else str(rate),
        "burst": None if rate is None else rate.burst,
        "interval_ms": None if rate is None else rate.interval_ms,
        "tolerance_ms": None if rate is None else rate.tolerance_ms,
        "description": limit.description,
    }


def limit_state(document: Mapping[str, Any]) -> LimitState:
    rate = document.get("rate")
    permits = (Permit(one["run"], one["fence"], one["node"], one["since"]) for one in document["permits"])
    return LimitState(
        id=document["_id"],
        limit=document.get("limit"),
        rate=None if rate is None else parse_rate(rate, document["burst"]),
        permits=tuple(permits),
        next_at=document.get("next_at"),
        used_at=document.get("used_at"),
        description=document.get("description", ""),
        updated_at=document.get("updated_at"),
        updated_by=document.get("updated_by", ""),
    )

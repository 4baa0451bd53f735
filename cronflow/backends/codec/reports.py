"""Heartbeats of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from cronflow.backends.codec.values import amount
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import Backlog, NodeReport


def report_json(report: NodeReport) -> bytes:
    return orjson.dumps(report, default=dict)


def report_from_json(text: bytes) -> NodeReport:
    """Ignores unknown fields: the cluster may have newer nodes."""
    known = NodeReport.__dataclass_fields__
    fields = {name: value for name, value in orjson.loads(text).items() if name in known}
    if fields.get("started_at"):
        fields["started_at"] = datetime.fromisoformat(fields["started_at"])
    if "spool" in fields:
        spool = fields["spool"]
        since = None if spool["since"] is None else datetime.fromisoformat(spool["since"])
        fields["spool"] = Backlog(spool["outcomes"], spool["bytes"], since)
    if fields.get("capabilities"):
        fields["capabilities"] = _capabilities(fields["capabilities"])
    fields["capacity"] = amount(fields.get("capacity"))
    fields["differing"] = {job: tuple(found) for job, found in fields.get("differing", {}).items()}
    return NodeReport(**fields)


def _capabilities(document: Mapping[str, Any]) -> Capabilities:
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in document.items()
        if name in Capabilities.__dataclass_fields__
    }
    return Capabilities(**known)

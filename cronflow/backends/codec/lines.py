"""Log lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from cronflow.backends.codec.values import Document
from cronflow.domain.run import GRAVE
from cronflow.ports import LogLine


def line_document(line: LogLine) -> Document:
    """A log line. Its id makes inserting it twice harmless. Warnings and errors have a partial index."""
    grave = {"grave": True} if line.level in GRAVE else {}
    return {
        **grave,
        "_id": line_id(line),
        "run": line.run,
        "job": line.job,
        "fence": line.fence,
        "attempt": line.attempt,
        "n": line.n,
        "at": line.at,
        "level": line.level,
        "text": line.text,
        "node": line.node,
    }


def line_id(line: LogLine) -> str:
    """A unique id. The ids of a run sort like its lines."""
    return f"{line.run}#{line.fence}#{line.n:08d}"


def line(document: Mapping[str, Any]) -> LogLine:
    fields = {name: document[name] for name in ("run", "job", "fence", "attempt", "n", "at", "level", "text")}
    return LogLine(**fields, node=document.get("node", ""))


def lines_json(lines: Sequence[LogLine]) -> bytes:
    """Log lines for the live tail."""
    return orjson.dumps([line_document(line) for line in lines])


def lines_from_json(text: bytes) -> list[LogLine]:
    return [line({**found, "at": datetime.fromisoformat(found["at"])}) for found in orjson.loads(text)]

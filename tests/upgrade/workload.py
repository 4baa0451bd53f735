"""The jobs of an upgrade, as documents, and what their handlers have written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cronflow.testing.history.history import START, Noted

HANDLERS = "handlers"
"""The module of the handlers: a copy of `tests.processes.handlers`, which every version can import."""

Document = dict[str, Any]


def job(sink: Path, name: str, every: str | None, seconds: float, fails: int = 0, **keys: object) -> Document:
    """A job whose handler runs for `seconds`, fails in `fails` of 100 fences, and writes the sink."""
    target = {"python": f"{HANDLERS}:work", "args": {"sink": str(sink), "seconds": seconds, "fails": fails}}
    schedule = {} if every is None else {"schedule": {"every": every}}
    return {"name": name, "run": target, "timeout": "30s", "retry": {"max": 0}, "overlap": "allow"} | schedule | keys


def first_jobs(sink: Path) -> list[Document]:
    """Jobs with keys that 0.6 knows, seven fires per second."""
    again = {"max": 2, "initial": "1s"}
    return [
        *(job(sink, f"plain-{k}", "1s", 0.2) for k in range(3)),
        job(sink, "slow", "2s", 2.5),
        job(sink, "forbid", "1s", 1.5, overlap="forbid"),
        job(sink, "queue", "2s", 0.5, overlap="queue"),
        job(sink, "retried", "2s", 0.2, 30, retry=again),
        job(sink, "once", "1s", 0.5, delivery="at_most_once"),
        job(sink, "guarded", "2s", 0.5, start_guard="mongo"),
    ]


def new_jobs(sink: Path) -> list[Document]:
    """What 0.9 does not know: a job with a limit, and one that follows it."""
    return [
        job(sink, "limited", "1s", 1.5, concurrency={"key": "{job}", "limit": 1}),
        job(sink, "follower", None, 0.1, after={"job": "limited", "on": "ended"}),
    ]


def needs_newer(sink: Path) -> list[Document]:
    """A job with a limit that only runs on request."""
    return [job(sink, "needs-newer", None, 0.1, concurrency={"key": "{job}", "limit": 1})]


@dataclass(frozen=True, slots=True)
class Started:
    """A node was started with a version."""

    node: str
    version: str
    at: datetime


def starts_by_version(sink: Sequence[Noted], started: Sequence[Started], since: datetime) -> Mapping[str, int]:
    """How many handlers were started since then, by the version of their node at that time."""
    return Counter(version_at(started, line.node, line.at) for line in sink if line.word == START and line.at >= since)


def starts_by_node(sink: Sequence[Noted], since: datetime) -> Mapping[str, int]:
    """How many handlers each node has started since then."""
    return Counter(line.node for line in sink if line.word == START and line.at >= since)


def version_at(started: Sequence[Started], node: str, at: datetime) -> str:
    """The version that a node had. ValueError if it had not been started."""
    versions = [one.version for one in started if one.node == node and one.at <= at]
    if not versions:
        raise ValueError(f"{node} ran nothing at {at:%T}")
    return versions[-1]

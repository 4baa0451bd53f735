"""Values inside documents: places, waits, covers, attempts, and what users have given."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

from bson.dbref import DBRef

from cronflow.domain.job import Pause
from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import Attempt, Covers, NodeTimes, Outcome, Resolution, ResourceUse, Settled
from cronflow.domain.split import Shard, Split, SplitBy

Document = dict[str, Any]


def plain(value: Any) -> Any:
    """A domain value in BSON types: enums by value, dataclasses and tuples by content."""
    match value:
        case Enum():
            return value.value
        case Attempt():
            return attempt_document(value)
        case Covers():
            return {"first": value.first, "last": value.last, "count": value.count}
        case Placement():
            others = [list(other) for other in value.others]
            return {"node": value.node, "rank": value.rank, "others": others, "more": value.more}
        case Waiting() | Resolution() | Pause() | ResourceAmount() | Split() | Shard() | NodeTimes() | ResourceUse():
            return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
        case tuple() | list():
            return [plain(item) for item in value]
        case _:
            return value


def given(value: Any) -> Any:
    """A JSON value of a user as it was given. The driver makes a reference of a dict with `$ref` and `$id`, which JSON
    cannot represent: a run with one in its arguments could not be dispatched.
    """
    match value:
        case DBRef():
            return {name: given(item) for name, item in value.as_doc().items()}
        case dict():
            return {name: given(item) for name, item in value.items()}
        case list():
            return [given(item) for item in value]
    return value


def placement_of(document: Mapping[str, Any] | None) -> Placement | None:
    if document is None:
        return None
    others = tuple((node, standing) for node, standing in document["others"])
    return Placement(document["node"], document["rank"], others, document["more"])


def waiting_of(document: Mapping[str, Any] | None) -> Waiting | None:
    if document is None:
        return None
    fire, since = stored_instant(document["fire"]), stored_instant(document["since"])
    nodes = tuple((node, reason) for node, reason in document["nodes"])
    return Waiting(**{**document, "fire": fire, "since": since, "nodes": nodes})


def stored_instant(value: datetime | str) -> datetime:
    # Until 0.13, nodes wrote a text if the wait had been in their spool.
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def resolution_of(document: Mapping[str, Any] | None) -> Resolution | None:
    return None if document is None else Resolution(**{**document, "how": Settled(document["how"])})


def split_of(document: Mapping[str, Any] | None) -> Split | None:
    if document is None:
        return None
    only = document["only"]
    return Split(
        by=SplitBy(document["by"]),
        total=document["total"],
        nodes=tuple(document["nodes"]),
        only=None if only is None else tuple(only),
        begun=document["begun"],
    )


def amount(document: Mapping[str, Any] | None) -> ResourceAmount | None:
    """A stored amount of CPU and memory."""
    return None if document is None else ResourceAmount(document["cpu"], document["memory"])


def covers_of(document: Mapping[str, Any] | None) -> Covers | None:
    return None if document is None else Covers(document["first"], document["last"], document["count"])


def attempt_document(attempt: Attempt) -> Document:
    """An attempt inside a run's document."""
    document = {
        "n": attempt.n,
        "fence": attempt.fence,
        "node": attempt.node,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "outcome": attempt.outcome.value,
        "error": attempt.error,
    }
    # Earlier versions ignore them.
    if attempt.times is not None:
        document["times"] = plain(attempt.times)
    if attempt.used is not None:
        document["used"] = plain(attempt.used)
    return document


def attempt_of(document: Mapping[str, Any]) -> Attempt:
    return Attempt(
        document["n"],
        document["fence"],
        document["node"],
        document["started_at"],
        document["ended_at"],
        Outcome(document["outcome"]),
        document["error"],
        None if (times := document.get("times")) is None else NodeTimes(**times),
        None if (used := document.get("used")) is None else ResourceUse(**used),
    )

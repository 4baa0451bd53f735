"""Marks on a time axis: what happened to the cluster that may explain what its runs did, from recorded events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from cronflow.domain.events import (
    JobDefinitionDiffers,
    LeaderElected,
    LeaderSteppedDown,
    MaintenanceEnded,
    MaintenanceStarted,
    NodeJoined,
    NodeLost,
    RecordedEvent,
    RedisStateRestored,
    ServiceLost,
    kind_of,
)


class MarkKind(StrEnum):
    """What happened to the cluster, as a mark on the timeline."""

    LEADER = "leader"
    DEPLOYMENT = "deployment"
    NODE_LOST = "node_lost"
    SERVICE = "service"
    MAINTENANCE = "maintenance"


_LEADER = (LeaderElected, LeaderSteppedDown)
_SERVICE = (ServiceLost, RedisStateRestored)
_MAINTENANCE = (MaintenanceStarted, MaintenanceEnded)
MARKED = frozenset(map(kind_of, (*_LEADER, *_SERVICE, *_MAINTENANCE, NodeJoined, NodeLost, JobDefinitionDiffers)))
"""The kinds of events of which marks are made."""


@dataclass(frozen=True, slots=True)
class ClusterMark:
    """One mark. `node` is the node that it concerns."""

    at: datetime
    kind: MarkKind
    words: str
    node: str | None = None


def marks_of(events: Sequence[RecordedEvent], joined: Sequence[RecordedEvent] = ()) -> list[ClusterMark]:
    """The marks of events, which are given oldest first. `joined` are earlier starts of nodes: a start is a deployment
    if the node runs another version, or loads other modules, than at its start before.
    """
    known = {one.event.node: one.event for one in joined if isinstance(one.event, NodeJoined)}
    return list(_marks(events, known))


def _marks(events: Sequence[RecordedEvent], known: dict[str, NodeJoined]) -> Iterator[ClusterMark]:
    for one in events:
        match one.event:
            case NodeJoined() as start:
                before, known[start.node] = known.get(start.node), start
                if (words := _deployed(before, start)) is not None:
                    yield ClusterMark(one.at, MarkKind.DEPLOYMENT, words, start.node)
            case JobDefinitionDiffers() as differs:
                yield ClusterMark(one.at, MarkKind.DEPLOYMENT, differs.text, differs.node)
            case LeaderElected() | LeaderSteppedDown() as led:
                yield ClusterMark(one.at, MarkKind.LEADER, led.text, led.node)
            case NodeLost() as lost:
                yield ClusterMark(one.at, MarkKind.NODE_LOST, lost.text, lost.node)
            case ServiceLost() | RedisStateRestored():
                yield ClusterMark(one.at, MarkKind.SERVICE, one.event.text)
            case MaintenanceStarted() | MaintenanceEnded():
                yield ClusterMark(one.at, MarkKind.MAINTENANCE, one.event.text)


def _deployed(before: NodeJoined | None, start: NodeJoined) -> str | None:
    if before is None:
        return None
    if before.version != start.version:
        return f"{start.node} went from CronFlow {before.version} to {start.version}"
    if before.code and start.code and before.code != start.code:
        return f"{start.node} started with different modules"
    return None

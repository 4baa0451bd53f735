"""Chaos: break a part of the cluster on purpose, to watch it recover.

Only `cronflow dev` has these routes: only there can the API reach the processes of the nodes.
"""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import Depends, Request

from cronflow.api.access import Admin
from cronflow.api.bodies import NodeName, Uses
from cronflow.api.responses import may, new_router
from cronflow.domain.errors import NotFound
from cronflow.schemas import Schema
from cronflow.usecases.audit import Changed

router = new_router("chaos")


class Chaos(Protocol):
    """What can be broken. Every method that takes the name of a node raises NotFound when the node has no process,
    for example while it restarts.
    """

    def nodes(self) -> dict[str, bool]:
        """The nodes that have a process, by name, and whether it is paused."""

    def kill(self, name: str) -> None:
        """Kill the process of a node (SIGKILL)."""

    def pause(self, name: str) -> None:
        """Stop the process of a node (SIGSTOP)."""

    def resume(self, name: str) -> None:
        """Continue the process of a node (SIGCONT)."""

    async def flush(self) -> int:
        """Delete all keys of this cluster from Redis. Returns their number; raises BackendUnavailable."""


class ProcessSchema(Schema):
    """The process of a node."""

    name: str
    """The node."""
    paused: bool
    """Whether it is stopped."""


class ProcessPage(Schema):
    """The processes of the nodes, by name."""

    items: list[ProcessSchema]
    """The processes."""
    next_cursor: None
    """Always null: there is one page."""


class KilledSchema(Schema):
    """A leader that was killed."""

    killed: str
    """The node."""
    term: int
    """Its term."""


class FlushedSchema(Schema):
    """A flushed Redis."""

    keys: int
    """The number of deleted keys."""


def _chaos(request: Request) -> Chaos:
    chaos: Chaos = request.app.state.deployment.chaos
    return chaos


Breaks = Annotated[Chaos, Depends(_chaos)]


def _shape(chaos: Chaos, name: str) -> ProcessSchema:
    return {"name": name, "paused": chaos.nodes().get(name, False)}


@router.get("/chaos/nodes")
async def list_processes(chaos: Breaks, _: Admin) -> ProcessPage:
    """The processes of the nodes, by name, including nodes that the cluster has lost."""
    return {
        "items": [{"name": name, "paused": paused} for name, paused in sorted(chaos.nodes().items())],
        "next_cursor": None,
    }


@router.post("/chaos/leader/kill", responses=may(404))
async def kill_leader(service: Uses, chaos: Breaks, by: Admin) -> KilledSchema:
    """Kill the leader. 404 when the cluster has no leader."""
    status = await service.cluster.status()
    if status.leader is None:
        raise NotFound("leader")
    chaos.kill(status.leader)
    await service.audit.record(by.name, Changed("chaos.kill", f"node:{status.leader}", None, {"term": status.term}))
    return {"killed": status.leader, "term": status.term}


@router.post("/chaos/nodes/{name}/pause", responses=may(404))
async def pause_process(service: Uses, chaos: Breaks, by: Admin, name: NodeName) -> ProcessSchema:
    """Stop the process of a node: it sends no heartbeat, and the cluster treats it as lost."""
    chaos.pause(name)
    await service.audit.record(by.name, Changed("chaos.pause", f"node:{name}"))
    return _shape(chaos, name)


@router.post("/chaos/nodes/{name}/resume", responses=may(404))
async def resume_process(service: Uses, chaos: Breaks, by: Admin, name: NodeName) -> ProcessSchema:
    """Continue a paused node, which may hold the lead or runs that others have taken over."""
    chaos.resume(name)
    await service.audit.record(by.name, Changed("chaos.resume", f"node:{name}"))
    return _shape(chaos, name)


@router.post("/chaos/redis/flush")
async def flush_redis(service: Uses, chaos: Breaks, by: Admin) -> FlushedSchema:
    """Delete all keys of this cluster from Redis: the leader, the nodes, the queues."""
    keys = await chaos.flush()
    await service.audit.record(by.name, Changed("chaos.flush", "redis", None, {"keys": keys}))
    return {"keys": keys}

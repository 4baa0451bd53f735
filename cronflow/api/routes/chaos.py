"""Chaos: breaking a part of the cluster on purpose, to watch it recover.

Only `cronflow dev` offers it: it alone starts its API with something that can reach the processes of the nodes.
Everywhere else these routes do not exist.
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
    """What can be broken. Every method that takes the name of a node raises NotFound where there is no process of it,
    also while it is being started again.
    """

    def nodes(self) -> dict[str, bool]:
        """The nodes that have a process, by name, and whether it is paused."""

    def kill(self, name: str) -> None:
        """End the process of a node without a chance to say goodbye."""

    def pause(self, name: str) -> None:
        """Have it do nothing at all."""

    def resume(self, name: str) -> None:
        """Have it go on where it was."""

    async def flush(self) -> int:
        """Have Redis forget everything of this cluster. Returns how many keys that were; raises BackendUnavailable."""


class ProcessSchema(Schema):
    """The process of a node."""

    name: str
    """The node."""
    paused: bool
    """Whether it does nothing now."""


class ProcessPage(Schema):
    """The processes of the nodes, by name."""

    items: list[ProcessSchema]
    """All of them."""
    next_cursor: None
    """There is one page."""


class KilledSchema(Schema):
    """A leader that was killed."""

    killed: str
    """The node."""
    term: int
    """Its term."""


class FlushedSchema(Schema):
    """A Redis that has forgotten."""

    keys: int
    """How many keys it had."""


def _chaos(request: Request) -> Chaos:
    chaos: Chaos = request.app.state.deployment.chaos
    return chaos


Breaks = Annotated[Chaos, Depends(_chaos)]


def _shape(chaos: Chaos, name: str) -> ProcessSchema:
    return {"name": name, "paused": chaos.nodes().get(name, False)}


@router.get("/chaos/nodes")
async def list_processes(chaos: Breaks, _: Admin) -> ProcessPage:
    """The processes of the nodes, by name, also of those that the cluster has lost."""
    return {
        "items": [{"name": name, "paused": paused} for name, paused in sorted(chaos.nodes().items())],
        "next_cursor": None,
    }


@router.post("/chaos/leader/kill", responses=may(404))
async def kill_leader(service: Uses, chaos: Breaks, by: Admin) -> KilledSchema:
    """Kill the node that leads. 404 when nobody leads."""
    status = await service.cluster.status()
    if status.leader is None:
        raise NotFound("leader", "of this cluster")
    chaos.kill(status.leader)
    await service.audit.record(by.name, Changed("chaos.kill", f"node:{status.leader}", None, {"term": status.term}))
    return {"killed": status.leader, "term": status.term}


@router.post("/chaos/nodes/{name}/pause", responses=may(404))
async def pause_process(service: Uses, chaos: Breaks, by: Admin, name: NodeName) -> ProcessSchema:
    """Have a node do nothing at all, not even report: to the others it is as good as dead, and it does not know."""
    chaos.pause(name)
    await service.audit.record(by.name, Changed("chaos.pause", f"node:{name}"))
    return _shape(chaos, name)


@router.post("/chaos/nodes/{name}/resume", responses=may(404))
async def resume_process(service: Uses, chaos: Breaks, by: Admin, name: NodeName) -> ProcessSchema:
    """Have a paused node go on where it was, with a lead and runs that others may have by now."""
    chaos.resume(name)
    await service.audit.record(by.name, Changed("chaos.resume", f"node:{name}"))
    return _shape(chaos, name)


@router.post("/chaos/redis/flush")
async def flush_redis(service: Uses, chaos: Breaks, by: Admin) -> FlushedSchema:
    """Have Redis forget everything of this cluster: the leader, the nodes, what was dispatched."""
    keys = await chaos.flush()
    await service.audit.record(by.name, Changed("chaos.flush", "redis", None, {"keys": keys}))
    return {"keys": keys}

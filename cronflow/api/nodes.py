"""Nodes: who is up, and taking one out of the work."""

from __future__ import annotations

from cronflow.api.access import Operator, Viewer
from cronflow.api.answers import may, new_router
from cronflow.api.inputs import Deployed, NodeName, Uses
from cronflow.shapes.cluster import (
    DrainShape,
    NodeDetailShape,
    NodeShape,
    UndrainShape,
    drain_shape,
    node_detail_shape,
    node_shape,
    undrain_shape,
)
from cronflow.shapes.plain import Shape

router = new_router("nodes")


class NodePage(Shape):
    """The nodes that are up, by name."""

    items: list[NodeShape]
    """All of them."""
    next_cursor: None
    """There is one page."""


@router.get("/nodes")
async def list_nodes(service: Uses, _: Viewer, deployed: Deployed) -> NodePage:
    """The nodes that are up, by name, with their load."""
    status = await service.status()
    nodes = [node_shape(member, status.leader, deployed.heartbeat) for member in status.members]
    return {"items": nodes, "next_cursor": None}


@router.get("/nodes/{name}", responses=may(404))
async def show_node(service: Uses, _: Viewer, deployed: Deployed, name: NodeName) -> NodeDetailShape:
    """A node that is up: its load, its labels, and what it runs."""
    member, holds = await service.node(name)
    return node_detail_shape(member, holds, (await service.status()).leader, deployed.heartbeat)


@router.post("/nodes/{name}/drain", responses=may(404))
async def drain_node(service: Uses, by: Operator, name: NodeName) -> DrainShape:
    """Have a node end what it runs and take no more, also after a restart, until it is undrained."""
    return drain_shape(name, await service.drain(name, by=by.name))


@router.post("/nodes/{name}/undrain")
async def undrain_node(service: Uses, by: Operator, name: NodeName) -> UndrainShape:
    """Let a node take work again, also one that is not up now."""
    return undrain_shape(name, await service.undrain(name, by=by.name))

"""The nodes that are up; drain one."""

from __future__ import annotations

from cronflow.api.access import Operator, Viewer
from cronflow.api.bodies import Deployed, NodeName, Uses
from cronflow.api.responses import may, new_router
from cronflow.schemas import Schema
from cronflow.schemas.cluster import (
    DrainSchema,
    NodeDetailSchema,
    NodeSchema,
    UndrainSchema,
    drain_schema,
    node_detail_schema,
    node_schema,
    undrain_schema,
)

router = new_router("nodes")


class NodePage(Schema):
    """The nodes that are up, by name."""

    items: list[NodeSchema]
    """All of them."""
    next_cursor: None
    """Always null: there is one page."""


@router.get("/nodes")
async def list_nodes(service: Uses, _: Viewer, deployed: Deployed) -> NodePage:
    """The nodes that are up, by name, with their load."""
    status = await service.cluster.status()
    nodes = [node_schema(member, status.leader, deployed.heartbeat) for member in status.members]
    return {"items": nodes, "next_cursor": None}


@router.get("/nodes/{name}", responses=may(404))
async def show_node(service: Uses, _: Viewer, deployed: Deployed, name: NodeName) -> NodeDetailSchema:
    """A node that is up: its load, its labels, and its runs."""
    member, holds = await service.cluster.node(name)
    return node_detail_schema(member, holds, (await service.cluster.status()).leader, deployed.heartbeat)


@router.post("/nodes/{name}/drain", responses=may(404))
async def drain_node(service: Uses, by: Operator, name: NodeName) -> DrainSchema:
    """Let a node finish its running jobs and accept no new ones, even after a restart, until it is undrained."""
    return drain_schema(name, await service.cluster.drain(name, by=by.name))


@router.post("/nodes/{name}/undrain")
async def undrain_node(service: Uses, by: Operator, name: NodeName) -> UndrainSchema:
    """Let a node accept work again, even one that is not up."""
    return undrain_schema(name, await service.cluster.undrain(name, by=by.name))

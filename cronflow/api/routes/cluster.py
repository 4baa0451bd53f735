"""The cluster: its leader and load, its history in numbers, stepping down, and sweeping."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Query

from cronflow.api.access import Admin, Anybody, Operator, Viewer
from cronflow.api.bodies import INSTANT, Deployed, Input, Instant, NodeName, Note, Uses, body
from cronflow.api.responses import may, new_router
from cronflow.domain.errors import InvalidInput, NotFound, Problem
from cronflow.domain.rollup import Span
from cronflow.schemas import Schema, milliseconds
from cronflow.schemas.cluster import (
    ClusterSchema,
    DrainSchema,
    MaintenanceSchema,
    NodeDetailSchema,
    NodeSchema,
    SeriesSchema,
    SettingSchema,
    SettingsSchema,
    StepdownSchema,
    UndrainSchema,
    cluster_schema,
    drain_schema,
    maintenance_schema,
    node_detail_schema,
    node_schema,
    series_schema,
    undrain_schema,
)
from cronflow.schemas.runs import AskedSchema, asked_schema

router = new_router("cluster")


@router.get("/cluster")
async def show_cluster(service: Uses, _: Viewer, deployed: Deployed) -> ClusterSchema:
    """The leader and its lease, the nodes, the lengths of their queues, and the last sweep."""
    return cluster_schema(deployed.namespace, await service.cluster.status(), deployed.heartbeat)


@router.get("/series")
async def series(
    service: Uses,
    _: Viewer,
    span: Annotated[Span, Query(description="How far back to look.")] = Span.HOUR,
    until: Annotated[datetime | None, INSTANT, Query(description="The end of the span; without it now.")] = None,
) -> SeriesSchema:
    """Ended runs over time, with their lateness and duration, for charts: a point per minute for 15 minutes or an
    hour, per ten minutes for a day, per hour for a week. After a failure some counts may be missing; no decision
    depends on them.
    """
    return series_schema(span, await service.cluster.series(span, until))


@router.get("/cluster/settings")
async def show_settings(_: Anybody, deployed: Deployed) -> SettingsSchema:
    """The settings of the cluster that clients use."""
    return {
        "namespace": deployed.namespace,
        "heartbeat_ms": milliseconds(deployed.heartbeat),
        "retry_max": deployed.retry.max,
        "retry_initial_ms": milliseconds(deployed.retry.initial),
        "retry_multiplier": deployed.retry.multiplier,
        "timezone": deployed.timezone,
        "version": deployed.version,
        "chaos": deployed.chaos is not None,
    }


class SettingPage(Schema):
    """All settings of the API process."""

    items: list[SettingSchema]
    """The settings, in the order of the reference."""
    next_cursor: None
    """Always null: there is one page."""


@router.get("/cluster/config")
async def show_config(_: Admin, deployed: Deployed) -> SettingPage:
    """Every setting of this API process with its value, its default and its source. Nodes may have other values.
    Passwords and keys are masked.
    """
    return {"items": list(deployed.settings()), "next_cursor": None}


@router.post("/cluster/stepdown", status_code=202, responses=may(404))
async def stepdown(service: Uses, by: Operator) -> StepdownSchema:
    """Ask the leader to step down; running jobs continue. 404 when the cluster has no leader."""
    term = (await service.cluster.status()).term
    return {"asked": await service.cluster.stepdown(by=by.name), "term": term}


@router.post("/cluster/sweep", status_code=202, responses=may(404))
async def sweep(service: Uses, by: Operator) -> AskedSchema:
    """Check every record against the invariants now. The run has the progress, `GET /cluster` the findings. 404 when
    the cluster has never had a leader.
    """
    try:
        return asked_schema(await service.runs.get(await service.cluster.sweep(by=by.name)))
    except NotFound as error:
        raise NotFound("leader") from error


class MaintenanceInput(Input, json_schema_extra={"examples": [{"on": True, "note": "database upgrade"}]}):
    """Whether to stop planning and dispatching new runs."""

    on: bool
    """Turn it on or off."""
    note: Note = ""
    """Why; stored with it."""
    until: Instant = None
    """When it ends by itself; null: when somebody turns it off."""


@router.put("/cluster/maintenance")
async def set_maintenance(
    service: Uses, by: Operator, asked: Annotated[MaintenanceInput, body(MaintenanceInput)]
) -> MaintenanceSchema:
    """Turn the maintenance mode on or off. While it is on, the whole cluster plans and dispatches no new runs; running
    jobs end. Afterwards each job's misfire policy decides about the fires that it missed.
    """
    if not asked.on:
        if asked.note or asked.until is not None:
            raise InvalidInput(Problem("on", "a note and an end have no effect with on: false", "remove them"))
        await service.cluster.end_maintenance(by=by.name)
        return maintenance_schema(None)
    return maintenance_schema(await service.cluster.begin_maintenance(note=asked.note, until=asked.until, by=by.name))


nodes = new_router("nodes")


class NodePage(Schema):
    """The nodes that are up, by name."""

    items: list[NodeSchema]
    """All of them."""
    next_cursor: None
    """Always null: there is one page."""


@nodes.get("/nodes")
async def list_nodes(service: Uses, _: Viewer, deployed: Deployed) -> NodePage:
    """The nodes that are up, by name, with their load."""
    status = await service.cluster.status()
    nodes = [node_schema(member, status.leader, deployed.heartbeat) for member in status.members]
    return {"items": nodes, "next_cursor": None}


@nodes.get("/nodes/{name}", responses=may(404))
async def show_node(service: Uses, _: Viewer, deployed: Deployed, name: NodeName) -> NodeDetailSchema:
    """A node that is up: its load, its labels, and its runs."""
    member, holds = await service.cluster.node(name)
    return node_detail_schema(member, holds, (await service.cluster.status()).leader, deployed.heartbeat)


class DrainInput(Input, json_schema_extra={"examples": [{"until": "2026-11-22T06:00:00Z"}]}):
    """How long running jobs may take."""

    until: Instant = None
    """When what still runs moves to other nodes, except jobs with `at_most_once`; null: running jobs end."""


@nodes.post("/nodes/{name}/drain", responses=may(404))
async def drain_node(
    service: Uses, by: Operator, name: NodeName, asked: Annotated[DrainInput, body(DrainInput)]
) -> DrainSchema:
    """Let a node finish its running jobs and accept no new ones, even after a restart, until it is undrained. What it
    has not started moves to other nodes at once.
    """
    return drain_schema(name, await service.cluster.drain(name, until=asked.until, by=by.name))


@nodes.post("/nodes/{name}/undrain", responses=may(404))
async def undrain_node(service: Uses, by: Operator, name: NodeName) -> UndrainSchema:
    """Let a node accept work again, also a drained one that is not up."""
    return undrain_schema(name, await service.cluster.undrain(name, by=by.name))

"""The cluster: who leads and how full it is, what it did over time, handing the lead over, checking every record."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from cronflow.api.access import Operator, Viewer
from cronflow.api.bodies import Deployed, Uses
from cronflow.api.responses import may, new_router
from cronflow.domain.errors import NotFound
from cronflow.domain.rollup import Span
from cronflow.schemas import milliseconds
from cronflow.schemas.cluster import (
    ClusterSchema,
    SeriesSchema,
    SettingsSchema,
    StepdownSchema,
    cluster_schema,
    series_schema,
)
from cronflow.schemas.runs import AskedSchema, asked_schema

router = new_router("cluster")


@router.get("/cluster")
async def show_cluster(service: Uses, _: Viewer, deployed: Deployed) -> ClusterSchema:
    """The leader and its lease, the nodes, what waits in their lists, and the last sweep."""
    return cluster_schema(deployed.namespace, await service.cluster.status(), deployed.heartbeat)


@router.get("/series")
async def series(
    service: Uses, _: Viewer, span: Annotated[Span, Query(description="How far back to look.")] = Span.HOUR
) -> SeriesSchema:
    """What ended over time, how late it was and how long it took, for charts: a point a minute over a quarter of an
    hour or an hour, ten minutes over a day, an hour over a week. Nothing is decided by these counts: after a failure
    some may be missing.
    """
    return series_schema(span, await service.cluster.series(span))


@router.get("/cluster/settings")
async def show_settings(_: Viewer, deployed: Deployed) -> SettingsSchema:
    """What of the settings of the cluster its clients go by."""
    return {
        "namespace": deployed.namespace,
        "heartbeat_ms": milliseconds(deployed.heartbeat),
        "retry_max": deployed.retry.max,
        "retry_initial_ms": milliseconds(deployed.retry.initial),
        "retry_multiplier": deployed.retry.multiplier,
        "version": deployed.version,
        "chaos": deployed.chaos is not None,
    }


@router.post("/cluster/stepdown", status_code=202, responses=may(404))
async def stepdown(service: Uses, by: Operator) -> StepdownSchema:
    """Ask the leader to give its lead to another node; what runs goes on. 404 when nobody leads."""
    term = (await service.cluster.status()).term
    return {"asked": await service.cluster.stepdown(by=by.name), "term": term}


@router.post("/cluster/sweep", status_code=202, responses=may(404))
async def sweep(service: Uses, by: Operator) -> AskedSchema:
    """Check every record against the invariants now. Its run tells how it went, `GET /cluster` what it found. 404 when
    nobody has ever led this cluster.
    """
    try:
        return asked_schema(await service.runs.get(await service.cluster.sweep(by=by.name)))
    except NotFound as error:
        raise NotFound("leader", "that has ever led this cluster") from error

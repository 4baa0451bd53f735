"""The cluster: who leads and how full it is, what it did over time, handing the lead over, checking every record."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from cronflow.api.access import Operator, Viewer
from cronflow.api.answers import may, new_router
from cronflow.api.inputs import Deployed, Uses
from cronflow.domain.errors import NotFound
from cronflow.domain.rollup import Span
from cronflow.shapes.cluster import ClusterShape, SettingsShape, StepdownShape, cluster_shape
from cronflow.shapes.plain import milliseconds
from cronflow.shapes.runs import AskedShape, asked_shape
from cronflow.shapes.series import SeriesShape, series_shape

router = new_router("cluster")


@router.get("/cluster")
async def show_cluster(service: Uses, _: Viewer, deployed: Deployed) -> ClusterShape:
    """The leader and its lease, the nodes, what waits in their lists, and the last sweep."""
    return cluster_shape(deployed.namespace, await service.status(), deployed.heartbeat)


@router.get("/series")
async def series(
    service: Uses, _: Viewer, span: Annotated[Span, Query(description="How far back to look.")] = Span.HOUR
) -> SeriesShape:
    """What ended over time, how late it was and how long it took, for charts: a point a minute over a quarter of an
    hour or an hour, ten minutes over a day, an hour over a week. Nothing is decided by these counts: after a failure
    some may be missing.
    """
    return series_shape(span, await service.series(span))


@router.get("/cluster/settings")
async def show_settings(_: Viewer, deployed: Deployed) -> SettingsShape:
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
async def stepdown(service: Uses, by: Operator) -> StepdownShape:
    """Ask the leader to give its lead to another node; what runs goes on. 404 when nobody leads."""
    term = (await service.status()).term
    return {"asked": await service.stepdown(by=by.name), "term": term}


@router.post("/cluster/sweep", status_code=202, responses=may(404))
async def sweep(service: Uses, by: Operator) -> AskedShape:
    """Check every record against the invariants now. Its run tells how it went, `GET /cluster` what it found. 404 when
    nobody has ever led this cluster.
    """
    try:
        return asked_shape(await service.run(await service.sweep(by=by.name)))
    except NotFound as error:
        raise NotFound("leader", "that has ever led this cluster") from error

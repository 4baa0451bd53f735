"""The application: its routes under one prefix, its probes, its errors and its description.

It keeps no state between requests, so any number of replicas may serve the same stores. `/livez` succeeds while the
event loop runs, `/readyz` while Redis and MongoDB answer; `/metrics` is for Prometheus, unless it has a port of its
own. None of them requires a login.
"""

from __future__ import annotations

from fastapi import FastAPI, Response
from fastapi.routing import iter_route_contexts

from cronflow.api import problems
from cronflow.api.access import Gate
from cronflow.api.bodies import Deployment, Uses
from cronflow.api.openapi import describe
from cronflow.api.reference_pages import add_reference_pages
from cronflow.api.routes import (
    alerts,
    backfills,
    calendars,
    chaos,
    cluster,
    jobs,
    limits,
    logins,
    logs,
    management,
    pauses,
    post_mortem,
    recovery,
    runs,
    schedule_load,
    sessions,
    single_sign_on,
)
from cronflow.api.stream import Stream, add_stream
from cronflow.ports import Exposition
from cronflow.usecases import UseCases
from cronflow.usecases.logins import Logins
from cronflow.usecases.single_sign_on import SingleSignOn


def create_api(
    service: UseCases,
    gate: Gate,
    deployment: Deployment | None = None,
    logged_in: Logins | None = None,
    stream: Stream | None = None,
    exposition: Exposition | None = None,
    sign_in: SingleSignOn | None = None,
) -> FastAPI:
    """The application over one service, for requests that the gate admits. Without `logged_in` there is no login,
    without `sign_in` no single sign-on, without `stream` no live stream, without `exposition` no `/metrics`.
    """
    deployment = deployment or Deployment()
    api = FastAPI(
        title="CronFlow",
        version=deployment.version or "0",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    api.state.service, api.state.gate, api.state.deployment = service, gate, deployment
    api.state.logins, api.state.single_sign_on = logged_in, sign_in
    problems.install(api)
    # Logs before runs: the path of a run would match theirs.
    for group in (jobs, schedule_load, pauses, logs, runs, backfills, cluster, recovery, calendars, limits, alerts):
        api.include_router(group.router)
    for router in (
        jobs.schedules,
        schedule_load.schedules,
        jobs.outside,
        cluster.nodes,
        logs.events,
        post_mortem.router,
        management.users,
        management.keys,
        management.secrets,
        management.audit,
    ):
        api.include_router(router)
    for router in (logins.router, single_sign_on.router, single_sign_on.browser, sessions.router):
        api.include_router(router)
    if deployment.chaos is not None:
        api.include_router(chaos.router)
    if stream is not None:
        add_stream(api, stream)
    api.openapi = lambda: describe(api)  # type: ignore[method-assign]
    _add_probes(api)
    add_reference_pages(api)
    if exposition is not None:
        _add_metrics(api, exposition)
    # FastAPI would build the routes on the first request, which would have to wait.
    for _ in iter_route_contexts(api.routes):
        pass
    return api


def _add_metrics(api: FastAPI, exposition: Exposition) -> None:
    # Not a coroutine: it runs in a thread, so that rendering a thousand series blocks no other request.
    @api.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(exposition.text(), media_type=exposition.media_type)


def _add_probes(api: FastAPI) -> None:
    @api.get("/livez", tags=["probes"])
    async def livez() -> dict[str, str]:
        """The process is alive."""
        return {"status": "ok"}

    @api.get("/readyz", tags=["probes"], responses={503: {"description": "One of them is unavailable."}})
    async def readyz(service: Uses, response: Response) -> dict[str, object]:
        """Redis and MongoDB answer."""
        found = await service.cluster.health()
        ready = all(isinstance(seconds, float) for seconds in found.values())
        response.status_code = 200 if ready else 503
        return {
            "status": "ok" if ready else "unavailable",
            **{
                name: {"ms": round(value * 1000, 1)} if isinstance(value, float) else {"error": value}
                for name, value in found.items()
            },
        }

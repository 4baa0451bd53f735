"""The application and its probes.

`/livez` says that the event loop turns; `/readyz` that Redis and MongoDB answer. Neither needs a login: a load
balancer has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI, Response

from cronflow.api.access import Gate
from cronflow.api.problems import add_problems
from cronflow.service import Service

ROOT = "/api/v1"


def create_api(service: Service, gate: Gate, routers: Iterable[APIRouter] = ()) -> FastAPI:
    """The application over one service. The routers come below ROOT."""
    api = FastAPI(title="CronFlow", openapi_url=None)
    api.state.gate = gate
    add_problems(api)
    for router in routers:
        api.include_router(router, prefix=ROOT)

    @api.get("/livez")
    async def livez() -> dict[str, str]:
        return {"status": "ok"}

    @api.get("/readyz")
    async def readyz(response: Response) -> dict[str, object]:
        found = await service.health()
        ready = all(isinstance(seconds, float) for seconds in found.values())
        response.status_code = 200 if ready else 503
        return {
            "status": "ok" if ready else "unavailable",
            **{
                name: {"ms": round(value * 1000, 1)} if isinstance(value, float) else {"error": value}
                for name, value in found.items()
            },
        }

    return api

"""The application and its probes.

`/livez` says that the event loop turns; `/readyz` that Redis and MongoDB answer. Neither needs a login: a load
balancer has none.
"""

from __future__ import annotations

from fastapi import FastAPI, Response

from cronflow.service import Service


def create_api(service: Service) -> FastAPI:
    """The application over one service."""
    api = FastAPI(title="CronFlow", openapi_url=None)

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

"""An API process for the how-to: the real routes on real servers, and a login that knows one password.

`python -m tests.api.standin PORT` serves on the servers of the settings until SIGTERM.
"""

from __future__ import annotations

import asyncio
import secrets
import sys

import uvicorn
from fastapi import Request

from cronflow.api.access import NotAuthenticated
from cronflow.api.app import create_api
from cronflow.config import load_settings
from cronflow.domain.access import Principal, Role
from cronflow.wiring import open_service

PASSWORD = "only-for-this-test"


class OneToken:
    """Admits whoever has the token."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)

    async def admit(self, request: Request) -> Principal:
        """Raises NotAuthenticated."""
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise NotAuthenticated
        return Principal("admin", Role.ADMIN)


async def serve(port: int) -> None:
    """Until SIGTERM."""
    gate = OneToken()
    async with open_service(load_settings({})) as service:
        api = create_api(service, gate)

        @api.post("/api/v1/auth/token")
        async def token(request: Request) -> dict[str, object]:
            if await request.json() != {"username": "admin", "password": PASSWORD}:
                raise NotAuthenticated
            return {"access_token": gate.token, "refresh_token": "", "expires_in": 900}

        await uvicorn.Server(uvicorn.Config(api, port=port, log_config=None, lifespan="off")).serve()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))

"""The fixtures that the tests of executors share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.executors.web import Server
from tests.waiting import eventually


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server
        listening.close()
        await eventually(lambda: server.closed == server.connections, what="the end of the connections")

"""The API of the login: that it answers, has this version, and that its live stream is reachable."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from cronflow.cli import connect
from cronflow.cli.doctor.machine import Finding
from cronflow.domain.errors import CronFlowError, InvalidInput

OPEN_S = 10.0
UPGRADE = (
    "let the proxy in front of the API forward websockets: nginx needs proxy_http_version 1.1 and the headers Upgrade "
    "and Connection, and a read timeout of more than a second"
)


async def api() -> list[Finding]:
    """Unchecked without a login."""
    try:
        client = connect.client()
    except InvalidInput as error:
        return [Finding("api", "failed", str(error), "cronflow login URL")]
    if client is None:
        found = "not logged in; commands connect to the servers"
        return [Finding("api", "unchecked", found, "to use and check an API: cronflow login URL")]
    async with client:
        try:
            settings = await client.cluster.settings()
        except CronFlowError as error:
            return [Finding("api", "failed", str(error), "start it, or log in again: cronflow login URL")]
        return [*_version(client.url, settings["version"]), await _stream(client.url)]


def _version(url: str, theirs: str) -> Iterator[Finding]:
    ours = metadata.version("cronflow")
    if theirs and theirs != ours:
        found = f"{url} has version {theirs}, this is {ours}"
        yield Finding("api", "warning", found, "install the same version in both places")
    else:
        yield Finding("api", "ok", f"{url} answers, version {theirs or 'unknown'}")


async def _stream(url: str) -> Finding:
    """Only an opening handshake."""
    from websockets.asyncio.client import connect as open_socket
    from websockets.exceptions import InvalidStatus, WebSocketException

    from cronflow.client.places import CLOSE_S, stream_url

    try:
        async with open_socket(stream_url(url), open_timeout=OPEN_S, close_timeout=CLOSE_S):
            return Finding("live stream", "ok", "websockets work")
    except InvalidStatus as error:
        found = f"the websocket was answered with HTTP {error.response.status_code}"
    except (OSError, TimeoutError, WebSocketException) as error:
        found = f"the websocket failed: {str(error) or type(error).__name__}"
    return Finding("live stream", "failed", found, UPGRADE)

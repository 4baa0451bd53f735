"""The API of whoever is logged in: that it answers, has this version, and that its live stream comes through."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from cronflow.cli import connect
from cronflow.cli.doctor.finding import Finding
from cronflow.domain.errors import CronFlowError, InvalidInput

OPEN_S = 10.0
UPGRADE = (
    "let the proxy in front of it pass websockets on: nginx wants proxy_http_version 1.1 and the headers Upgrade and "
    "Connection; its read timeout must be longer than a second"
)


async def api() -> list[Finding]:
    """Nothing is looked at when nobody is logged in."""
    try:
        client = connect.client()
    except InvalidInput as error:
        return [Finding("api", "failed", str(error), "cronflow login URL")]
    if client is None:
        found = "nobody is logged in here, so commands go to the servers"
        return [Finding("api", "unchecked", found, "cronflow login URL, to use an API and to look at it")]
    from cronflow.remote.service import RemoteService

    async with client:
        try:
            deployed = await RemoteService(client).deployed()
        except CronFlowError as error:
            return [Finding("api", "failed", str(error), "start it, or log in again: cronflow login URL")]
        return [*_version(client.url, deployed.version), await _stream(client.url)]


def _version(url: str, theirs: str) -> Iterator[Finding]:
    ours = metadata.version("cronflow")
    if theirs and theirs != ours:
        found = f"{url} has version {theirs}, this is {ours}"
        yield Finding("api", "warning", found, "install the same version in both places")
    else:
        yield Finding("api", "ok", f"{url} answers, version {theirs or 'not told'}")


async def _stream(url: str) -> Finding:
    """An opening handshake, and no more."""
    from websockets.asyncio.client import connect as open_socket
    from websockets.exceptions import InvalidStatus, WebSocketException

    from cronflow.client.places import CLOSE_S, stream_url

    try:
        async with open_socket(stream_url(url), open_timeout=OPEN_S, close_timeout=CLOSE_S):
            return Finding("live stream", "ok", "websockets come through")
    except InvalidStatus as error:
        found = f"the websocket was answered with HTTP {error.response.status_code}"
    except (OSError, TimeoutError, WebSocketException) as error:
        found = f"no websocket came through: {str(error) or type(error).__name__}"
    return Finding("live stream", "failed", found, UPGRADE)

"""`cronflow login --sso`: log in through the identity provider of an API.

It shows a code that the person enters in any browser, on any machine (RFC 8628). If the provider has no such codes, it
opens a browser on this machine and listens for the answer on the loopback address (RFC 8252). The API talks to the
provider; this command never sees the provider's tokens, and only the API has the secret of the client.
"""

from __future__ import annotations

import asyncio
import hmac
import webbrowser
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import note
from cronflow.client import ApiError, AsyncClient
from cronflow.client.aio import Tokens
from cronflow.domain.errors import CronFlowError

if TYPE_CHECKING:
    from cronflow.schemas.access import DeviceLoginSchema

SLOWER_S = 5.0
LONGEST_LINE = 8192
READ_WITHIN_S = 10.0
ANSWER = (
    "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n"
    "Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}"
)

pause: Callable[[float], Awaitable[None]] = asyncio.sleep


async def sign_in(client: AsyncClient) -> Tokens:
    """The tokens of a login through the provider. Raises ApiError, and CronFlowError if nobody completed it."""
    try:
        begun = await client.start_device_login()
    except ApiError as error:
        if error.status != 404 or (error.missing is not None and error.missing[0] == "identity provider"):
            raise
        return await _in_browser(client)
    return await _with_code(client, begun)


async def _with_code(client: AsyncClient, begun: DeviceLoginSchema) -> Tokens:
    lasts = times.duration(begun["expires_in"] * 1000)
    note(f"open {formatting.clean(begun['verification_uri'])}")
    note(f"and enter the code {formatting.clean(begun['user_code'])}")
    if begun["verification_uri_complete"] is not None:
        note(f"or open {formatting.clean(begun['verification_uri_complete'])}")
    note(f"waiting for at most {lasts}; Ctrl-C cancels")
    left_s, interval_s = begun["expires_in"], begun["interval"]
    while left_s > 0:
        await pause(interval_s)
        left_s -= interval_s
        found = await client.poll_device_login(begun["handle"])
        if isinstance(found, Tokens):
            return found
        if found["slow_down"]:
            interval_s += SLOWER_S
    raise CronFlowError("the code was not entered in time; log in again")


async def _in_browser(client: AsyncClient) -> Tokens:
    answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    state = ""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                line = (await reader.readline()).decode("latin-1").split(" ")
            given = _answer_in(line, state)
            text = "Not an answer to this login." if given is None else "You can close this window now."
            status = "400 Bad Request" if given is None else "200 OK"
            writer.write(ANSWER.format(status=status, length=len(text), text=text).encode())
            await writer.drain()
            if given is not None and not answer.done():
                answer.set_result(given)
        except (TimeoutError, OSError, ValueError):
            # Not the browser of this login, which may still come.
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, limit=LONGEST_LINE) as server:
        begun = await client.start_loopback_login(server.sockets[0].getsockname()[1])
        state = begun["state"]
        note("opening a browser on this machine; if none opens, open this address here:")
        note(formatting.clean(begun["url"]))
        await asyncio.to_thread(webbrowser.open, begun["url"])
        try:
            async with asyncio.timeout(begun["expires_in"]):
                given = await answer
        except TimeoutError:
            raise CronFlowError("the login timed out; log in again") from None
    if "code" not in given:
        reason = formatting.clean(given.get("error", "no code"))[:100]
        raise CronFlowError(f"the identity provider refused the login: {reason}")
    return await client.finish_loopback_login(begun["handle"], given["state"], given["code"], given.get("iss"))


def _answer_in(line: list[str], state: str) -> dict[str, str] | None:
    """The parameters of a request, if it is the answer to this login."""
    if len(line) != 3 or line[0] != "GET" or not state:
        return None
    parts = urlsplit(line[1])
    given = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.path != "/callback" or not hmac.compare_digest(given.get("state", "").encode(), state.encode()):
        return None
    return given

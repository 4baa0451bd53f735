"""The client of somebody who is logged in: it keeps the login up to date, and its errors are those of the service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2

from cronflow.client.aio import AsyncClient, Tokens
from cronflow.client.calls import ApiError, Call
from cronflow.remote.errors import ended, told
from cronflow.remote.login import Login, LoginFile, check_way


class RemoteClient(AsyncClient):
    """A client with a login; one that is kept in a `file` is shared with other commands. A method raises what the
    service would, BackendUnavailable when the API does not answer, and CronFlowError when it refuses.
    """

    def __init__(
        self, login: Login, file: LoginFile | None = None, *, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """Raises InvalidInput when the address is none, or sending a token there is not safe."""
        super().__init__(login.url, transport=transport)
        check_way(self.url, insecure=login.insecure)
        self.login_used = login
        self.tokens = Tokens(login.token, login.refresh)
        self._file = file

    async def send(self, call: Call) -> Any:
        """Send a request, again where that is safe, and read the answer."""
        try:
            return await super().send(call)
        except ApiError as error:
            raise told(error, self.login_used) from None

    async def renew(self, used: Tokens) -> Tokens:
        """New tokens: those that another command has got meanwhile, else from the API, and then into the file before
        anybody else may look.
        """
        if self._file is None:
            return await super().renew(used)
        async with self._file.locked():
            kept = self._file.read()
            if kept is None or kept.url != self.login_used.url or kept.refresh is None:
                # Somebody has logged out, or in somewhere else. Its tokens are not for this address.
                raise ended(self.login_used)
            if kept.refresh != used.refresh:
                return Tokens(kept.token, kept.refresh)
            fresh = await super().renew(used)
            self._file.write(replace(kept, token=fresh.access, refresh=fresh.refresh))
            return fresh

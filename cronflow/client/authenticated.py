"""The client of a logged-in command: it keeps the login up to date and raises the errors of the domain.

The rule: a command that goes through the API ends with the same message and exit code as one that reaches the servers
itself; a note names the address that it used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2

from cronflow.client.aio import AsyncClient, Tokens
from cronflow.client.calls import ApiError, Call
from cronflow.client.session import Login, LoginFile, check_transport
from cronflow.domain.errors import (
    BackendUnavailable,
    Conflict,
    CronFlowError,
    InvalidInput,
    NotFound,
    Problem,
    TooSoon,
)

_UNAVAILABLE = frozenset({0, 502, 503, 504})


class AuthenticatedClient(AsyncClient):
    """A client with a login. A login that is stored in a `file` is shared with other commands. Methods raise what the
    use-cases raise, BackendUnavailable when the API does not answer, and CronFlowError when it refuses.
    """

    def __init__(
        self, login: Login, file: LoginFile | None = None, *, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """Raises InvalidInput when the URL is invalid, or it is not safe to send a token there."""
        super().__init__(login.url, transport=transport)
        check_transport(self.url, insecure=login.insecure)
        self.login_used = login
        self.tokens = Tokens(login.token, login.refresh)
        self._file = file

    async def send(self, call: Call) -> Any:
        """Send a request, again where that is safe, and read the answer."""
        try:
            return await super().send(call)
        except ApiError as error:
            raise domain_error(error, self.login_used) from None

    async def renew(self, used: Tokens) -> Tokens:
        """New tokens: those that another command has stored meanwhile, else from the API; these are stored before the
        lock is released.
        """
        if self._file is None:
            return await super().renew(used)
        async with self._file.locked():
            stored = self._file.read()
            if stored is None or stored.url != self.login_used.url or stored.refresh is None:
                # Another command has logged out, or logged in somewhere else: its tokens are not for this address.
                raise _login_ended(self.login_used)
            if stored.refresh != used.refresh:
                return Tokens(stored.token, stored.refresh)
            fresh = await super().renew(used)
            self._file.write(replace(stored, token=fresh.access, refresh=fresh.refresh))
            return fresh


def domain_error(error: ApiError, login: Login) -> CronFlowError:
    """The error that the use-case would have raised."""
    if error.status == 401:
        return _login_ended(login)
    made = _converted(error, login.url)
    made.add_note(f"via {login.url}")
    return made


def _login_ended(login: Login) -> CronFlowError:
    if login.refresh is None:
        made = CronFlowError(f"{login.url} does not accept this API key: it was deleted, has expired, or is invalid")
        made.add_note(f"log in with another one: {login.command} --key-stdin, or set CRONFLOW_API_KEY")
        return made
    made = CronFlowError(f"the login of {login.user} at {login.url} has ended")
    made.add_note(f"log in again: {login.command}")
    return made


class NotPermitted(CronFlowError):
    """The login lacks a role or a right."""


def _converted(error: ApiError, url: str) -> CronFlowError:
    if error.status in _UNAVAILABLE:
        return BackendUnavailable("the API", url, error.detail.removeprefix(f"{url} does not answer: "))
    if error.status == 404 and error.missing is not None:
        return NotFound(*error.missing)
    if error.status == 409:
        return Conflict(error.detail)
    if error.status == 429 and error.retry_after_s is not None:
        return TooSoon(error.retry_after_s)
    if error.status in (400, 413, 422):
        return InvalidInput(error.problems or Problem("", error.detail))
    if error.status == 403:
        return NotPermitted(f"this login may not do that: {error.detail}")
    return CronFlowError(f"{error.status}: {error.detail}")

"""`/auth`: logging in, refreshing, logging out, and tickets for the stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from cronflow.api.access import NotAuthenticated, needs
from cronflow.api.auth.bodies import Body
from cronflow.auth.logins import TICKET_S, Logins, Tokens
from cronflow.domain.access import LONGEST_PASSWORD, Principal, Role


class Login(Body):
    """A name and a password."""

    username: str = Field(min_length=1, max_length=200)
    password: str = Field(min_length=1, max_length=LONGEST_PASSWORD)


class Refresh(Body):
    """A refresh token."""

    refresh_token: str = Field(min_length=1, max_length=500)


class Given(Body):
    """An access token for `expires_in` seconds, and what the next one is asked for with, once."""

    access_token: str
    refresh_token: str
    expires_in: int
    token_type: str = "Bearer"  # noqa: S105


class Ticket(Body):
    """A ticket for one entrance within `expires_in` seconds."""

    ticket: str
    expires_in: float


def login_routes(logins: Logins) -> APIRouter:
    """The routes below `/auth`."""
    router = APIRouter(prefix="/auth", tags=["auth"])

    @router.post("/token")
    async def token(body: Login, request: Request) -> Given:
        """Log in."""
        address = request.client.host if request.client else ""
        given = await logins.login(body.username, body.password, address)
        return _answer(given, "the name or the password is wrong")

    @router.post("/refresh")
    async def refresh(body: Refresh) -> Given:
        """New tokens for the latest refresh token; any other ends its session."""
        return _answer(await logins.refresh(body.refresh_token), "the session has ended; log in again")

    @router.post("/logout", status_code=204)
    async def logout(body: Refresh) -> None:
        """End the session of the refresh token."""
        await logins.logout(body.refresh_token)

    @router.post("/ws-ticket")
    async def ws_ticket(principal: Annotated[Principal, needs(Role.VIEWER)]) -> Ticket:
        """A ticket for the stream, because an address is no place for a token."""
        return Ticket(ticket=await logins.ticket(principal), expires_in=TICKET_S)

    return router


def _answer(given: Tokens | None, refusal: str) -> Given:
    if given is None:
        raise NotAuthenticated(refusal)
    return Given(access_token=given.access_token, refresh_token=given.refresh_token, expires_in=given.expires_in)

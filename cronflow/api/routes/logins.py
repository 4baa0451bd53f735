"""`/auth`: log in, refresh, log out, the current principal, and tickets for the stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from cronflow.api.access import Anybody, NotAuthenticated, Viewer
from cronflow.api.bodies import Input, body, secret_text
from cronflow.api.responses import may, new_router
from cronflow.domain.access import LONGEST_PASSWORD
from cronflow.schemas.access import PrincipalSchema, TicketSchema, TokensSchema, principal_schema
from cronflow.usecases.logins import TICKET_S, IssuedTokens, Logins

router = new_router("auth")

LONGEST_NAME = 200
LONGEST_TOKEN = 500


class LoginInput(Input, json_schema_extra={"examples": [{"username": "ada", "password": "a long password"}]}):
    """A name and a password."""

    username: Annotated[str, secret_text(LONGEST_NAME)]
    """The name of the user."""
    password: Annotated[str, secret_text(LONGEST_PASSWORD)]
    """The password."""


class RefreshInput(Input, json_schema_extra={"examples": [{"refresh_token": "…"}]}):
    """A session."""

    refresh_token: Annotated[str, secret_text(LONGEST_TOKEN)]
    """The latest refresh token of the session."""


def _logins(request: Request) -> Logins:
    logins: Logins | None = request.app.state.logins
    if logins is None:
        raise NotAuthenticated("this API has no login")
    return logins


UsesLogins = Annotated[Logins, Depends(_logins)]
Refreshed = Annotated[RefreshInput, body(RefreshInput)]


@router.post("/auth/token")
async def log_in(logins: UsesLogins, request: Request, asked: Annotated[LoginInput, body(LoginInput)]) -> TokensSchema:
    """Log in. 401 when wrong username or password, 429 after too many attempts."""
    address = request.client.host if request.client else ""
    given = await logins.login(asked.username, asked.password, address)
    return _answer(given, "wrong username or password")


@router.post("/auth/refresh")
async def refresh(logins: UsesLogins, asked: Refreshed) -> TokensSchema:
    """New tokens for the latest refresh token; using an older one ends the session."""
    return _answer(await logins.refresh(asked.refresh_token), "the session has ended; log in again")


@router.post("/auth/logout", status_code=204, response_class=Response)
async def log_out(logins: UsesLogins, asked: Refreshed) -> None:
    """End the session of the refresh token."""
    await logins.logout(asked.refresh_token)


@router.post("/auth/ws-ticket", responses=may(401))
async def ws_ticket(logins: UsesLogins, principal: Viewer) -> TicketSchema:
    """A ticket for the stream, because a URL must not contain a token."""
    return {"ticket": await logins.ticket(principal), "expires_in": TICKET_S}


@router.get("/auth/me")
async def who_am_i(principal: Anybody) -> PrincipalSchema:
    """The current principal and its role."""
    return principal_schema(principal)


def _answer(given: IssuedTokens | None, refusal: str) -> TokensSchema:
    if given is None:
        raise NotAuthenticated(refusal)
    return {
        "access_token": given.access_token,
        "refresh_token": given.refresh_token,
        "expires_in": given.expires_in,
        "token_type": "Bearer",
    }

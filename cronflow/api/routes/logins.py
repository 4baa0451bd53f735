"""`/auth`: logging in, refreshing, logging out, who one is, and tickets for the stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response

from cronflow.api.access import Anybody, NotAuthenticated, Viewer
from cronflow.api.bodies import Body, at_most, fields_of, takes
from cronflow.api.responses import may, new_router
from cronflow.domain.access import LONGEST_PASSWORD
from cronflow.schemas import Schema
from cronflow.schemas.access import PrincipalSchema, TicketSchema, TokensSchema, principal_schema
from cronflow.usecases.logins import TICKET_S, Logins, Tokens

router = new_router("auth")

LONGEST_NAME = 200
LONGEST_TOKEN = 500


class LoginInput(Schema):
    """A name and a password."""

    username: str
    """The name of the user."""
    password: str
    """The password."""


class RefreshInput(Schema):
    """A session."""

    refresh_token: str
    """The latest refresh token of the session."""


def _logins(request: Request) -> Logins:
    logins: Logins | None = request.app.state.logins
    if logins is None:
        raise NotAuthenticated("nobody can log in here")
    return logins


UsesLogins = Annotated[Logins, Depends(_logins)]
_LOGIN = {"username": at_most(LONGEST_NAME), "password": at_most(LONGEST_PASSWORD)}
_REFRESH = {"refresh_token": at_most(LONGEST_TOKEN)}


@router.post("/auth/token", openapi_extra=takes("LoginInput", {"username": "ada", "password": "a long password"}))
async def log_in(logins: UsesLogins, request: Request, body: Body) -> TokensSchema:
    """Log in. 401 when the name or the password is wrong, 429 after too many attempts."""
    asked = fields_of(body, _LOGIN, ["username", "password"])
    address = request.client.host if request.client else ""
    given = await logins.login(asked["username"], asked["password"], address)
    return _answer(given, "the name or the password is wrong")


@router.post("/auth/refresh", openapi_extra=takes("RefreshInput", {"refresh_token": "…"}))
async def refresh(logins: UsesLogins, body: Body) -> TokensSchema:
    """New tokens for the latest refresh token; any older one ends its session."""
    asked = fields_of(body, _REFRESH, ["refresh_token"])
    return _answer(await logins.refresh(asked["refresh_token"]), "the session has ended; log in again")


@router.post(
    "/auth/logout",
    status_code=204,
    response_class=Response,
    openapi_extra=takes("RefreshInput", {"refresh_token": "…"}),
)
async def log_out(logins: UsesLogins, body: Body) -> None:
    """End the session of the refresh token."""
    await logins.logout(fields_of(body, _REFRESH, ["refresh_token"])["refresh_token"])


@router.post("/auth/ws-ticket", responses=may(401))
async def ws_ticket(logins: UsesLogins, principal: Viewer) -> TicketSchema:
    """A ticket for the stream, because an address is no place for a token."""
    return {"ticket": await logins.ticket(principal), "expires_in": TICKET_S}


@router.get("/auth/me")
async def who_am_i(principal: Anybody) -> PrincipalSchema:
    """Who asks, and as what."""
    return principal_schema(principal)


def _answer(given: Tokens | None, refusal: str) -> TokensSchema:
    if given is None:
        raise NotAuthenticated(refusal)
    return {
        "access_token": given.access_token,
        "refresh_token": given.refresh_token,
        "expires_in": given.expires_in,
        "token_type": "Bearer",
    }

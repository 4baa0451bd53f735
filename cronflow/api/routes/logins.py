"""`/auth`: log in, refresh, log out, the current principal, and tickets for the stream.

Scripts keep their refresh token themselves. The page keeps it in a cookie that no script can read, by the routes below
`/auth/session`. A browser sends the cookie only from pages of the same site; besides, these routes require a header
that no form can send, and the origin of this API.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, HTTPException, Request, Response

from cronflow.api.access import Anybody, NotAuthenticated, Viewer, is_own_origin
from cronflow.api.bodies import Deployed, Input, body, secret_text
from cronflow.api.responses import PREFIX, may, new_router
from cronflow.domain.access import LONGEST_PASSWORD
from cronflow.schemas.access import AccessSchema, PrincipalSchema, TicketSchema, TokensSchema, principal_schema
from cronflow.usecases.logins import SESSION_LASTS, TICKET_S, IssuedTokens, Logins

router = new_router("auth")

LONGEST_NAME = 200
LONGEST_TOKEN = 500
SESSION_PATH = f"{PREFIX}/auth/session"
WRONG, ENDED = "wrong username or password", "the session has ended; log in again"


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


async def _counted(logins: UsesLogins, request: Request) -> str:
    """The address of the client, with its attempt counted."""
    address = request.client.host if request.client else ""
    await logins.count_attempt(address)
    return address


def _from_page(
    request: Request,
    deployed: Deployed,
    _: Annotated[
        str, Header(alias="X-CronFlow-Page", max_length=10, description="Any value; only the dashboard can send it.")
    ],
) -> None:
    """Refuses a request that another site may have made the browser send."""
    if not is_own_origin(request.headers, deployed.origins):
        detail = (
            f"{request.headers['origin']} is not an origin of this API; open its own dashboard, or set ALLOW_ORIGINS"
        )
        raise HTTPException(403, detail)


Address = Annotated[str, Depends(_counted)]
"""Comes before the body, so that attempts are counted before it is read."""
Asked = Annotated[LoginInput, body(LoginInput)]
Refreshed = Annotated[RefreshInput, body(RefreshInput)]
FROM_PAGE = [Depends(_from_page)]


@router.post("/auth/token")
async def log_in(logins: UsesLogins, address: Address, asked: Asked) -> TokensSchema:
    """Log in. 401 when wrong username or password, 429 after too many attempts."""
    given = _or_refused(await logins.login(asked.username, asked.password, address), WRONG)
    return {**access_schema(given), "refresh_token": given.refresh_token}


@router.post("/auth/refresh")
async def refresh(logins: UsesLogins, asked: Refreshed) -> TokensSchema:
    """New tokens for the latest refresh token; using an older one ends the session."""
    given = _or_refused(await logins.refresh(asked.refresh_token), ENDED)
    return {**access_schema(given), "refresh_token": given.refresh_token}


@router.post("/auth/logout", status_code=204, response_class=Response)
async def log_out(logins: UsesLogins, asked: Refreshed) -> None:
    """End the session of the refresh token. 401 when it is not the latest one of a session that still exists."""
    if not await logins.logout(asked.refresh_token):
        raise NotAuthenticated("this is not the latest refresh token of the session")


@router.post("/auth/session", dependencies=FROM_PAGE, responses=may(403))
async def open_session(
    logins: UsesLogins, request: Request, response: Response, address: Address, asked: Asked
) -> AccessSchema:
    """Log in the page: like `/auth/token`, with the refresh token in a cookie that no script can read."""
    given = _or_refused(await logins.login(asked.username, asked.password, address), WRONG)
    keep_refresh_token(request, response, given.refresh_token)
    return access_schema(given)


@router.post("/auth/session/refresh", dependencies=FROM_PAGE, responses=may(403))
async def refresh_session(logins: UsesLogins, request: Request, response: Response) -> AccessSchema:
    """A new access token for the cookie of `/auth/session`, which is replaced."""
    given = _or_refused(await logins.refresh(request.cookies.get(_cookie(request), "")), ENDED)
    keep_refresh_token(request, response, given.refresh_token)
    return access_schema(given)


@router.post(
    "/auth/session/logout", status_code=204, response_class=Response, dependencies=FROM_PAGE, responses=may(403)
)
async def close_session(logins: UsesLogins, request: Request, response: Response) -> None:
    """End the session of the cookie, and remove the cookie."""
    await logins.logout(request.cookies.get(_cookie(request), ""))
    response.delete_cookie(_cookie(request), SESSION_PATH)


@router.post("/auth/ws-ticket", responses=may(401))
async def ws_ticket(logins: UsesLogins, principal: Viewer) -> TicketSchema:
    """A ticket for the stream, because a URL must not contain a token."""
    return {"ticket": await logins.ticket(principal), "expires_in": TICKET_S}


@router.get("/auth/me")
async def who_am_i(principal: Anybody) -> PrincipalSchema:
    """The current principal and its role."""
    return principal_schema(principal)


def _or_refused(given: IssuedTokens | None, refusal: str) -> IssuedTokens:
    if given is None:
        raise NotAuthenticated(refusal)
    return given


def access_schema(given: IssuedTokens) -> AccessSchema:
    """The access token."""
    return {"access_token": given.access_token, "expires_in": given.expires_in, "token_type": "Bearer"}


def keep_refresh_token(request: Request, response: Response, refresh_token: str) -> None:
    """Give the page its refresh token, in the cookie."""
    response.set_cookie(
        _cookie(request),
        refresh_token,
        max_age=int(SESSION_LASTS.total_seconds()),
        path=SESSION_PATH,
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )


def _cookie(request: Request) -> str:
    """The name of the cookie. Browsers send cookies to all ports of a host, where other clusters may have theirs."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"cronflow_refresh_{port}" if port.isascii() and port.isdigit() else "cronflow_refresh"

"""`/auth/options` and `/auth/oidc`: log in through the identity provider.

The page opens `/auth/oidc/start`, which sends the browser to the provider, and comes back to `/auth/oidc/callback`; a
cookie ties both to one browser. The refresh token is then in the cookie of `/auth/session`, as after a password login.
Afterwards the browser is redirected to a path of the page and nowhere else. Commands use the device flow, or listen on
their own machine.
"""

from __future__ import annotations

import re
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.responses import RedirectResponse

from cronflow.api.bodies import Input, body, secret_text
from cronflow.api.responses import PREFIX, may, new_router
from cronflow.api.routes.logins import LONGEST_TOKEN, UsesLogins, access_schema, keep_refresh_token
from cronflow.api.static_page import VIEWS
from cronflow.domain.errors import BackendUnavailable, CronFlowError, InvalidInput, NotFound, Problem
from cronflow.domain.single_sign_on import SignInRefused
from cronflow.ports.identity import NotYet
from cronflow.schemas.access import (
    DeviceLoginSchema,
    LoginOptionsSchema,
    LoopbackLoginSchema,
    PendingLoginSchema,
    TokensSchema,
)
from cronflow.usecases.single_sign_on import LOGIN_LASTS, SingleSignOn

router = new_router("auth")
browser = APIRouter(prefix=PREFIX, tags=["auth"])
"""Routes for browsers. Providers add parameters of their own to an answer, which must be ignored (RFC 6749, 4.1.2)."""

OIDC_PATH = f"{PREFIX}/auth/oidc"
START = f"{OIDC_PATH}/start"
LONGEST_CODE = 3000
LONGEST_GOAL = 1000
SIGNED_IN = "#signed-in"
"""The fragment of the address by which the page detects that it has a session."""
GOAL = re.compile(r"(/[^?#]*)(\?[\w%&=.,:;+*@!~()/-]*)?")

log = structlog.get_logger("cronflow.auth")


class DevicePoll(Input, json_schema_extra={"examples": [{"handle": "…"}]}):
    """A login that waits for its code to be entered."""

    handle: Annotated[str, secret_text(LONGEST_TOKEN)]
    """The handle of `/auth/oidc/device`."""


class LoopbackInput(Input, json_schema_extra={"examples": [{"port": 49152}]}):
    """A command that listens for the answer of the identity provider."""

    port: int
    """The port on 127.0.0.1 of its machine."""


class LoopbackAnswer(Input, json_schema_extra={"examples": [{"handle": "…", "state": "…", "code": "…"}]}):
    """What the identity provider sent to the command."""

    handle: Annotated[str, secret_text(LONGEST_TOKEN)]
    """The handle of `/auth/oidc/loopback`."""
    state: Annotated[str, secret_text(LONGEST_TOKEN)]
    """The parameter `state`."""
    code: Annotated[str, secret_text(LONGEST_CODE)]
    """The parameter `code`."""
    iss: Annotated[str | None, secret_text(LONGEST_TOKEN)] = None
    """The parameter `iss`, if there was one."""


def _single_sign_on(request: Request) -> SingleSignOn:
    found: SingleSignOn | None = getattr(request.app.state, "single_sign_on", None)
    if found is None:
        raise NotFound("identity provider")
    return found


UsesSingleSignOn = Annotated[SingleSignOn, Depends(_single_sign_on)]


async def _opened(logins: UsesLogins, request: Request) -> None:
    """Counts a login that a browser begins. Refuses an image, a frame or a script of a page: only a person who opens
    the address begins one.
    """
    if request.headers.get("sec-fetch-dest", "document") != "document":
        raise HTTPException(403, "this address is opened in a browser, and not loaded by a page")
    await logins.count_sign_in(_client(request))


async def _commanded(logins: UsesLogins, request: Request) -> None:
    """Counts a login that a command begins. Refuses what another site makes a browser send."""
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise HTTPException(403, "this route is for commands, and not for other sites")
    await logins.count_sign_in(_client(request))


def _client(request: Request) -> str:
    return request.client.host if request.client else ""


@router.get("/auth/options")
async def login_options(request: Request, logins: UsesLogins) -> LoginOptionsSchema:
    """How people can log in."""
    found: SingleSignOn | None = getattr(request.app.state, "single_sign_on", None)
    sign_in = None if found is None else {"name": found.name, "url": f"{found.public_url}{START}"}
    return {"password": logins.passwords_for_all, "single_sign_on": sign_in}  # type: ignore[typeddict-item]


@browser.get(
    "/auth/oidc/start",
    status_code=303,
    response_class=Response,
    responses=may(403, 404),
    dependencies=[Depends(_opened)],
)
async def start_single_sign_on(
    logins: UsesLogins,
    single_sign_on: UsesSingleSignOn,
    request: Request,
    goal: Annotated[
        str, Query(alias="next", max_length=LONGEST_GOAL, description="The view to open afterwards.")
    ] = "/",
) -> Response:
    """Send the browser to the identity provider. The page opens this address; it is not for scripts."""
    try:
        begun = await single_sign_on.begin_page(goal if _is_view(goal) else "/")
    except BackendUnavailable as error:
        return _back(single_sign_on, error)
    answer = RedirectResponse(begun.url, 303)
    answer.set_cookie(
        _cookie(begun.state),
        begun.proof,
        max_age=int(LOGIN_LASTS.total_seconds()),
        path=OIDC_PATH,
        secure=single_sign_on.public_url.startswith("https://") or request.scope["scheme"] == "https",
        httponly=True,
        # Lax: the provider sends the browser back from another site.
        samesite="lax",
    )
    return answer


@browser.get("/auth/oidc/callback", status_code=303, response_class=Response, responses=may(404))
async def finish_single_sign_on(
    logins: UsesLogins,
    single_sign_on: UsesSingleSignOn,
    request: Request,
    state: Annotated[str, Query(max_length=LONGEST_TOKEN, description="As it was sent to the provider.")] = "",
    code: Annotated[str, Query(max_length=LONGEST_CODE, description="The authorization code.")] = "",
    error: Annotated[str, Query(max_length=LONGEST_TOKEN, description="Why the provider refused.")] = "",
    iss: Annotated[str | None, Query(max_length=LONGEST_TOKEN, description="The issuer.")] = None,
) -> Response:
    """Where the identity provider sends the browser back to. Sets the cookie of `/auth/session`."""
    proof = request.cookies.get(_cookie(state), "")
    try:
        if not proof:
            raise SignInRefused("expired", "this login was started in another browser or has expired")
        if error or not code:
            raise SignInRefused("refused", f"the identity provider refused: {_printable(error)}")
        given, goal = await single_sign_on.finish_page(state, proof, code, iss)
    except (SignInRefused, CronFlowError) as failure:
        answer = _back(single_sign_on, failure)
    else:
        await logins.signed_in(_client(request))
        answer = RedirectResponse(f"{single_sign_on.public_url}{goal}{SIGNED_IN}", 303)
        keep_refresh_token(request, answer, given.refresh_token)
    if proof:
        answer.delete_cookie(_cookie(state), OIDC_PATH)
    return answer


@router.post("/auth/oidc/device", responses=may(403, 404), dependencies=[Depends(_commanded)])
async def start_device_login(single_sign_on: UsesSingleSignOn) -> DeviceLoginSchema:
    """Begin a login with a code that the person enters in any browser (RFC 8628). 404 when the identity provider does
    not offer it.
    """
    begun = await single_sign_on.begin_device()
    if begun is None:
        raise NotFound("identity provider with codes for devices")
    return {
        "handle": begun.handle,
        "user_code": begun.shown.user_code,
        "verification_uri": begun.shown.uri,
        "verification_uri_complete": begun.shown.complete_uri,
        "interval": begun.shown.interval_s,
        "expires_in": begun.shown.expires_in_s,
    }


@router.post(
    "/auth/oidc/device/token",
    responses={**may(403, 404), 202: {"model": PendingLoginSchema, "description": "The code was not entered yet."}},
)
async def poll_device_login(
    logins: UsesLogins,
    asked: Annotated[DevicePoll, body(DevicePoll)],
    single_sign_on: UsesSingleSignOn,
    request: Request,
    response: Response,
) -> TokensSchema | PendingLoginSchema:
    """The tokens when the code was entered. Until then 202; with `slow_down` wait 5 s longer each time. 401 when the
    login was declined or has expired, 403 when the person has no role.
    """
    found = await single_sign_on.poll_device(asked.handle)
    if isinstance(found, NotYet):
        response.status_code = 202
        return {"slow_down": found.slow_down}
    await logins.signed_in(_client(request))
    return {**access_schema(found), "refresh_token": found.refresh_token}


@router.post("/auth/oidc/loopback", responses=may(403, 404), dependencies=[Depends(_commanded)])
async def start_loopback_login(
    asked: Annotated[LoopbackInput, body(LoopbackInput)], single_sign_on: UsesSingleSignOn
) -> LoopbackLoginSchema:
    """Begin a login of a command that opens a browser on its machine and listens there (RFC 8252)."""
    if not 1024 <= asked.port <= 65535:
        raise InvalidInput(Problem("port", "is not a port that a command can listen on", "1024 to 65535"))
    begun = await single_sign_on.begin_loopback(asked.port)
    return {"handle": begun.proof, "state": begun.state, "url": begun.url, "expires_in": LOGIN_LASTS.total_seconds()}


@router.post("/auth/oidc/loopback/token", responses=may(403, 404))
async def finish_loopback_login(
    logins: UsesLogins,
    asked: Annotated[LoopbackAnswer, body(LoopbackAnswer)],
    single_sign_on: UsesSingleSignOn,
    request: Request,
) -> TokensSchema:
    """The tokens for the answer of the identity provider, once. 401 when it is not valid, 403 when the person has no
    role.
    """
    given = await single_sign_on.finish_loopback(asked.state, asked.handle, asked.code, asked.iss)
    await logins.signed_in(_client(request))
    return {**access_schema(given), "refresh_token": given.refresh_token}


def _is_view(goal: str) -> bool:
    """Whether it is the path of a view of the page. Everything else, such as another host, is not followed."""
    match = GOAL.fullmatch(goal)
    return match is not None and VIEWS.fullmatch(match[1]) is not None


def _back(single_sign_on: SingleSignOn, error: Exception) -> RedirectResponse:
    """To the login page, with the reason as a word of ours: texts of others are not shown."""
    if isinstance(error, SignInRefused):
        reason = error.reason
    else:
        reason = "unavailable" if isinstance(error, BackendUnavailable) else "invalid"
    log.warning("single sign-on failed", reason=reason, error=str(error))
    return RedirectResponse(f"{single_sign_on.public_url}/?sign_in={reason}", 303)


def _cookie(state: str) -> str:
    """One cookie for each login that has begun, so that two tabs do not disturb each other."""
    return f"cronflow_oidc_{re.sub(r'[^A-Za-z0-9]', '', state)[:16]}"


def _printable(text: str) -> str:
    return "".join(character for character in text[:100] if character.isprintable()) or "no code"

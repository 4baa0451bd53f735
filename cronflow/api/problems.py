"""Every error as a problem document (RFC 9457), and the one table from errors to HTTP statuses.

The rule it protects: whatever goes wrong, the answer is `application/problem+json` and says what to do about it as far
as that is known; of what is our own fault it says nothing, the log does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NotRequired

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cronflow.api.access import NotAllowed, NotAuthenticated
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound, Problem, TooSoon
from cronflow.schemas import Schema

MEDIA_TYPE = "application/problem+json"
ASK_AGAIN_S = 5
BLANK = "about:blank"


class ErrorSchema(Schema):
    """One thing that is wrong with an input."""

    place: str
    """Where: a path such as `schedule.cron`, or the name of a parameter; empty: the whole."""
    what: str
    """What is wrong."""
    remedy: str
    """What to do about it; empty: what is wrong says so."""


class ProblemSchema(Schema):
    """A problem document, RFC 9457."""

    type: str
    """`about:blank`: the status says it."""
    title: str
    """The status in words."""
    status: int
    """The status of the answer."""
    detail: str
    """What happened, for people."""
    errors: NotRequired[list[ErrorSchema]]
    """Everything that is wrong with the input, in order."""
    kind: NotRequired[str]
    """Of what is not there: job, run, node, user, key, secret or leader."""
    name: NotRequired[str]
    """Of what is not there: its name."""


class Unreadable(Exception):
    """What was sent cannot be read at all: 400."""


def problem(
    status: int,
    detail: str,
    errors: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    missing: NotFound | None = None,
) -> Response:
    """The answer."""
    document: ProblemSchema = {"type": BLANK, "title": title(status), "status": status, "detail": detail}
    if errors:
        document["errors"] = [{"place": one.place, "what": one.what, "remedy": one.remedy} for one in errors]
    if missing is not None:
        document["kind"], document["name"] = missing.kind, missing.name
    return Response(orjson.dumps(document), status, headers, MEDIA_TYPE)


def title(status: int) -> str:
    """The status in words."""
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"


def install(api: FastAPI) -> None:
    """Let the application answer every error so."""
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)


async def _not_authenticated(_: Request, error: Exception) -> Response:
    detail = str(error) or "a login is needed: send Authorization: Bearer <token>"
    return problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


async def _not_allowed(_: Request, error: Exception) -> Response:
    return problem(403, str(error))


async def _not_found(_: Request, error: Exception) -> Response:
    assert isinstance(error, NotFound)
    return problem(404, str(error), missing=error)


async def _conflict(_: Request, error: Exception) -> Response:
    return problem(409, str(error))


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidInput)
    return _refused(error.problems)


async def _not_valid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return _refused([_of_parameter(one) for one in error.errors()])


def _refused(problems: Sequence[Problem]) -> Response:
    first, *others = problems
    more = f", and {len(others)} more, see errors" if others else ""
    return problem(422, f"{first}{more}", problems)


async def _unreadable(_: Request, error: Exception) -> Response:
    return problem(400, str(error))


async def _gone(_: Request, _error: Exception) -> Response:
    return problem(400, "the request ended before all of it had come")


async def _unavailable(_: Request, error: Exception) -> Response:
    assert isinstance(error, BackendUnavailable)
    # The address and the reason are the log's; whoever asks from outside can do nothing with them.
    detail = f"{error.service} does not answer now, and whether the request took effect is not known; ask again soon"
    return problem(503, detail, headers={"Retry-After": str(ASK_AGAIN_S)})


async def _too_soon(_: Request, error: Exception) -> Response:
    assert isinstance(error, TooSoon)
    return problem(429, str(error), headers={"Retry-After": str(max(1, math.ceil(error.retry_in_s)))})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == title(error.status_code):
        told = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not possible here"}
        detail = told.get(error.status_code, detail)
    return problem(error.status_code, detail, headers=error.headers)


async def _failed(_: Request, _error: Exception) -> Response:
    return problem(500, "this should not have happened; the log of the API says more")


_HANDLERS: Mapping[type[Exception], Any] = {
    NotAuthenticated: _not_authenticated,
    NotAllowed: _not_allowed,
    NotFound: _not_found,
    Conflict: _conflict,
    InvalidInput: _invalid,
    RequestValidationError: _not_valid,
    Unreadable: _unreadable,
    ClientDisconnect: _gone,
    TooSoon: _too_soon,
    BackendUnavailable: _unavailable,
    HTTPException: _http,
    Exception: _failed,
}


def _of_parameter(error: Mapping[str, Any]) -> Problem:
    """What pydantic says of a parameter, in our words."""
    _, *path = error["loc"]
    place = str(path[0]) if path else ""
    limits = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return Problem(place, "missing", "add it")
        case "ours":
            return Problem(place, limits["what"], limits["remedy"])
        case "int_parsing" | "int_parsing_size" | "int_type" | "int_from_float":
            return Problem(place, f"expected a whole number, got {_shown(error['input'])}")
        case "less_than_equal":
            return Problem(place, f"is {_shown(error['input'])}; at most {limits['le']} is allowed")
        case "greater_than_equal":
            return Problem(place, f"is {_shown(error['input'])}; at least {limits['ge']} is needed")
        case "bool_parsing" | "bool_type":
            return Problem(place, f"expected true or false, got {_shown(error['input'])}")
        case "enum" | "literal_error":
            return Problem(place, f"expected {limits['expected']}, got {_shown(error['input'])}")
        case "string_too_long":
            return Problem(place, f"is longer than {limits['max_length']} characters")
        case "string_pattern_mismatch":
            return Problem(place, f"does not match {limits['pattern']}")
    return Problem(place, str(error["msg"]))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"

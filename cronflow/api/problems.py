"""Every error as a problem document (RFC 9457), and the one table from errors to HTTP statuses.

Every error response is `application/problem+json` and says what to do where that is known. Details of internal errors
are only in the log.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, NotRequired

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from cronflow.api.access import NotAllowed, NotAuthenticated
from cronflow.documents.values import got, joined, under
from cronflow.domain.errors import (
    MOST_PROBLEMS,
    BackendUnavailable,
    Conflict,
    InvalidInput,
    NotFound,
    Problem,
    TooSoon,
)
from cronflow.domain.single_sign_on import SignInRefused
from cronflow.ports.identity import ProviderUnavailable
from cronflow.schemas import Schema

MEDIA_TYPE = "application/problem+json"
ASK_AGAIN_S = 5
BLANK = "about:blank"
LONGEST_PLACE, LONGEST_TEXT = 150, 500
"""In characters: an answer must not repeat much of a bad request."""


class ErrorSchema(Schema):
    """One thing that is wrong with an input."""

    place: str
    """A path such as `schedule.cron`, or the name of a parameter; empty: the whole input."""
    what: str
    """What is wrong."""
    remedy: str
    """What to do about it; may be empty."""


class ProblemSchema(Schema):
    """A problem document, RFC 9457."""

    type: str
    """`about:blank`: the problem has no type beyond its status."""
    title: str
    """The status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """What happened, for people."""
    errors: NotRequired[list[ErrorSchema]]
    """The problems of the input in order, at most 20."""
    kind: NotRequired[str]
    """What was not found: job, run, node, user, key, secret or leader."""
    name: NotRequired[str]
    """The name that was not found."""


class Unreadable(Exception):
    """The body cannot be parsed: 400."""


def problem(
    status: int,
    detail: str,
    errors: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    missing: NotFound | None = None,
) -> Response:
    document: ProblemSchema = {"type": BLANK, "title": title(status), "status": status, "detail": _short(detail)}
    if errors:
        document["errors"] = [
            {"place": _short(one.place, LONGEST_PLACE), "what": _short(one.what), "remedy": _short(one.remedy)}
            for one in errors
        ]
    if missing is not None:
        document["kind"], document["name"] = missing.kind, _short(missing.name)
    return Response(orjson.dumps(document), status, headers, MEDIA_TYPE)


def _short(text: str, longest: int = LONGEST_TEXT) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def title(status: int) -> str:
    """The status in words."""
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"


def install(api: FastAPI) -> None:
    """Register the handlers of all errors."""
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)


async def _not_authenticated(_: Request, error: Exception) -> Response:
    detail = str(error) or "login required: send Authorization: Bearer <token>"
    return problem(401, detail, headers={"WWW-Authenticate": "Bearer"})


async def _not_allowed(_: Request, error: Exception) -> Response:
    return problem(403, str(error))


async def _not_admitted(request: Request, error: Exception) -> Response:
    assert isinstance(error, SignInRefused)
    # A person who is known and has no access, or an answer that proves nothing.
    is_known = error.reason in ("no_role", "disabled", "name", "passwords")
    return problem(403, str(error)) if is_known else await _not_authenticated(request, error)


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
    return _refused(first_problems(error.errors(), lambda one: problems_of(one, one["loc"][1:2])))


def first_problems(
    errors: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], list[Problem]]
) -> tuple[Problem, ...]:
    """The problems of errors, read only as far as they are reported."""
    found = chain.from_iterable(map(read, errors))
    return InvalidInput(list(islice(found, MOST_PROBLEMS + 1))).problems


def _refused(problems: Sequence[Problem]) -> Response:
    first, *others = problems
    more = f", and {len(others)} more, see errors" if others else ""
    return problem(422, f"{first}{more}", problems)


async def _unreadable(_: Request, error: Exception) -> Response:
    return problem(400, str(error))


async def _gone(_: Request, _error: Exception) -> Response:
    return problem(400, "the request ended before its body was complete")


async def _unavailable(_: Request, error: Exception) -> Response:
    assert isinstance(error, BackendUnavailable)
    if isinstance(error, ProviderUnavailable):
        # Its address is public, and without the reason nobody could correct the settings.
        return problem(503, str(error), headers={"Retry-After": str(ASK_AGAIN_S)})
    # The address and the reason go to the log only; they are of no use to a client.
    detail = f"{error.service} is unavailable, and it is unknown whether the request took effect; retry soon"
    return problem(503, detail, headers={"Retry-After": str(ASK_AGAIN_S)})


async def _too_soon(_: Request, error: Exception) -> Response:
    assert isinstance(error, TooSoon)
    return problem(429, str(error), headers={"Retry-After": str(max(1, math.ceil(error.retry_in_s)))})


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail
    if detail == title(error.status_code):
        details = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not supported here"}
        detail = details.get(error.status_code, detail)
    return problem(error.status_code, detail, headers=error.headers)


async def _failed(_: Request, _error: Exception) -> Response:
    return problem(500, "internal error; see the log of the API")


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
    SignInRefused: _not_admitted,
    BackendUnavailable: _unavailable,
    HTTPException: _http,
    Exception: _failed,
}


_NO_INTEGER = "expected a whole number, got {got}"
_TEXTS: Mapping[str, str] = {
    "missing": "missing",
    "string_type": "expected text, got {got}",
    **dict.fromkeys(("model_type", "dict_type"), "expected a mapping, got {got}"),
    "list_type": "expected a list, got {got}",
    **dict.fromkeys(("int_parsing", "int_parsing_size", "int_type", "int_from_float"), _NO_INTEGER),
    **dict.fromkeys(("bool_parsing", "bool_type"), "expected true or false, got {got}"),
    **dict.fromkeys(("enum", "literal_error"), "expected {expected}, got {got}"),
    "less_than_equal": "is {shown}; at most {le} is allowed",
    "greater_than_equal": "is {shown}; at least {ge} is needed",
    "string_too_long": "is longer than {max_length:,} characters",
    "too_long": "has {actual_length:,} entries; at most {max_length:,} are allowed",
    "string_pattern_mismatch": "does not match {pattern}",
}


def place_of(path: Sequence[str | int]) -> str:
    """A path of pydantic as we write it: `moves[0].job`."""
    place = ""
    for part in path:
        place = joined(place, f"[{part}]" if isinstance(part, int) else str(part))
    return place


def problems_of(error: Mapping[str, Any], path: Sequence[str | int]) -> list[Problem]:
    """An error of pydantic in our words, at this path."""
    place, kind, limits = place_of(path), error["type"], error.get("ctx", {})
    if kind == "refused":
        return under(place, limits["problems"])
    value, remedy = error["input"], "add it" if kind == "missing" else ""
    if kind == "string_type" and isinstance(value, bool | int | float):
        remedy = "put it in quotes"
    template = _TEXTS.get(kind, str(error["msg"]).replace("{", "{{").replace("}", "}}"))
    return [Problem(place, template.format(got=got(value), shown=str(value)[:40], **limits), remedy)]

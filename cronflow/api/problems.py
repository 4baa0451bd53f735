"""Errors as problem documents (RFC 9457)."""

from __future__ import annotations

import math
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from cronflow.api.access import NotAllowed, NotAuthenticated
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput, NotFound, TooSoon

STATUS: dict[type[Exception], int] = {
    NotAuthenticated: 401,
    NotAllowed: 403,
    NotFound: 404,
    Conflict: 409,
    InvalidInput: 422,
    RequestValidationError: 422,
    TooSoon: 429,
    BackendUnavailable: 503,
}


def add_problems(api: FastAPI) -> None:
    """Answer these errors with a problem document."""

    async def answer(_: Request, error: Exception) -> JSONResponse:
        status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
        detail = str(error)
        headers = {}
        if isinstance(error, RequestValidationError):
            # Never what was sent: it may be a password.
            detail = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors())
        if isinstance(error, NotAuthenticated):
            headers["WWW-Authenticate"] = "Bearer"
        if isinstance(error, TooSoon):
            headers["Retry-After"] = str(max(1, math.ceil(error.retry_in_s)))
        problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
        return JSONResponse(problem, status, headers, media_type="application/problem+json")

    for kind in STATUS:
        api.add_exception_handler(kind, answer)

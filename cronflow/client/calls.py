"""Requests, retries and errors: the part of the clients without I/O."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import orjson

from cronflow.domain.errors import CronFlowError, InvalidInput, Problem

PREFIX = "/api/v1"
PAGE = 200
TRIES = 4
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
PATIENCE_S = 300.0
"""How long a follower tries to reconnect."""
_NOT_NOW = frozenset({429, 502, 503, 504})

Value = TypeVar("Value")


class ApiError(CronFlowError):
    """The API answered with a problem, or did not answer (`status` 0). `problems` are the invalid fields of the input;
    `retry_after_s` is how long the API asks to wait; `missing` is the kind and name of what was not found.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        problems: Sequence[Problem] = (),
        retry_after_s: float | None = None,
        missing: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status = status
        self.detail = detail
        self.problems = tuple(problems)
        self.retry_after_s = retry_after_s
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `repeatable`: sending it twice has the effect of sending it once."""

    method: str
    path: str
    params: Mapping[str, object] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False

    def request(self) -> dict[str, Any]:
        """The arguments of `httpx2`'s request."""
        made: dict[str, Any] = {"method": self.method, "url": self.path, "headers": dict(self.headers)}
        params = {name: _word(value) for name, value in self.params.items() if value not in (None, "", [])}
        if params:
            made["params"] = params
        if self.body is not None:
            made["content"] = orjson.dumps(self.body)
            made["headers"]["Content-Type"] = "application/json"
        return made


def get(path: str, **params: object) -> Call:
    """A request that only reads."""
    return Call("GET", path, params, repeatable=True)


def page_size(limit: int | None) -> int:
    """How many items to request at once when `limit` are wanted."""
    return PAGE if limit is None else min(PAGE, limit)


def instant(at: datetime | None) -> str | None:
    """Raises ValueError for an instant without a time zone."""
    if at is None:
        return None
    if at.utcoffset() is None:
        raise ValueError(f"{at!r} has no time zone")
    return at.isoformat()


def path_of(*parts: str) -> str:
    """The path, with each part quoted."""
    return PREFIX + "".join(f"/{quote(part, safe='')}" for part in parts)


def given(**fields: object) -> dict[str, object]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def pause_s(call: Call, tries: int, failure: httpx2.Response | httpx2.TransportError) -> float | None:
    """How long to wait before the call is repeated; None: it must not be repeated, or not again.

    A request that was never sent, or was refused by a rate limit, may always be repeated.
    """
    if tries >= TRIES:
        return None
    if isinstance(failure, httpx2.TransportError):
        if not (call.repeatable or isinstance(failure, httpx2.ConnectError)):
            return None
        return _back_off(tries)
    if failure.status_code not in _NOT_NOW or not (call.repeatable or failure.status_code == 429):
        return None
    asked = retry_after_s(failure)
    if asked is None:
        return _back_off(tries)
    return asked if asked <= LONGEST_PAUSE_S else None


def answer_of(response: httpx2.Response) -> Any:
    """The JSON of an answer. Raises ApiError when it is a problem, or is not JSON."""
    try:
        content: Any = orjson.loads(response.content) if response.content else None
    except orjson.JSONDecodeError:
        content = None
        if response.is_success:
            raise ApiError(response.status_code, "the answer is not JSON; is this the address of the API?") from None
    if response.is_success:
        return content
    raise error_of(response, content)


def error_of(response: httpx2.Response, content: Any) -> ApiError:
    """From a problem document (RFC 9457), or from any other content."""
    if not isinstance(content, Mapping):
        content = {}
    detail = str(content.get("detail") or f"{response.request.method} {response.request.url.path} failed")
    problems = [
        Problem(str(one.get("place", "")), str(one.get("what", "")), str(one.get("remedy", "")))
        for one in content.get("errors", ())
        if isinstance(one, Mapping)
    ]
    kind, name = content.get("kind"), content.get("name")
    missing = (kind, name) if isinstance(kind, str) and isinstance(name, str) else None
    return ApiError(response.status_code, detail, problems, retry_after_s(response), missing)


def unreachable(url: str, error: httpx2.TransportError) -> ApiError:
    return ApiError(0, f"{url} does not answer: {str(error) or type(error).__name__}")


def retry_after_s(response: httpx2.Response) -> float | None:
    """`Retry-After` in seconds; a date is ignored."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else None


def checked_url(url: str) -> str:
    """Raises InvalidInput when it cannot be the URL of an API."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise InvalidInput(Problem("url", f"{url!r} is not a URL: {error}")) from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput(
            Problem("url", f"{url!r} is not the URL of an API", "write https://host or http://host:8500")
        )
    return url.rstrip("/")


def _back_off(tries: int) -> float:
    return FIRST_PAUSE_S * 2.0 ** (tries - 1) * random.uniform(0.5, 1.0)


def _word(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(one) for one in value] if isinstance(value, list | tuple) else str(value)

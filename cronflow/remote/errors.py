"""What the API refuses, as the error that the service would have raised.

The rule: a command that goes through the API ends with the same message and the same exit code as one that asks the
servers itself, and a note says through which address it went.
"""

from __future__ import annotations

from cronflow.client.calls import ApiError
from cronflow.domain.errors import (
    BackendUnavailable,
    Conflict,
    CronFlowError,
    InvalidInput,
    NotFound,
    Problem,
    TooSoon,
)
from cronflow.remote.login import Login

API = "the API"
AWAY = frozenset({0, 502, 503, 504})


def told(error: ApiError, login: Login) -> CronFlowError:
    """The error to raise in its place."""
    if error.status == 401:
        return ended(login)
    made = _made(error, login.url)
    made.add_note(f"via {login.url}")
    return made


def ended(login: Login) -> CronFlowError:
    """What let this user in does so no more."""
    if login.refresh is None:
        made = CronFlowError(f"{login.url} does not accept this API key: it was deleted, has expired, or is none")
        made.add_note(f"log in with another one: cronflow login {login.url} --key-stdin, or set CRONFLOW_API_KEY")
        return made
    made = CronFlowError(f"the login of {login.user} at {login.url} has ended")
    made.add_note(f"log in again: cronflow login {login.url}")
    return made


def _made(error: ApiError, url: str) -> CronFlowError:
    if error.status in AWAY:
        return BackendUnavailable(API, url, error.detail.removeprefix(f"{url} does not answer: "))
    if error.status == 404 and error.missing is not None:
        return NotFound(*error.missing)
    if error.status == 409:
        return Conflict(error.detail)
    if error.status == 429 and error.retry_after_s is not None:
        return TooSoon(error.retry_after_s)
    if error.status in (400, 413, 422):
        return InvalidInput(error.problems or Problem("", error.detail))
    if error.status == 403:
        return CronFlowError(f"this login may not do that: {error.detail}")
    return CronFlowError(f"{error.status}: {error.detail}")

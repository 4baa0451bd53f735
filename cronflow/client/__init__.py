"""Clients of the REST API: `Client`, and `AsyncClient` for asyncio.

Answers are the API's own objects, typed in `cronflow.schemas`; lists are iterators that fetch page by page; errors are
`ApiError`. Requests that are safe to repeat are repeated when a connection breaks or the API asks to wait. The
synchronous client is generated from the other one; see `tests/client/generate.py`. `cronflow.client.local` has the same
methods for a process that reaches Redis and MongoDB itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronflow.client.aio import AsyncClient
    from cronflow.client.blocking import Client
    from cronflow.client.calls import ApiError

__all__ = ["ApiError", "AsyncClient", "Client"]

_MODULES = {"ApiError": "calls", "AsyncClient": "aio", "Client": "blocking"}


def __getattr__(name: str) -> object:
    """Import on first use: the local client and the login file need no HTTP library."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

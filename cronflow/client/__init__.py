"""Clients of the REST API: `Client`, and `AsyncClient` for asyncio.

Answers are the API's own objects, typed as `cronflow.schemas`; lists are iterators that fetch page by page; errors are
`ApiError`. What may be repeated without doing it twice is repeated when a connection breaks or the API asks to wait.
The synchronous client is made from the other one; see `tests/client/generate.py`.
"""

from cronflow.client.aio import AsyncClient
from cronflow.client.blocking import Client
from cronflow.client.calls import ApiError

__all__ = ["ApiError", "AsyncClient", "Client"]

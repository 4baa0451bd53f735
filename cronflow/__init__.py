"""CronFlow: cron for a cluster. The public API; importing it loads no driver and no server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronflow.app import App
from cronflow.context import Context
from cronflow.domain.errors import CronFlowError, PermanentError, RetryLater, Skip
from cronflow.domain.job import Breaker
from cronflow.domain.retry import Retry, RetryRule
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once
from cronflow.domain.schedule.windows import Period, WeeklyHours
from cronflow.domain.split import Shard

if TYPE_CHECKING:
    from cronflow.client import ApiError, AsyncClient, Client

    __version__: str

__all__ = [
    "AnyOf",
    "ApiError",
    "App",
    "AsyncClient",
    "Breaker",
    "Client",
    "Context",
    "Cron",
    "CronFlowError",
    "Dst",
    "Every",
    "GapPolicy",
    "Once",
    "Period",
    "PermanentError",
    "RepeatPolicy",
    "Retry",
    "RetryLater",
    "RetryRule",
    "Shard",
    "Skip",
    "WeeklyHours",
    "__version__",
]


def __getattr__(name: str) -> object:
    # Loaded lazily: package metadata and the HTTP client take longer to load than everything above.
    if name == "__version__":
        from importlib.metadata import version

        return version("cronflow")
    if name in ("ApiError", "AsyncClient", "Client"):
        from cronflow import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

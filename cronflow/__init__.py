"""CronFlow: cron for a cluster. The public API; importing it loads no driver and no server.

Every name is imported on first use, so that tools that only look for plugins load nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronflow.app import App
    from cronflow.client import ApiError, AsyncClient, Client
    from cronflow.context import Context
    from cronflow.domain.errors import CronFlowError, PermanentError, RetryLater, Skip
    from cronflow.domain.job import Breaker
    from cronflow.domain.retry import Retry, RetryRule
    from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
    from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once
    from cronflow.domain.schedule.windows import Period, WeeklyHours
    from cronflow.domain.split import Shard

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

_NAMES = {
    "app": ("App",),
    "client": ("ApiError", "AsyncClient", "Client"),
    "context": ("Context",),
    "domain.errors": ("CronFlowError", "PermanentError", "RetryLater", "Skip"),
    "domain.job": ("Breaker",),
    "domain.retry": ("Retry", "RetryRule"),
    "domain.schedule.dst": ("Dst", "GapPolicy", "RepeatPolicy"),
    "domain.schedule.kinds": ("AnyOf", "Cron", "Every", "Once"),
    "domain.schedule.windows": ("Period", "WeeklyHours"),
    "domain.split": ("Shard",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("cronflow")
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

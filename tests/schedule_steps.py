"""Counts the steps of a computation, and forgets what schedules remember, so that the count is the same each time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import _lru_cache_wrapper
from types import FrameType
from typing import Any
from zoneinfo import ZoneInfo


def forget() -> None:
    """Clear every cache of the modules about schedules, and that of time zones."""
    for name, module in list(sys.modules.items()):
        if name.startswith("cronflow.domain.schedule."):
            for value in vars(module).values():
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()
    ZoneInfo.clear_cache()


def steps(compute: Callable[[], object]) -> int:
    """The number of functions, of Python and of C, that are called."""
    count = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    previous = sys.getprofile()
    sys.setprofile(profile)
    try:
        compute()
    finally:
        sys.setprofile(previous)
    return count

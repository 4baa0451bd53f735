"""What is forgotten when time zone data change."""

from __future__ import annotations

import importlib
import pkgutil

from cronflow.domain import schedule
from cronflow.domain.schedule.zone_cache import dependent

WITHOUT_A_ZONE = {"parse_expression", "describe_cron", "_hours_of", "_of_windows", "window_set", "_shared_month_shapes"}
"""They remember texts and windows, whose local times are read in a zone later."""


def test_every_cache_of_schedules_is_forgotten_unless_no_zone_matters_to_it() -> None:
    modules = [
        importlib.import_module(f"{schedule.__name__}.{one.name}") for one in pkgutil.iter_modules(schedule.__path__)
    ]
    values = [value for module in modules for value in vars(module).values() if hasattr(value, "cache_info")]
    caches = [value for value in values if value.__module__.startswith(schedule.__name__)]
    assert {cache.__name__ for cache in caches if cache not in dependent} <= WITHOUT_A_ZONE
    assert len(dependent) >= 7

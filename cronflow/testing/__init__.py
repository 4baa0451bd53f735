"""Tests of your own jobs, and the tools of CronFlow's tests.

For your tests, without servers:

* `run_job(app, "nightly-report", at="2026-11-24T02:00Z", failing=[ConnectionError])` runs a job in this process with
  its retries, on a virtual clock, and returns a `JobResult`; `run_job_sync` does the same without asyncio.
* `fires(schedule, start, end)` and `assert_fires(schedule, at=[...], between=(start, end))` say when a schedule fires.
* `job_file(path, app)` checks a job file.
* `FakeClock` is a clock that a test moves.

The pytest plugin has fixtures for these, and for a cluster on real servers: `cronflow.pytest_plugin`. The other modules
(the memory backend, faults, embedded servers, oracles) are tools of CronFlow itself and may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cronflow.testing.clock import FakeClock
    from cronflow.testing.expected_fires import assert_fires, fires
    from cronflow.testing.job_files import job_file
    from cronflow.testing.job_run import JobResult, run_job, run_job_sync

__all__ = ["FakeClock", "JobResult", "assert_fires", "fires", "job_file", "run_job", "run_job_sync"]

_MODULES = {
    "FakeClock": "clock",
    "JobResult": "job_run",
    "assert_fires": "expected_fires",
    "fires": "expected_fires",
    "job_file": "job_files",
    "run_job": "job_run",
    "run_job_sync": "job_run",
}


def __getattr__(name: str) -> object:
    """Import on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

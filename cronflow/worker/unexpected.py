"""An executor that raises an unexpected exception: its attempt fails, the node and its other runs continue."""

from __future__ import annotations

import traceback

import structlog

from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.storable import storable_text
from cronflow.worker.active import Active

log = structlog.get_logger("cronflow.node")


def failed_unexpectedly(active: Active, error: Exception) -> AttemptResult:
    """The result of the attempt. The traceback goes to the logs of the run and of the node."""
    log.error("executor failed", run=active.claimed.run, fence=active.claimed.fence, exc_info=error)
    for line in traceback.format_exception(error):
        active.log.add("error", line.rstrip())
    return AttemptResult(Outcome.ERROR, error=storable_text(f"the executor failed: {type(error).__name__}: {error}"))

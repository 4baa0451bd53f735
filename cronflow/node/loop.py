"""The one periodic loop that every role runs in, and how outages are told.

The rule it protects: a role survives only BackendUnavailable; anything else ends the process loudly. An outage is
logged once when it begins and once when it is over, however many roles feel it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from cronflow.domain.errors import BackendUnavailable
from cronflow.ports import Clock

RETRY_S = 0.5

log = structlog.get_logger("cronflow.node")


class Outages:
    """Which services are away, as the roles of this node see it."""

    def __init__(self) -> None:
        self._failing: dict[str, BackendUnavailable] = {}

    @property
    def away(self) -> set[str]:
        """The services that some role cannot reach."""
        return {error.service for error in self._failing.values()}

    def failed(self, role: str, error: BackendUnavailable) -> None:
        """A role's step failed."""
        if error.service not in self.away:
            log.error("service away", service=error.service, address=error.address, reason=error.reason)
        self._failing[role] = error

    def worked(self, role: str) -> None:
        """A role's step went through."""
        error = self._failing.pop(role, None)
        if error is not None and error.service not in self.away:
            log.info("service back", service=error.service, address=error.address)


async def repeat(
    role: str, step: Callable[[], Awaitable[float]], clock: Clock, wake: asyncio.Event, outages: Outages
) -> None:
    """Run `step` for ever: again after the seconds that it returns, or at once when `wake` is set."""
    while True:
        wake.clear()
        try:
            pause = await step()
        except BackendUnavailable as error:
            outages.failed(role, error)
            # Not woken early: rings must not turn an outage into a busy loop.
            await clock.sleep(RETRY_S)
            continue
        outages.worked(role)
        await clock.wait(wake, pause)

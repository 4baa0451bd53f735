"""What the leader knows of the maintenance mode, so that the planner and the reconciler need no read for it.

Rule: a new leader starts nothing before it has read the mode. After that it reads it when it is told of a change, and
every five seconds. The role also turns off a mode that has ended by itself; nobody waits for that.
"""

from __future__ import annotations

from collections.abc import Callable

from cronflow.domain.cluster import Tenure
from cronflow.domain.events import MaintenanceEnded
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.leader.elector import Elector
from cronflow.leader.read_limit import ReadLimit
from cronflow.node.role_loop import Wake
from cronflow.ports import Clock, Control, EventSink, discard_event

IDLE_S = 5.0
LOOK_S = 0.5
NOT_READ = "the maintenance mode was not read yet"


class MaintenanceWatch:
    """`changed` is called when what `held` returns may have changed."""

    def __init__(
        self,
        control: Control,
        elector: Elector,
        clock: Clock,
        changed: Callable[[], None],
        emit: EventSink = discard_event,
    ) -> None:
        self._control = control
        self._elector = elector
        self._clock = clock
        self._changed = changed
        self._emit = emit
        self._term = 0
        self._mode: MaintenanceMode | None = None
        self._limit = ReadLimit(clock, LOOK_S)
        self.wake = Wake()

    def held(self, tenure: Tenure) -> str | None:
        """Why nothing new may start now, or None. NOT_READ: it is not known yet in this term."""
        if self._term != tenure.term:
            return NOT_READ
        mode = self.mode(tenure)[1]
        return None if mode is None else str(mode)

    @property
    def is_on(self) -> bool:
        """Whether the mode was on when it was last read."""
        return self._mode is not None and self._mode.holds(self._clock.now())

    def mode(self, tenure: Tenure) -> tuple[bool, MaintenanceMode | None]:
        """Whether the mode is known in this term, and the mode if it is on."""
        mode = self._mode
        return self._term == tenure.term, mode if mode is not None and mode.holds(self._clock.now()) else None

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        if self._term != tenure.term:
            self._limit.reset()
        if wait_s := self._limit.wait_s():
            return wait_s
        mode = await self._control.maintenance()
        if mode is not None and not mode.holds(self._clock.now()):
            if await self._control.end_maintenance(mode.since):
                self._emit(MaintenanceEnded(""))
            mode = None
        if (self._term, self._mode) != (tenure.term, mode):
            self._term, self._mode = tenure.term, mode
            self._changed()
        if mode is None or mode.until is None:
            return IDLE_S
        return max(LOOK_S, min(IDLE_S, (mode.until - self._clock.now()).total_seconds()))

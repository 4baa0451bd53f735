"""Which fires were held by the maintenance mode, so that no alert reports them as late for it.

Rule: a fire that falls due in maintenance, or that still waits for its start when maintenance begins, is as if due when
maintenance ends: it is late if it has not started by `late_after` after that. A fire that was late before maintenance
began is late. Fires are judged when that is certain.

The present mode comes from the leader's own watch. A new leader reads the latest maintenance from the events, once per
term; without its events (they are kept as long as log lines) its fires count as late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cronflow.domain.cluster import Tenure
from cronflow.domain.events import MaintenanceEnded, MaintenanceStarted, RecordedEvent
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.domain.run import Run, RunState
from cronflow.ports import Clock, EventStore

RECALLED = timedelta(days=2)
MOST_RECALLED = 200
MOST_KEPT = 50


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """`end` None: it has not ended."""

    since: datetime
    end: datetime | None = None


class HeldFires:
    """Call `look` before each round. `mode` returns whether the mode is known in this term, and the mode if it is
    on.
    """

    def __init__(
        self, events: EventStore, clock: Clock, mode: Callable[[Tenure], tuple[bool, MaintenanceMode | None]]
    ) -> None:
        self._events = events
        self._clock = clock
        self._mode = mode
        self._term = 0
        self._windows: list[MaintenanceWindow] = []

    async def look(self, tenure: Tenure) -> bool:
        """Follow the mode. False: it is not known yet, so no fire can be judged."""
        known, mode = self._mode(tenure)
        if not known:
            return False
        now = self._clock.now()
        if self._term != tenure.term:
            kinds = {"maintenance_started", "maintenance_ended"}
            recent = await self._events.find(kinds=kinds, since=now - RECALLED, limit=MOST_RECALLED)
            self._windows = windows_of(recent[::-1], now - RECALLED)
            self._term = tenure.term
        last = self._windows[-1] if self._windows else None
        if mode is None and last is not None and last.end is None:
            self._windows[-1] = replace(last, end=now)
        elif mode is not None and (last is None or last.end is not None):
            self._windows = [*self._windows[1 - MOST_KEPT :], MaintenanceWindow(mode.since)]
        return True

    def judged_until(self, until: datetime, after: timedelta) -> datetime:
        """Up to which fire can be judged, if without maintenance it is `until`."""
        for window in reversed(self._windows):
            if window.end is None or until < window.end:
                until = min(until, window.since - after)
        return until

    def due(self, fire: datetime, after: timedelta) -> datetime:
        """From when on the lateness of a fire counts. The fire is one that can be judged."""
        for window in self._windows:
            if window.end is not None and window.since - after < fire <= window.end:
                fire = window.end
        return fire

    def excuses(self, run: Run, after: timedelta) -> bool:
        """Whether a run that is late by the instant of its fire is not late by when it was really due."""
        due = self.due(run.fire_at, after)
        if due == run.fire_at:
            return False
        starts = [attempt.started_at for attempt in run.attempts if attempt.started_at is not None]
        begun = starts[0] if starts else run.started_at
        if begun is None and run.state is RunState.SKIPPED:
            begun = run.created_at
        return begun is not None and begun - due <= after


def windows_of(events: Sequence[RecordedEvent], earliest: datetime) -> list[MaintenanceWindow]:
    """From the events of the mode, oldest first. A mode that was on at `earliest` began then; a mode that gets another
    note or end has one more event.
    """
    found: list[MaintenanceWindow] = []
    for one in events:
        is_open = bool(found) and found[-1].end is None
        if isinstance(one.event, MaintenanceStarted) and not is_open:
            found.append(MaintenanceWindow(one.at))
        elif isinstance(one.event, MaintenanceEnded) and is_open:
            found[-1] = replace(found[-1], end=one.at)
        elif isinstance(one.event, MaintenanceEnded) and not found:
            found.append(MaintenanceWindow(earliest, one.at))
    return found[-MOST_KEPT:]

"""Reports runs that wait because no live node can run them: labels, capabilities, drained nodes, no nodes at all.

One event per wait, after it has lasted some seconds, and one for all runs that wait for the same reason. A full cluster
is not reported here: its runs wait for a free slot.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime, timedelta

from cronflow.domain.events import RunsUnplaced
from cronflow.domain.placement import Waiting
from cronflow.ports import EventSink, discard_event

REPORTED_AFTER = timedelta(seconds=10)
"""A restarting node is back by then."""
MOST_REMEMBERED = 100_000


class UnplacedReporter:
    def __init__(self, emit: EventSink = discard_event) -> None:
        self._emit = emit
        self._reported: OrderedDict[tuple[str, datetime], None] = OrderedDict()

    def report(self, waits: Iterable[tuple[str, Waiting]], now: datetime) -> None:
        """The runs, by id, that could not be placed in a round, except those that wait for a free slot."""
        found: dict[str, list[str]] = {}
        for run, waiting in waits:
            wait = (run, waiting.since)
            if now - waiting.since >= REPORTED_AFTER and wait not in self._reported:
                self._reported[wait] = None
                found.setdefault(str(waiting), []).append(run)
        while len(self._reported) > MOST_REMEMBERED:
            self._reported.popitem(last=False)
        for reason, runs in found.items():
            self._emit(RunsUnplaced(len(runs), runs[0], reason))

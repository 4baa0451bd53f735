"""Corrects cursors that were computed with other time zone data, after an update of the data.

The control document names the data by which the leader has checked all cursors. A leader whose data are others, because
it was elected or because they have changed while it leads, reads all jobs in pages and moves the cursors that are
wrong, each by a compare-and-set on `rev` and the term. A leader that dies in between leaves the old name, and the next
one begins anew. While the name is that of its own data, this costs one read per term, and a look at the data each
minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.domain.cursor_correction import corrected
from cronflow.domain.events import CursorsCorrected
from cronflow.domain.job import JobRecord
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.node.zone_watch import LOOK_S, ZoneWatch
from cronflow.ports import Control, CursorMove, EventSink, JobStore, discard_event

IDLE_S = 5.0
PAGE = 200
TRIES = 5

log = structlog.get_logger("cronflow.node")


class CursorCorrector:
    """`moved` is called when cursors have moved."""

    def __init__(
        self,
        jobs: JobStore,
        control: Control,
        elector: Elector,
        zones: ZoneWatch,
        moved: Callable[[], None],
        emit: EventSink = discard_event,
    ) -> None:
        self._jobs, self._control = jobs, control
        self._elector = elector
        self._zones = zones
        self._moved = moved
        self._emit = emit
        self._checked: tuple[int, str] | None = None
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            self._checked = None
            return IDLE_S
        identity = self._zones.look()
        if self._checked == (tenure.term, identity):
            return LOOK_S
        if await self._control.zone_data() != identity:
            count = await self._correct_all(tenure)
            if count is None:
                return IDLE_S
            await self._control.keep_zone_data(identity, tenure.term)
            if count:
                log.info("cursors corrected", jobs=count, zones=identity)
                self._emit(CursorsCorrected(count, self._zones.version))
        self._checked = (tenure.term, identity)
        return LOOK_S

    async def _correct_all(self, tenure: Tenure) -> int | None:
        """How many jobs moved; None: this node does not lead any more, or some jobs kept changing."""
        count, after, complete = 0, "", True
        while page := await self._jobs.find(after=after, limit=PAGE):
            after = page[-1].name
            moved, done = await self._correct(tenure, page)
            count += moved
            complete = complete and done
            if self._elector.tenure is not tenure:
                return None
        return count if complete else None

    async def _correct(self, tenure: Tenure, page: Sequence[JobRecord]) -> tuple[int, bool]:
        """Returns how many jobs moved, and whether all are right now. A job that changed meanwhile is read again."""
        count, records = 0, page
        for _ in range(TRIES):
            moves = {one.name: CursorMove(one.rev, to.next_fire) for one in records if (to := corrected(one))}
            if not moves:
                return count, True
            moved = await self._jobs.reposition(moves, tenure.term)
            count += len(moved)
            if moved:
                self._moved()
            left = moves.keys() - moved
            if not left:
                return count, True
            records = await self._jobs.get(left)
        return count, False

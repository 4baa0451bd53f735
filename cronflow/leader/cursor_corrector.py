"""Corrects cursors that were computed with other time zone data, after an update of the data.

The control document names the data by which all cursors are right. Nothing is planned in a term, or with new data,
before the leader has claimed that document: the claim keeps the name if it is that of its own data, and otherwise
removes it. Then the leader reads all jobs in pages, and writes each that depends on a zone, with its cursor corrected
if that is wrong, by a compare-and-set on `rev` and the term. The write makes every move that was computed with other
data fail, also that of a deposed leader. At last it writes the name. A leader that dies in between leaves none, and the
next one begins anew.

While the data stay the same, this costs one write per term, and a look at the data each minute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from cronflow.domain.cluster import Tenure
from cronflow.domain.cursor_correction import corrected, depends_on_zone
from cronflow.domain.events import CursorsCorrected
from cronflow.domain.job import JobRecord
from cronflow.leader.elector import Elector
from cronflow.leader.maintenance_watch import NOT_READ
from cronflow.node.role_loop import Wake
from cronflow.node.zone_watch import LOOK_S, ZoneWatch
from cronflow.ports import Control, CursorMove, EventSink, JobStore, discard_event

IDLE_S = 5.0
PAGE = 200
TRIES = 5

log = structlog.get_logger("cronflow.node")


class CursorCorrector:
    """`changed` is called when cursors have moved, and when planning may begin."""

    def __init__(
        self,
        jobs: JobStore,
        control: Control,
        elector: Elector,
        zones: ZoneWatch,
        changed: Callable[[], None],
        emit: EventSink = discard_event,
    ) -> None:
        self._jobs, self._control = jobs, control
        self._elector = elector
        self._zones = zones
        self._changed = changed
        self._emit = emit
        self._claimed = 0
        self._right = False
        self.wake = Wake()

    def held(self, tenure: Tenure) -> str | None:
        """Why nothing may be planned: it is not known in this term by which data the cursors are right."""
        return None if self._claimed == tenure.term else NOT_READ

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None:
            return IDLE_S
        identity = self._zones.found()
        if self._claimed != tenure.term or identity != self._zones.identity:
            claimed = await self._control.claim_zone_data(identity, tenure.term)
            if claimed is None:
                self._elector.deposed("a newer term has claimed the time zone data")
                return IDLE_S
            self._right = claimed
            # Nothing is computed with new data before this.
            self._zones.use(identity)
            self._claimed = tenure.term
            self._changed()
        if not self._right:
            count = await self._correct_all(tenure)
            if count is None:
                return IDLE_S
            await self._control.keep_zone_data(identity, tenure.term)
            self._right = True
            if count:
                log.info("cursors corrected", jobs=count, zones=identity)
                self._emit(CursorsCorrected(count, self._zones.version))
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
        """Returns how many cursors moved, and whether all jobs are written. One that changed meanwhile is read
        again.
        """
        count, records = 0, [one for one in page if _may_be_wrong(one)]
        for _ in range(TRIES):
            if not records:
                return count, True
            moves = {one.name: CursorMove(one.rev, _right_cursor(one)) for one in records}
            written = await self._jobs.reposition(moves, tenure.term)
            moved = [one for one in records if one.name in written and one.next_fire != moves[one.name].next_fire]
            count += len(moved)
            if moved:
                self._changed()
            left = moves.keys() - written
            records = [one for one in await self._jobs.get(left) if _may_be_wrong(one)] if left else []
        return count, not records


def _may_be_wrong(record: JobRecord) -> bool:
    schedule = record.job.schedule
    return record.next_fire is not None and schedule is not None and depends_on_zone(schedule)


def _right_cursor(record: JobRecord) -> datetime | None:
    found = corrected(record)
    return record.next_fire if found is None else found.next_fire

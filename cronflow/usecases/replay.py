"""Replaying and acknowledging: what people do with runs that have ended, dead letters above all.

The rule it protects: a state that has ended stays; what somebody did about it is written beside it. A replay is a run
of its own, `<id>~r1`, `~r2` …, made before the original is marked. Whoever finds a dead letter whose replay is there
already completes the mark instead of replaying it again, so repeating after a failure runs nothing twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from itertools import count

from cronflow.domain.errors import Conflict, NotFound
from cronflow.domain.failures import Failure, group
from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import DEAD, Kind, Resolution, Run, Settled, replay_id
from cronflow.ports import Backends, Clock, RunQuery

LOOKED_AT_ONCE = 16
PAGE = 500
MOST_REPORTED = 20_000


class Replayer:
    """Settles runs through the ports."""

    def __init__(self, backends: Backends, clock: Clock) -> None:
        self._backends = backends
        self._clock = clock

    async def replay(
        self,
        run_id: str,
        args: Mapping[str, object] | None = None,
        *,
        by: str = "",
        note: str = "",
        only_dead: bool = False,
    ) -> str:
        """Run it again, under the job as it is now and for the same instant; with its own arguments unless others are
        given. Returns the id of the replay.

        Raises NotFound, also for its job; Conflict while it is open, and with `only_dead` when somebody has settled it.
        """
        found = await self._backends.runs.get([run_id])
        if not found:
            raise NotFound("run", run_id)
        [run] = found
        if run.is_open:
            raise Conflict(f"run {run_id} is {run.state}: it has not ended, so there is nothing to replay yet")
        if only_dead and not run.is_dead:
            raise Conflict(f"run {run_id} is no dead letter any more")
        jobs = await self._backends.jobs.get([run.job])
        if not jobs or jobs[0].deleted_at is not None:
            raise NotFound("job", run.job)
        replay = await self._insert(jobs[0], run, args)
        resolution = Resolution(Settled.REPLAYED, self._clock.now(), by, note, replay)
        await self._backends.dead_letters.settle([run_id], resolution)
        return replay

    async def acknowledge(self, run_ids: Sequence[str], *, by: str = "", note: str = "") -> set[str]:
        """Nothing more is to be done about these. Returns those that were dead letters until now."""
        resolution = Resolution(Settled.ACKNOWLEDGED, self._clock.now(), by, note)
        return await self._backends.dead_letters.settle(run_ids, resolution)

    async def report(self, since: datetime, job: str | None = None) -> tuple[Sequence[Failure], bool]:
        """What failed since then, by reason; and whether there was more than is looked at."""
        failed: list[Run] = []
        while len(failed) < MOST_REPORTED:
            before = (failed[-1].fire_at, failed[-1].id) if failed else None
            query = RunQuery(job=job, states=DEAD, since=since, before=before, limit=PAGE)
            page = await self._backends.runs.find(query)
            failed += page
            if len(page) < PAGE:
                return group(failed), False
        return group(failed), True

    async def _insert(self, record: JobRecord, run: Run, args: Mapping[str, object] | None) -> str:
        """A new replay; of a dead letter the one that somebody else has made, or made and did not come to mark."""
        async for number, present in self._replays(run.id):
            if present is None:
                replay = self._replay(record, run, replay_id(run.id, number), args)
                if await self._backends.runs.insert([replay]):
                    return replay.id
                # Somebody was quicker.
                [present] = await self._backends.runs.get([replay.id])
            if run.is_dead and present.replay_of == run.id:
                return present.id
        raise AssertionError("numbers do not end")

    async def _replays(self, run_id: str) -> AsyncIterator[tuple[int, Run | None]]:
        """The replays by their numbers, then None for the numbers that are free."""
        for first in count(1, LOOKED_AT_ONCE):
            ids = {replay_id(run_id, number): number for number in range(first, first + LOOKED_AT_ONCE)}
            found = {run.id: run for run in await self._backends.runs.get(ids)}
            for replay, number in ids.items():
                yield number, found.get(replay)

    def _replay(self, record: JobRecord, run: Run, replay: str, args: Mapping[str, object] | None) -> Run:
        asked = run_on_request(
            record, replay, Kind.REPLAY, run.fire_at, dict(args) if args is not None else run.args, self._clock.now()
        )
        return dataclasses.replace(asked, replay_of=run.id)

"""Use cases for runs: look up, cancel, replay and acknowledge.

A finished run never changes state; a replay or an acknowledgement is recorded next to it. A replay is a run of its own
(`<id>~r1`, `~r2` …), inserted before the original is marked as replayed. If a dead letter already has a replay,
replaying it again completes the mark instead of starting another run, so a retry after a failure runs nothing twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

from cronflow.domain import transitions
from cronflow.domain.chain import ChainLink
from cronflow.domain.errors import BackendUnavailable, Conflict, NotFound
from cronflow.domain.events import RunCancelled
from cronflow.domain.failures import Failure
from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_on_request
from cronflow.domain.run import Kind, Resolution, Run, RunState, Settled, replay_id
from cronflow.domain.split import Split
from cronflow.domain.splitting import replayed
from cronflow.ports import Backends, Clock, JobStore, LateResult, LogLine, Queue, RunQuery, RunStore
from cronflow.usecases.audit import Auditor, Changed
from cronflow.usecases.failures import failures_between
from cronflow.usecases.jobs import notify_leader
from cronflow.usecases.pending_runs import find_run, insert_pending_runs, pending_among

CANCEL_TRIES = 20
REPLAYS_AT_ONCE = 16


class RunUseCases:
    def __init__(self, backends: Backends, clock: Clock, audit: Auditor) -> None:
        self._backends = backends
        self._clock = clock
        self._audit = audit
        self._canceller = Canceller(backends.jobs, backends.runs, backends.queue, clock)

    async def get(self, run_id: str) -> Run:
        """Raises NotFound."""
        found = await find_run(self._backends.jobs, self._backends.runs, run_id)
        if found is None:
            raise NotFound("run", run_id)
        return found

    async def recent(self, names: Collection[str], limit: int) -> list[tuple[JobRecord, list[Run]]]:
        """The named jobs that exist, each with its latest runs, newest fire first."""
        records = [record for record in await self._backends.jobs.get(names) if record.deleted_at is None]
        found = await asyncio.gather(
            *(self._backends.runs.find(RunQuery(job=record.name, limit=limit)) for record in records)
        )
        return sorted(zip(records, found, strict=True), key=lambda pair: pair[0].name)

    async def whole(self, run: Run) -> Run:
        """The run with its full result; large results are stored separately."""
        if run.result_size is None or run.finish_id is None:
            return run
        found = await self._backends.results.get([run.finish_id])
        return replace(run, result=found.get(run.finish_id))

    async def part_counts(self, run: Run) -> Mapping[RunState, int] | None:
        """The number of its parts by state; None if it is not split."""
        if run.split is None:
            return None
        return (await self._backends.runs.part_counts([run.id]))[run.id]

    async def late(self, run_id: str) -> list[LateResult]:
        """Results of the run that arrived too late to be accepted, in full."""
        late = await self._backends.late.of(run_id)
        large = [result.finish_id for result in late if result.attempt_result.result_size is not None]
        found = await self._backends.results.get(large) if large else {}
        return [
            replace(
                one,
                attempt_result=replace(one.attempt_result, result=found.get(one.finish_id, one.attempt_result.result)),
            )
            for one in late
        ]

    async def logs(self, run_id: str, *, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[LogLine]:
        """The lines of a run after (fence, number), in order. Raises NotFound."""
        await self.get(run_id)
        return await self._backends.logs.read(run_id, after=after, limit=limit)

    async def cancel(self, run_id: str, reason: str = "", *, by: str = "") -> Run:
        """Cancel a run and return it as it is now: a run that has not started ends at once, a running one is stopped by
        its worker. Cancelling twice is safe. A run that finishes before it is stopped keeps its result.

        Raises NotFound, and Conflict if the run has already ended.
        """
        run = await self.get(run_id)
        if not run.is_open:
            raise Conflict(f"run {run_id} has already ended: {run.state.value}")
        (run,) = await self.cancel_all([run_id], reason, by=by)
        return run

    async def cancel_all(self, ids: Collection[str], reason: str = "", *, by: str = "") -> list[Run]:
        """Cancel several runs; runs that have ended stay as they are. Raises Conflict."""
        runs = await self._canceller.cancel(ids, reason, by)
        touched = [run for run in runs if run.is_open or run.state is RunState.CANCELLED]
        after = {"reason": reason}
        await self._audit.record_events(
            by,
            *(
                (Changed("run.cancel", f"run:{run.id}", None, after), RunCancelled(run.id, by, reason))
                for run in touched
            ),
        )
        await notify_leader(self._backends.bus)
        return runs

    async def replay(
        self,
        run_id: str,
        args: Mapping[str, object] | None = None,
        *,
        by: str = "",
        note: str = "",
        only_dead: bool = False,
        followers: bool = False,
    ) -> str:
        """Run it again for the same instant, under the current version of its job and, unless `args` are given, with
        its own arguments. It belongs to the same chain; only with `followers` the jobs that follow it run again too.
        Returns the id of the replay.

        The replay of a run that was split repeats the parts that did not succeed, or all of them if every part did.

        Raises NotFound for the run or its job. Raises Conflict while the run is open, for a part, and with `only_dead`
        if it is not a dead letter.
        """
        run = await self.get(run_id)
        if run.parent is not None:
            what = f"run {run_id} is a part of {run.parent}"
            raise Conflict(f"{what}; replay that one, which repeats the parts that did not succeed")
        if run.is_open:
            raise Conflict(f"run {run_id} has state {run.state}; only a run that has ended can be replayed")
        if only_dead and not run.is_dead:
            raise Conflict(f"run {run_id} is not a dead letter")
        jobs = await self._backends.jobs.get([run.job])
        if not jobs or jobs[0].deleted_at is not None:
            raise NotFound("job", run.job)
        replay = await self._insert_replay(jobs[0], run, args, followers)
        resolution = Resolution(Settled.REPLAYED, self._clock.now(), by, note, replay)
        await self._backends.dead_letters.settle([run_id], resolution)
        after = {"replay": replay, "args": args, "note": note, "followers": followers}
        await self._audit.record(by, Changed("run.retry", f"run:{run_id}", None, after))
        await notify_leader(self._backends.bus)
        return replay

    async def acknowledge(self, run_ids: Sequence[str], *, by: str = "", note: str = "") -> set[str]:
        """Mark dead letters as needing no further action. Returns those that were dead letters until now."""
        resolution = Resolution(Settled.ACKNOWLEDGED, self._clock.now(), by, note)
        done = await self._backends.dead_letters.settle(run_ids, resolution)
        await self._audit.record(by, *(Changed("run.ack", f"run:{run}", None, {"note": note}) for run in sorted(done)))
        return done

    async def report(self, since: datetime, job: str | None = None) -> tuple[Sequence[Failure], bool]:
        """Failures since then by reason, most frequent first. The flag is true if some runs were not looked at."""
        return await failures_between(self._backends.runs, since, job=job)

    async def _insert_replay(
        self, record: JobRecord, run: Run, args: Mapping[str, object] | None, followers: bool
    ) -> str:
        """Insert a replay. A dead letter that has an unmarked replay keeps that one."""
        split = await self._split_again(run)
        async for number, present in self._replays(run.id):
            if present is None:
                replay = self._new_replay(record, run, replay_id(run.id, number), args, followers)
                replay = replay if split is None else replace(replay, split=split)
                if await self._backends.runs.insert([replay]):
                    return replay.id
                # A concurrent replay took this number.
                [present] = await self._backends.runs.get([replay.id])
            if run.is_dead and present.replay_of == run.id:
                return present.id
        raise AssertionError("replay numbers are unlimited")

    async def _split_again(self, run: Run) -> Split | None:
        """How a replay of the run is split; None: as its job says."""
        if run.split is None:
            return None
        standings = await self._backends.runs.standings([plan.id for plan in run.split.parts(run.id)])
        return replayed(run, {part: standing.state for part, standing in standings.items()})

    async def _replays(self, run_id: str) -> AsyncIterator[tuple[int, Run | None]]:
        """The replays by number, then None for every free number."""
        for first in count(1, REPLAYS_AT_ONCE):
            ids = {replay_id(run_id, number): number for number in range(first, first + REPLAYS_AT_ONCE)}
            found = {run.id: run for run in await self._backends.runs.get(ids)}
            for replay, number in ids.items():
                yield number, found.get(replay)

    def _new_replay(
        self, record: JobRecord, run: Run, replay: str, args: Mapping[str, object] | None, followers: bool
    ) -> Run:
        args = dict(args) if args is not None else run.args
        requested = run_on_request(
            record,
            replay,
            Kind.REPLAY,
            run.fire_at,
            args,
            self._clock.now(),
            followed=followers and record.followed,
            # Without followers, the replay of a chain's first run is a run of its own.
            chain=run.chain or (ChainLink(run.id, 0) if followers else None),
        )
        return replace(requested, replay_of=run.id)


class Canceller:
    """Cancels runs, for a user or for the leader.

    MongoDB is authoritative: the document is written first, as cancelled or as `cancel_requested`. The Redis mark only
    speeds up delivery to the worker, so a lost mark delays it by one lease renewal. Canceller does not wait for running
    attempts to stop.
    """

    def __init__(self, jobs: JobStore, runs: RunStore, queue: Queue, clock: Clock) -> None:
        self._jobs, self._runs, self._queue = jobs, runs, queue
        self._clock = clock

    async def cancel(self, ids: Collection[str], reason: str, by: str = "") -> list[Run]:
        """Cancel the open runs and return all of them as they are now. Repeating it is safe. A run that its job names
        as pending is inserted first.

        Raises Conflict if a run keeps changing concurrently.
        """
        open_ids = None
        for _ in range(CANCEL_TRIES):
            found = await self._runs.get(ids)
            if open_ids is None:
                if absent := set(ids) - {run.id for run in found}:
                    await insert_pending_runs(self._runs, await pending_among(self._jobs, absent))
                    found = await self._runs.get(ids)
                open_ids = [run.id for run in found if run.is_open]
            todo = [run for run in found if run.is_open and not _is_requested(run)]
            if not todo:
                await self._mark(open_ids)
                return found
            now = self._clock.now()
            await self._runs.apply([transitions.cancel(run, reason, by, secrets.token_hex(12), now) for run in todo])
        raise Conflict("the runs keep changing while they are being cancelled; try again")

    async def _mark(self, ids: Collection[str]) -> None:
        if not ids:
            return
        try:
            await self._queue.cancel(ids)
        except BackendUnavailable:
            # Workers read the documents when they renew their leases.
            return


def _is_requested(run: Run) -> bool:
    may_be_requested = run.state is RunState.RUNNING or run.split is not None
    return may_be_requested and run.cancel_requested

"""Pauses a job whose runs keep failing, as its `pause_after` says.

Only runs of the job's present version count: an edit and a resume begin a new version, so they clear the count. The
process that records the end of a run checks this. If it dies in between, the next failure is noticed.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from cronflow.domain.errors import CronFlowError
from cronflow.domain.events import JobPausedAfterFailures
from cronflow.domain.job import JobRecord
from cronflow.domain.run import DEAD, Kind, RunState
from cronflow.ports import EventSink, JobStore, RunQuery, RunStore, discard_event
from cronflow.usecases.edit import Editor

AUTHOR = "cronflow"

log = structlog.get_logger("cronflow.node")


class PauseAfterFailures:
    def __init__(self, jobs: JobStore, runs: RunStore, editor: Editor, emit: EventSink = discard_event) -> None:
        self._jobs, self._runs = jobs, runs
        self._editor = editor
        self._emit = emit

    async def check(self, names: Collection[str]) -> None:
        """Pause those of the jobs whose last runs have failed. Never raises: a job that cannot be paused now is checked
        after its next failure.
        """
        try:
            for record in await self._jobs.get(names) if names else ():
                await self._check(record)
        except CronFlowError as error:
            log.warning("pause_after not checked", jobs=sorted(names), reason=str(error))

    async def _check(self, record: JobRecord) -> None:
        limit = record.job.pause_after
        if limit is None or record.paused or record.deleted_at is not None:
            return
        kinds = () if record.job.split is None else frozenset(Kind) - {Kind.PART}
        query = RunQuery(job=record.name, states=DEAD | {RunState.SUCCEEDED}, kinds=kinds, limit=limit)
        newest = await self._runs.find(query)
        failed = [run for run in newest if run.state in DEAD and run.job_ver == record.ver]
        if len(failed) < limit:
            return
        count = "1 run" if limit == 1 else f"{limit} runs in a row"
        note = f"{count} failed, the last one is {failed[0].id}"
        # Not if the job has been edited or resumed since.
        await self._editor.pause(record.name, by=AUTHOR, note=note, expected=record.ver)
        self._emit(JobPausedAfterFailures(record.name, limit, failed[0].id))

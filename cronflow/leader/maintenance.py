"""Maintenance: once per term, the leader defines the system jobs and sets the retention of log lines.

Only the leader's settings count, and changing them is an ordinary edit of a job. The system jobs are planned and placed
like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import structlog

from cronflow.domain.errors import Conflict
from cronflow.domain.job import Job
from cronflow.leader.elector import Elector
from cronflow.node.role_loop import Wake
from cronflow.ports import StoreAdmin
from cronflow.usecases.edit import Editor

IDLE_S = 60.0
AGAIN_S = 5.0

log = structlog.get_logger("cronflow.node")


class Maintenance:
    def __init__(
        self,
        store_admin: StoreAdmin,
        editor: Editor,
        elector: Elector,
        jobs: Sequence[Job] = (),
        log_retention: timedelta | None = None,
    ) -> None:
        self._store_admin = store_admin
        self._elector = elector
        self._editor = editor
        self._jobs = jobs
        self._log_retention = log_retention
        self._done_in_term = 0
        self.wake = Wake()

    async def step(self) -> float:
        tenure = self._elector.tenure
        if tenure is None or tenure.term == self._done_in_term:
            return IDLE_S
        if self._log_retention is not None:
            await self._store_admin.keep_lines(self._log_retention)
        for job in self._jobs:
            try:
                result = await self._editor.define(job)
            except Conflict as error:
                log.warning("system job not defined", job=job.name, reason=str(error))
                return AGAIN_S
            if result != "unchanged":
                log.info("system job defined", job=job.name, result=result)
        self._done_in_term = tenure.term
        return IDLE_S

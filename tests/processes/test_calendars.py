"""Calendars on real processes and servers: excluded instants are in the history with their calendar, and a change
takes effect in jobs that are running.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow.domain.run import Run, RunState
from cronflow.domain.schedule.calendar import Calendar, DaySpan
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.schedule.pins import pins_of
from tests.processes.conftest import process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos


async def test_a_calendar_skips_instants_with_its_name_and_a_change_takes_effect_while_jobs_run(
    redis_url: str, mongo_url: str, namespace: str, tmp_path: Path
) -> None:
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        today = datetime.now(UTC).date()
        closed = Calendar(name="closed", days=(DaySpan(today, today + timedelta(days=2), "Stocktaking"),))
        await cluster.service.calendars.define(closed, by="ada")
        await cluster.up("a", "b")
        job = replace(cluster.job("report"), schedule=Every("1s", calendars=("closed",)))
        await cluster.apply(job)

        async def runs(state: RunState, version: int) -> list[Run]:
            return [run for run in await cluster.runs() if run.state is state and run.job_ver == version]

        async def skipped(version: int) -> list[Run]:
            return await runs(RunState.SKIPPED, version)

        async def succeeded(version: int) -> list[Run]:
            return await runs(RunState.SUCCEEDED, version)

        found = await eventually(lambda: skipped(1), what="instants are skipped")
        assert {run.reason for run in found} == {"calendar closed: Stocktaking"}
        _, _, plan = await cluster.service.calendars.define(Calendar(name="closed"), by="bob")
        assert [effect.job for effect in plan.effects] == ["report"]
        ran = await eventually(lambda: succeeded(2), what="runs of the new revision succeed")
        await cluster.service.calendars.define(closed, by="ada")
        again = await eventually(lambda: skipped(3), what="instants are skipped again")
        record = await cluster.service.jobs.get("report")
        assert (record.ver, pins_of(record.job.schedule)) == (3, ("closed@3",))
        # Every instant has one outcome: nothing ran while the calendar excluded it, and nothing is missing in between.
        await cluster.service.jobs.pause("report")
        everything = [run for run in await cluster.runs() if run.job == "report" and run.fire_at < again[0].fire_at]
        assert min(run.fire_at for run in ran) > max(run.fire_at for run in found if run.job_ver == 1)
        instants = sorted(run.fire_at for run in everything)
        assert len(instants) == len(set(instants))
        assert all(run.reason == "calendar closed: Stocktaking" for run in everything if run.state is RunState.SKIPPED)

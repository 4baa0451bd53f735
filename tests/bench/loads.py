"""The lateness of a single job, of a herd, and of many jobs that fire every second."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from cronflow.domain.run import RunState
from cronflow.domain.schedule.kinds import Every, Once
from cronflow.usecases import UseCases
from tests.bench.cluster import all_runs, lateness, no_op, until_ended
from tests.bench.words import say


async def single(service: UseCases, seconds: int) -> None:
    """One job every second."""
    await service.jobs.apply([no_op("lone", Every("1s"))])
    await asyncio.sleep(seconds)
    await service.jobs.delete("lone")
    runs = [run for run in await all_runs(service) if run.job == "lone" and run.state is RunState.SUCCEEDED]
    say(f"a single job, {len(runs)} runs: lateness", lateness(runs[:-1]))


async def herd(service: UseCases, size: int) -> None:
    """Many jobs that are due at the same time."""
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=5 + size // 300)
    await service.jobs.apply([no_op(f"herd-{k:05}", Once(due)) for k in range(size)])
    await asyncio.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
    runs = [run for run in await until_ended(service, size, 120) if run.job.startswith("herd")]
    ends = [run.ended_at for run in runs if run.ended_at is not None]
    drained = (max(ends) - due).total_seconds() if ends else 0.0
    say(f"a herd of {size:,}: lateness", lateness(runs))
    say(
        f"a herd of {size:,}: all finished after",
        f"{drained:.2f} s   ({len(runs) / drained if drained else 0:,.0f} runs/s)",
    )


async def steady(service: UseCases, jobs: int, seconds: int) -> None:
    """Many jobs that fire every second."""
    await service.jobs.apply([no_op(f"steady-{k:05}", Every("1s")) for k in range(jobs)])
    began = datetime.now(UTC)
    await asyncio.sleep(seconds)
    ended = datetime.now(UTC)
    runs = [
        run
        for run in await all_runs(service)
        if run.job.startswith("steady") and run.ended_at is not None and began <= run.ended_at < ended
    ]
    rate = len(runs) / (ended - began).total_seconds()
    say(f"{jobs:,} jobs every second for {seconds} s", f"{rate:,.0f} runs/s   lateness {lateness(runs)}")

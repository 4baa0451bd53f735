"""Four jobs that follow each other, and a chain of their runs, for the scene of the command line."""

from __future__ import annotations

from dataclasses import replace

from cronflow.domain.chain import ChainLink, Join, On, Upstream, UpstreamRun
from cronflow.domain.job import Job
from cronflow.domain.run import Kind, Run, RunState
from tests.cli.scene import Scene, ago, job, run

FIRST = "import@manual-1"
FOLLOWING = ("left@after-1", "right@after-1", "report@after-1")
CHAIN_JOBS: tuple[Job, ...] = (
    job("import"),
    job("left", after=(Upstream("import"),)),
    job("right", after=(Upstream("import", On.ENDED),)),
    job("report", after=(Upstream("left"), Upstream("right")), join=Join.ALL),
    job("alarm", after=(Upstream("import", On.FAILED),)),
)


def chain_run(name: str, depth: int, state: RunState, *of: Run, reason: str | None = None) -> Run:
    upstream = tuple(UpstreamRun(one.job, one.id, one.state) for one in of)
    link = ChainLink(FIRST, depth, upstream) if depth else None
    kind = Kind.AFTER if depth else Kind.MANUAL
    made = run(name.partition("@")[0], ago(hours=1), state, id=name, kind=kind, chain=link, reason=reason)
    return replace(made, created_at=ago(minutes=50 - depth))


def a_chain() -> list[Run]:
    first = chain_run(FIRST, 0, RunState.SUCCEEDED)
    left = chain_run(FOLLOWING[0], 1, RunState.FAILED, first)
    right = chain_run(FOLLOWING[1], 1, RunState.SUCCEEDED, first)
    reason = f"{left.id} failed, but report only follows left when it succeeds"
    report = chain_run(FOLLOWING[2], 2, RunState.SKIPPED, left, right, reason=reason)
    return [first, left, right, report]


async def fill(scene: Scene) -> None:
    """Add the jobs and the chain."""
    await scene.service.jobs.apply(CHAIN_JOBS)
    await scene.backends.runs.insert(a_chain())

"""Chains on virtual time: each end has one answer per following job, through dead leaders and lost writes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from cronflow.domain.chain import Join, On, Upstream
from cronflow.domain.errors import Conflict, InvalidInput
from cronflow.domain.job import Job, Overlap, PythonTarget, Retry
from cronflow.domain.run import AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import Assignment
from tests.node.cluster import Cluster, a_cluster

MINUTE = timedelta(minutes=1)


def a_job(name: str, *after: str | Upstream, every: str | None = None, **fields: object) -> Job:
    return Job(
        name=name,
        target=PythonTarget("jobs:work"),
        schedule=None if every is None else Every(every),
        retry=Retry(max=0),
        after=tuple(one if isinstance(one, Upstream) else Upstream(one) for one in after),
        **fields,  # type: ignore[arg-type]
    )


def of(cluster: Cluster, job: str) -> list[Run]:
    """The runs of a job in the order of their creation."""
    return sorted((run for run in cluster.runs if run.job == job), key=lambda run: (run.created_at, run.id))


def states(cluster: Cluster, job: str) -> list[RunState]:
    return [run.state for run in of(cluster, job)]


def fail(cluster: Cluster, *jobs: str) -> None:
    """Attempts of these jobs fail from now on."""

    def result(assignment: Assignment) -> AttemptResult:
        bad = assignment.job.name in jobs
        return AttemptResult(Outcome.ERROR, error="no") if bad else AttemptResult(Outcome.OK, {"rows": 7})

    cluster.executor.attempt_result = result


def unanswered(cluster: Cluster) -> list[str]:
    return [run.id for run in cluster.runs if run.followed and not run.is_open]


async def test_what_follows_runs_once_with_the_instant_and_the_id_of_its_chain() -> None:
    async with a_cluster("a", "b") as cluster:
        jobs = [a_job("import"), a_job("report", "import"), a_job("mail", "report")]
        await cluster.service.jobs.apply(jobs)
        first = await cluster.service.jobs.trigger("import")
        await cluster.elapse(10)
        began, report, mail = cluster.backends.documents.runs[first], *of(cluster, "report"), *of(cluster, "mail")
        assert (began.state, began.chain, began.chain_id) == (RunState.SUCCEEDED, None, first)
        assert (report.state, report.kind, report.fire_at) == (RunState.SUCCEEDED, Kind.AFTER, began.fire_at)
        assert report.chain is not None
        assert mail.chain is not None
        assert (report.chain.id, report.chain.depth, mail.chain.id, mail.chain.depth) == (first, 1, first, 2)
        assert report.chain.of == (("import", first, RunState.SUCCEEDED),)
        assert unanswered(cluster) == []


async def test_runs_of_a_schedule_are_followed_also_those_that_are_planned_early() -> None:
    async with a_cluster("a", look_ahead=2.0) as cluster:
        await cluster.service.jobs.apply([a_job("import", every="10s"), a_job("report", "import")])
        await cluster.elapse(65)
        fires = [run.id for run in of(cluster, "import") if run.state is RunState.SUCCEEDED]
        followed = [run.chain.id for run in of(cluster, "report") if run.chain is not None]
        assert len(fires) >= 6
        assert followed == fires[: len(followed)]
        assert len(followed) >= len(fires) - 1


@pytest.mark.parametrize(
    ("on", "fails", "expected"),
    [
        (On.SUCCEEDED, False, [RunState.SUCCEEDED]),
        (On.SUCCEEDED, True, [RunState.SKIPPED]),
        (On.FAILED, True, [RunState.SUCCEEDED]),
        (On.FAILED, False, []),
        (On.ENDED, True, [RunState.SUCCEEDED]),
        (On.ENDED, False, [RunState.SUCCEEDED]),
    ],
)
async def test_the_end_decides_whether_the_next_job_runs(on: On, fails: bool, expected: Sequence[RunState]) -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("import"), a_job("report", Upstream("import", on))])
        fail(cluster, *["import"] * fails)
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert states(cluster, "report") == expected
        assert unanswered(cluster) == []


async def test_a_failed_link_states_what_it_held_back_down_to_the_last_job() -> None:
    async with a_cluster("a") as cluster:
        fail(cluster, "import")
        jobs = [
            a_job("import"),
            a_job("report", "import"),
            a_job("mail", "report"),
            a_job("tidy", Upstream("mail", On.ENDED)),
        ]
        await cluster.service.jobs.apply(jobs)
        first = await cluster.service.jobs.trigger("import")
        await cluster.elapse(10)
        (report,), (mail,) = of(cluster, "report"), of(cluster, "mail")
        assert report.reason == f"{first} failed, but report only follows import when it succeeds"
        assert mail.reason == f"{report.id} was skipped, but mail only follows report when it succeeds"
        assert states(cluster, "tidy") == [RunState.SUCCEEDED]
        events = await cluster.backends.events.find(kinds=["run_held_back"])
        assert {one.event.run for one in events} == {report.id, mail.id}  # type: ignore[attr-defined]


async def test_a_job_that_waits_for_failures_tells_its_followers_that_it_did_not_run() -> None:
    async with a_cluster("a") as cluster:
        jobs = [a_job("import"), a_job("alarm", Upstream("import", On.FAILED)), a_job("mail", "alarm")]
        await cluster.service.jobs.apply(jobs)
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert states(cluster, "alarm") == states(cluster, "mail") == [RunState.SKIPPED]


async def test_a_paused_job_does_not_run_but_states_it_and_goes_on_when_resumed() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("import"), a_job("report", "import")])
        await cluster.service.jobs.pause("report")
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert [(run.state, run.reason) for run in of(cluster, "report")] == [(RunState.SKIPPED, "paused")]
        await cluster.service.jobs.resume("report")
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert states(cluster, "report") == [RunState.SKIPPED, RunState.SUCCEEDED]


async def test_a_run_that_a_slow_leader_inserts_after_its_job_was_paused_does_not_start() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("import"), a_job("report", "import")])
        insert = cluster.backends.runs.insert

        async def late(runs: Sequence[Run]) -> set[str]:
            if any(run.kind is Kind.AFTER for run in runs):
                await cluster.service.jobs.pause("report")
            return await insert(runs)

        cluster.backends.runs.insert = late  # type: ignore[method-assign]
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert [(run.state, run.reason) for run in of(cluster, "report")] == [(RunState.SKIPPED, "paused")]


async def test_the_parts_of_a_run_belong_to_its_chain_and_only_their_sum_is_followed() -> None:
    async with a_cluster("a", "b") as cluster:
        jobs = [a_job("import", shards=2), a_job("report", "import", shards=3), a_job("mail", "report")]
        await cluster.service.jobs.apply(jobs)
        first = await cluster.service.jobs.trigger("import")
        await cluster.elapse(15)
        assert [len(of(cluster, name)) for name in ("import", "report", "mail")] == [3, 4, 1]
        assert {(run.state, run.chain_id) for run in cluster.runs} == {(RunState.SUCCEEDED, first)}
        (mail,) = of(cluster, "mail")
        (report,) = [run for run in of(cluster, "report") if run.parent is None]
        assert mail.chain is not None
        assert [one.run for one in mail.chain.of] == [report.id]


async def test_a_split_run_that_is_inserted_after_its_job_was_paused_has_no_parts() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("import"), a_job("report", "import", shards=3)])
        insert = cluster.backends.runs.insert

        async def late(runs: Sequence[Run]) -> set[str]:
            if any(run.kind is Kind.AFTER for run in runs):
                await cluster.service.jobs.pause("report")
            return await insert(runs)

        cluster.backends.runs.insert = late  # type: ignore[method-assign]
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert [(run.state, run.reason) for run in of(cluster, "report")] == [(RunState.SKIPPED, "paused")]


DIAMOND = [a_job("import"), a_job("left", "import"), a_job("right", "import"), a_job("report", "left", "right")]


async def test_a_fan_in_of_a_chain_runs_once_per_chain_when_chains_overlap() -> None:
    async with a_cluster("a") as cluster:
        jobs = [
            Job(**{f: getattr(job, f) for f in job.__dataclass_fields__} | {"overlap": Overlap.ALLOW})
            for job in DIAMOND
        ]
        await cluster.service.jobs.apply(jobs)
        chains = {await cluster.service.jobs.trigger("import") for _ in range(5)}
        await cluster.elapse(15)
        reports = of(cluster, "report")
        assert {run.chain_id for run in reports} == chains
        assert len(reports) == 5
        for run in reports:
            assert run.chain is not None
            assert sorted(one.job for one in run.chain.of) == ["left", "right"]
            upstream = await cluster.backends.runs.get([one.run for one in run.chain.of])
            assert {one.chain_id for one in upstream} == {run.chain_id}


async def test_a_replay_runs_what_follows_again_only_on_request_and_joins_the_other_ends_of_its_chain() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply(DIAMOND)
        fail(cluster, "left")
        await cluster.service.jobs.trigger("import")
        await cluster.elapse(8)
        assert states(cluster, "report") == [RunState.SKIPPED]
        fail(cluster)
        (left,) = of(cluster, "left")
        await cluster.service.runs.replay(left.id)
        await cluster.elapse(8)
        assert states(cluster, "report") == [RunState.SKIPPED]
        again = await cluster.service.runs.replay(left.id, followers=True)
        await cluster.elapse(8)
        assert states(cluster, "report") == [RunState.SKIPPED, RunState.SUCCEEDED]
        report = of(cluster, "report")[1]
        assert report.chain is not None
        assert again in {one.run for one in report.chain.of}
        assert report.chain_id == left.chain_id
        assert states(cluster, "right") == [RunState.SUCCEEDED]


async def test_jobs_with_schedules_of_their_own_are_joined_by_the_last_end_of_each() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("x"), a_job("y"), a_job("report", "x", "y")])
        xs = []
        for _ in range(3):
            xs.append(await cluster.service.jobs.trigger("x"))
            await cluster.elapse(4)
        assert of(cluster, "report") == []
        y = await cluster.service.jobs.trigger("y")
        await cluster.elapse(6)
        (report,) = of(cluster, "report")
        assert report.chain is not None
        assert {one.run for one in report.chain.of} == {xs[-1], y}
        # Each end counts once.
        await cluster.service.jobs.trigger("y")
        await cluster.elapse(6)
        assert len(of(cluster, "report")) == 1
        await cluster.service.jobs.trigger("x")
        await cluster.elapse(6)
        assert len(of(cluster, "report")) == 2


async def test_an_end_that_waits_longer_than_within_leaves_a_skipped_run() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("x"), a_job("y"), a_job("report", Upstream("x", within=MINUTE), "y")])
        x = await cluster.service.jobs.trigger("x")
        await cluster.elapse(70)
        (report,) = of(cluster, "report")
        assert (report.state, report.reason) == (RunState.SKIPPED, f"{x} ended, but y did not end within 1m")
        await cluster.service.jobs.trigger("y")
        await cluster.elapse(8)
        assert len(of(cluster, "report")) == 1


async def test_any_runs_after_each_end() -> None:
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("x"), a_job("y"), a_job("report", "x", "y", join=Join.ANY)])
        for name in ("x", "y", "x"):
            await cluster.service.jobs.trigger(name)
            await cluster.elapse(6)
        assert states(cluster, "report") == [RunState.SUCCEEDED] * 3


async def test_cycles_and_absent_jobs_are_refused_and_nothing_is_applied() -> None:
    async with a_cluster("a") as cluster:
        with pytest.raises(InvalidInput, match=r"after\[0\].job: there is no job 'imprt' \(did you mean import\?\)"):
            await cluster.service.jobs.apply([a_job("import"), a_job("report", "imprt")])
        await cluster.service.jobs.apply([a_job("import"), a_job("report", "import"), a_job("mail", "report")])
        with pytest.raises(InvalidInput, match="jobs follow each other: import -> report -> mail -> import"):
            await cluster.service.jobs.apply([a_job("import", "mail")])
        with pytest.raises(InvalidInput, match="cannot follow itself"):
            a_job("import", "import")
        with pytest.raises(Conflict, match="report follows import"):
            await cluster.service.jobs.delete("import")
        assert (await cluster.service.jobs.get("import")).ver == 1


async def test_a_fire_that_is_planned_while_a_follower_is_applied_is_followed() -> None:
    """The move of the cursor was computed before; its compare-and-set must fail."""
    async with a_cluster("a") as cluster:
        await cluster.service.jobs.apply([a_job("import", every="1m")])
        move = cluster.backends.jobs.move
        applied: list[object] = []

        async def late(*args: object) -> set[str]:
            if not applied:
                applied.append(await cluster.service.jobs.apply([a_job("report", "import")]))
            return await move(*args)  # type: ignore[arg-type]

        cluster.backends.jobs.move = late  # type: ignore[method-assign, assignment]
        await cluster.elapse(70)
        assert applied
        assert [len(of(cluster, name)) for name in ("import", "report")] == [1, 1]


LAYERS = 8


def a_graph(seed: int) -> list[Job]:
    """Jobs in layers; each but the first follows one to three jobs of the layer before it."""
    chance = random.Random(seed)
    layers = [["root"]]
    jobs = [a_job("root")]
    for layer in range(1, LAYERS):
        names = [f"n{layer}-{k}" for k in range(chance.randint(1, 5))]
        jobs += [a_job(name, *chance.sample(layers[-1], chance.randint(1, min(3, len(layers[-1]))))) for name in names]
        layers.append(names)
    return jobs


STEPS = ["runs.insert", "chains.write_join", "chains.answered", "chains.marked", "chains.followers"]


@pytest.mark.parametrize("seed", range(4))
async def test_a_graph_runs_once_per_job_although_leaders_die_at_every_step(seed: int) -> None:
    chance = random.Random(seed)
    async with a_cluster("a", "b", "c") as cluster:
        jobs = a_graph(seed)
        await cluster.service.jobs.apply(jobs)
        root = await cluster.service.jobs.trigger("root")
        for k in range(3):
            fault = cluster.backends.faults.fail_before if chance.random() < 0.5 else cluster.backends.faults.fail_after
            fault(chance.choice(STEPS), 1000)
            await cluster.elapse(chance.uniform(0.5, 3))
            leader = cluster.leaders[0]
            await cluster.kill(leader)
            cluster.backends.faults.heal()
            cluster.start(f"n{k}")
            await cluster.elapse(35)
        await cluster.elapse(60)
        assert Counter(run.job for run in cluster.runs) == Counter(job.name for job in jobs)
        assert {(run.state, run.chain_id) for run in cluster.runs} == {(RunState.SUCCEEDED, root)}
        assert unanswered(cluster) == []
        after = {job.name: {one.job for one in job.after} for job in jobs}
        ended = {run.job: run.ended_at for run in cluster.runs}
        for run in cluster.runs:
            assert all(ended[name] <= run.created_at for name in after[run.job])  # type: ignore[operator]

"""A change with an owner deletes the owner's jobs that it does not contain, and touches nothing of others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cronflow.domain.chain import Upstream
from cronflow.domain.errors import Conflict, InvalidInput, Problem
from cronflow.domain.job import DEFAULT_PRIORITY, Job, JobRecord
from cronflow.domain.ownership import Prune
from cronflow.domain.schedule.kinds import Cron
from cronflow.ports import AuditQuery
from cronflow.usecases.job_graph import JobGraphUseCases
from tests.contracts.builders import a_job
from tests.usecases.test_calendars import START, Scene

TEAM_A = Prune("team-a")


def owned(name: str, owner: str | None = "team-a", *after: str, **fields: Any) -> Job:
    labels = {} if owner is None else {"owner": owner}
    links = tuple(Upstream(one) for one in after)
    schedule = None if after else Cron("0 8 * * *")
    return a_job(name, schedule=schedule, labels=labels, after=links, **fields)


async def names(scene: Scene) -> set[str]:
    return {record.name for record in await scene.backends.jobs.find()}


async def refusal(scene: Scene, *jobs: Job, prune: Prune = TEAM_A) -> str:
    """Why both the plan and the change are refused; nothing is written."""
    before = await scene.backends.jobs.find()
    said = []
    for act in (scene.service.jobs.compare, scene.service.jobs.applied):
        with pytest.raises(InvalidInput) as refused:
            await act(jobs, prune=prune)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert await scene.backends.jobs.find() == before
    return said[0]


async def test_only_the_owners_other_jobs_are_deleted_and_the_plan_has_them() -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("kept"), owned("old"), owned("theirs", "team-b"), owned("nobodys", None)])
    wanted = [owned("kept"), owned("new")]
    planned = await scene.service.jobs.compare(wanted, days=7, prune=TEAM_A)
    results = [("kept", "unchanged"), ("new", "created"), ("old", "deleted")]
    assert [(one.record.name, one.result) for one in planned] == results
    assert ("schedule.cron", "0 8 * * *", None) in planned[-1].differences
    assert planned[-1].runs is not None
    assert (planned[-1].runs.added, planned[-1].runs.removed) == (0, 7)
    assert await names(scene) == {"kept", "old", "theirs", "nobodys"}
    applied = await scene.service.jobs.applied(wanted, by="ci", days=7, prune=TEAM_A)
    assert [(one.record.name, one.result) for one in applied] == results
    assert applied[-1].record.deleted_at is not None
    assert await names(scene) == {"kept", "new", "theirs", "nobodys"}
    [deleted] = await scene.backends.audit.find(AuditQuery(action="job.delete"))
    assert (deleted.by, deleted.target) == ("ci", "job:old")
    again = await scene.service.jobs.applied(wanted, prune=TEAM_A)
    assert {one.result for one in again} == {"unchanged"}


async def test_a_change_without_jobs_does_not_delete_everything() -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("report")])
    assert "there are no jobs, so all jobs of team-a would be deleted" in await refusal(scene)
    assert await names(scene) == {"report"}


async def test_without_prune_nothing_is_deleted() -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("old")])
    await scene.service.jobs.applied([owned("new")])
    assert await names(scene) == {"old", "new"}


async def test_jobs_of_others_are_refused_and_those_of_nobody_adopted() -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("old"), owned("theirs", "team-b"), owned("nobodys", None)])
    assert "theirs exists and belongs to 'team-b', not 'team-a'" in await refusal(scene, owned("theirs"))
    assert "the owner of one is 'team-b', not 'team-a'" in await refusal(scene, owned("one", "team-b"))
    assert "jobs[1].labels.owner: none has no owner" in await refusal(scene, owned("kept"), owned("none", None))
    assert "has no owner" in await refusal(scene, prune=Prune(""))
    applied = await scene.service.jobs.applied([owned("nobodys")], prune=TEAM_A)
    assert [one.result for one in applied] == ["changed", "deleted"]


async def test_a_deleted_job_of_another_owner_may_be_defined_again() -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("kept", "team-b")])
    await scene.service.jobs.delete("kept")
    applied = await scene.service.jobs.applied([owned("kept")], prune=TEAM_A)
    assert [(one.record.name, one.result, one.record.deleted_at) for one in applied] == [("kept", "created", None)]
    [stored] = await scene.backends.jobs.get(["kept"])
    assert stored.job.labels["owner"] == "team-a"


async def test_chains_are_deleted_from_their_ends_and_never_cut() -> None:
    scene = Scene()
    chain = [owned("a"), owned("b", "team-a", "a"), owned("c", "team-a", "b")]
    await scene.service.jobs.apply([*chain, owned("theirs", "team-b", "c")])
    assert "theirs follows c, which would be deleted" in await refusal(scene, owned("new"))
    assert "jobs[1].after: late follows b, which would be" in await refusal(
        scene, owned("c", "team-a"), owned("late", "team-a", "b")
    )
    # The change removes the link of its own job, and all others of the chain go.
    await scene.service.jobs.apply([owned("theirs", "team-b")])
    applied = await scene.service.jobs.applied([owned("c")], prune=TEAM_A)
    assert [(one.record.name, one.result) for one in applied] == [("c", "changed"), ("b", "deleted"), ("a", "deleted")]
    assert await names(scene) == {"c", "theirs"}


async def test_the_permission_is_asked_before_anything_is_written() -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("old"), owned("older")])

    def permit(found: Any) -> None:
        assert sorted(found) == ["old", "older"]
        raise InvalidInput(Problem("", "not these"))

    assert await refusal(scene, owned("new"), prune=Prune("team-a", permit)) == "not these"


def while_applying(scene: Scene, monkeypatch: pytest.MonkeyPatch, *others: Job) -> None:
    """Store these jobs, at the versions of present ones, between the check of a change and its first write."""
    prepare = JobGraphUseCases.prepare

    async def take_over(self: JobGraphUseCases, places: Any) -> Any:
        for job in others:
            found = scene.backends.documents.jobs.get(job.name)
            base = found or JobRecord(job=job, next_fire=None, due_at=None, created_at=START, updated_at=START)
            scene.backends.documents.jobs[job.name] = replace(base, job=job)
        return await prepare(self, places)

    monkeypatch.setattr(JobGraphUseCases, "prepare", take_over)


@pytest.mark.parametrize("exists", [True, False])
async def test_a_job_that_gets_another_owner_meanwhile_is_not_changed(
    monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("kept")] if exists else [owned("other", None)])
    while_applying(scene, monkeypatch, owned("kept", "team-b"))
    with pytest.raises(Conflict, match="kept now belongs to 'team-b', not 'team-a'"):
        await scene.service.jobs.applied([owned("kept", priority=9)], prune=TEAM_A)
    [stored] = await scene.backends.jobs.get(["kept"])
    assert (stored.job.labels["owner"], stored.job.priority) == ("team-b", DEFAULT_PRIORITY)


@pytest.mark.parametrize(
    ("owner", "what"), [("team-b", "now belongs to 'team-b'"), (None, "no longer belongs to 'team-a'")]
)
async def test_a_job_that_gets_another_owner_meanwhile_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch, owner: str | None, what: str
) -> None:
    scene = Scene()
    await scene.service.jobs.apply([owned("kept"), owned("old")])
    while_applying(scene, monkeypatch, owned("old", owner))
    with pytest.raises(Conflict, match=f"old {what}"):
        await scene.service.jobs.applied([owned("kept")], prune=TEAM_A)
    assert await names(scene) == {"kept", "old"}

"""Limits are defined, checked against the jobs that name them, and deleted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.domain.concurrency import Rate
from cronflow.domain.errors import Conflict, InvalidInput, NotFound
from cronflow.domain.events import Event, LimitDefined, LimitDeleted
from cronflow.domain.permits import NamedLimit
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import a_job

DAY = timedelta(days=1)
DATABASE = NamedLimit(name="database", limit=4)


class Scene:
    """Use cases, and the events that they emit."""

    def __init__(self) -> None:
        clock = FakeClock()
        self.events: list[Event] = []
        self.backends: MemoryBackends = memory_backends(clock)
        self.service = UseCases(self.backends, clock, self.events.append)

    async def audited(self) -> list[tuple[str, str, object, object]]:
        entries = await self.backends.audit.find(AuditQuery(limit=10))
        return [(one.action, one.by, one.before, one.after) for one in entries[::-1]]


async def test_a_limit_is_created_changed_and_left_alone_when_it_is_the_same() -> None:
    scene = Scene()
    for limit, result in (
        (DATABASE, "created"),
        (DATABASE, "unchanged"),
        (NamedLimit(name="database", limit=2), "changed"),
    ):
        usage, found = await scene.service.limits.define(limit, by="ada")
        assert found == result
        assert usage.state.definition == limit
    assert [event for event in scene.events if isinstance(event, LimitDefined)] == [LimitDefined("database", "ada")] * 2
    actions = [(action, by) for action, by, *_ in await scene.audited()]
    assert actions == [("limit.create", "ada"), ("limit.change", "ada")]


async def test_a_job_that_names_no_existing_limit_is_refused_wherever_it_is_written() -> None:
    scene = Scene()
    await scene.service.limits.define(DATABASE)
    job = a_job(concurrency=("databse",))
    message = r"concurrency: there is no limit 'databse' \(did you mean database\? Otherwise define it first"
    with pytest.raises(InvalidInput, match=message):
        await scene.service.jobs.apply([job])
    with pytest.raises(InvalidInput, match=r"jobs\[1\]\.concurrency: there is no limit 'databse'"):
        await scene.service.jobs.compare([a_job("other"), job])
    with pytest.raises(InvalidInput, match="there is no limit 'databse'"):
        await scene.service.jobs.define(job)
    await scene.service.jobs.apply([a_job()])
    with pytest.raises(InvalidInput, match="there is no limit 'databse'"):
        await scene.service.jobs.amend("report", lambda _: job)
    await scene.service.jobs.amend("report", lambda _: a_job(concurrency=("database",)))


async def test_a_limit_that_jobs_name_cannot_be_deleted() -> None:
    scene = Scene()
    await scene.service.limits.define(DATABASE)
    await scene.service.jobs.apply([a_job(f"report-{k}", concurrency=("database",)) for k in range(5)])
    with pytest.raises(Conflict, match="is used by report-0, report-1, report-2 and 2 more; remove it from these jobs"):
        await scene.service.limits.delete("database")
    for k in range(5):
        await scene.service.jobs.delete(f"report-{k}")
    await scene.service.limits.delete("database", by="ada")
    assert scene.events[-1] == LimitDeleted("database", "ada")
    for call in (scene.service.limits.delete, scene.service.limits.get):
        with pytest.raises(NotFound):
            await call("database")


async def test_limits_are_listed_by_name() -> None:
    scene = Scene()
    for name in ("b", "a"):
        await scene.service.limits.define(NamedLimit(name=name, rate=Rate(1, DAY)))
    assert [usage.state.name for usage in await scene.service.limits.find()] == ["a", "b"]
    assert [usage.state.name for usage in await scene.service.limits.find(after="a")] == ["b"]

"""The contract of the chains' store, and of what other stores have for it, on memory and on a real MongoDB."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain.chain import ChainLink, RunEnd, Upstream, UpstreamRun
from cronflow.domain.following import JoinRecord
from cronflow.domain.job import JobRecord
from cronflow.domain.planning import run_of_pending
from cronflow.domain.run import Kind, Run, RunState
from cronflow.ports import RunQuery
from tests.contracts.builders import T0, a_job, a_pend, a_record, a_run
from tests.contracts.conftest import Stores

MINUTE = timedelta(minutes=1)
LINK = ChainLink("import@manual-1", 2, (UpstreamRun("left", "left@after-1", RunState.SUCCEEDED),))


def a_follower(name: str, *upstream: str, **fields: object) -> JobRecord:
    job = replace(a_job(name), after=tuple(map(Upstream, upstream)))
    return replace(a_record(name), job=job, **fields)  # type: ignore[arg-type]


def ended(n: int, state: RunState = RunState.SUCCEEDED, **fields: object) -> Run:
    at = T0 + n * MINUTE
    base = replace(a_run("import", at), state=state, check_at=None, ended_at=at, followed=True)
    return replace(base, **fields)  # type: ignore[arg-type]


def end_of(run: Run) -> RunEnd:
    assert run.ended_at is not None
    return RunEnd(run.id, run.job, run.state, run.fire_at, run.ended_at, run.chain)


async def test_runs_and_jobs_keep_their_marks_and_their_place_in_a_chain(stores: Stores) -> None:
    runs = [ended(1), ended(2, kind=Kind.AFTER, chain=LINK), ended(3, followed=False, chain=ChainLink("x", 0))]
    await stores.runs.insert(runs)
    assert sorted(await stores.runs.get([run.id for run in runs]), key=lambda run: run.fire_at) == runs
    pending = a_pend(followed=True)
    record = a_follower("report", "import", followed=True, pending_run=pending)
    assert await stores.jobs.create(record)
    [found] = await stores.jobs.get(["report"])
    assert found == record
    assert run_of_pending(found.job, pending, 1).followed


async def test_a_job_is_marked_as_followed_by_a_write_that_earlier_ones_lose_against(stores: Stores) -> None:
    await stores.jobs.create_all([a_record("import"), a_record("other"), a_record("gone", deleted_at=T0)])
    [before] = await stores.jobs.get(["import"])
    await stores.chains.follow(["import", "gone", "absent"])
    assert not await stores.jobs.replace(before, before.rev)
    found = {
        record.name: (record.followed, record.rev) for record in await stores.jobs.get(["import", "other", "gone"])
    }
    assert found == {"import": (True, 1), "other": (False, 0), "gone": (True, 1)}
    await stores.chains.follow(["import"])
    assert [record.rev for record in await stores.jobs.get(["import"])] == [1]


async def test_followers_are_found_by_what_they_follow(stores: Stores) -> None:
    report, mail = a_follower("report", "import", "export"), a_follower("mail", "report")
    await stores.jobs.create_all([a_record("import"), report, mail, a_follower("gone", "import", deleted_at=T0)])
    assert [record.name for record in await stores.chains.followers(["import", "nothing"])] == ["report"]
    assert {record.name for record in await stores.chains.followers(["export", "report"])} == {"report", "mail"}
    assert sorted(await stores.chains.following(), key=lambda job: job.name) == [mail.job, report.job]
    [stored] = await stores.jobs.get(["report"])
    await stores.jobs.replace(replace(stored, job=replace(stored.job, after=())), stored.rev)
    assert await stores.chains.followers(["import"]) == []


async def test_the_graph_has_a_version_that_grows(stores: Stores) -> None:
    assert await stores.chains.graph_version() == 0
    await stores.chains.graph_changed()
    await stores.chains.graph_changed()
    assert await stores.chains.graph_version() == 2


async def test_ended_runs_wait_for_an_answer_the_earliest_first(stores: Stores) -> None:
    last, first = ended(9, RunState.FAILED), ended(1, chain=LINK, kind=Kind.AFTER)
    others = [ended(3, followed=False), replace(a_run("import", T0), followed=True)]
    await stores.runs.insert([last, first, ended(5, RunState.SKIPPED), *others])
    assert await stores.chains.ended(2) == [end_of(first), end_of(ended(5, RunState.SKIPPED))]
    assert await stores.chains.marked([last.id, *(run.id for run in others), "absent"]) == {last.id}
    await stores.chains.answered([first.id, last.id, others[1].id])
    assert [end.run for end in await stores.chains.ended(10)] == [ended(5).id]
    # The mark of an open run is for its end.
    assert [run.followed for run in await stores.runs.get([others[1].id])] == [True]
    assert await stores.runs.get([first.id]) == [replace(first, followed=False)]


JOIN = JoinRecord(
    id="report#import@1",
    job="report",
    chain="import@1",
    arrived=(RunEnd("left@1", "left", RunState.LOST, T0, T0 + MINUTE, ChainLink("import@1", 1)),),
    recent=("left@0", "right@0"),
    expires_at=T0 + 5 * MINUTE,
    waits=True,
)


async def test_a_join_is_written_by_compare_and_set(stores: Stores) -> None:
    assert await stores.chains.write_join(JOIN)
    assert not await stores.chains.write_join(JOIN)
    stored = replace(JOIN, rev=1)
    assert await stores.chains.joins([JOIN.id, "absent"]) == [stored]
    done = replace(stored, arrived=(), completed=JOIN.arrived, expired=True, expires_at=None, waits=False)
    assert await stores.chains.write_join(done)
    assert not await stores.chains.write_join(replace(stored, recent=()))
    assert not await stores.chains.write_join(replace(JOIN, id="absent", rev=3))
    assert await stores.chains.joins([JOIN.id]) == [replace(done, rev=2)]


async def test_joins_are_found_when_they_are_due_and_while_they_wait(stores: Stores) -> None:
    unfinished = replace(JOIN, id="mail", job="mail", chain=None, completed=JOIN.arrived, expires_at=None, waits=False)
    later = replace(JOIN, id="report", chain=None, expires_at=T0 + 9 * MINUTE)
    for join in (JOIN, unfinished, later, replace(later, id="quiet", job="quiet", expires_at=None, waits=False)):
        assert await stores.chains.write_join(join)
    assert [join.id for join in await stores.chains.due_joins(T0 + 6 * MINUTE, 10)] == ["mail", JOIN.id]
    assert [join.id for join in await stores.chains.due_joins(T0 + 6 * MINUTE, 1)] == ["mail"]
    assert [join.id for join in await stores.chains.joins_of("report", 10)] == ["report", JOIN.id]
    assert await stores.chains.joins_of("mail", 10) == []


async def test_old_joins_are_deleted_but_not_ends_of_jobs_that_still_wait(stores: Stores) -> None:
    of_job = replace(JOIN, id="report", chain=None)
    quiet = replace(of_job, id="quiet", job="quiet", waits=False)
    for join in (JOIN, of_job, quiet):
        assert await stores.chains.write_join(join)
    now = await stores.store_admin.time()
    assert await stores.chains.forget_joins(now - MINUTE, 10) == 0
    assert await stores.chains.forget_joins(now + MINUTE, 10) == 2
    assert await stores.chains.joins([JOIN.id, "report", "quiet"]) == [replace(of_job, rev=1)]
    await stores.chains.write_join(replace(of_job, id="report-x", job="report-x"))
    await stores.chains.forget_joins_of("report")
    assert [join.id for join in await stores.chains.joins([JOIN.id, "report", "report-x"])] == ["report-x"]


async def test_runs_are_listed_by_chain_with_the_run_in_which_it_began(stores: Stores) -> None:
    first = ended(1)
    others = [ended(n, kind=Kind.AFTER, chain=ChainLink(first.id, n)) for n in (2, 3, 4)]
    await stores.runs.insert([first, *others, ended(5)])
    query = RunQuery(chain=first.id, limit=2)
    page = await stores.runs.find(query)
    assert [run.id for run in page] == [others[2].id, others[1].id]
    rest = await stores.runs.find(replace(query, before=(page[-1].fire_at, page[-1].id)))
    assert [run.id for run in rest] == [others[0].id, first.id]


async def test_runs_are_listed_by_every_kind_that_is_stored_as_another(stores: Stores) -> None:
    kinds = (Kind.AFTER, Kind.REPLAY, Kind.CRON)
    runs = [replace(ended(n, kind=kind), id=f"import@{kind}") for n, kind in enumerate(kinds)]
    runs.append(replace(ended(7, kind=Kind.BACKFILL), id="import@20260101T000000Z~b1"))
    await stores.runs.insert(runs)
    for wanted in ([Kind.AFTER], [Kind.REPLAY], [Kind.BACKFILL, Kind.CRON], [Kind.AFTER, Kind.BACKFILL], [*Kind]):
        found = await stores.runs.find(RunQuery(kinds=wanted))
        assert {run.kind for run in found} == {run.kind for run in runs} & set(wanted)

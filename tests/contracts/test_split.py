"""Parents and parts, on memory and on a real MongoDB: what is stored is read back, found by its index, and no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.backends import codec
from cronflow.domain import splitting
from cronflow.domain.planning import run_on_request
from cronflow.domain.recovery import End
from cronflow.domain.run import Kind, Outcome, Run, RunState
from cronflow.domain.split import RunOn, Shard, Split, SplitBy
from cronflow.domain.transitions import Transition, cancel, cancel_old, end
from cronflow.ports import RunQuery
from tests.contracts.builders import T0, a_job, a_record, a_run
from tests.contracts.conftest import Stores

RECORD = a_record(job=a_job(shards=3))
SECOND = timedelta(seconds=1)


def a_parent(number: int = 0, **fields: object) -> Run:
    fire = T0 + number * SECOND
    run = run_on_request(RECORD, f"report@m{number}", Kind.MANUAL, fire, None, fire)
    return replace(run, **fields)  # type: ignore[arg-type]


def parts_of(parent: Run, **fields: object) -> list[Run]:
    assert parent.split is not None
    runs = [splitting.part_run(parent, plan, RECORD, T0) for plan in parent.split.parts(parent.id)]
    return [replace(run, **fields) for run in runs]  # type: ignore[arg-type]


async def test_parents_and_parts_are_read_back_as_they_were_inserted(stores: Stores) -> None:
    parents = [
        a_parent(0),
        a_parent(1, split=Split(by=SplitBy.NODES, nodes=("n1", "n2"), begun=True)),
        a_parent(2, split=Split(by=SplitBy.SHARDS, total=8, only=(1, 5))),
    ]
    runs = [*parents, *(part for parent in parents for part in parts_of(parent))]
    await stores.runs.insert(runs)
    assert sorted(await stores.runs.get([run.id for run in runs]), key=_id) == sorted(runs, key=_id)
    assert [part.id for part in parts_of(parents[2])] == ["report@m2~s1", "report@m2~s5"]
    assert [part.shard for part in parts_of(parents[2])] == [Shard(1, 8), Shard(5, 8)]
    assert [(part.id, part.only_node) for part in parts_of(parents[1])] == [
        ("report@m1~n-n1", "n1"),
        ("report@m1~n-n2", "n2"),
    ]


async def test_only_open_parents_are_parents_the_oldest_first(stores: Stores) -> None:
    ended = a_parent(3, state=RunState.SUCCEEDED, check_at=None, ended_at=T0, outcome=Outcome.OK)
    later, earlier = a_parent(2), a_parent(1)
    await stores.runs.insert([ended, later, earlier, *parts_of(earlier), a_run("other", T0)])
    assert [run.id for run in await stores.runs.parents(10)] == [earlier.id, later.id]
    assert [run.id for run in await stores.runs.parents(1)] == [earlier.id]


async def test_parts_are_counted_by_state_and_listed_by_their_parent(stores: Stores) -> None:
    parent, other = a_parent(1), a_parent(2)
    first, second, third = parts_of(parent)
    done = replace(first, state=RunState.SUCCEEDED, check_at=None, ended_at=T0, outcome=Outcome.OK)
    await stores.runs.insert([parent, other, done, second, third, *parts_of(other)])
    counts = await stores.runs.part_counts([parent.id, "report@none"])
    assert counts == {parent.id: {RunState.SUCCEEDED: 1, RunState.RETRYING: 2}, "report@none": {}}
    found = await stores.runs.find(RunQuery(parent=parent.id))
    assert [run.id for run in found] == [third.id, second.id, first.id]
    assert await stores.runs.part_counts([]) == {}


KINDS = [
    ({Kind.PART}, ["~s2", "~s1", "~s0"]),
    ({Kind.REPLAY}, ["r"]),
    ({Kind.BACKFILL}, ["~b1"]),
    ({Kind.PART, Kind.REPLAY}, ["r", "~s2", "~s1", "~s0"]),
    ({Kind.PART, Kind.BACKFILL}, ["~s2", "~s1", "~s0", "~b1"]),
    ({Kind.REPLAY, Kind.BACKFILL}, ["r", "~b1"]),
    (frozenset(Kind) - {Kind.PART}, ["r", "m1", "~b1"]),
]


@pytest.mark.parametrize(("kinds", "expected"), KINDS)
async def test_kinds_that_are_stored_alike_are_told_apart(
    stores: Stores, kinds: set[Kind], expected: list[str]
) -> None:
    parent = a_parent(1)
    replay = replace(a_run("report", T0 + 1 * SECOND), id="report@r", kind=Kind.REPLAY)
    backfill = replace(a_run("report", T0), id="report@20260101T000000Z~b1", kind=Kind.BACKFILL)
    await stores.runs.insert([parent, replay, backfill, *parts_of(parent)])
    found = [run.id for run in await stores.runs.find(RunQuery(kinds=kinds))]
    assert [run for run, tail in zip(found, expected, strict=True) if not run.endswith(tail)] == []


async def test_what_ends_a_parent_that_has_not_begun_does_not_end_one_that_has(stores: Stores) -> None:
    parent = a_parent(1)
    assert parent.split is not None
    await stores.runs.insert([parent])
    begin = splitting.begin(parent, parent.split, fence=200, term=1, job_ver=1, at=T0)
    late = [cancel(parent, "no", "ada", "finish", T0), cancel_old(parent, 9, "paused", "finish", T0)]
    assert await stores.runs.apply([begin]) == {parent.id}
    for change in late:
        assert await stores.runs.apply([change]) == set()
    # Nor does another leader begin it again, with other parts.
    again = splitting.begin(parent, replace(parent.split, total=9), fence=300, term=2, job_ver=1, at=T0)
    assert await stores.runs.apply([again]) == set()
    (found,) = await stores.runs.get([parent.id])
    assert (found.state, found.fence, found.split) == (RunState.RETRYING, 200, replace(parent.split, begun=True))
    # It is to be cancelled with its parts instead.
    assert await stores.runs.apply([cancel(found, "no", "ada", "finish", T0)]) == {parent.id}
    (found,) = await stores.runs.get([parent.id])
    assert (found.state, found.cancel_requested) == (RunState.RETRYING, True)


async def test_a_part_that_fails_is_no_dead_letter_and_is_not_reported(stores: Stores) -> None:
    parent = replace(a_parent(1), check_at=T0)
    (part, *_) = parts_of(parent, check_at=T0)
    verdict = End(Transition.FAIL, RunState.FAILED, Outcome.ERROR, "no")
    await stores.runs.insert([parent, part])
    failed = [end(run, verdict, run.id, T0) for run in (parent, part)]
    assert await stores.runs.apply(failed) == {parent.id, part.id}
    assert await stores.dead_letters.newest(10) == [parent.id]
    assert await stores.dead_letters.count("report") == 1
    found = {run.id: run.is_dead for run in await stores.runs.get([parent.id, part.id])}
    assert found == {parent.id: True, part.id: False}


def test_a_node_of_0_9_reads_a_part_as_a_replay_and_waits_for_a_label_of_its_job() -> None:
    (part, *_) = parts_of(a_parent(1))
    assert codec.run_document(part)["kind"] == Kind.REPLAY
    for job in (a_job(shards=3), a_job(run_on=RunOn.EVERY_NODE)):
        definition = codec.definition(job)
        assert '"shards"' not in definition.replace('\\"', "'")
        assert '"run_on"' not in definition.replace('\\"', "'")
        assert codec.NEWER_KEYS in definition
        assert job.needs_newer_nodes
        assert codec.record(codec.record_document(a_record(job=job))).job == job


def _id(run: Run) -> str:
    return run.id

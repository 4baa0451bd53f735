"""Every row of TRANSITIONS, on memory and on a real MongoDB: what may change a run does, and nothing else does.

For each row the changes are made by the functions that the roles call, from the run as its actor has read it. Then the
run in the store is another one: in each of the states, under a newer or an older fence, under another version of its
job, not yet due, or asked to be cancelled. The store's answer must be what table 4.1 says, field by field. A row that
has no way of being written here fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain import splitting, transitions
from cronflow.domain.job import Delivery, Job, JobRecord, PythonTarget, Retry
from cronflow.domain.placement import Waiting
from cronflow.domain.planning import run_of_pending, run_on_request
from cronflow.domain.recovery import Dispatch, End, Postpone
from cronflow.domain.run import OPEN, Attempt, AttemptResult, Kind, Outcome, Run, RunState
from cronflow.domain.split import Split, SplitBy
from cronflow.domain.transitions import TRANSITIONS, Actor, Change, ClaimedRun, Transition
from tests.contracts.builders import T0, a_pend, a_record, a_run
from tests.contracts.conftest import Stores

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=45)
FENCE, NEW_FENCE, VER, NEW_VER = 100, 200, 4, 5
OWN = "of this attempt"
NOW = datetime.now(UTC).replace(microsecond=0)
LOST = Attempt(1, FENCE, "n1#a", None, NOW, Outcome.LOST)

HELD = frozenset({"state", "fence"})
"""What a worker compares: any state that its row allows, and its own fence."""
RETURNED = HELD | {"own start"}
"""The same, when it has not executed the run: another holder of a doubled item may have started it."""
SEEN = frozenset({"same state", "fence", "job_ver", "due"})
"""The leader compares the run as read, and that no worker has renewed it."""
PLACED = SEEN | {"not cancelled"}
"""The same, when a new attempt begins."""
ASKED = frozenset({"state"})
"""A cancellation matches any holder and any fence."""
EDITED = frozenset({"state", "older ver"})
"""What an edit compares: that the run is of an earlier version of its job."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of writing a row. `read` are the states in which its actor may have read the run."""

    transition: Transition
    actor: Actor
    compares: frozenset[str]
    change: Callable[[Run], Change]
    read: str = ""

    @property
    def states(self) -> frozenset[RunState]:
        """Where `read` is empty: all sources of the row."""
        return frozenset(map(RunState, self.read.split())) or TRANSITIONS[self.transition].sources


def claimed(run: Run, delivery: Delivery = Delivery.AT_LEAST_ONCE) -> ClaimedRun:
    return ClaimedRun(
        run=run.id, fence=run.fence, node="n1#a", attempt=1, retry=Retry(), delivery=delivery, start_id=OWN
    )


def finishes(outcome: Outcome, delivery: Delivery = Delivery.AT_LEAST_ONCE) -> Callable[[Run], Change]:
    attempt_result = AttemptResult(outcome, {"rows": 3}, "told so", MINUTE if outcome is Outcome.DEFERRED else None)
    return lambda run: transitions.finish(claimed(run, delivery), attempt_result, "finish", NOW, NOW)


def dispatches(transition: Transition, lost: Attempt | None = None) -> Callable[[Run], Change]:
    def change(run: Run) -> Change:
        verdict = Dispatch(transition, lost)
        return transitions.dispatch(run, verdict, fence=NEW_FENCE, term=2, node="n2#b", job_ver=NEW_VER, at=NOW)

    return change


def ends(transition: Transition, target: RunState, outcome: Outcome | None) -> Callable[[Run], Change]:
    return lambda run: transitions.end(run, End(transition, target, outcome, "why", LOST, "because"), "finish", NOW)


SPLIT = Split(by=SplitBy.SHARDS, total=3)


def sums_up(second: RunState) -> Callable[[Run], Change]:
    def change(run: Run) -> Change:
        parent = replace(run, split=replace(SPLIT, begun=True), cancel_requested=second is RunState.CANCELLED)
        states = {f"{run.id}~s{n}": state for n, state in enumerate([RunState.SUCCEEDED, second, RunState.SUCCEEDED])}
        ended = splitting.parts_ended(parent, states)
        assert ended is not None
        return splitting.sum_up(parent, states, ended, {}, "finish", NOW)

    return change


LEADER, WORKER, EDITOR = Actor.LEADER, Actor.WORKER, Actor.EDITOR
ONCE = Delivery.AT_MOST_ONCE

WAYS: Mapping[str, Way] = {
    "start": Way(Transition.START, WORKER, HELD, lambda run: transitions.start(claimed(run), "start", NOW, LEASE)),
    "renew lease": Way(Transition.RENEW_LEASE, WORKER, HELD, lambda run: transitions.renew(claimed(run), LEASE)),
    "finish succeeded": Way(Transition.FINISH, WORKER, HELD, finishes(Outcome.OK)),
    "finish failed": Way(Transition.FINISH, WORKER, HELD, finishes(Outcome.PERMANENT)),
    "finish cancelled": Way(Transition.FINISH, WORKER, HELD, finishes(Outcome.CANCELLED)),
    "finish skipped": Way(Transition.FINISH, WORKER, HELD, finishes(Outcome.SKIPPED)),
    "retry failed attempt": Way(Transition.RETRY, WORKER, HELD, finishes(Outcome.ERROR)),
    "retry drained": Way(Transition.RETRY, WORKER, HELD, finishes(Outcome.DRAINED)),
    "give back deferred": Way(Transition.GIVE_BACK, WORKER, RETURNED, finishes(Outcome.DEFERRED)),
    "give back declined": Way(Transition.GIVE_BACK, WORKER, RETURNED, finishes(Outcome.DECLINED)),
    "give back not started": Way(
        Transition.GIVE_BACK,
        WORKER,
        RETURNED,
        lambda run: transitions.give_back(claimed(run), "finish", AttemptResult(Outcome.DRAINED, error="no"), NOW),
    ),
    "redispatch untaken": Way(Transition.REDISPATCH_UNTAKEN, LEADER, PLACED, dispatches(Transition.REDISPATCH_UNTAKEN)),
    "redispatch untaken taken": Way(
        Transition.REDISPATCH_UNTAKEN, LEADER, PLACED, dispatches(Transition.REDISPATCH_UNTAKEN, LOST)
    ),
    "redispatch lost": Way(Transition.REDISPATCH_LOST, LEADER, PLACED, dispatches(Transition.REDISPATCH_LOST, LOST)),
    "mark lost by the leader": Way(
        Transition.MARK_LOST, LEADER, SEEN, ends(Transition.MARK_LOST, RunState.LOST, Outcome.LOST)
    ),
    "mark lost by its worker": Way(Transition.MARK_LOST, WORKER, HELD, finishes(Outcome.INTERRUPTED, ONCE)),
    "dispatch retry": Way(Transition.DISPATCH_RETRY, LEADER, PLACED, dispatches(Transition.DISPATCH_RETRY)),
    "skip waiting": Way(Transition.SKIP_WAITING, LEADER, SEEN, ends(Transition.SKIP_WAITING, RunState.SKIPPED, None)),
    "fail": Way(Transition.FAIL, LEADER, SEEN, ends(Transition.FAIL, RunState.FAILED, Outcome.POISON)),
    "cancel by hand": Way(
        Transition.CANCEL, EDITOR, ASKED, lambda run: transitions.cancel(run, "no", "ann", "finish", NOW)
    ),
    "cancel edited": Way(
        Transition.CANCEL, EDITOR, EDITED, lambda run: transitions.cancel_old(run, NEW_VER, "paused", "finish", NOW)
    ),
    "request cancel": Way(
        Transition.REQUEST_CANCEL,
        EDITOR,
        ASKED,
        lambda run: transitions.cancel(run, "no", "ann", "finish", NOW),
        "running",
    ),
    "adopt edit": Way(
        Transition.ADOPT_EDIT,
        EDITOR,
        (EDITED - {"state"}) | {"same state"},
        lambda run: transitions.keep(run, a_record(run.job, ver=NEW_VER)),
    ),
    "postpone": Way(Transition.POSTPONE, LEADER, SEEN, lambda run: transitions.postpone(run, Postpone(LEASE))),
    "requeue": Way(
        Transition.REQUEUE,
        EDITOR,
        EDITED,
        lambda run: transitions.requeue(run, a_record(run.job, ver=NEW_VER), "finish"),
    ),
    "begin a parent": Way(
        Transition.SPLIT,
        LEADER,
        frozenset({"state", "fence", "job_ver", "not cancelled"}),
        lambda run: splitting.begin(run, SPLIT, fence=NEW_FENCE, term=2, job_ver=NEW_VER, at=NOW),
    ),
    "wait to split": Way(
        Transition.WAIT_TO_SPLIT,
        LEADER,
        frozenset({"state", "fence", "job_ver"}),
        lambda run: splitting.wait_to_split(run, SPLIT, Waiting(fire=T0, since=NOW, reason="another run")),
    ),
    "cancel a parent that has begun": Way(
        Transition.CANCEL_PARTS,
        EDITOR,
        HELD,
        lambda run: transitions.cancel(replace(run, split=replace(SPLIT, begun=True)), "no", "ann", "finish", NOW),
    ),
    "sum up succeeded": Way(Transition.SUM_UP, LEADER, HELD, sums_up(RunState.SUCCEEDED)),
    "sum up failed": Way(Transition.SUM_UP, LEADER, HELD, sums_up(RunState.FAILED)),
    "sum up cancelled": Way(Transition.SUM_UP, LEADER, HELD, sums_up(RunState.CANCELLED)),
    "confirm cancel": Way(
        Transition.CONFIRM_CANCEL, LEADER, SEEN, ends(Transition.CONFIRM_CANCEL, RunState.CANCELLED, Outcome.CANCELLED)
    ),
}
"""How the code writes each row that changes a run."""


def _inserted_by_planner(record: JobRecord, fire: datetime) -> Run:
    return run_of_pending(record.job, a_pend(fire, FENCE), 1)


def _inserted_as_skipped(record: JobRecord, fire: datetime) -> Run:
    return run_of_pending(record.job, a_pend(fire, FENCE, state=RunState.SKIPPED, reason="misfire", node=None), 1)


def _inserted_as_parent(record: JobRecord, fire: datetime) -> Run:
    job = replace(record.job, shards=3)
    return run_of_pending(job, a_pend(fire, FENCE, state=RunState.RETRYING, node=None), 1)


def _inserted_on_request(record: JobRecord, fire: datetime) -> Run:
    return run_on_request(record, a_run(record.name, fire).id, Kind.MANUAL, fire, {"a": 1}, NOW)


INSERTS: Mapping[Transition, Callable[[JobRecord, datetime], Run]] = {
    Transition.PLAN: _inserted_by_planner,
    Transition.PLAN_PARENT: _inserted_as_parent,
    Transition.SKIP_FIRE: _inserted_as_skipped,
    Transition.REQUEST: _inserted_on_request,
}
"""How the code makes the run of each row that begins with none."""

# What may have become of the run since its actor read it, or may always have stood there.
CIRCUMSTANCES: Mapping[str, Mapping[str, object]] = {
    "as it was read": {},
    "under a newer fence": {"fence": FENCE + 1},
    "under an older fence": {"fence": FENCE - 1},
    "of the new version": {"job_ver": NEW_VER},
    "of a version after that": {"job_ver": NEW_VER + 1},
    "of an older version": {"job_ver": VER - 1},
    "not due for an hour": {"check_at": NOW + HOUR},
    "asked to be cancelled": {"cancel_requested": True},
    "started by its actor": {"start_id": OWN},
    "started by another holder of the same fence": {"start_id": "of another"},
}


def stored(name: str, state: RunState, circumstances: Mapping[str, object]) -> Run:
    """A run as it stands in the store: what is open was due an hour ago."""
    fields: dict[str, object] = {"state": state, "fence": FENCE, "job_ver": VER, "check_at": NOW - HOUR}
    fields |= circumstances
    if state not in OPEN:
        fields |= {"check_at": None, "ended_at": NOW - HOUR, "outcome": Outcome.OK, "finish_id": "of another"}
    return a_run(name, T0, **{"attempts": (LOST,), **fields})


def is_met(compared: str, way: Way, read: Run, run: Run) -> bool:
    """One condition, restated independently of the code."""
    match compared:
        case "state":
            return run.state in TRANSITIONS[way.transition].sources & way.states
        case "same state":
            return run.state is read.state
        case "fence":
            return run.fence == FENCE
        case "job_ver":
            return run.job_ver == VER
        case "older ver":
            return run.job_ver < NEW_VER
        case "due":
            return run.check_at is not None and run.check_at <= NOW
        case "not cancelled":
            return not run.cancel_requested
        case "own start":
            return run.start_id in (None, OWN)
    raise AssertionError(compared)


def changed(run: Run, change: Change) -> Run:
    """What the change makes of it, but for `check_at`."""
    fields: dict[str, object] = dict(change.sets) | {"state": change.target}
    if change.attempt is not None:
        fields["attempts"] = (*run.attempts, change.attempt)
    if change.target not in OPEN:
        fields["check_at"] = None
    return replace(run, **fields)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------- the table and these tests


def test_every_row_has_its_ways_here_and_they_are_what_the_table_says() -> None:
    assert {way.transition for way in WAYS.values()} | set(INSERTS) == set(TRANSITIONS)
    for transition, rule in TRANSITIONS.items():
        if transition in INSERTS:
            assert not rule.sources
            made = INSERTS[transition](a_record(), T0)
            assert frozenset({made.state}) == rule.targets
            continue
        ways = [way for way in WAYS.values() if way.transition is transition]
        assert frozenset().union(*(way.states for way in ways)) == rule.sources, transition
        reached = {way.change(stored("a", state, {})).target for way in ways for state in way.states}
        assert reached == rule.targets, transition
        assert {way.actor for way in ways} <= rule.actors
        for way in ways:
            assert ("fence" in way.compares) == rule.fenced, transition
            assert "due" in way.compares or not rule.only_when_due, transition
            assert all(way.change(stored("a", state, {})).transition is transition for state in way.states)


@pytest.mark.parametrize("transition", TRANSITIONS)
def test_a_change_between_other_states_or_without_its_fence_cannot_be_made(transition: Transition) -> None:
    rule = TRANSITIONS[transition]
    for source in RunState:
        for target in RunState:
            listed = source in rule.sources and target in rule.targets

            def make(fence: int | None, source: RunState = source, target: RunState = target) -> Change:
                return Change(
                    run="r", transition=transition, sources=frozenset({source}), target=target, fence=fence, proof=None
                )

            if listed:
                make(FENCE)
            else:
                with pytest.raises(ValueError, match="does not lead from"):
                    make(FENCE)
            if listed and rule.fenced:
                with pytest.raises(ValueError, match="must compare the fence"):
                    make(None)


# ----------------------------------------------------------------------------------------------------- the stores obey


@pytest.mark.parametrize("name", WAYS)
async def test_a_row_changes_exactly_the_runs_that_it_may_and_leaves_every_other_as_it_was(
    stores: Stores, name: str
) -> None:
    way = WAYS[name]
    reads: list[Run] = []
    before: list[Run] = []
    for read_in in sorted(way.states):
        for state in RunState:
            for circumstances in CIRCUMSTANCES.values():
                job = f"job-{len(before)}"
                reads.append(stored(job, read_in, {}))
                before.append(stored(job, state, circumstances))
    wanted = [way.change(read) for read in reads]
    matching = [
        all(is_met(compared, way, read, run) for compared in way.compares)
        for read, run in zip(reads, before, strict=True)
    ]
    assert any(matching)
    assert not all(matching)
    await stores.runs.insert(before)
    earliest = await stores.store_admin.time()
    mark_reported = await stores.runs.apply(wanted)
    latest = await stores.store_admin.time()
    after = {run.id: run for run in await stores.runs.get([run.id for run in before])}
    for change, run, matches in zip(wanted, before, matching, strict=True):
        found, what = after[run.id], (name, run.state.value, run)
        if not matches:
            assert found == run, what
            continue
        assert run.id in mark_reported, what
        expected = changed(run, change)
        assert replace(found, check_at=None) == replace(expected, check_at=None), what
        if change.target not in OPEN:
            assert found.check_at is None, what
        elif change.check_in is None:
            assert found.check_at == run.check_at, what
        else:
            assert found.check_at is not None
            assert earliest <= found.check_at - change.check_in <= latest, what
    # A losing change is not in the result, unless the run already has what it would have written.
    losers = {run.id for run, matches in zip(before, matching, strict=True) if not matches}
    proven = {
        run.id
        for change, run in zip(wanted, before, strict=True)
        if (
            (run.state is change.target and run.fence == change.fence)
            if change.proof is None
            else getattr(run, change.proof[0]) == change.proof[1]
        )
    }
    assert mark_reported & losers == losers & proven, name
    ended = {run.id for run in after.values() if run.state not in OPEN}
    opened = await stores.runs.open_of({run.job for run in before})
    assert {one.id for found in opened.values() for one in found} == set(after) - ended
    rows = {row.id: row.marked_open for row in await stores.archive.rows(set(after))}
    assert {run for run, marked in rows.items() if not marked} == ended


@pytest.mark.parametrize("name", WAYS)
async def test_a_change_that_nothing_stands_against_is_made_alone_too_and_a_second_time_is_the_same(
    stores: Stores, name: str
) -> None:
    way = WAYS[name]
    for state in sorted(way.states):
        run = stored(f"job-{state}", state, {})
        change = way.change(run)
        await stores.runs.insert([run])
        assert await stores.runs.apply([change]) == {run.id}
        (once,) = await stores.runs.get([run.id])
        # Its answer may be lost: the same change, sent again, is told to be mine.
        assert await stores.runs.apply([change]) == {run.id}
        (twice,) = await stores.runs.get([run.id])
        assert replace(twice, check_at=None) == replace(once, check_at=None)
        assert (twice.check_at is None) == (once.check_at is None)


@pytest.mark.parametrize("name", WAYS)
async def test_what_does_not_match_alone_changes_nothing_and_a_run_that_is_not_there_is_not_made(
    stores: Stores, name: str
) -> None:
    way = WAYS[name]
    run = stored("ended", RunState.SUCCEEDED, {})
    await stores.runs.insert([run])
    (state, *_) = sorted(way.states)
    missing = stored("missing", state, {})
    assert await stores.runs.apply([way.change(replace(run, state=state, check_at=NOW - HOUR))]) == set()
    assert await stores.runs.apply([way.change(missing)]) == set()
    assert await stores.runs.get([run.id, missing.id]) == [run]


AT_ONCE = [name for name, way in WAYS.items() if way.actor is WORKER and RunState.DISPATCHED in way.states]
"""What a worker may record of a run that has no document yet."""


@pytest.mark.parametrize("name", AT_ONCE)
async def test_a_run_that_is_inserted_as_a_change_leaves_it_is_the_run_that_was_inserted_and_changed(
    stores: Stores, name: str
) -> None:
    apart, made = _inserted_by_planner(a_record("apart"), T0), _inserted_by_planner(a_record("made"), T0)
    change = WAYS[name].change(made)
    await stores.runs.insert([apart])
    assert await stores.runs.apply([replace(change, run=apart.id)]) == {apart.id}
    assert await stores.runs.insert_changed([(made, change)], NOW) == {made.id}
    (changed_apart,) = await stores.runs.get([apart.id])
    (found,) = await stores.runs.get([made.id])
    assert replace(found, id=apart.id, job=apart.job, check_at=None) == replace(changed_apart, check_at=None)
    assert found.check_at == (None if change.check_in is None else NOW + change.check_in)
    # It has the marks that the indexes need.
    (row,) = await stores.archive.rows([made.id])
    assert row.marked_open == found.is_open
    assert list(await stores.runs.open_of(["made"])) == ["made"] * found.is_open
    assert await stores.dead_letters.count("made") == found.is_dead
    # Its answer was lost: it is inserted no more, and the change is known to be applied.
    assert await stores.runs.insert_changed([(made, change)], NOW) == set()
    assert await stores.runs.apply([change]) == {made.id}
    assert await stores.runs.get([made.id]) == [found]


@pytest.mark.parametrize("name", AT_ONCE)
async def test_what_exists_in_any_state_is_not_inserted_again_as_a_change_leaves_it(stores: Stores, name: str) -> None:
    before = [stored(f"job-{state}", state, {}) for state in RunState]
    made = [_inserted_by_planner(a_record(run.job), run.fire_at) for run in before]
    fresh = _inserted_by_planner(a_record("fresh"), T0)
    await stores.runs.insert(before)
    pairs = [(run, WAYS[name].change(run)) for run in (*made, fresh)]
    assert await stores.runs.insert_changed(pairs, NOW) == {fresh.id}
    found = await stores.runs.get([run.id for run in before])
    assert sorted(found, key=lambda run: run.id) == sorted(before, key=lambda run: run.id)


@pytest.mark.parametrize("transition", INSERTS)
async def test_a_run_is_inserted_once_and_what_exists_in_any_state_stays_as_it_is(
    stores: Stores, transition: Transition
) -> None:
    record = replace(a_record(), job=Job(name="new", target=PythonTarget("a:b")))
    made = INSERTS[transition](record, T0)
    assert await stores.runs.insert([made]) == {made.id}
    assert await stores.runs.insert([made]) == set()
    assert await stores.runs.get([made.id]) == [made]
    before = [stored(f"job-{state}", state, {}) for state in RunState]
    await stores.runs.insert(before)
    for fence in (0, FENCE, NEW_FENCE):
        again = [replace(INSERTS[transition](a_record(run.job), run.fire_at), id=run.id, fence=fence) for run in before]
        assert await stores.runs.insert(again) == set()
    assert sorted(await stores.runs.get([run.id for run in before]), key=lambda run: run.id) == sorted(
        before, key=lambda run: run.id
    )

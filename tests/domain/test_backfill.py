"""Backfills: which instants get a run, how fast, and what their runs give way to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cronflow.domain.backfill import (
    MOST_INSTANTS,
    MOST_OPEN,
    Backfill,
    BackfillRate,
    BackfillScope,
    BackfillState,
    FireOutline,
    PageSize,
    backfill_id,
    choose,
    instants_between,
    next_page,
    number_of,
    parse_rate,
)
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Overlap
from cronflow.domain.planning import Fire, SkipFire, Wait, decide
from cronflow.domain.recovery import HeldBack, held_back
from cronflow.domain.run import (
    Covers,
    Kind,
    RunState,
    backfill_of,
    backfill_run_id,
    replay_id,
    run_id,
    scheduled_instant,
)
from cronflow.domain.schedule.kinds import Cron, Every
from tests.contracts.builders import T0, a_job, a_record, a_run

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
MINUTES = [T0 + n * MINUTE for n in range(6)]
NOTHING = PageSize(0, timedelta(0))


def a_backfill(**fields: object) -> Backfill:
    base = Backfill(
        id=backfill_id("report", 1),
        job="report",
        state=BackfillState.RUNNING,
        scope=BackfillScope.ALL,
        first=T0,
        last=MINUTES[-1],
        rate=None,
        total=6,
        first_instant=T0,
        last_instant=MINUTES[-1],
        due_at=T0,
        created_at=T0,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def outline(minute: int, state: RunState, last: int | None = None, id: str | None = None) -> FireOutline:  # noqa: A002
    covers = None if last is None else Covers(MINUTES[minute], MINUTES[last], None)
    return FireOutline(id or run_id("report", MINUTES[minute]), MINUTES[minute], state, covers)


# ------------------------------------------------------------------------------------------------------------- ids


def test_the_id_of_a_run_has_its_instant_and_its_backfill() -> None:
    backfill = backfill_id("report", 12)
    run = backfill_run_id(backfill, T0)
    assert (backfill, run) == ("report~b12", "report@20261121T120000Z~b12")
    assert (backfill_of(run), number_of(backfill), scheduled_instant(run)) == (backfill, 12, T0)


@pytest.mark.parametrize("run", [run_id("report", T0), "report@manual-~b", replay_id("report@20261121T120000Z~b1", 2)])
def test_no_other_run_belongs_to_a_backfill(run: str) -> None:
    assert backfill_of(run) is None


def test_a_replay_is_for_the_instant_of_what_it_repeats() -> None:
    assert scheduled_instant(replay_id("report@20261121T120000Z~b1", 2)) == T0
    assert scheduled_instant("report@manual-20261121T120000Z") is None


# -------------------------------------------------------------------------------------------------------- instants


def test_both_ends_of_the_range_are_included() -> None:
    assert instants_between(Every("1m"), "report", T0, MINUTES[-1], MINUTES[-1]) == MINUTES
    inside = instants_between(Every("1m"), "report", T0 + SECOND, MINUTES[-1] - SECOND, MINUTES[-1])
    assert inside == MINUTES[1:-1]


def test_instants_follow_the_zone_of_the_schedule() -> None:
    first, last = datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 26, tzinfo=UTC)
    found = instants_between(Cron("0 2 * * *", "Europe/Berlin"), "report", first, last, T0)
    assert [f"{one:%d %H}" for one in found] == ["24 00", "25 00"]


def test_a_range_without_an_answer_is_refused_with_the_remedy() -> None:
    def refusal(schedule: Every | None, first: datetime, last: datetime) -> str:
        with pytest.raises(InvalidInput) as caught:
            instants_between(schedule, "report", first, last, MINUTES[-1])
        return str(caught.value)

    assert "cronflow jobs run report" in refusal(None, T0, T0)
    assert refusal(Every("1m"), T0, MINUTES[-1] + SECOND).startswith("last: is in the future")
    assert refusal(Every("1m"), MINUTES[1], T0).startswith("first: is after last")
    assert "choose a shorter range" in refusal(Every("1s"), T0 - MOST_INSTANTS * SECOND, T0)
    assert len(instants_between(Every("1s"), "report", T0 - (MOST_INSTANTS - 1) * SECOND, T0, T0)) == MOST_INSTANTS


# ---------------------------------------------------------------------------------------------------------- choice

SOME = [
    outline(0, RunState.SUCCEEDED),
    outline(1, RunState.FAILED),
    outline(2, RunState.LOST),
    outline(3, RunState.SKIPPED),
    outline(4, RunState.RUNNING),
]


@pytest.mark.parametrize(
    ("scope", "chosen"),
    [(BackfillScope.MISSING, [1, 2, 3, 5]), (BackfillScope.FAILED, [1, 2]), (BackfillScope.ALL, [0, 1, 2, 3, 4, 5])],
)
def test_the_scope_chooses_the_instants(scope: BackfillScope, chosen: list[int]) -> None:
    assert choose(MINUTES, SOME, scope, None) == [MINUTES[n] for n in chosen]


def test_a_replay_that_succeeded_counts_for_its_instant_and_a_manual_run_does_not() -> None:
    failed = outline(1, RunState.FAILED)
    replayed = outline(1, RunState.SUCCEEDED, id=replay_id(failed.id, 1))
    manual = outline(1, RunState.SUCCEEDED, id="report@manual-1")
    assert choose(MINUTES[1:2], [failed, manual], BackfillScope.FAILED, None) == MINUTES[1:2]
    assert choose(MINUTES[1:2], [failed, replayed], BackfillScope.FAILED, None) == []


def test_a_run_counts_for_the_instants_that_it_covers() -> None:
    earlier = outline(0, RunState.SUCCEEDED, last=3)
    assert choose(MINUTES[2:], [earlier], BackfillScope.MISSING, None) == MINUTES[4:]
    assert choose(MINUTES, [outline(0, RunState.SKIPPED, last=3)], BackfillScope.MISSING, None) == MINUTES


def test_what_the_planner_has_yet_to_decide_is_not_missing() -> None:
    assert choose(MINUTES, [], BackfillScope.MISSING, MINUTES[4]) == MINUTES[:4]
    assert choose(MINUTES, [], BackfillScope.ALL, MINUTES[4]) == MINUTES


# ------------------------------------------------------------------------------------------------------------ pace


def test_runs_that_exclude_each_other_follow_one_by_one() -> None:
    job = a_job(overlap=Overlap.FORBID)
    assert next_page(a_backfill(), job, T0, 0, 0) == PageSize(1, timedelta(0))
    assert next_page(a_backfill(), job, T0, 1, 0) == NOTHING
    assert next_page(a_backfill(), job, T0, 0, 1) == NOTHING


def test_runs_that_may_overlap_are_open_up_to_a_limit() -> None:
    job = a_job(overlap=Overlap.ALLOW)
    many = a_backfill(total=1000)
    assert next_page(many, job, T0, 0, 5).count == MOST_OPEN
    assert next_page(many, job, T0, MOST_OPEN - 3, 0).count == 3
    assert next_page(many, job, T0, MOST_OPEN, 0) == NOTHING
    assert next_page(replace(many, inserted=998), job, T0, 0, 0).count == 2
    assert next_page(replace(many, inserted=1000), job, T0, 0, 0) == NOTHING


def test_a_rate_spreads_the_runs_and_is_not_made_up_for() -> None:
    job = a_job(overlap=Overlap.ALLOW)
    slow = a_backfill(total=100, rate=BackfillRate(10, "m"))
    assert next_page(slow, job, T0, 0, 0) == PageSize(1, 6 * SECOND)
    assert next_page(replace(slow, due_at=T0 + SECOND), job, T0, 0, 0) == NOTHING
    # Nobody worked it off for an hour.
    assert next_page(slow, job, T0 + timedelta(hours=1), 0, 0).count == 1
    assert next_page(a_backfill(total=100, rate=BackfillRate(20, "s")), job, T0, 0, 0) == PageSize(20, SECOND)
    assert slow.least_duration == 99 * 6 * SECOND


def test_a_rate_is_a_number_per_unit() -> None:
    assert parse_rate("10/m") == BackfillRate(10, "m")
    assert parse_rate("1/d").interval == timedelta(days=1)
    for wrong in ("10", "0/m", "10/w", "-1/m", "1.5/m", "10 / m"):
        with pytest.raises(InvalidInput, match="is not a rate"):
            parse_rate(wrong)


# ------------------------------------------------------------------------------------------------- beside the schedule


@pytest.mark.parametrize("overlap", [Overlap.FORBID, Overlap.QUEUE, Overlap.REPLACE])
def test_a_fire_waits_for_a_run_of_a_backfill_and_is_not_skipped(overlap: Overlap) -> None:
    record = a_record(job=a_job(overlap=overlap))
    found = decide(record, T0 + SECOND, [], backfilling=True)
    assert isinstance(found, Wait)
    assert (found.blocked, found.replaces) == (True, overlap is Overlap.REPLACE)
    assert found.replaces or found.reason == "a backfill run of this job is open"


def test_a_fire_overlaps_a_run_of_a_backfill_where_that_is_allowed() -> None:
    assert isinstance(decide(a_record(job=a_job(overlap=Overlap.ALLOW)), T0, [], backfilling=True), Fire)
    record = a_record(job=a_job(overlap=Overlap.FORBID))
    assert isinstance(decide(record, T0, [T0 - SECOND], backfilling=True), SkipFire)


def waits(kind: Kind, due_at: datetime | None = None, **fields: object) -> str | None:
    record = a_record(job=a_job("report", **{"overlap": Overlap.FORBID, **fields}))
    record = replace(record, next_fire=due_at)
    found = held_back(a_run(kind=kind, state=RunState.RETRYING), record, T0, [])
    return found.reason if isinstance(found, HeldBack) else None


def test_a_run_of_a_backfill_gives_way_to_a_fire_that_is_due() -> None:
    assert waits(Kind.BACKFILL, T0) == "a fire of its job is due"
    assert waits(Kind.BACKFILL, T0 + SECOND) is None
    assert waits(Kind.BACKFILL, T0, overlap=Overlap.ALLOW) is None
    assert waits(Kind.MANUAL, T0) is None


def test_a_run_of_a_backfill_that_was_dispatched_does_not_wait_for_the_fire_that_waits_for_it() -> None:
    record = replace(a_record(job=a_job("report", overlap=Overlap.FORBID)), next_fire=T0)
    assert held_back(a_run(kind=Kind.BACKFILL, state=RunState.DISPATCHED), record, T0, []) is None


def test_a_run_of_a_backfill_waits_while_its_job_is_held() -> None:
    record = a_record(job=a_job(), paused=True)
    run = a_run(kind=Kind.BACKFILL, state=RunState.RETRYING)
    found = held_back(run, record, T0 - SECOND, [])
    assert isinstance(found, HeldBack)
    assert found.reason == "its job is paused"
    assert waits(Kind.BACKFILL, None, enabled=False) == "its job is disabled"

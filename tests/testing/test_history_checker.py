"""The checker itself: a history as it should be passes, and for each rule one that it forbids is found, by that rule.

The history has a job whose runs may start again and one whose runs may not; a retry, a skipped instant, a run whose
worker was killed, an outcome that came too late, and an edit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cronflow.domain.backfill import Backfill, BackfillScope, BackfillState
from cronflow.domain.chain import ChainLink, On, Upstream, UpstreamRun
from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, Rate
from cronflow.domain.job import Delivery, Overlap, Retry, StartGuard
from cronflow.domain.permits import NamedLimit
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.run import (
    Attempt,
    AttemptResult,
    Covers,
    Kind,
    Outcome,
    Run,
    RunState,
    backfill_run_id,
    run_id,
)
from cronflow.domain.schedule.calendar import Period
from cronflow.domain.schedule.kinds import Every
from cronflow.domain.split import Split, SplitBy
from cronflow.domain.version import version_of
from cronflow.ports import LateResult
from cronflow.testing.history.checker import RULES, check
from cronflow.testing.history.double_starts import DoubleStart, double_starts
from cronflow.testing.history.history import (
    END,
    START,
    Ack,
    CancelAck,
    DrainAck,
    Elected,
    Fault,
    History,
    MaintenanceAck,
    Noted,
    Step,
    noted,
)
from tests.contracts.builders import T0, a_job, a_pend, a_record, a_run

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
Try = tuple[int, int, Outcome]
"""Seconds after the instant, the fence, how it ended."""


def at(second: float) -> datetime:
    return T0 + timedelta(seconds=second)


def a_life(job: str, minute: int, *tries: Try) -> tuple[Run, list[Step], list[Noted]]:
    """A run that was tried so and ended with the last, its steps, and what its handlers noted."""
    fire = T0 + minute * MINUTE
    name = run_id(job, fire)
    attempts: list[Attempt] = []
    steps: list[Step] = []
    lines: list[Noted] = []
    for n, (second, fence, outcome) in enumerate(tries, 1):
        began, ended, node = fire + second * SECOND, fire + (second + 1) * SECOND, f"n{n}"

        def step(state: RunState, when: datetime, fence: int = fence, finish: str | None = None) -> None:
            steps.append(Step(run=name, at=when, state=state, fence=fence, term=1, job_ver=1, finish_id=finish))

        attempts.append(Attempt(n, fence, f"{node}#a", began, ended, outcome))
        step(RunState.DISPATCHED, began)
        step(RunState.RUNNING, began)
        lines.append(Noted(START, name, fence, node, began))
        if outcome is not Outcome.LOST:
            lines.append(Noted(END, name, fence, node, ended, outcome is Outcome.OK))
            if n < len(tries):
                step(RunState.RETRYING, ended, finish=f"f{fence}")
    last = attempts[-1]
    step(RunState.SUCCEEDED, last.ended_at, finish=f"f{last.fence}")
    run = a_run(
        job,
        fire,
        state=RunState.SUCCEEDED,
        fence=last.fence,
        node=last.node,
        attempt=len(attempts),
        attempts=tuple(attempts),
        outcome=Outcome.OK,
        check_at=None,
        started_at=last.started_at,
        ended_at=last.ended_at,
        finish_id=f"f{last.fence}",
    )
    return run, steps, lines


def a_skip(job: str, minute: int) -> tuple[Run, list[Step], list[Noted]]:
    """A run that no handler saw."""
    fire = T0 + minute * MINUTE
    run = a_run(job, fire, state=RunState.SKIPPED, reason="overlap", check_at=None, ended_at=fire, fence=50)
    return run, [Step(run=run.id, at=fire, state=run.state, fence=50, term=1, job_ver=1)], []


PARENT = "report@manual-1"


def a_split_run() -> list[Run]:
    """A run in two parts that no handler saw."""
    ended = {"state": RunState.CANCELLED, "check_at": None, "ended_at": at(1), "attempt": 0}
    parts = [a_run("report", T0, id=f"{PARENT}~s{n}", kind=Kind.PART, **ended) for n in range(2)]
    split = Split(by=SplitBy.SHARDS, total=2, begun=True)
    return [a_run("report", T0, id=PARENT, kind=Kind.MANUAL, split=split, **ended), *parts]


def a_history() -> History:
    """As it should be."""
    lives = [
        a_life("report", 0, (0, 101, Outcome.OK)),
        a_life("report", 1, (0, 102, Outcome.ERROR), (5, 103, Outcome.OK)),
        a_life("report", 2, (0, 104, Outcome.LOST), (20, 105, Outcome.OK)),
        a_skip("report", 3),
        a_life("payment", 0, (0, 201, Outcome.OK)),
        a_life("payment", 1, (0, 202, Outcome.OK)),
        a_life("payment", 2, (0, 203, Outcome.OK)),
        a_life("payment", 3, (0, 204, Outcome.OK)),
    ]
    one_at_a_time = (KeyedConcurrency("{job}", 1),)
    payment = a_job(
        "payment", delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0), overlap=Overlap.ALLOW, concurrency=one_at_a_time
    )
    last = T0 + 3 * MINUTE
    lost = run_id("report", T0 + 2 * MINUTE)
    return History(
        jobs=[
            a_record("report", T0 + 4 * MINUTE, since=T0, pending_run=a_pend(last, 50, state=RunState.SKIPPED)),
            replace(a_record("payment", T0 + 4 * MINUTE, since=T0, pending_run=a_pend(last, 204)), job=payment),
        ],
        earlier={},
        runs=[*(run for run, _, _ in lives), *a_split_run()],
        late=[
            LateResult(
                run=lost, fence=104, node="n1#a", at=at(150), attempt_result=AttemptResult(Outcome.OK), finish_id="f104"
            )
        ],
        intents=[],
        terms=[Elected(1, "n1#a"), Elected(1, "n1#a"), Elected(2, "n2#a")],
        steps=[step for _, steps, _ in lives for step in steps],
        sink=[*(line for _, _, lines in lives for line in lines), Noted(END, lost, 104, "n1", at(150))],
        faults=[Fault("a node was stopped", at(121), at(150))],
        acks=[Ack("report", 1, at(0)), Ack("payment", 1, at(0))],
        until=T0 + 4 * MINUTE,
        healed=at(150),
        ends_within=90 * SECOND,
    )


REPORT = [run_id("report", T0 + k * MINUTE) for k in range(4)]
PAYMENT = [run_id("payment", T0 + k * MINUTE) for k in range(4)]


def with_run(history: History, name: str, **fields: object) -> History:
    runs = [replace(run, **fields) if run.id == name else run for run in history.runs]  # type: ignore[arg-type]
    return replace(history, runs=runs)


def with_step(history: History, name: str, number: int, **fields: object) -> History:
    own = [step for step in history.steps if step.run == name]
    changed = replace(own[number], **fields)  # type: ignore[arg-type]
    return replace(history, steps=[changed if step is own[number] else step for step in history.steps])


def with_steps(history: History, *steps: Step) -> History:
    return replace(history, steps=[*history.steps, *steps])


def with_lines(history: History, *lines: Noted) -> History:
    return replace(history, sink=[*history.sink, *lines])


def without_lines(history: History, name: str, fence: int, word: str) -> History:
    sink = [line for line in history.sink if (line.run, line.fence, line.word) != (name, fence, word)]
    return replace(history, sink=sink)


def without_run(history: History, name: str) -> History:
    runs = [run for run in history.runs if run.id != name]
    sink = [line for line in history.sink if line.run != name]
    return replace(history, runs=runs, sink=sink, steps=[step for step in history.steps if step.run != name])


def by_hand(name: str, when: datetime) -> tuple[Run, Step]:
    run = a_run("report", when, id=name, kind=Kind.MANUAL, state=RunState.RETRYING, fence=0, attempt=0, created_at=when)
    return run, Step(run=name, at=when, state=RunState.RETRYING, fence=0, term=0, job_ver=1)


def never_ended(history: History) -> History:
    run, step = by_hand("report@manual-1", at(10))
    return with_steps(replace(history, runs=[*history.runs, run]), step)


def quiet(history: History) -> History:
    """The same without what needs a fault."""
    return replace(without_run(history, REPORT[2]), faults=[], late=[], until=T0 + 2 * MINUTE)


def off_its_schedule(history: History) -> History:
    return with_run(history, REPORT[3], fire_at=at(181), covers=Covers(at(180), at(181), 2))


def timed_out(history: History) -> History:
    (attempt,) = next(run.attempts for run in history.runs if run.id == PAYMENT[0])
    return with_run(history, PAYMENT[0], attempts=(replace(attempt, outcome=Outcome.TIMEOUT),))


def an_end_that_nobody_recorded(history: History) -> History:
    return replace(history, late=[])


def a_second_end(history: History) -> History:
    ended = [step for step in history.steps if step.run == REPORT[0]][-1]
    return with_steps(history, replace(ended, finish_id="another", at=at(70)))


def an_old_handler(history: History) -> History:
    """The job was edited before its handler came to start; nothing held its node up."""
    history = replace(history, acks=[Ack("report", 2, at(54))])
    history = with_step(history, REPORT[1], 1, at=at(53))
    for name, number in [(REPORT[1], 3), (REPORT[1], 4), *((REPORT[2], k) for k in range(4))]:
        history = with_step(history, name, number, job_ver=2)
    return history


def two_terms(history: History, fence: int) -> History:
    """The retries of two runs, the first dispatched by a later term than the second."""
    for number in (3, 4, 5):
        history = with_step(history, REPORT[1], number, term=2, fence=fence)
    run = next(run for run in history.runs if run.id == REPORT[1])
    attempts = (run.attempts[0], replace(run.attempts[1], fence=fence))
    history = without_lines(without_lines(history, run.id, 103, START), run.id, 103, END)
    history = with_lines(
        history, Noted(START, run.id, fence, "n2", at(65)), Noted(END, run.id, fence, "n2", at(66), ok=True)
    )
    return with_run(history, REPORT[1], fence=fence, attempts=attempts)


def with_followers(history: History, answers: Sequence[str] = PAYMENT) -> History:
    """A job follows the payments, and was held back after these."""
    mail = replace(a_job("mail"), schedule=None, after=(Upstream("payment", On.ENDED),))
    record = replace(a_record("mail"), job=mail, next_fire=None, due_at=None, since=None)
    runs = []
    for n, name in enumerate(answers):
        link = ChainLink(name, 1, (UpstreamRun("payment", name, RunState.SUCCEEDED),))
        base = a_run("mail", at(200), id=f"mail@after-{n}", kind=Kind.AFTER, state=RunState.SKIPPED)
        runs.append(replace(base, check_at=None, ended_at=at(200), fence=0, chain=link))
    steps = [Step(run=run.id, at=at(200), state=run.state, fence=0, term=0, job_ver=1) for run in runs]
    changed = replace(history, jobs=[*history.jobs, record], runs=[*history.runs, *runs])
    return with_steps(changed, *steps)


def with_replay(history: History) -> History:
    """Somebody repeats a run that followed a payment; the mark of the payment is long gone."""
    replayed = next(run for run in history.runs if run.kind is Kind.AFTER)
    run = replace(replayed, id=f"{replayed.id}~r1", kind=Kind.REPLAY, replay_of=replayed.id)
    step = Step(run=run.id, at=at(200), state=run.state, fence=0, term=0, job_ver=1)
    return with_steps(replace(history, runs=[*history.runs, run]), step)


def with_window(history: History, first: int, end: int, reason: str = "overlap") -> History:
    """The reports of these minutes are excluded; the fourth was skipped for the reason."""
    window = Period(T0 + first * MINUTE, T0 + end * MINUTE)
    record = replace(history.jobs[0], job=a_job("report", schedule=Every("60s", blackout=(window,))))
    return with_run(replace(history, jobs=[record, history.jobs[1]]), REPORT[3], reason=reason)


INSTANTS = [T0 - 3 * MINUTE, T0 - 2 * MINUTE]


def with_backfill(history: History, *fires: datetime, state: BackfillState = BackfillState.DONE) -> History:
    """A backfill of the two reports before the first one, with runs of these instants that no handler saw."""
    backfill = Backfill(
        id="report~b1",
        job="report",
        state=state,
        scope=BackfillScope.ALL,
        first=INSTANTS[0],
        last=INSTANTS[-1],
        rate=None,
        total=len(INSTANTS),
        first_instant=INSTANTS[0],
        last_instant=INSTANTS[-1],
        due_at=T0,
        created_at=T0,
    )
    ended = {"kind": Kind.BACKFILL, "state": RunState.CANCELLED, "check_at": None, "ended_at": at(1), "attempt": 0}
    runs = [a_run("report", fire, id=backfill_run_id("report~b1", fire), **ended) for fire in fires or INSTANTS]
    return replace(history, runs=[*history.runs, *runs], backfills=[(backfill, INSTANTS)])


def with_rate(history: History, seconds: float) -> History:
    """One payment may start in so many seconds."""
    rated = replace(history.jobs[1].job, concurrency=(), rate=KeyedRate(Rate(1, seconds * SECOND)))
    return replace(history, jobs=[history.jobs[0], replace(history.jobs[1], job=rated)])


def with_reservations(history: History, capacity: int) -> History:
    """The first two payments run on the same node, the second one before the first has ended."""
    history = with_step(history, PAYMENT[0], 2, at=at(60.5))
    amount = ResourceAmount(memory=60)
    steps = [
        replace(step, node="n1#a", reserved=amount) if step.run in PAYMENT[:2] else step
        for step in sorted(history.steps, key=lambda step: step.at)
    ]
    unlimited = replace(history.jobs[1], job=replace(history.jobs[1].job, concurrency=()))
    capacities = {"n1": ResourceAmount(memory=capacity)}
    return replace(history, steps=steps, jobs=[history.jobs[0], unlimited], capacities=capacities)


def with_named_limit(history: History, limit: int) -> History:
    """The first two payments run at the same time, and share a named limit."""
    history = with_step(history, PAYMENT[0], 2, at=at(60.5))
    named = replace(history.jobs[1], job=replace(history.jobs[1].job, concurrency=("payments",)))
    return replace(history, jobs=[history.jobs[0], named], limits=[NamedLimit(name="payments", limit=limit)])


def with_pause(history: History) -> History:
    """The second payment was opened under a version that is paused."""
    kept = version_of(replace(history.jobs[1], paused=True))
    record = replace(history.jobs[1], ver=2)
    history = replace(history, jobs=[history.jobs[0], record], earlier={"payment": [kept]})
    for name in (PAYMENT[0], *PAYMENT[2:]):
        for number in range(3):
            history = with_step(history, name, number, job_ver=2)
    return history


def shifted(*periods: DrainAck | MaintenanceAck) -> Sequence[DrainAck | MaintenanceAck]:
    """The same, a few seconds before they begin to matter."""
    return [replace(one, since=one.since + 12 * SECOND) for one in periods]


DRAIN = DrainAck("n1", at(50), at(70))
MAINTENANCE = MaintenanceAck(at(50), at(70))
Forge = Callable[[History], History]
FORGED: Sequence[tuple[str, str, Forge]] = [
    ("H1", "an instant without a run", lambda h: without_run(h, REPORT[1])),
    ("H1", "an instant in two runs", lambda h: with_run(h, REPORT[0], covers=Covers(T0, T0 + MINUTE, 2))),
    (
        "H1",
        "a run of no instant",
        lambda h: with_run(h, REPORT[3], fire_at=at(181), covers=Covers(at(180), at(181), 2)),
    ),
    (
        "H1",
        "a pending run without its run",
        lambda h: replace(h, jobs=[replace(h.jobs[0], pending_run=a_pend(at(240))), h.jobs[1]]),
    ),
    ("H1", "a plan intent left", lambda h: replace(h, intents=["1-7"])),
    ("H2", "two outcomes", a_second_end),
    ("H2", "a success of which the sink knows nothing", lambda h: without_lines(h, REPORT[1], 103, END)),
    ("H2", "a failure of which the sink knows nothing", lambda h: without_lines(h, REPORT[1], 102, END)),
    ("H2", "a handler of an unknown run", lambda h: with_lines(h, Noted(START, "report@x", 9, "n1", at(1)))),
    ("H2", "a success without a success", timed_out),
    ("H3", "a fence that falls", lambda h: with_step(with_step(h, REPORT[1], 3, fence=99), REPORT[1], 4, fence=99)),
    ("H3", "a dispatch under an old fence", lambda h: with_step(h, REPORT[1], 3, fence=102)),
    ("H3", "a token given twice", lambda h: with_step(h, REPORT[0], 0, fence=201)),
    ("H3", "a move with an old token", lambda h: with_step(h, REPORT[2], 0, fence=100)),
    ("H3", "a deposed leader with a high token", lambda h: with_step(h, REPORT[1], 3, term=2)),
    ("H4", "two leaders in a term", lambda h: replace(h, terms=[*h.terms, Elected(2, "n1#a")])),
    ("H5", "started from waiting", lambda h: with_step(h, REPORT[1], 3, state=RunState.RETRYING)),
    ("H5", "made as running", lambda h: with_step(h, PAYMENT[0], 0, state=RunState.RUNNING)),
    ("H5", "back from an end", lambda h: with_step(h, REPORT[1], 2, state=RunState.SUCCEEDED, finish_id="f103")),
    ("H5", "changed behind the table", lambda h: with_step(h, REPORT[3], 0, state=RunState.SUCCEEDED)),
    ("H5", "ended and to be looked at", lambda h: with_run(h, REPORT[0], check_at=at(9))),
    ("H6", "at most once, twice", lambda h: with_lines(h, Noted(START, PAYMENT[2], 203, "n2", at(125)))),
    ("H7", "started twice by itself", lambda h: with_lines(h, Noted(START, REPORT[0], 101, "n2", at(2)))),
    ("H7", "lost by itself", lambda h: replace(h, faults=[replace(h.faults[0], since=at(0), until=at(1))])),
    (
        "H8",
        "a start recorded after an edit",
        lambda h: replace(h, acks=[Ack("payment", 2, at(180) - SECOND / 1000)]),
    ),
    ("H8", "a handler long after an edit", an_old_handler),
    ("H9", "open for ever", never_ended),
    ("H9", "ended too late", lambda h: replace(h, healed=at(125), ends_within=10 * SECOND)),
    ("H10", "an outcome that nobody kept", an_end_that_nobody_recorded),
    ("H11", "started twice in peace", lambda h: with_lines(quiet(h), Noted(START, REPORT[0], 101, "n1", at(0)))),
    ("H11", "recorded and never started", lambda h: without_lines(quiet(h), REPORT[0], 101, START)),
    ("H12", "two at once where one may", lambda h: with_step(h, PAYMENT[0], 2, at=at(60.5))),
    ("H12", "two at once where the named limit is one", lambda h: with_named_limit(h, 1)),
    ("H13", "an end without an answer", lambda h: with_followers(h, PAYMENT[:3])),
    ("H13", "an end with two answers", lambda h: with_followers(h, [*PAYMENT, PAYMENT[1]])),
    ("H13", "an end that still waits for its answer", lambda h: with_run(h, PAYMENT[0], followed=True)),
    ("H14", "a part is missing", lambda h: without_run(h, f"{PARENT}~s1")),
    ("H14", "a parent is missing", lambda h: without_run(h, PARENT)),
    ("H14", "a part too many", lambda h: with_run(h, f"{PARENT}~s1", id=f"{PARENT}~s2")),
    ("H14", "parts of a run that never began", lambda h: with_run(h, PARENT, split=Split(by=SplitBy.SHARDS, total=2))),
    ("H14", "a success of parts that were cancelled", lambda h: with_run(h, PARENT, state=RunState.SUCCEEDED)),
    ("H14", "a parent that ended before its parts", lambda h: with_run(h, f"{PARENT}~s0", ended_at=at(2))),
    ("H15", "an excluded instant that ran", lambda h: with_window(h, 2, 4)),
    ("H15", "an allowed instant that a window skipped", lambda h: with_window(h, 5, 6, "blackout")),
    ("H16", "a backfill without one of its runs", lambda h: with_backfill(h, INSTANTS[0])),
    ("H16", "a backfill with a run too many", lambda h: with_backfill(h, *INSTANTS, T0)),
    ("H16", "a backfill that never ends", lambda h: with_backfill(h, state=BackfillState.RUNNING)),
    ("H17", "two starts where the rate allows one", lambda h: with_rate(h, 61)),
    ("H18", "a node with more than it has", lambda h: with_reservations(h, 119)),
    ("H18", "a node that announces nothing", lambda h: replace(with_reservations(h, 120), capacities={})),
    ("H19", "a start on a drained node", lambda h: replace(h, drains=[DRAIN])),
    ("H20", "a start long after a cancellation", lambda h: replace(h, cancels=[CancelAck(REPORT[1], 102, at(54))])),
    ("H20", "a retry after a cancellation", lambda h: replace(h, cancels=[CancelAck(REPORT[1], 102, at(64))])),
    ("H20", "a guarded start after a cancellation", lambda h: replace(h, cancels=[CancelAck(PAYMENT[1], 202, at(59))])),
    ("H21", "a fire of a paused job that ran", with_pause),
    ("H22", "a dispatch in maintenance", lambda h: replace(h, maintenance=[MAINTENANCE])),
    ("H23", "an unexpected error", lambda h: replace(h, failures=[("n1", "the planner failed: KeyError: 'x'")])),
    ("H11", "started and not recorded", lambda h: with_lines(quiet(h), Noted(START, REPORT[0], 77, "n1", at(0)))),
]


def test_a_history_as_it_should_be_has_no_findings() -> None:
    assert check(a_history()) == []
    assert check(quiet(a_history())) == []
    assert check(with_followers(a_history())) == []
    assert check(with_backfill(with_followers(a_history()))) == []
    assert check(with_replay(with_followers(a_history()))) == []


@pytest.mark.parametrize("fields", [{"deleted_at": at(190)}, {"created_at": at(300)}], ids=["deleted", "created later"])
def test_a_follower_that_was_deleted_or_created_later_need_not_follow(fields: dict[str, datetime]) -> None:
    history = with_followers(a_history(), PAYMENT[:3])
    *jobs, follower = history.jobs
    assert [one.rule for one in check(history)] == ["H13"]
    assert check(replace(history, jobs=[*jobs, replace(follower, **fields)])) == []  # type: ignore[arg-type]
    assert check(with_window(a_history(), 3, 4, "blackout")) == []


def test_a_follower_that_was_deleted_when_a_run_ended_need_not_follow_it_although_it_was_created_again() -> None:
    history = with_followers(a_history(), PAYMENT[:3])
    *_, follower = history.jobs
    assert [one.rule for one in check(history)] == ["H13"]
    version = version_of(follower)
    deleted = replace(version, ver=0, at=at(-60), deleted=True)
    again = replace(follower, updated_at=at(250))
    assert version_of(again).at > deleted.at
    found = check(replace(history, jobs=[*history.jobs[:-1], again], earlier={**history.earlier, "mail": [deleted]}))
    assert "H13" not in {one.rule for one in found}


def test_what_people_asked_for_and_got_has_no_findings() -> None:
    """In time, or late for a reason."""
    history = a_history()
    held_up = Fault("a node was cut off", at(51), at(52))
    right = [
        with_backfill(history),
        with_backfill(history, INSTANTS[0], state=BackfillState.CANCELLED),
        with_rate(history, 60),
        replace(with_rate(history, 61), faults=[Fault("MongoDB was away", at(0), at(180))]),
        with_reservations(history, 120),
        with_named_limit(history, 2),
        replace(history, drains=[replace(DRAIN, node="n3"), *shifted(DRAIN)]),  # type: ignore[list-item]
        replace(history, drains=[replace(DRAIN, until=at(60))], maintenance=shifted(MAINTENANCE)),  # type: ignore[arg-type]
        replace(history, faults=[*history.faults, held_up], drains=[DRAIN], maintenance=[MAINTENANCE]),
        replace(history, cancels=[CancelAck(REPORT[0], 101, at(0)), CancelAck(REPORT[3], 50, at(200))]),
        replace(without_run(history, REPORT[1]), until=T0 + MINUTE, cancels=[CancelAck(REPORT[1], 0, at(5))]),
    ]
    for number, one in enumerate(right):
        assert check(one) == [], number


@pytest.mark.parametrize(("rule", "what", "forge"), FORGED, ids=[f"{rule}: {what}" for rule, what, _ in FORGED])
def test_a_forged_history_is_found_by_its_rule(rule: str, what: str, forge: Forge) -> None:
    found = {finding.rule for finding in check(forge(a_history()))}
    # What is wrong in peace is wrong by itself too.
    assert found - ({"H7"} if rule == "H11" else set()) == {rule}, what


def test_every_rule_has_a_forged_history() -> None:
    assert {rule for rule, _, _ in FORGED} == set(RULES)


def test_a_kill_may_take_an_outcome_along_and_only_that_of_its_node() -> None:
    history = an_end_that_nobody_recorded(a_history())
    killed = Fault("a node was killed", at(151), at(151), killed="n1")
    assert check(replace(history, faults=[*history.faults, killed])) == []
    elsewhere, later = replace(killed, killed="n2"), replace(killed, since=at(162), until=at(162))
    for other in (elsewhere, later):
        assert [one.rule for one in check(replace(history, faults=[*history.faults, other]))] == ["H10"]
    away = Fault("MongoDB was away", at(151), at(155))
    assert check(replace(history, faults=[*history.faults, away, later])) == []


def test_both_versions_may_start_around_an_edit_and_not_where_the_start_is_recorded_first() -> None:
    history = with_lines(a_history(), Noted(START, REPORT[0], 101, "n2", at(2)))
    for ack, rules in ((Ack("report", 2, at(4)), set()), (Ack("report", 2, at(8)), {"H7"})):
        edited = replace(history, acks=[ack])
        assert {one.rule for one in check(edited)} - {"H8"} == rules
    guarded = replace(history.jobs[0], job=a_job("report", start_guard=StartGuard.MONGO))
    edited = replace(history, jobs=[guarded, history.jobs[1]], acks=[Ack("report", 2, at(4))])
    assert "H7" in {one.rule for one in check(edited)}


def test_a_start_that_a_fault_excuses_says_nothing_about_the_rate_afterwards() -> None:
    history = with_rate(a_history(), 60)
    for number, second in ((1, 58), (2, 118), (3, 178)):
        history = with_step(history, PAYMENT[number], 1, at=at(second))
    late = Fault("the record of the first start was late", at(50), at(58))
    assert "H17" not in {one.rule for one in check(replace(history, faults=[late]))}
    again = with_step(history, PAYMENT[3], 1, at=at(177))
    assert [one.where for one in check(replace(again, faults=[late])) if one.rule == "H17"] == [PAYMENT[3]]


def test_a_run_that_its_node_never_started_takes_none_of_its_memory() -> None:
    history = with_reservations(a_history(), 120)
    [taken] = [one for one in history.steps if one.run == PAYMENT[0] and one.state is RunState.DISPATCHED]
    recovered = replace(taken, run=PAYMENT[2], fence=taken.fence - 1)
    full = replace(history, steps=sorted([*history.steps, recovered], key=lambda one: one.at))
    assert "H18" not in {one.rule for one in check(full)}
    noted = with_lines(full, Noted(START, PAYMENT[2], recovered.fence, "n1", recovered.at))
    assert "H18" in {one.rule for one in check(noted)}


def test_the_handler_of_a_run_that_was_cancelled_on_its_way_may_start_unless_its_start_is_guarded() -> None:
    history = quiet(a_history())
    lost = [step for step in history.steps if step.run == REPORT[0] and step.state is RunState.DISPATCHED]
    cancelled = with_run(history, REPORT[0], state=RunState.CANCELLED, attempts=())
    steps = [step for step in history.steps if step.run != REPORT[0]]
    ended = replace(lost[0], state=RunState.CANCELLED, at=lost[0].at + SECOND)
    sink = [line for line in history.sink if line.run != REPORT[0] or line.word == START]
    cancelled = replace(cancelled, steps=[*steps, lost[0], ended], sink=sink)
    assert "H11" not in {one.rule for one in check(cancelled)}
    guarded = replace(cancelled.jobs[0], job=a_job("report", start_guard=StartGuard.MONGO))
    assert "H11" in {one.rule for one in check(replace(cancelled, jobs=[guarded, *cancelled.jobs[1:]]))}
    again = with_lines(cancelled, Noted(START, REPORT[0], lost[0].fence + 1, "n1", at(9)))
    assert "H11" in {one.rule for one in check(again)}


def test_a_double_start_names_what_explains_it() -> None:
    """A retry is none, and what runs at most once has no excuse."""
    history = a_history()
    lost = run_id("report", T0 + 2 * MINUTE)
    starts = {line.fence: line for line in history.sink if line.run == lost and line.word == START}
    assert double_starts(history) == [DoubleStart(lost, starts[104], starts[105], history.faults[0])]
    (unexplained,) = double_starts(replace(history, faults=[]))
    assert unexplained.cause is None
    edit = Ack("report", 2, at(124))
    (edited,) = double_starts(replace(history, faults=[], acks=[edit]))
    assert edited.cause == edit
    dispatched = next(step.at for step in history.steps if (step.run, step.fence) == (lost, 104))
    for seconds, explained in ((-5, True), (-5.1, False)):
        flushed = Fault("Redis flushed", dispatched + seconds * SECOND, dispatched + seconds * SECOND)
        (before,) = double_starts(replace(history, faults=[flushed]))
        assert before.cause == (flushed if explained else None)
    again = Noted(START, PAYMENT[2], 203, "n2", at(125))
    assert [one.cause for one in double_starts(with_lines(history, again)) if one.run == PAYMENT[2]] == [None]


def test_an_older_version_may_start_for_a_moment_and_longer_where_its_node_was_held_up() -> None:
    history = an_old_handler(a_history())
    within = replace(history, acks=[Ack("report", 2, at(56))])
    assert check(within) == []
    held_up = Fault("a node was stopped", at(50), at(59))
    assert check(replace(history, faults=[*history.faults, held_up])) == []


def test_a_higher_token_of_a_later_term_is_as_it_should_be() -> None:
    assert check(two_terms(a_history(), 106)) == []
    assert [one.rule for one in check(two_terms(a_history(), 103))] == ["H3"]


def test_a_line_of_the_sink_is_read_as_it_was_written() -> None:
    began, ended = at(0.5), at(2)
    lines = [f"start r@1 7 n1 {began.timestamp():.6f}", f"end r@1 7 n1 {ended.timestamp():.6f} error"]
    assert [noted(line) for line in lines] == [
        Noted(START, "r@1", 7, "n1", began),
        Noted(END, "r@1", 7, "n1", ended, ok=False),
    ]

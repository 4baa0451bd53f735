"""The result of an experiment: what is counted, when it holds, how failovers are measured, and how it is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from rich.console import Console

from cronflow.chaos.experiment import Injected, Leads, Observed
from cronflow.chaos.faults import FAULTS
from cronflow.chaos.result import ChaosResult, as_json, failovers, judge, together
from cronflow.cli.views.chaos import view
from cronflow.domain.run import run_id
from cronflow.testing.history.history import Ack, Fault, History
from tests.contracts.builders import T0
from tests.testing.test_history_checker import a_history, at

NO_LEADS = Leads((), ())
TOOK = timedelta(seconds=90)


def injected(name: str, since: float, until: float | None = None, *, node: str = "node-1", term: int = 1) -> Injected:
    return Injected(FAULTS[name], node, at(since), at(since if until is None else until), term)


def judged(history: History, faults: Sequence[Injected] | None = None, leads: Leads = NO_LEADS) -> ChaosResult:
    return judge(Observed(history, leads, [injected("flush-redis", 1)] if faults is None else faults), 7, TOOK)


def shown(result: ChaosResult) -> str:
    console = Console(file=StringIO(), width=200)
    view(console, result)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_history_as_it_should_be_holds_and_everything_in_it_is_counted() -> None:
    result = judged(a_history())
    assert result.holds
    assert as_json(result) == {
        "holds": True,
        "seed": 7,
        "faults": [{"fault": "flush-redis", "node": "node-1", "since": at(1), "until": at(1)}],
        "fires_due": 8,
        "runs": {"cancelled": 3, "skipped": 1, "succeeded": 7},
        "starts": 9,
        "lost": 0,
        "committed_twice": 0,
        "double_starts": [{"run": run_id("report", at(120)), "fault": "a node was stopped"}],
        "fences_rejected": 1,
        "limits_exceeded": 0,
        "violations": [],
        "failover_ms": {"p50": None, "p99": None, "max": None},
        "graceful_failover_ms": {"p50": None, "p99": None, "max": None},
    }
    text = shown(result)
    assert "✓ every promise was kept" in text
    assert "each explained by a fault or an edit" in text
    assert "double start explained by a node was stopped: 1" in text


def test_a_fire_without_a_run_is_lost() -> None:
    history = a_history()
    missing = run_id("payment", T0)
    result = judged(replace(history, runs=[run for run in history.runs if run.id != missing]))
    assert not result.holds
    assert result.lost == [f"payment at {T0:%Y-%m-%d %H:%M:%SZ}"]
    assert "✗ a promise was broken" in shown(result)
    assert "no run covers this instant" in shown(result)


def test_an_instant_with_two_runs_and_a_run_that_ended_twice_were_committed_twice() -> None:
    history = a_history()
    first = next(run for run in history.runs if run.job == "payment")
    doubled = judged(replace(history, runs=[*history.runs, replace(first, id="payment@again")]))
    assert doubled.twice[0] == f"payment at {T0:%Y-%m-%d %H:%M:%SZ}: two runs"
    again = replace(next(step for step in reversed(history.steps) if step.run == first.id), finish_id="another")
    result = judged(replace(history, steps=[*history.steps, again]))
    assert result.twice == [f"{first.id}: it ended 2 times"]
    assert not result.holds


def test_a_double_start_that_nothing_explains_breaks_a_promise_and_an_edit_explains_one() -> None:
    history = replace(a_history(), faults=[])
    result = judged(history)
    assert [one["fault"] for one in as_json(result)["double_starts"]] == [None]  # type: ignore[attr-defined]
    assert not result.holds
    assert "1 of them unexplained" in shown(result)
    edited = judged(replace(history, acks=[*history.acks, Ack("report", 2, at(121))]))
    assert "double start explained by an edit of the job: 1" in shown(edited)


@pytest.mark.parametrize("faults", [[], None])
def test_a_result_without_a_fault_or_without_a_fire_shows_nothing(faults: list[Injected] | None) -> None:
    history = a_history()
    if faults is None:
        history = replace(history, jobs=[], runs=[], steps=[], sink=[], late=[], acks=[], terms=[])
    result = judged(history, faults)
    assert not result.violations
    assert not result.holds
    assert "✗ nothing was tested" in shown(result)


ELECTED = Leads(elected=[(1, at(-5)), (2, at(20)), (3, at(40))], stepped_down=[(1, at(11)), (2, at(39.9))])


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (injected("kill-leader", 10), 10),
        (injected("pause-leader", 10, 50), 10),
        (injected("stop-leader", 10), 9),
        (injected("step-down-leader", 39.5, term=2), 0.1),
    ],
)
def test_a_failover_lasts_from_the_fault_or_the_end_of_the_tenure_until_the_next_election(
    fault: Injected, seconds: float
) -> None:
    (found,) = failovers([fault], ELECTED)
    assert (found.took, found.alone) == (timedelta(seconds=seconds), True)
    assert found.graceful == fault.kind.graceful


@pytest.mark.parametrize(
    "fault",
    [
        injected("pause-leader", 10, 19),
        injected("kill-worker", 10),
        injected("kill-leader", 41, term=3),
        injected("kill-leader", 10, term=0),
        injected("stop-leader", 12),
    ],
    ids=["shorter than the lease", "no leader", "no election since", "unknown term", "stepped down before"],
)
def test_what_took_no_lead_is_no_failover(fault: Injected) -> None:
    assert list(failovers([fault], ELECTED)) == []


@pytest.mark.parametrize(("since", "until", "alone"), [(5, 9, True), (5, 10, False), (20, 30, False), (21, 30, True)])
def test_a_failover_beside_another_fault_is_told_apart(since: float, until: float, alone: bool) -> None:
    other = injected("kill-mongo", since, until, node="")
    (found,) = failovers([injected("kill-leader", 10), other], ELECTED)
    assert found.alone == alone
    text = shown(judged(a_history(), [injected("kill-leader", 10), other], ELECTED))
    assert f"without other faults {'p50 10s, p99 10s, max 10s (n=1)' if alone else 'none'}" in text


def test_the_json_form_can_be_written() -> None:
    result = judged(a_history(), [injected("kill-leader", 10)], ELECTED)
    found = json.loads(json.dumps(as_json(result), default=str))
    assert found["failover_ms"] == {"p50": 10000.0, "p99": 10000.0, "max": 10000.0}


def test_a_stall_of_the_machine_is_a_fault_like_any_other() -> None:
    history = a_history()
    stalled = Fault("this machine stalled", at(119), at(141))
    found = as_json(judged(replace(history, faults=[stalled])))
    assert found["double_starts"] == [{"run": run_id("report", at(120)), "fault": "this machine stalled"}]


def test_several_rounds_are_counted_together_and_one_that_broke_a_promise_breaks_all() -> None:
    good = judged(a_history(), [injected("kill-leader", 10)], ELECTED)
    history = a_history()
    bad = judged(replace(history, runs=[run for run in history.runs if run.job != "payment"]))
    both = as_json(together([good, bad]))
    assert both["holds"] is False
    assert (both["fires_due"], both["lost"], both["starts"]) == (16, 4, 18)
    assert both["failover_ms"] == {"p50": 10000.0, "p99": 10000.0, "max": 10000.0}
    assert both["runs"] == {"cancelled": 6, "skipped": 2, "succeeded": 10}
    assert together([good, good]).holds

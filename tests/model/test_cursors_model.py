"""The models of cursors that move without a run: small configurations hold, and each rule is needed."""

from __future__ import annotations

import pytest

from tests.model import completion, cursors

MOST = 200_000
SMALL = cursors.Config(updates=1, instants=((0, 2), (0, 1)), end=3)
THREE_TERMS = cursors.Config(terms=3, updates=1, instants=((0,), (1,)), end=2)
CURSORS_HOLD = {
    "an instant appears and one vanishes": SMALL,
    "both nodes are updated": THREE_TERMS._replace(terms=2, updates=2),
    "a job that has two runs": cursors.Config(updates=1, most=2),
}
CURSOR_MUTANTS = {
    "plan_without_rev": SMALL,
    "correct_without_rev": SMALL,
    "no_term_guard": SMALL,
    "plan_before_the_claim": SMALL,
    "claim_ignores_the_term": SMALL,
    "claim_keeps_the_name": SMALL,
    "claim_without_the_term": THREE_TERMS,
    "no_correction_while_it_leads": SMALL,
    "correct_from_the_cursor": SMALL,
    "right_cursors_are_not_written": SMALL,
    "refused_corrections_are_forgotten": SMALL,
    "deposed_leader_keeps": SMALL._replace(updates=2),
    "runs_are_not_counted": cursors.Config(updates=0, most=2, instants=((0, 1, 2), (0, 1, 2)), end=3),
}
COMPLETION_MUTANTS = (
    "move_without_rev",
    "reposition_without_rev",
    "the_end_does_not_matter",
    "open_runs_do_not_matter",
    "runs_are_read_before_the_job",
    "ends_are_read_first",
)


@pytest.mark.parametrize("name", CURSORS_HOLD)
def test_after_an_update_of_the_time_zone_data_the_cursors_are_right(name: str) -> None:
    verdict, states, steps = cursors.explore(CURSORS_HOLD[name], MOST)
    assert verdict == "ok", "\n".join(steps)
    assert states > 1000


@pytest.mark.parametrize("rule", CURSOR_MUTANTS)
def test_without_one_rule_an_instant_is_passed_or_comes_twice(rule: str) -> None:
    verdict, _, steps = cursors.explore(CURSOR_MUTANTS[rule]._replace(mutant=rule), MOST)
    assert verdict not in {"ok", "cut"}
    assert steps


def test_a_run_begins_an_interval_after_the_end_of_the_last_one() -> None:
    verdict, states, steps = completion.explore(completion.Config(), MOST)
    assert verdict == "ok", "\n".join(steps)
    assert states > 1000


@pytest.mark.parametrize("rule", COMPLETION_MUTANTS)
def test_without_one_rule_a_run_begins_too_early(rule: str) -> None:
    verdict, _, steps = completion.explore(completion.Config(mutant=rule), MOST)
    assert verdict not in {"ok", "cut"}
    assert steps


@pytest.mark.prove
@pytest.mark.parametrize("configuration", [cursors.Config(), THREE_TERMS], ids=["four instants", "three terms"])
def test_the_cursors_are_right_in_larger_configurations(configuration: cursors.Config) -> None:
    verdict, states, steps = cursors.explore(configuration, 2_000_000)
    assert verdict == "ok", "\n".join(steps)
    assert states > 100_000

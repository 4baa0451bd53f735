"""The model of permits: small configurations hold, and each rule is needed."""

from __future__ import annotations

import pytest

from tests.model.limits import Config, explore

MOST = 400_000
HOLDS = {
    "two runs, a killed worker": Config(),
    "an item that is delivered twice": Config(fences=3, faults=0, duplicates=1),
    "two leaders": Config(fences=3, faults=1, leaders=2),
    "three runs": Config(runs=3, fences=3, faults=0),
}
MUTANTS = {
    "release_before_the_outcome": Config(fences=2, faults=0),
    "start_without_a_record": Config(fences=3, faults=0),
    "removal_ignores_the_fence": Config(fences=3, faults=0),
    "acquire_does_not_count": Config(fences=2, faults=0),
    "acquire_after_the_start": Config(fences=2, faults=0),
    "acquire_replaces_a_later_permit": Config(fences=3, faults=1),
    "release_after_a_refused_start": Config(fences=2, faults=0, duplicates=1),
    "release_ignores_the_fence": Config(fences=3, faults=0),
    "no_removal": Config(fences=4, faults=1),
}


@pytest.mark.parametrize("name", HOLDS)
def test_no_more_handlers_run_than_the_limit_allows_and_every_permit_is_released(name: str) -> None:
    verdict, states, steps = explore(HOLDS[name], MOST)
    assert verdict == "ok", "\n".join(steps)
    assert states > 100


@pytest.mark.parametrize("rule", MUTANTS)
def test_without_one_rule_more_handlers_run_or_a_permit_stays(rule: str) -> None:
    verdict, _, steps = explore(MUTANTS[rule]._replace(mutant=rule), MOST)
    assert verdict not in {"ok", "cut"}
    assert steps

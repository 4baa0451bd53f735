"""The model of permits: small configurations hold, and each rule is needed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.model.limits import Config, explore

MOST = 100_000
KILL, ACQUIRE = frozenset({"kill"}), frozenset({"acquire"})
HOLDS = {
    "two kills and delayed writes": Config(fences=2, faults=2),
    "an item that is delivered twice": Config(fences=2, faults=0, duplicates=1),
    "two leaders": Config(fences=2, faults=1, leaders=2),
    "three dispatches and a delayed acquire": Config(fences=3, faults=1, kinds=ACQUIRE),
}
MUTANTS = {
    "release_before_the_outcome": Config(fences=2, faults=0),
    "start_without_a_record": Config(fences=3, faults=0),
    "removal_ignores_the_fence": Config(fences=3, faults=0),
    "acquire_does_not_count": Config(fences=2, faults=0),
    "acquire_after_the_start": Config(fences=2, faults=0),
    "acquire_replaces_a_later_permit": Config(fences=3, faults=1, kinds=ACQUIRE),
    "release_after_a_refused_start": Config(fences=2, faults=0, duplicates=1),
    "release_ignores_the_fence": Config(fences=3, faults=0),
    "no_removal": Config(fences=3, faults=1, kinds=KILL),
}
SLOW = {"three dispatches and a delayed acquire", "acquire_replaces_a_later_permit"}


def each(names: Iterable[str]) -> list[object]:
    return [pytest.param(name, marks=[pytest.mark.prove] if name in SLOW else []) for name in names]


@pytest.mark.parametrize("name", each(HOLDS))
def test_no_more_handlers_run_than_the_limit_allows_and_every_permit_is_released(name: str) -> None:
    verdict, states, steps = explore(HOLDS[name], MOST)
    assert verdict == "ok", "\n".join(steps)
    assert states > 100


@pytest.mark.parametrize("rule", each(MUTANTS))
def test_without_one_rule_more_handlers_run_or_a_permit_stays(rule: str) -> None:
    verdict, _, steps = explore(MUTANTS[rule]._replace(mutant=rule), MOST)
    assert verdict not in {"ok", "cut"}
    assert steps

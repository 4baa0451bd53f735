"""The protocol's model: the small configurations hold, and each rule is needed.

`python -m tests.model.check_protocol` explores all of each, and the large ones as well.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.configurations import QUICK
from tests.model.explore import explore
from tests.model.mutants import MUTANTS

LIMIT = 1_000_000
FIRST_STATES = 2_500
SLOW = {"redispatch_ignores_version", "withdrawal_without_fence"}
"""Rules whose loss shows only after very many states; `check_protocol` removes them too."""


@pytest.mark.parametrize(("name", "configuration"), QUICK, ids=[name for name, _ in QUICK])
def test_the_protocol_holds(name: str, configuration: Any) -> None:
    verdict, states, steps = explore(configuration, FIRST_STATES)
    assert verdict in {"ok", "cut"}, "\n".join(steps)
    assert states > 50


@pytest.mark.parametrize(
    ("rule", "configuration"),
    [pytest.param(*mutant, marks=[pytest.mark.prove] if mutant[0] in SLOW else []) for mutant in MUTANTS],
    ids=[rule for rule, _ in MUTANTS],
)
def test_without_one_rule_the_protocol_breaks(rule: str, configuration: Any) -> None:
    verdict, _, steps = explore(configuration._replace(mutant=rule), LIMIT)
    assert verdict not in {"ok", "cut"}
    assert steps

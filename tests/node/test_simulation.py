"""Simulations: whole nodes on virtual time, and stories of what goes wrong and what people do; the history is judged.

Hypothesis draws new stories each time, and shrinks one whose history breaks a rule. The failure has the command that
tells the story again. Without faults, what was started must be what was run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.engine import ConjectureRunner

from cronflow.testing.history.checker import check
from cronflow.testing.history.history import History
from tests.node.simulation.stories import PEACEFUL, STORIES, Step, Story, Teller, report, told
from tests.servers import fast_folder

PARTS = 8
"""Tests that share the stories, so that workers share them."""


@pytest.fixture(scope="module", autouse=True)
def independent() -> Iterator[None]:
    """Without this, Hypothesis makes half of the stories by repeating steps of the one before."""
    with mock.patch.object(ConjectureRunner, "generate_mutations_from"):
        yield


@pytest.fixture(scope="module")
def spools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with fast_folder(tmp_path_factory.mktemp("spools")) as folder:
        yield folder


def judged(story: Story, spools: Path) -> History:
    history = told(story, spools)
    assert check(history) == [], report(story, history)
    return history


def tell_all(stories: st.SearchStrategy[Story], count: int, spools: Path) -> None:
    """Tell so many new stories, whatever the profile of Hypothesis says."""

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.nested_given],
    )
    @given(stories)
    def tell(story: Story) -> None:
        for step in story.steps:
            event(step.what)
        judged(story, spools)

    tell()


@pytest.mark.parametrize("part", range(PARTS))
def test_after_any_story_the_history_is_one_that_the_protocol_allows(
    part: int, spools: Path, request: pytest.FixtureRequest
) -> None:
    tell_all(STORIES, max(1, request.config.getoption("stories") // PARTS), spools)


def test_in_peace_what_was_started_is_what_was_run(spools: Path, request: pytest.FixtureRequest) -> None:
    tell_all(PEACEFUL, max(1, request.config.getoption("stories") // 20), spools)


FOUND = [
    # A node died with a dispatched run of a backfill, which then waited for a fire that waited for it.
    Story(
        jobs=["reserving-too", "sharded", "missed", "limited"],
        steps=[
            Step("backfill", pick=5, name="1/s", count=2, then=1.0),
            Step("cut off", seconds=12.0, then=1.0),
            Step("fail before", pick=2, name="plans.remove", count=4, then=2.5),
            Step("kill", pick=4, then=0.3),
            Step("backfill", pick=5, name="1/s", then=1.0),
            Step("kill in", pick=5, name="runs.get", flag=True, then=5.0),
        ],
        look_ahead=2.0,
        seed=137,
    ),
    # A node was stopped while the start of a run that had just ended was being recorded, and never ended.
    Story(
        jobs=["missed", "queue"],
        steps=[
            Step("end maintenance", then=2.5),
            Step("cut off", pick=4, seconds=12.0, count=0, then=0.3),
            Step("server away", name="MongoDB", seconds=2.0, then=5.0),
            Step("end maintenance", then=1.0),
            Step("race", pick=4, name="jobs.due_in_turn", count=0, flag=True, then=5.0),
            Step("stop gracefully", then=2.5),
            Step("stop gracefully", pick=5, then=5.0),
        ],
        nodes=2,
        slots=4,
        ahead=False,
        seed=775,
    ),
    # A node that had started with a clock an hour ahead led after it was set right, with a time that stood still.
    Story(
        jobs=["allow", "forbid"],
        steps=[
            Step("step a clock", seconds=3600.0),
            Step("kill", then=5.0),
            Step("step down", then=5.0),
            *[Step("kill", flag=True, then=5.0)] * 3,
        ],
        nodes=2,
    ),
]


@pytest.mark.parametrize("story", FOUND)
def test_what_a_story_once_broke_holds(story: Story, spools: Path) -> None:
    judged(story, spools)


def test_each_kind_of_step_can_happen(spools: Path) -> None:
    """Those that a story draws are those that there are."""
    whats = [name.removeprefix("do_").replace("_", " ") for name in vars(Teller) if name.startswith("do_")]
    verbs = {"server away": "Redis"} | dict.fromkeys(
        ("fail before", "fail after", "hang before", "hang after", "kill in", "race"), "runs.apply"
    )
    steps = [Step(what, pick=n, name=verbs.get(what, "1/s"), seconds=2.0, then=1.0) for n, what in enumerate(whats)]
    history = judged(Story(jobs=["allow", "past", "queue"], steps=steps), spools)
    assert len(history.faults) > 15
    assert history.backfills
    assert history.cancels
    assert history.acks
    assert history.maintenance

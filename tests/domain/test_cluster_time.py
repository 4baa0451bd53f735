"""No single wrong clock moves the cluster time."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cronflow.domain.cluster_time import ClusterTime
from tests.contracts.builders import T0

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


class Scene:
    """A true time, three clocks that may be off, and one node that samples two of them."""

    def __init__(
        self, local: timedelta = timedelta(0), redis: timedelta = timedelta(0), mongo: timedelta = timedelta(0)
    ):
        self.time = ClusterTime()
        self.elapsed = 0.0
        self.local, self.redis, self.mongo = local, redis, mongo

    @property
    def true(self) -> datetime:
        return T0 + timedelta(seconds=self.elapsed)

    def sample(self) -> None:
        for source, skew in (("Redis", self.redis), ("MongoDB", self.mongo)):
            self.time.observe(source, self.true + skew, self.elapsed, self.elapsed)

    def now(self) -> datetime:
        return self.time.now(self.true + self.local, self.elapsed)

    def complaint(self) -> str | None:
        return self.time.complaint(self.true + self.local, self.elapsed)


@pytest.mark.parametrize("bad", ["local", "redis", "mongo"])
@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_one_bad_clock_of_three_does_not_count(bad: str, skew: timedelta) -> None:
    scene = Scene(**{bad: skew})
    scene.sample()
    assert scene.now() == scene.true


def test_of_two_clocks_the_earlier_counts() -> None:
    scene = Scene(local=HOUR)
    scene.time.observe("MongoDB", scene.true, 0.0, 0.0)
    assert scene.now() == scene.true


def test_a_node_without_samples_uses_its_own_clock() -> None:
    assert Scene(local=HOUR).now() == T0 + HOUR


def test_what_a_node_took_for_the_time_before_its_first_sample_does_not_count() -> None:
    """A node that started with a clock an hour ahead led with a time that stood still, once its clock was set right."""
    scene = Scene(local=HOUR)
    assert scene.now() == scene.true + HOUR
    scene.sample()
    assert scene.now() == scene.true
    scene.local = timedelta(0)
    for _ in range(3):
        scene.elapsed += 1
        assert scene.now() == scene.true


def test_a_sample_is_taken_to_be_read_halfway_between_question_and_answer() -> None:
    time = ClusterTime()
    time.observe("Redis", T0, asked=10.0, answered=12.0)
    assert time.offset_s(T0, 11.0) == {"Redis": 0.0}


def test_it_never_steps_back() -> None:
    scene = Scene()
    scene.sample()
    before = scene.now()
    scene.local = scene.redis = scene.mongo = -HOUR
    scene.sample()
    assert scene.now() == before
    scene.elapsed += 60
    assert scene.now() == before


def test_a_step_forward_is_accepted_only_when_three_samples_of_two_servers_agree() -> None:
    scene = Scene()
    scene.sample()
    scene.now()
    scene.local = scene.redis = scene.mongo = HOUR
    scene.elapsed += 1
    assert scene.now() == scene.true  # the local clock alone has stepped, as far as anybody knows
    scene.sample()
    assert scene.now() == scene.true
    scene.time.observe("Redis", scene.true + HOUR, scene.elapsed, scene.elapsed)
    assert scene.now() == scene.true + HOUR


def test_one_server_however_often_asked_does_not_make_a_step() -> None:
    scene = Scene()
    scene.sample()
    scene.now()
    scene.local = scene.redis = HOUR
    for _ in range(10):
        scene.elapsed += 1
        scene.sample()  # MongoDB goes on to disagree
        assert scene.now() == scene.true


def test_between_samples_the_monotonic_clock_carries_the_time_forward() -> None:
    scene = Scene()
    scene.sample()
    scene.now()
    scene.local = -HOUR
    scene.elapsed += 100
    assert scene.now() == scene.true


def test_a_node_whose_clock_is_off_by_more_than_two_seconds_has_a_complaint() -> None:
    scene = Scene(local=3 * SECOND)
    scene.sample()
    assert scene.complaint() == "this machine's clock is off (MongoDB -3.0 s, Redis -3.0 s)"
    scene.local = 2 * SECOND
    assert scene.complaint() is None


def test_one_server_that_is_off_is_no_reason_not_to_lead() -> None:
    scene = Scene(redis=HOUR)
    scene.sample()
    assert scene.complaint() is None


def test_when_no_two_clocks_agree_no_node_should_lead() -> None:
    scene = Scene(redis=10 * SECOND, mongo=-10 * SECOND)
    scene.sample()
    assert scene.complaint() == "no two clocks agree (MongoDB -10.0 s, Redis +10.0 s)"


def test_samples_that_are_too_old_do_not_count() -> None:
    scene = Scene(local=HOUR)
    scene.sample()
    scene.elapsed += 601
    assert scene.complaint() is None


skews = st.floats(-0.9, 0.9)


@settings(deadline=None)
@given(skews, skews, st.sampled_from(["local", "redis", "mongo"]), st.floats(-1e6, 1e6))
def test_the_time_is_between_the_two_good_clocks_whatever_the_third_shows(
    one: float, two: float, bad: str, wrong: float
) -> None:
    good = [name for name in ("local", "redis", "mongo") if name != bad]
    skew = {good[0]: one, good[1]: two, bad: wrong}
    scene = Scene(**{name: timedelta(seconds=value) for name, value in skew.items()})
    scene.sample()
    off = (scene.now() - scene.true).total_seconds()
    assert min(one, two) - 1e-3 <= off <= max(one, two) + 1e-3

from __future__ import annotations

import pytest

from tests.bench.targets import TARGETS, Figures, Target, best_apscheduler, best_peer

DRAINS = {"drain_arq_1": 2000.0, "drain_saq_1": 2500.0, "drain_saq_2": 4000.0, "drain_dramatiq_default_1": 9000.0}


def target(words: str) -> Target:
    (found,) = (one for one in TARGETS if words in one.what)
    return found


def test_the_best_peer_is_the_fastest_with_one_of_these_numbers_of_processes() -> None:
    assert best_peer(DRAINS, (1,)) == 2500
    assert best_peer(DRAINS, (1, 2, 3)) == 4000
    with pytest.raises(ValueError, match="empty"):
        best_peer({}, (1,))


def test_apscheduler_is_compared_with_its_better_executor_and_the_same_kind_of_job() -> None:
    figures = {
        "herd_apscheduler_threads_cron_2000_p99": 300.0,
        "herd_apscheduler_loop_cron_2000_p99": 200.0,
        "herd_apscheduler_loop_once_2000_p99": 20.0,
    }
    assert best_apscheduler(figures, "cron", 2000) == 200
    assert best_apscheduler(figures, "once", 2000) == 20


@pytest.mark.parametrize(
    ("words", "figures", "measured", "verdict"),
    [
        ("1 node with default", DRAINS | {"drain_default": 2500.0}, 1.0, "met"),
        ("1 node with default", DRAINS | {"drain_default": 2499.0}, 0.9996, "missed"),
        ("relative to the best peer with its best", DRAINS | {"drain_best": 6000.0}, 1.5, "missed"),
        ("bare path", {"drain_best": 6000.0, "bare_path": 10_000.0}, 60.0, "met"),
        ("A lone job: ", {"lone_p99": 20.0}, 20.0, "met"),
        ("A lone job: ", {"lone_p99": 20.1}, 20.1, "missed"),
        ("100,000 jobs due", {"mass_runs": 99_999.0}, 99_999.0, "missed"),
        ("TTL 9 s", {"failover_9_p99": 7.0}, 7.0, "no limit"),
    ],
)
def test_a_target_is_met_or_missed(words: str, figures: Figures, measured: float, verdict: str) -> None:
    assert target(words).measured(figures) == pytest.approx(measured)
    assert target(words).verdict(figures) == verdict


def test_a_target_is_not_measured_when_one_of_its_figures_is_missing() -> None:
    for figures in ({}, {"drain_default": 2500.0}, DRAINS):
        assert target("1 node with default").verdict(figures) == "not measured here"
    assert {one.verdict({}) for one in TARGETS} == {"not measured here"}


def test_every_target_of_the_project_is_listed() -> None:
    assert {one.number for one in TARGETS} == set(range(1, 9))

"""How many runs a node accepts beyond its free slots."""

from __future__ import annotations

from cronflow.worker.throughput import MOST_AHEAD, Throughput


def test_a_node_accepts_what_it_ends_in_a_second() -> None:
    throughput = Throughput(slots=16)
    throughput.ended(0.1)
    assert throughput.ahead(long=0) == 160


def test_a_node_that_has_ended_nothing_accepts_nothing_ahead() -> None:
    assert Throughput(slots=16).ahead(long=0) == 0


def test_slots_with_long_runs_do_not_count() -> None:
    throughput = Throughput(slots=16)
    throughput.ended(0.1)
    assert throughput.ahead(long=12) == 40
    assert throughput.ahead(long=16) == 0


def test_long_runs_make_a_node_accept_less_and_short_ones_more_again() -> None:
    throughput = Throughput(slots=16)
    throughput.ended(0.1)
    throughput.ended(60.0)
    assert throughput.ahead(long=0) < 16
    for _ in range(100):
        throughput.ended(0.1)
    assert 150 <= throughput.ahead(long=0) <= 160


def test_however_short_its_runs_are_a_node_accepts_a_bounded_number() -> None:
    throughput = Throughput(slots=512)
    throughput.ended(0.0)
    assert throughput.ahead(long=0) == MOST_AHEAD

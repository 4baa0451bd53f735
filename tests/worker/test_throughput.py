"""How many runs a node accepts beyond its free slots."""

from __future__ import annotations

from cronflow.worker.throughput import MOST_AHEAD, MOST_EARLY, Throughput


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


def test_one_longer_run_among_short_ones_changes_little() -> None:
    throughput = Throughput(slots=16)
    throughput.ended(0.1)
    throughput.ended(1.0)
    assert throughput.ahead(long=0) > 80


def test_however_short_its_runs_are_a_node_accepts_a_bounded_number() -> None:
    throughput = Throughput(slots=512)
    throughput.ended(0.0)
    assert throughput.ahead(long=0) == MOST_AHEAD
    assert throughput.early(long=0) == MOST_EARLY


def test_a_node_accepts_early_what_it_ends_in_two_seconds() -> None:
    throughput = Throughput(slots=16)
    # As if its runs were short, until it knows.
    assert throughput.early(long=0) == MOST_EARLY
    throughput.ended(0.1)
    assert (throughput.early(long=0), throughput.early(long=12)) == (320, 80)


def short_runs(throughput: Throughput, count: int) -> int:
    """So many short runs end. Returns what the node accepts then."""
    for _ in range(count):
        throughput.ended(0.001)
    return throughput.ahead(long=0)


def test_items_that_lay_too_long_halve_the_bound_once_for_what_was_accepted_before() -> None:
    throughput = Throughput(slots=16)
    assert short_runs(throughput, 1) == MOST_AHEAD
    throughput.dropped(16)
    assert throughput.ahead(long=0) == MOST_AHEAD // 2
    # The others of the same list: some are started, most are too old.
    assert short_runs(throughput, 100) == MOST_AHEAD // 2
    throughput.dropped(MOST_AHEAD - 101)
    assert throughput.ahead(long=0) == MOST_AHEAD // 2
    throughput.dropped(1)
    assert throughput.ahead(long=0) == MOST_AHEAD // 4


def test_the_bound_grows_again_while_no_item_lies_too_long() -> None:
    throughput = Throughput(slots=16)
    short_runs(throughput, 1)
    throughput.dropped(1)
    # What was accepted before, and as many as are accepted now.
    assert short_runs(throughput, MOST_AHEAD + MOST_AHEAD // 2 - 1) == MOST_AHEAD // 2
    assert short_runs(throughput, 1) == MOST_AHEAD * 5 // 8
    assert short_runs(throughput, 10 * MOST_AHEAD) == MOST_AHEAD


def test_a_node_that_is_far_too_slow_accepts_little_and_recovers() -> None:
    throughput = Throughput(slots=16)
    short_runs(throughput, 1)
    for _ in range(50):
        throughput.dropped(MOST_AHEAD)
    assert throughput.ahead(long=0) == 1
    assert short_runs(throughput, 20 * MOST_AHEAD) == MOST_AHEAD

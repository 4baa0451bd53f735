"""The graph of jobs that follow others, compared with a slow but obvious one."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from cronflow.domain.chain import Join, On, Upstream
from cronflow.domain.job_graph import Edge, JobGraph


def a_graph(*edges: str) -> JobGraph:
    """Edges such as `a>b`: b follows a."""
    after: dict[str, list[Upstream]] = {}
    for edge in edges:
        upstream, _, job = edge.partition(">")
        after.setdefault(job, []).append(Upstream(upstream))
    return JobGraph(after)


def test_edges_and_jobs_are_sorted_and_jobs_without_edges_left_out() -> None:
    after = {"c": [Upstream("b"), Upstream("a", On.FAILED)], "b": [Upstream("a")], "alone": []}
    graph = JobGraph(after, {"c": Join.ANY})
    assert graph.edges == [
        Edge("a", "b", On.SUCCEEDED, Join.ALL),
        Edge("a", "c", On.FAILED, Join.ANY),
        Edge("b", "c", On.SUCCEEDED, Join.ANY),
    ]
    assert graph.jobs == ["a", "b", "c"]
    assert [*graph.followers("a")] == ["b", "c"]
    assert [*graph.followers("absent")] == []


def test_the_part_around_a_job_has_no_edges_of_others() -> None:
    graph = a_graph("a>b", "b>c", "a>d", "x>c", "y>z")
    assert graph.around("b").edges == a_graph("a>b", "b>c").edges
    assert graph.around("d").jobs == ["a", "d"]
    assert graph.around("alone").jobs == []


@pytest.mark.parametrize("seed", range(40))
def test_what_is_reached_and_cycles_are_those_of_the_transitive_closure(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"j{n}" for n in range(chance.randint(2, 9))]
    edges = {(chance.choice(names), chance.choice(names)) for _ in range(chance.randint(1, 14))}
    edges = {(one, two) for one, two in edges if one != two}
    reached = set(edges)
    for _ in names:
        reached |= {(a, d) for a, b in reached for c, d in edges if b == c}
    graph = a_graph(*(f"{one}>{two}" for one, two in edges))
    for name in names:
        assert graph.downstream(name) == {two for one, two in reached if one == name}
        assert graph.upstream(name) == {one for one, two in reached if two == name}
    cycle = graph.cycle()
    assert (cycle is not None) == any(one == two for one, two in reached)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert all(pair in edges for pair in pairwise(cycle))

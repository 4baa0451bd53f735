"""The simulation of large clusters, with small loads: each limit is found where it was put."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from cronflow.testing.virtual_time import Deadlock, VirtualClock, run_on_virtual_time
from tests.bench import scaling
from tests.bench.processor import Processor
from tests.bench.report import BEGIN, END
from tests.bench.scaling import sizing
from tests.bench.simulated_cluster import Costs, Hardware, Simulation, simulate
from tests.bench.soak_load import Load

CHEAP = Costs(leader=0.02, node=0.02, mongod=0.02, redis=0.02)
SMALL = Hardware(nodes=4, slots=50, mongod_cores=1, round_trip_ms=0.1, commit_ms=1)


def drain(hardware: Hardware = SMALL, costs: Costs = CHEAP, runs: int = 2000, handler_s: float = 0.001) -> Simulation:
    return simulate(hardware, costs, Load("drain", runs, 1, 1, once=True), handler_s)


def test_time_passes_without_waiting() -> None:
    async def main() -> tuple[float, bool, bool]:
        clock, event = VirtualClock(), asyncio.Event()
        timed_out = await clock.wait(event, 10_000)
        asyncio.get_running_loop().call_later(5, event.set)
        was_set = await clock.wait(event, 10_000)
        return clock.monotonic(), timed_out, was_set

    assert run_on_virtual_time(main()) == (10_005, False, True)


def test_nothing_waits_for_ever() -> None:
    with pytest.raises(Deadlock):
        run_on_virtual_time(asyncio.Event().wait())


@pytest.mark.parametrize(("cores", "ends"), [(1, [2, 4, 6, 8]), (2, [2, 2, 4, 4]), (4, [2, 2, 2, 2])])
def test_cores_work_in_the_order_of_the_requests(cores: int, ends: list[float]) -> None:
    async def main() -> tuple[list[float], float]:
        processor, loop = Processor(cores), asyncio.get_running_loop()

        async def request() -> float:
            await processor.work(2)
            return loop.time()

        found = await asyncio.gather(*(request() for _ in range(4)))
        await asyncio.sleep(8 - loop.time())
        return found, processor.utilisation

    assert run_on_virtual_time(main()) == (ends, 1 / cores)


def test_every_instant_has_one_start_which_is_never_early() -> None:
    load = Load("steady", jobs=300, step_s=3, seconds=5, spread_s=3)
    found = simulate(SMALL, CHEAP, load, 0.01)
    assert (found.due, len(found.measured.starts), len(found.measured.ends)) == (500, 500, 500)
    # The load begins after one second, and every run starts in the second in which it is due.
    assert Counter(int(at) for at in found.measured.starts) == dict.fromkeys(range(1, 6), 100)
    assert 0 < min(found.measured.late) <= found.measured.percentile(0.5) < 0.1


def test_the_same_simulation_has_the_same_result() -> None:
    assert drain().measured == drain().measured


@pytest.mark.parametrize(
    ("part", "costs", "limit"),
    [
        ("leader", replace(CHEAP, leader=1.0), 1000),
        ("nodes", replace(CHEAP, node=10.0), 400),
        ("MongoDB", replace(CHEAP, mongod=1.0), 1000),
        ("Redis", replace(CHEAP, redis=1.0), 1000),
    ],
)
def test_the_slowest_part_limits_the_rate(part: str, costs: Costs, limit: float) -> None:
    found = drain(costs=costs, runs=1500)
    # The leader is a node too.
    assert found.bottleneck in (part, "leader" if part == "nodes" else part)
    assert found.busy[part] > 0.7
    assert 0.6 * limit < found.measured.rate() <= 1.1 * limit


def test_more_leaders_raise_the_limit_of_the_leader() -> None:
    slow = replace(CHEAP, leader=1.0)
    one, two = drain(costs=slow), drain(replace(SMALL, leaders=2), slow)
    assert 1.7 < two.measured.rate() / one.measured.rate() < 2.3


def test_a_redis_for_each_leader_raises_the_limit_of_redis() -> None:
    slow, two = replace(CHEAP, redis=1.0), replace(SMALL, leaders=2)
    shared, own = drain(two, slow), drain(replace(two, own_redis=True), slow)
    assert 1.7 < own.measured.rate() / shared.measured.rate() < 2.3


def test_the_slots_limit_long_handlers() -> None:
    found = drain(replace(SMALL, nodes=2, slots=5), runs=60, handler_s=1.0)
    assert 7 < found.measured.rate() < 13


def test_round_trips_delay_each_round() -> None:
    near, far = drain(runs=200), drain(replace(SMALL, round_trip_ms=50), runs=200)
    # A read of jobs and of members, an intent, a move, a push and a take.
    delay = min(far.measured.late) - min(near.measured.late)
    assert 0.25 < delay < 0.35


def test_a_size_keeps_every_part_below_its_limit() -> None:
    costs = Costs(leader=0.1, node=0.3, mongod=0.2, redis=0.03)
    found = sizing(12_000, costs)
    assert (found.leaders, found.nodes, found.nodes_for_seconds, found.mongod_cores) == (2, 6, 200, 4)
    assert found.redis_percent == pytest.approx(36)
    assert found.gb_a_day == pytest.approx(12_000 * 86_400 * scaling.BYTES_A_RUN / 1e9)
    assert sizing(12_000, replace(costs, leader=0.2)).nodes == 12, "three for each of four leaders"
    small = sizing(1, costs)
    assert (small.leaders, small.nodes, small.nodes_for_seconds, small.mongod_cores) == (1, 3, 3, 2)


def test_tables_and_picture_show_what_was_simulated() -> None:
    found = drain(runs=300)
    (head, row) = scaling.sizing_table([sizing(100)], [found])
    assert len(head) == len(row)
    assert row[0] == "100"
    assert row[-1].endswith(f"{1000 * found.measured.percentile(0.99):,.0f} ms")
    (head, row) = scaling.limits_table([("a small one", found)])
    assert len(head) == len(row)
    assert row[1] == f"{scaling.rounded(found.measured.rate()):,}"
    assert "a small one" in scaling.picture([("a small one", found)])
    assert [scaling.rounded(rate) for rate in (6884, 14.6, 143_000)] == [6900, 15, 140_000]


def test_the_page_has_the_costs_that_the_simulation_uses() -> None:
    page = scaling.PAGE.read_text("utf-8")
    generated = page.partition(BEGIN)[2].partition(END)[0]
    for line in scaling.headings():
        assert line in generated, "run: make scaling"
    for rate in scaling.RATES:
        assert f"\n| {rate:,} | {sizing(rate).leaders} | {sizing(rate).nodes:,} |" in generated, "run: make scaling"
    for label, _ in scaling.SETUPS:
        assert f"\n| {label} | " in generated, "run: make scaling"
        assert f">{label}<" in scaling.PICTURE.read_text("utf-8"), "run: make scaling"

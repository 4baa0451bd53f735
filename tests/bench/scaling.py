"""`make scaling`: simulates clusters of many nodes, and writes the figures and the picture of docs/scaling.md.

The costs of a run are those that `python -m tests.bench.costs` measured; after measuring again, change COSTS. The
simulation draws its random numbers from a fixed seed, so the page changes only with the code or the costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tests.bench import plot
from tests.bench.plot import Bar, Chart
from tests.bench.report import Row, markdown, replaced
from tests.bench.simulated_cluster import Costs, Hardware, Simulation, simulate
from tests.bench.soak_load import Load
from tests.bench.words import say
from tests.children import ROOT

PAGE = ROOT / "docs" / "scaling.md"
PICTURE = ROOT / "docs" / "images" / "scaling.svg"
COSTS = Costs(leader=0.093, node=0.14, mongod=0.14, redis=0.025)
BYTES_A_RUN = 373
"""Data and indexes of a run without a result and log lines, as MongoDB stores them: 241,000 runs of the soak `hour`."""
LOAD_LIMIT = 0.6
"""How busy a part may be on average, so that a herd or a failover does not overload it."""
RATES = (10, 100, 500, 1000, 2000, 5000, 10_000, 20_000)
LEAST_NODES = 3
"""For each leader, so that others can take over."""
SLOTS = 100
STEADY_S = 2
STEP_S = 5
HANDLER_S = 0.3
NO_OP_S = 0.001
DRAINED = 8000
"""For each leader."""

SETUPS = (
    ("1 leader, 3 nodes", Hardware(nodes=3)),
    ("1 leader, 10 nodes", Hardware(nodes=10)),
    ("1 leader, 100 nodes", Hardware()),
    ("1 leader, round trip 2 ms", Hardware(round_trip_ms=2)),
    ("1 leader, round trip 10 ms", Hardware(round_trip_ms=10)),
    ("1 leader, round trip 50 ms", Hardware(round_trip_ms=50)),
    ("2 leaders", Hardware(leaders=2)),
    ("4 leaders", Hardware(leaders=4)),
    ("4 leaders, MongoDB with 2 cores", Hardware(leaders=4, mongod_cores=2)),
    ("8 leaders", Hardware(leaders=8)),
    ("8 leaders, a Redis for each", Hardware(leaders=8, own_redis=True)),
)
"""100 nodes, a round trip of 0.5 ms and MongoDB with 8 cores, unless the label says otherwise."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a rate of runs needs. Nodes are counted by their CPU, and by slots for handlers of a second."""

    rate: int
    leaders: int
    nodes: int
    nodes_for_seconds: int
    mongod_cores: int
    redis_percent: float
    gb_a_day: float

    @property
    def hardware(self) -> Hardware:
        return Hardware(
            nodes=self.nodes_for_seconds,
            leaders=self.leaders,
            mongod_cores=self.mongod_cores,
            own_redis=True,
        )


def sizing(rate: int, costs: Costs = COSTS) -> Sizing:
    """No part is busier than LOAD_LIMIT on average."""

    def cores(ms: float) -> int:
        return max(1, ceil(round(rate * ms / 1000 / LOAD_LIMIT, 6)))

    leaders = cores(costs.leader)
    return Sizing(
        rate=rate,
        leaders=leaders,
        nodes=max(LEAST_NODES * leaders, cores(costs.node)),
        nodes_for_seconds=max(LEAST_NODES * leaders, ceil(round(rate / (SLOTS * LOAD_LIMIT), 6))),
        mongod_cores=max(2, cores(costs.mongod)),
        redis_percent=rate * costs.redis / 10,
        gb_a_day=rate * 86_400 * BYTES_A_RUN / 1e9,
    )


def drained(hardware: Hardware, costs: Costs = COSTS) -> Simulation:
    """No-op jobs that are all due at one instant, which shows the highest rate."""
    return simulate(hardware, costs, Load("drain", DRAINED * hardware.leaders, 1, 1, once=True), NO_OP_S)


def steady(size: Sizing, costs: Costs = COSTS) -> Simulation:
    """So many jobs are due at every whole second."""
    load = Load("steady", size.rate * STEP_S, STEP_S, STEADY_S, spread_s=STEP_S)
    return simulate(size.hardware, costs, load, HANDLER_S)


def sizing_table(sizes: Sequence[Sizing], found: Sequence[Simulation]) -> list[Row]:
    head = [
        "runs per second",
        "leaders (namespaces)",
        "nodes, by CPU",
        f"nodes of {SLOTS} slots, handlers of 1 s",
        "MongoDB, cores",
        "Redis, % of a core",
        "disk per day",
        "lateness p50 / p99",
    ]
    return [
        head,
        *(
            [
                f"{size.rate:,}",
                f"{size.leaders}",
                f"{size.nodes:,}",
                f"{size.nodes_for_seconds:,}",
                f"{size.mongod_cores}",
                f"{size.redis_percent:.0f}" if size.redis_percent >= 1 else "< 1",
                f"{size.gb_a_day:,.0f} GB" if size.gb_a_day >= 10 else f"{size.gb_a_day:.1f} GB",
                f"{1000 * one.measured.percentile(0.5):,.0f} / {1000 * one.measured.percentile(0.99):,.0f} ms",
            ]
            for size, one in zip(sizes, found, strict=True)
        ),
    ]


def limits_table(found: Sequence[tuple[str, Simulation]]) -> list[Row]:
    head = ["cluster", "runs per second", "busiest part", "leader", "nodes", "MongoDB", "Redis"]
    rows: list[Row] = [head]
    for label, one in found:
        parts = [f"{100 * one.busy[part]:.0f} %" for part in ("leader", "nodes", "MongoDB", "Redis")]
        rows.append([label, f"{rounded(one.measured.rate()):,}", one.bottleneck, *parts])
    return rows


def rounded(rate: float) -> int:
    """Two digits, because the costs are not known better."""
    return int(float(f"{rate:.1e}"))


def headings(costs: Costs = COSTS) -> list[str]:
    parts = f"leader {costs.leader:g} ms, node {costs.node:g} ms, MongoDB {costs.mongod:g} ms, Redis {costs.redis:g} ms"
    return [
        f"CPU time of a run: {parts}, measured with no-op jobs on three nodes",
        f"{BYTES_A_RUN} bytes of data and indexes for a run without a result and log lines",
        "estimates: a write waits 5 ms for the journal and a majority; MongoDB uses all its cores alike",
    ]


def picture(limits: Sequence[tuple[str, Simulation]], costs: Costs = COSTS) -> str:
    alone = [
        Bar("one node", 1000 / costs.node),
        Bar("MongoDB, one core", 1000 / costs.mongod),
        Bar("the leader's event loop", 1000 / costs.leader, plot.OWN),
        Bar("Redis", 1000 / costs.redis),
        Bar("MongoDB, 8 cores", 8000 / costs.mongod),
    ]
    bars = [Bar(label, rounded(one.measured.rate()), plot.OWN) for label, one in limits]
    charts = [
        Chart(
            "Runs per second that each part alone could do", [Bar(b.label, rounded(b.value), b.color) for b in alone]
        ),
        Chart("Runs per second of simulated clusters, all jobs due at one instant", bars),
    ]
    return plot.svg(charts, "Runs per second at which the parts of a cluster reach their limit")


def main() -> None:
    sizes = [sizing(rate) for rate in RATES]
    found = []
    for size in sizes:
        found.append(steady(size))
        say(
            f"{size.rate:,} runs/s, {size.leaders} leaders", f"p99 {1000 * found[-1].measured.percentile(0.99):,.0f} ms"
        )
    limits = []
    for label, hardware in SETUPS:
        limits.append((label, drained(hardware)))
        say(label, f"{limits[-1][1].measured.rate():,.0f} runs/s, {limits[-1][1].bottleneck}")
    tables = [
        ("Sizes", sizing_table(sizes, found)),
        ("Where the limits lie", limits_table(limits)),
    ]
    PAGE.write_text(replaced(PAGE.read_text("utf-8"), markdown(headings(), tables)), "utf-8")
    PICTURE.write_text(picture(limits), "utf-8")


if __name__ == "__main__":
    main()

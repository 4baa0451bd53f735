"""The targets of the project's speed, as data: what each demands of the figures, and whether they meet it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["once", "cron"]
PEERS = ("arq", "saq", "dramatiq", "taskiq", "celery")
DEFAULT_PREFETCH = "dramatiq_default"
"""dramatiq with its default prefetch, which is slower; no target is compared with it."""
PROCESSES = (1, 2, 3)
EXECUTORS = ("threads", "loop")
HERDS: tuple[tuple[Kind, int], ...] = (("once", 2000), ("cron", 2000), ("once", 10_000), ("cron", 10_000))
TRIGGERS = {"once": "date", "cron": "cron"}
"""Kind of job of CronFlow -> trigger of APScheduler that schedules the same."""

Figures = Mapping[str, float]
Verdict = Literal["met", "missed", "not measured here", "no limit"]


@dataclass(frozen=True, slots=True)
class Target:
    """`value` computes what is compared with `limit`; KeyError or ValueError if a figure is missing."""

    number: int
    what: str
    value: Callable[[Figures], float]
    unit: str
    limit: float | None = None
    at_most: bool = False

    def measured(self, figures: Figures) -> float | None:
        try:
            return self.value(figures)
        except (KeyError, ValueError, ZeroDivisionError):
            return None

    def verdict(self, figures: Figures) -> Verdict:
        value = self.measured(figures)
        if value is None:
            return "not measured here"
        if self.limit is None:
            return "no limit"
        return "met" if (value <= self.limit if self.at_most else value >= self.limit) else "missed"


def peer(name: str, processes: int) -> str:
    """The name of the figure."""
    return f"drain_{name}_{processes}"


def apscheduler(executor: str, kind: str, size: int) -> str:
    return f"herd_apscheduler_{executor}_{kind}_{size}_p99"


def best_peer(figures: Figures, processes: tuple[int, ...]) -> float:
    """The most executions per second of any peer. ValueError if none was measured."""
    names = [peer(name, count) for name in PEERS for count in processes]
    return max(figures[name] for name in names if name in figures)


def best_apscheduler(figures: Figures, kind: str, size: int) -> float:
    """The p99 lateness with the better executor."""
    names = [apscheduler(executor, kind, size) for executor in EXECUTORS]
    return min(figures[name] for name in names if name in figures)


def _figure(name: str) -> Callable[[Figures], float]:
    return lambda figures: figures[name]


def _herd(kind: str, size: int) -> Target:
    jobs = "that fire once" if kind == "once" else "with a cron schedule"
    return Target(
        2,
        f"{size:,} jobs {jobs}, due at one instant: p99 lateness, relative to APScheduler in memory",
        lambda figures: figures[f"herd_best_{kind}_{size}_p99"] / best_apscheduler(figures, kind, size),
        "x",
        0.5,
        at_most=True,
    )


TARGETS = (
    Target(
        1,
        "Drain, 1 node with default settings, relative to the best peer with one process",
        lambda figures: figures["drain_default"] / best_peer(figures, (1,)),
        "x",
        1.0,
    ),
    Target(
        1,
        "Drain, best setup, relative to the best peer with one process",
        lambda figures: figures["drain_best"] / best_peer(figures, (1,)),
        "x",
        3.0,
    ),
    Target(
        1,
        "Drain, best setup, relative to the best peer with its best number of processes",
        lambda figures: figures["drain_best"] / best_peer(figures, PROCESSES),
        "x",
        2.0,
    ),
    Target(
        1,
        "Drain, best setup, relative to the bare path",
        lambda figures: 100 * figures["drain_best"] / figures["bare_path"],
        "%",
        60.0,
    ),
    *(_herd(kind, size) for kind, size in HERDS),
    Target(2, "100,000 jobs due at one instant: runs recorded", _figure("mass_runs"), "runs", 100_000),
    Target(
        2,
        "100,000 jobs: memory of the nodes, relative to 10,000",
        lambda figures: figures["mass_memory"] / figures["herd_best_once_10000_memory"],
        "x",
        2.0,
        at_most=True,
    ),
    Target(
        2,
        "100,000 jobs: time for the second half, relative to the first",
        _figure("mass_second_half"),
        "x",
        1.25,
        at_most=True,
    ),
    Target(3, "A lone job: p99 lateness", _figure("lone_p99"), "ms", 20.0, at_most=True),
    Target(3, "A lone job with look-ahead: p99 lateness", _figure("lone_look_ahead_p99"), "ms", 5.0, at_most=True),
    Target(
        4,
        "1,000,000 jobs, none due: CPU of the leader above that of an empty cluster",
        _figure("idle_cpu"),
        "% of a core",
        1.0,
        at_most=True,
    ),
    Target(4, "Apply jobs from a file", _figure("apply_file"), "jobs/s", 5000),
    Target(4, "Apply jobs over REST", _figure("apply_rest"), "jobs/s", 2000),
    Target(5, "Writes per run at full batches", _figure("writes_per_run"), "", 3.0, at_most=True),
    Target(5, "Round trips per run at full batches", _figure("round_trips_per_run"), "", 0.1, at_most=True),
    Target(5, "CPU of all nodes per run, best setup", _figure("drain_best_cpu"), "ms", 0.25, at_most=True),
    Target(6, "Lists of the API with 1,000,000 runs: p99", _figure("lists_p99"), "ms", 50.0, at_most=True),
    Target(6, "Traffic of the busiest view, a minute", _figure("traffic_minute"), "MiB", 0.3, at_most=True),
    Target(6, "First load of 10,000 jobs", _figure("traffic_first_load"), "KiB", 300.0, at_most=True),
    Target(7, "Failover after a kill, TTL 30 s: p99 without a leader", _figure("failover_30_p99"), "s"),
    Target(7, "Failover after a kill, TTL 9 s: p99 without a leader", _figure("failover_9_p99"), "s"),
    Target(7, "Failover after a kill, TTL 3 s: p99 without a leader", _figure("failover_3_p99"), "s"),
    Target(7, "Graceful failover: p99 without a leader", _figure("failover_graceful_p99"), "s", 0.2, at_most=True),
    Target(
        8, "1,000 jobs every 5 s for an hour: runs missing or doubled", _figure("soak_hour"), "runs", 0, at_most=True
    ),
    Target(8, "60,000 jobs due at one instant: all started within", _figure("soak_instant"), "s", 60.0, at_most=True),
    Target(8, "1,000,000 jobs at 500 fires/s: p99 lateness", _figure("soak_million_p99"), "s", 1.0, at_most=True),
)

"""`make soak FOR=8h`: a cluster under random faults for hours, which must keep every promise and stay as it was.

    make soak                       two hours
    make soak FOR=10m ARGS="--round 2m"

It runs `cronflow chaos --random` in rounds. At the end of each, when the cluster has recovered, it judges the history
and counts the memory, open files, threads and tasks of each process. One node is never killed, so that its numbers have
the whole time to grow; the last third of them must not be above the second third by more than a tenth and what a
process needs for its moment. The exit status is 1 unless every promise was kept and nothing grew.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import secrets
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from random import Random
from statistics import median

import psutil
from rich.console import Console

from cronflow.bootstrap.parts import VERSION
from cronflow.chaos.cluster import ChaosCluster, chaos_cluster, limits_for
from cronflow.chaos.experiment import ChosenFault, Experiment
from cronflow.chaos.faults import FAULTS
from cronflow.chaos.result import ChaosResult, judge, together
from cronflow.cli.views.chaos import view
from cronflow.domain.durations import parse_duration
from tests.bench.words import say

NODES = 3
SPARED = "node-1"
TASKS = re.compile(rb"^cronflow_loop_tasks(?:\{[^}]*\})? ([0-9.]+)$", re.MULTILINE)
SLACK = {"memory": 8.0, "files": 8.0, "threads": 2.0, "tasks": 20.0}
"""What a process may have more than a tenth, for what it does at the moment: MiB, or a number."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a process uses: MiB of memory, open files, threads, and tasks of its event loop (0 for a server)."""

    memory: float
    files: float
    threads: float
    tasks: float

    def __str__(self) -> str:
        tasks = f" {self.tasks:.0f} tasks" if self.tasks else ""
        return f"{self.memory:.0f} MiB {self.files:.0f} files {self.threads:.0f} threads{tasks}"


async def uses(cluster: ChaosCluster) -> dict[str, Use]:
    """Of every process of the cluster, by name."""
    servers = {"redis": cluster.redis.pid} | {
        f"mongo-{number}": member.pid for number, member in enumerate(cluster.mongo.members, 1)
    }
    found = {name: _use(pid) for name, pid in servers.items()}
    for name, child in cluster.nodes.items():
        if child.pid is not None:
            found[name] = _use(child.pid, await asyncio.to_thread(_tasks, cluster.metrics_ports[name]))
    found["this process"] = _use(os.getpid(), len(asyncio.all_tasks()))
    return found


def _use(pid: int, tasks: float = 0) -> Use:
    process = psutil.Process(pid)
    with process.oneshot():
        return Use(process.memory_info().rss / 2**20, process.num_fds(), process.num_threads(), tasks)


def _tasks(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        (found,) = TASKS.findall(answer.read())
        return float(found)


def growth(samples: Sequence[Use]) -> list[str]:
    """What has grown from the second third of the samples to the last one; nothing if there are fewer than six."""
    third = len(samples) // 3
    if third < 2:
        return []
    found = []
    for what, slack in SLACK.items():
        before = median(getattr(use, what) for use in samples[third : 2 * third])
        after = median(getattr(use, what) for use in samples[2 * third :])
        if after > 1.1 * before + slack:
            found.append(f"{what} from {before:.0f} to {after:.0f}")
    return found


async def soak(folder: Path, length_s: float, round_s: float, leader_ttl: timedelta, seed: int) -> bool:
    """Returns whether every promise was kept and nothing grew."""
    began = time.monotonic()
    samples: list[dict[str, Use]] = []
    results: list[ChaosResult] = []
    async with chaos_cluster(folder, NODES, limits_for(leader_ttl, timedelta(0))) as cluster:
        experiment = Experiment(
            cluster=cluster,
            chosen=[ChosenFault(kind) for kind in FAULTS.values()],
            rng=Random(seed),
            leader_ttl_s=leader_ttl.total_seconds(),
            say=lambda _: None,
            burst=60,
            spared={SPARED},
        )
        rounds = ceil(length_s / round_s)
        for number in range(1, rounds + 1):
            since = time.monotonic()
            observed = await experiment.round(round_s, asyncio.Event(), name=f"r{number:03}-", last=False)
            result = judge(observed, seed, timedelta(seconds=time.monotonic() - since))
            results.append(result)
            samples.append(await uses(cluster))
            kept = "kept" if result.holds else "BROKEN"
            say(
                f"{datetime.now(UTC):%H:%M} {(time.monotonic() - began) / 60:4.0f} min, round {number} of {rounds}",
                f"{len(result.injected)} faults, {result.fires_due:,} due, lost {len(result.lost)}, "
                f"twice {len(result.twice)}, double starts {len(result.doubles)}; every promise {kept}",
            )
            for name, use in samples[-1].items():
                say(f"  {name}", str(use))
            if not result.holds or time.monotonic() - began > length_s:
                break
    whole = together(results)
    view(Console(), whole)
    flat = True
    for name in samples[-1]:
        if name not in (SPARED, "this process", "redis") and not name.startswith("mongo"):
            # It was started again in between.
            continue
        grown = growth([sample[name] for sample in samples if name in sample])
        # This process keeps the results of all rounds, and a server that was killed begins again with little.
        if name == SPARED:
            flat = not grown
        say(f"{name}: grew", ", ".join(grown) or "nothing")
    return whole.holds and flat


async def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--for", dest="length", metavar="DURATION", default="2h", help="how long, such as 8h")
    parser.add_argument("--round", metavar="DURATION", default="6m", help="for how long faults are injected in a round")
    parser.add_argument("--leader-ttl", metavar="DURATION", default="9s", help="LEADER_TTL of the nodes")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="choose the same faults again")
    parser.add_argument("--data", type=Path, help="keep the servers' data and the logs in this new folder")
    options = parser.parse_args(arguments)
    say(
        f"cronflow {VERSION}, Python {platform.python_version()}",
        f"{os.cpu_count()} CPUs, {datetime.now(UTC):%Y-%m-%d %H:%MZ}, seed {options.seed}",
    )
    length_s, round_s, ttl = (parse_duration(text) for text in (options.length, options.round, options.leader_ttl))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.data or Path(temporary)
        folder.mkdir(exist_ok=True)
        holds = await soak(folder, length_s.total_seconds(), round_s.total_seconds(), ttl, options.seed)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

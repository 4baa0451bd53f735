"""`make bench-peers`: CronFlow and Python peers in one run, and every target beside its figure.

Everything uses the same kind of servers on the same machine, and no-op jobs. `docs/benchmarks.md` describes what is
measured; a full run updates its figures. `--quick` measures less and only prints. `--only` measures some parts and only
prints. `--report` measures nothing and updates the page with the latest figures, also of other benchmarks.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from cronflow.bootstrap.parts import VERSION
from cronflow.testing.audit import percentile
from cronflow.testing.embedded import MongoServer, RedisServer
from tests.bench import bare_path, peer_drains, report, results, targets
from tests.bench.further import FURTHER
from tests.bench.own_loads import Bench, Drained, IncompleteDrain, Setup
from tests.bench.targets import Kind
from tests.bench.words import say, spread
from tests.children import ROOT

COMMAND = "make bench-peers"
measured_by: ContextVar[str] = ContextVar("measured_by", default=COMMAND)
"""The command that measures the present part."""
DEFAULT = Setup()
FULL_BATCHES = Setup(1, 2000)
"""It has a free slot for each run of several batches."""
SEARCHED = (*(Setup(nodes, slots) for nodes in (1, 2, 3) for slots in (64, 512)), FULL_BATCHES)
"""The setups among which the best one is searched."""
MASS = 100_000
PERCENTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
MORE_TASKS = {"dramatiq": 3}
"""Peer -> how many times more tasks, so that its drain takes longer than the difference between starts of processes."""
LOOK_AHEAD = Setup(settings=(("LOOK_AHEAD", "2s"),))
LOAD = "load_before"
"""The figure of the machine's load average before a run."""
FAILED = "failed: "
"""Begins the name of the figure of a measurement that failed."""
PINS = ROOT / "tests" / "bench" / "peers"
LIBRARIES = {*targets.PEERS, "taskiq-redis", "apscheduler"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    bare: int = 20_000
    tasks: int = 10_000
    drain: int = 10_000
    processes: tuple[int, ...] = targets.PROCESSES
    herds: tuple[tuple[Kind, int], ...] = targets.HERDS
    mass: bool = True
    lone_s: int = 60


QUICK = Scale(bare=5000, tasks=3000, drain=3000, processes=(1,), herds=targets.HERDS[:2], mass=False, lone_s=20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="measure less, and do not update the page")
    parser.add_argument(
        "--only", type=parts, default=list(PARTS), help=f"measure these, and do not update the page: {','.join(PARTS)}"
    )
    parser.add_argument(
        "--report", action="store_true", help="measure nothing, and update the page with the latest figures"
    )
    options = parser.parse_args()
    if not options.report:
        measure(options.only, quick=options.quick)
    latest = results.latest()
    figures = {name: figure.value for name, figure in latest.items()}
    tables = report.tables(figures, setups(figures))
    everything = len(options.only) == len(PARTS)
    print("\n" + report.text(tables if everything else tables[:1]))
    if options.quick:
        print("A quick run measures less than the targets say.")
    if options.report or (everything and not options.quick):
        report.write(headings(latest), tables, figures)


def parts(text: str) -> list[str]:
    """The names of parts that are separated by commas. ArgumentTypeError for an unknown one."""
    if unknown := set(names := text.split(",")) - set(PARTS):
        raise argparse.ArgumentTypeError(f"there is no part {min(unknown)!r}")
    return [name for name in PARTS if name in names]


def measure(names: Sequence[str], *, quick: bool) -> None:
    """Each part has servers of its own, so that the data of one does not slow the next."""
    began = time.monotonic()
    if len(names) == len(PARTS):
        results.forget(COMMAND)
    keep(LOAD, os.getloadavg()[0], "")
    for name in names:
        say(f"part {name}", f"begins at {datetime.now(UTC):%H:%M:%S} UTC")
        for command in commands(name):
            results.forget(command)
        measured_by.set(commands(name)[quick])
        with tempfile.TemporaryDirectory() as folder, reported(name):
            if name in FURTHER:
                FURTHER[name].run(folder, quick=quick)
            else:
                asyncio.run(COMPARED[name](Path(folder), QUICK if quick else Scale()))
    say("all", f"{(time.monotonic() - began) / 60:.1f} minutes")


def commands(name: str) -> tuple[str, str]:
    """The commands of a part: in full, and quick."""
    return f'{COMMAND} ARGS="--only {name}"', f'{COMMAND} ARGS="--only {name} --quick"'


async def bare(folder: Path, scale: Scale) -> None:
    with RedisServer(folder) as redis, MongoServer(folder) as mongo:
        for name, indexes in (("bare_path", True), ("bare_path_plain", False)):
            rate = await bare_path.measure(redis, mongo, scale.bare, indexes=indexes, namespace=name)
            keep(name, rate.per_second, "runs/s")
            keep(f"{name}_cpu", rate.cpu_ms["python"], "ms")
            say(name.replace("_", " "), f"{rate.per_second:,.0f} runs/s")


async def peers(folder: Path, scale: Scale) -> None:
    with RedisServer(folder) as redis:
        for peer in targets.PEERS:
            for processes in scale.processes:
                peer_drain(redis, peer, scale.tasks * MORE_TASKS.get(peer, 1), processes)
        peer_drain(redis, "dramatiq", scale.tasks, 1, name=targets.DEFAULT_PREFETCH, dramatiq_queue_prefetch="0")
    for kind, size in scale.herds:
        for executor in targets.EXECUTORS:
            name = f"APScheduler, {executor}, {size:,} {kind}"
            with reported(name):
                late = peer_drains.herd(executor, targets.TRIGGERS[kind], size)
                for percent, fraction in PERCENTILES.items():
                    value = milliseconds(late, fraction)
                    keep(f"herd_apscheduler_{executor}_{kind}_{size}_{percent}", value, "ms")
                say(name, spread(late))


def peer_drain(
    redis: RedisServer, peer: str, tasks: int, processes: int, name: str | None = None, **settings: str
) -> None:
    what = f"{name or peer}, processes: {processes}"
    with reported(what):
        found = peer_drains.drain(redis, peer, tasks, processes, **settings)
        figure = targets.peer(name or peer, processes)
        keep(figure, found.per_second, "executions/s")
        keep(f"{figure}_cpu", found.cpu_ms, "ms")
        say(what, f"{found.per_second:,.0f} executions/s   CPU ms an execution: {found.cpu_ms:.2f}")


async def own(folder: Path, scale: Scale) -> None:
    with RedisServer(folder) as redis, MongoServer(folder) as mongo:
        bench = Bench(redis, mongo, str(folder))
        drains: dict[Setup, Drained] = {}
        for setup in (DEFAULT, *SEARCHED):
            with reported(str(setup)):
                drains[setup] = await bench.drain(setup, scale.drain)
                keep_drain(name_of(setup), drains[setup])
                say_drain(f"drain, {setup}", drains[setup])
        with reported("a lone job"):
            await lone(bench, DEFAULT, scale.lone_s, "lone_p99")
            await lone(bench, LOOK_AHEAD, scale.lone_s, "lone_look_ahead_p99")
        for kind, size in scale.herds:
            with reported(f"{size:,} {kind}, {LOOK_AHEAD}"):
                found = await bench.drain(LOOK_AHEAD, size, kind)
                keep_herd(f"herd_look_ahead_{kind}_{size}", found)
                say_drain(f"{size:,} {kind}, {LOOK_AHEAD}", found)
        if not drains:
            return
        best = max(drains, key=lambda setup: drains[setup].per_second)
        if full := drains.get(FULL_BATCHES):
            keep("writes_per_run", full.writes, "")
            keep("round_trips_per_run", full.round_trips, "")
        for name, setup in (("default", DEFAULT), ("best", best)):
            if setup in drains:
                keep_drain(f"drain_{name}", drains[setup])
            for kind, size in scale.herds:
                with reported(f"{size:,} {kind}, {setup}"):
                    known = drains.get(setup) if (kind, size) == ("once", scale.drain) else None
                    found = known or await bench.drain(setup, size, kind)
                    keep_herd(f"herd_{name}_{kind}_{size}", found)
                    say_drain(f"{size:,} {kind}, {setup}", found)
        if scale.mass:
            with reported(f"{MASS:,}, {best}"):
                try:
                    found = await bench.drain(best, MASS)
                except IncompleteDrain as error:
                    keep("mass_runs", error.succeeded, "runs")
                    raise
                keep_herd("mass", found)
                keep("mass_runs", found.runs, "runs")
                keep("mass_second_half", found.second_half, "x")
                say_drain(f"{MASS:,} once, {best}", found)


async def lone(bench: Bench, setup: Setup, seconds: int, name: str) -> None:
    late = await bench.lone(setup, seconds)
    keep(name, milliseconds(late, 0.99), "ms")
    say(f"a lone job, {len(late)} runs, {setup}", spread(late))


def keep(name: str, value: float, unit: str) -> None:
    results.record(name, value, unit, measured_by.get())


def keep_drain(name: str, found: Drained) -> None:
    keep(name, found.per_second, "runs/s")
    for process, spent in found.cpu_ms.items():
        keep(f"{name}_cpu" if process == "nodes" else f"{name}_cpu_{process}", spent, "ms")


def keep_herd(name: str, found: Drained) -> None:
    for percent, fraction in PERCENTILES.items():
        keep(f"{name}_{percent}", milliseconds(found.late, fraction), "ms")
    keep(f"{name}_memory", found.memory_mib, "MiB")


def say_drain(what: str, found: Drained) -> None:
    cpu = "   ".join(f"{process} {spent:.2f}" for process, spent in found.cpu_ms.items())
    sent = f"writes {found.writes:.2f}   round trips {found.round_trips:.3f}"
    say(what, f"{found.per_second:,.0f} runs/s   CPU ms a run: {cpu}   {sent}   {spread(found.late)}")


def milliseconds(ordered: Sequence[timedelta], fraction: float) -> float:
    return (percentile(ordered, fraction) or timedelta(0)).total_seconds() * 1000


COMPARED = {"bare": bare, "peers": peers, "own": own}
PARTS = (*COMPARED, *FURTHER)


@contextmanager
def reported(what: str) -> Iterator[None]:
    """A measurement that fails leaves its figures out, and the page names it; the others go on."""
    try:
        yield
    except (OSError, RuntimeError, TimeoutError, ValueError, subprocess.SubprocessError) as error:
        keep(FAILED + what, 1, "")
        say(what, f"failed: {error}")


def name_of(setup: Setup) -> str:
    return f"drain_{setup.nodes}x{setup.slots or 'default'}"


def setups(figures: Mapping[str, float]) -> dict[str, str]:
    """The drains of CronFlow by the name of their figure, with their setup."""
    names = {name_of(setup): str(setup) for setup in (DEFAULT, *SEARCHED)}
    best = figures.get("drain_best")
    return {name: f"{label} (best)" if best and figures.get(name) == best else label for name, label in names.items()}


def headings(latest: Mapping[str, results.Figure]) -> list[str]:
    """The date, the machine and the versions. A figure of a busy machine says so."""
    pins = [line for file in sorted(PINS.glob("requirements*.txt")) for line in file.read_text().split()]
    peers = ", ".join(pin.replace("==", " ") for pin in pins if pin.partition("==")[0].lower() in LIBRARIES)
    memory = psutil.virtual_memory().total / 2**30
    failed = [name.removeprefix(FAILED) for name in latest if name.startswith(FAILED)]
    before = latest.get(LOAD)
    day = (before.at if before else datetime.now(UTC).isoformat()).partition("T")[0]
    load = f", load average before the run {before.value:.1f}" if before else ""
    machine = f"{os.cpu_count()} CPUs, {memory:.0f} GiB of memory, {platform.system()}"
    return [
        f"{day}, {machine}, Python {platform.python_version()}{load}",
        f"CronFlow {VERSION}, {peers}",
        *others(latest),
        *(["Failed measurements: " + "; ".join(failed)] if failed else []),
    ]


def others(latest: Mapping[str, results.Figure]) -> list[str]:
    """A line that names the commands which measured less than `make bench-peers` or something else, and their day."""
    full = {COMMAND, *(commands(name)[0] for name in COMPARED)}
    found = {one.command: one.at.partition("T")[0] for one in latest.values() if one.command not in full}
    return ["Other commands: " + ", ".join(f"`{one}` ({day})" for one, day in found.items())] if found else []


if __name__ == "__main__":
    main()

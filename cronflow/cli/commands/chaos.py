"""`cronflow chaos`: break a cluster on purpose, and check that every promise was kept.

There is an option for every fault in `cronflow.chaos.faults`.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from cronflow.chaos.faults import FAULTS, FaultKind
from cronflow.cli.terminal.output import Format, console, diagnostics, write_json
from cronflow.cli.terminal.times import length_of
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from rich.console import Console

    from cronflow.chaos.cluster import Limits
    from cronflow.chaos.experiment import ChosenFault
    from cronflow.chaos.result import ChaosResult

ROUND_S = 900.0
"""A longer experiment has several rounds; each is judged by itself, so that its history fits into memory."""

Selected = Mapping[str, Any]
"""The values of the options for faults, by their parameters."""


def _with_faults(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every fault, in place of its `**selected`."""
    signature = inspect.signature(command, eval_str=True)
    *own, _ = signature.parameters.values()
    options = [_option(kind) for kind in FAULTS.values()]
    command.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in (*own, *options)} | {"return": None}
    return command


def _option(kind: FaultKind) -> inspect.Parameter:
    flag = f"--{kind.name}"
    metavar = f"{kind.lasts:g}s" if kind.timed else None
    option = typer.Option(flag, metavar=metavar, help=kind.help, rich_help_panel="Faults")
    annotation = Annotated[str | None, option] if kind.timed else Annotated[bool, option]
    default = None if kind.timed else False
    name = kind.name.replace("-", "_")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


@_with_faults
def chaos(
    random: Annotated[
        bool, typer.Option("--random", help="Inject faults by chance: of those selected, otherwise of all.")
    ] = False,
    duration: Annotated[
        str, typer.Option("--for", metavar="2m", help="Inject faults for this time; then the cluster recovers.")
    ] = "2m",
    nodes: Annotated[int, typer.Option(help="The number of nodes.", min=2, max=20)] = 3,
    burst: Annotated[int, typer.Option(help="The number of jobs that are due at once.", min=1, max=2000)] = 60,
    leader_ttl: Annotated[
        str, typer.Option(metavar="30s", help="LEADER_TTL of the nodes; their other limits follow in proportion.")
    ] = "30s",
    look_ahead: Annotated[
        str, typer.Option(metavar="0s", help="LOOK_AHEAD of the nodes: how early runs are sent to them.")
    ] = "0s",
    seed: Annotated[
        int | None, typer.Option(help="Choose the same faults again; their effects differ from time to time.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A new folder for data and logs, which is kept. By default a temporary one.")
    ] = None,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="With json, print only the result as one object.")
    ] = Format.TABLE,
    **selected: Any,
) -> None:
    """Break a cluster on purpose, and check that every promise was kept.

    It starts a cluster of its own, with jobs of every kind, and touches no other one. Selected faults take turns;
    with --random, chance decides. Then it judges what happened by the records, by every write to MongoDB, and by what
    the handlers reported to another process. Exit code 0: every promise was kept.
    """
    output.check_live()
    chosen = _chosen(selected)
    if not (chosen or random):
        raise InvalidInput(
            Problem("", "no fault is selected", "add --random, or a fault such as --kill-leader; see --help")
        )
    from cronflow.chaos.cluster import limits_for

    wanted = _Wanted(
        nodes=nodes,
        burst=burst,
        length_s=length_of(duration, "--for").total_seconds(),
        limits=limits_for(length_of(leader_ttl, "--leader-ttl"), length_of(look_ahead, "--look-ahead")),
        chosen=chosen,
        in_turns=not random,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
    )
    folder = _folder(data)
    out = diagnostics() if output is Format.JSON else console()
    result = asyncio.run(_run(wanted, folder, out))
    if output is Format.JSON:
        from cronflow.chaos.result import as_json

        write_json(as_json(result), lines=True)
    else:
        from cronflow.cli.views.chaos import view

        view(out, result)
    if result.holds and data is None:
        shutil.rmtree(folder)
    else:
        out.print(Text(f"  data and logs are in {folder}"), soft_wrap=True)
    if not result.holds:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The options."""

    nodes: int
    burst: int
    length_s: float
    limits: Limits
    chosen: Sequence[ChosenFault]
    in_turns: bool
    seed: int


async def _run(wanted: _Wanted, folder: Path, out: Console) -> ChaosResult:
    from cronflow.chaos.cluster import chaos_cluster
    from cronflow.chaos.experiment import ChosenFault, Experiment
    from cronflow.chaos.result import judge, together

    began = time.monotonic()

    def say(text: str) -> None:
        out.print(Text.assemble((f"{time.monotonic() - began:6.1f} s │ ", "bold"), text), soft_wrap=True)

    stop = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stop.set)
    say(f"starting {wanted.nodes} nodes, Redis and three members of MongoDB; seed {wanted.seed}")
    results: list[ChaosResult] = []
    async with chaos_cluster(folder, wanted.nodes, wanted.limits) as cluster:
        experiment = Experiment(
            cluster=cluster,
            chosen=wanted.chosen or [ChosenFault(kind) for kind in FAULTS.values()],
            rng=Random(wanted.seed),
            leader_ttl_s=wanted.limits["LEADER_TTL"].total_seconds(),
            say=say,
            burst=wanted.burst,
            in_turns=wanted.in_turns,
        )
        rounds = max(1, ceil(wanted.length_s / ROUND_S))
        for number in range(1, rounds + 1):
            since = time.monotonic()
            last = number == rounds or stop.is_set()
            observed = await experiment.round(wanted.length_s / rounds, stop, name=f"r{number}-", last=last)
            say("judging the history")
            took = timedelta(seconds=time.monotonic() - since)
            results.append(judge(observed, wanted.seed, took))
            if last or not results[-1].holds:
                break
    return together(results)


def _chosen(selected: Selected) -> list[ChosenFault]:
    """The selected faults, in the order of the list. Raises InvalidInput."""
    from cronflow.chaos.experiment import ChosenFault

    found = []
    for kind in FAULTS.values():
        value = selected[kind.name.replace("-", "_")]
        if value:
            seconds = length_of(value, f"--{kind.name}").total_seconds() if kind.timed else None
            found.append(ChosenFault(kind, seconds))
    return found


def _folder(data: Path | None) -> Path:
    if data is None:
        return Path(tempfile.mkdtemp(prefix="cronflow-chaos-"))
    try:
        data.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise InvalidInput(Problem("--data", f"{data} exists", "name a new folder")) from None
    return data

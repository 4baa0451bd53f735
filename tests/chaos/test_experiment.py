"""When an experiment chooses what to break."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

from cronflow.chaos.experiment import ChosenFault, Experiment
from cronflow.chaos.faults import FAULTS, FaultTarget


async def test_a_fault_that_waits_for_its_moment_hits_the_leader_of_that_moment() -> None:
    cluster: Any = SimpleNamespace(names=["a", "b"], nodes={name: SimpleNamespace(alive=True) for name in "ab"})
    leads, hit = "a", []

    async def leader() -> str:
        return leads

    async def term() -> int:
        return 1

    cluster.leader, cluster.term = leader, term

    @asynccontextmanager
    async def inflict(target: FaultTarget) -> AsyncIterator[None]:
        hit.append(target.node)
        yield

    def until_the_moment(_: Random) -> float:
        nonlocal leads
        leads = "b"
        return 0.001

    for name in ("kill-before-burst", "kill-in-burst"):
        assert FAULTS[name].waits is not None
        leads = "a"
        fault = ChosenFault(replace(FAULTS[name], waits=until_the_moment, inflict=inflict), 0.0)
        experiment = Experiment(cluster, [fault], Random(1), 3.0, lambda _: None, 1)
        await experiment._one(fault, time.monotonic() + 60, asyncio.Event())
    assert hit == ["b", "b"]

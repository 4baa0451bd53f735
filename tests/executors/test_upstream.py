"""Values of upstream runs: read when the attempt begins, inserted after the secrets, and never resolved themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from cronflow.auth.vault import Vault
from cronflow.domain.chain import ChainLink, Upstream, UpstreamRun
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget, Target
from cronflow.domain.run import AttemptResult, Kind, Outcome, Run, RunState
from cronflow.executors.by_target import Executors
from cronflow.executors.secrets import WithSecrets
from cronflow.executors.upstream import WithUpstreamValues
from cronflow.ports import Assignment, LargeResult, LineSink
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0, a_run
from tests.executors import Lines, assignment

KEY = b"01234567890123456789012345678901"
UPSTREAM = "import@manual-1"


class Recording:
    """An executor that keeps the target of the attempt."""

    def __init__(self) -> None:
        self.targets: list[Target] = []

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        self.targets.append(assignment.job.target)
        return AttemptResult(Outcome.OK)


class Bench:
    """The executors of a node, over stores in memory."""

    def __init__(self) -> None:
        clock = FakeClock(T0)
        vault = Vault([KEY])
        self.backends: MemoryBackends = memory_backends(clock)
        self.service = UseCases(self.backends, clock, vault=vault)
        self.inner = Recording()
        by_target = Executors(dict.fromkeys((PythonTarget, CommandTarget, HttpTarget), self.inner))
        with_values = WithUpstreamValues(by_target, self.backends.runs, self.backends.results)
        self.executors = WithSecrets(with_values, self.backends.secrets, vault)

    async def run(self, target: Target, *, of: tuple[str, ...] = (UPSTREAM,), **args: object) -> AttemptResult:
        made = assignment(target, args=args)
        link = ChainLink(UPSTREAM, 1, tuple(UpstreamRun("import", run, RunState.SUCCEEDED) for run in of))
        made = replace(made, job=replace(made.job, after=(Upstream("import"),)), chain=link)
        return await self.executors.run(made, "a#1", Lines())

    async def upstream(self, result: object, **fields: Any) -> Run:
        base = a_run("import", T0)
        run = replace(base, id=UPSTREAM, kind=Kind.MANUAL, state=RunState.SUCCEEDED, result=result, **fields)
        await self.backends.runs.insert([run])
        return run


@pytest.fixture
def bench() -> Bench:
    return Bench()


def python(**args: object) -> PythonTarget:
    return PythonTarget("jobs:work", args=args)


async def test_arguments_environment_headers_and_body_get_the_values(bench: Bench) -> None:
    await bench.upstream({"rows": 7})
    rows = "${upstream:import.result.rows}"
    for target in (
        python(rows=rows),
        CommandTarget("true", env={"ROWS": rows}),
        HttpTarget("https://example.com", method="POST", headers={"X-Rows": rows}, body=f"{{{rows}}}"),
    ):
        assert (await bench.run(target)).outcome is Outcome.OK
    first, second, third = bench.inner.targets
    assert isinstance(first, PythonTarget)
    assert isinstance(second, CommandTarget)
    assert isinstance(third, HttpTarget)
    assert (first.args, second.env, third.headers["X-Rows"], third.body) == ({"rows": 7}, {"ROWS": "7"}, "7", "{7}")


async def test_a_large_result_is_read_from_its_own_store(bench: Bench) -> None:
    text = orjson.dumps({"rows": ["x" * 20_000]}).decode()
    await bench.upstream(None, result_size=20_000, finish_id="f1")
    await bench.backends.results.keep([LargeResult(id="f1", run=UPSTREAM, text=text)])
    assert (await bench.run(python(first="${upstream:import.result.rows.0}"))).outcome is Outcome.OK
    [target] = bench.inner.targets
    assert isinstance(target, PythonTarget)
    assert target.args == {"first": "x" * 20_000}


async def test_a_missing_part_or_run_fails_the_attempt_for_good(bench: Bench) -> None:
    await bench.upstream({"rows": 7})
    missing = await bench.run(python(a="${upstream:import.result.lines}"))
    assert (missing.outcome, "has no 'lines'" in (missing.error or "")) == (Outcome.PERMANENT, True)
    gone = await bench.run(python(a="${upstream:import.result}"), of=("import@gone",))
    assert (gone.outcome, "follows no run of import" in (gone.error or "")) == (Outcome.PERMANENT, True)
    alone = await bench.run(python(a="${upstream:import.result}"), of=())
    assert alone.outcome is Outcome.PERMANENT
    assert bench.inner.targets == []


async def test_arguments_of_the_run_override_references(bench: Bench) -> None:
    assert (await bench.run(python(rows="${upstream:import.result.rows}"), of=(), rows=3)).outcome is Outcome.OK
    assert len(bench.inner.targets) == 1


async def test_a_secret_that_a_result_names_is_not_revealed(bench: Bench) -> None:
    await bench.service.secrets.set("TOKEN", "s3cr3t")
    await bench.upstream({"a": "${secret:TOKEN}"})
    target = CommandTarget("true", env={"A": "${upstream:import.result.a}", "B": "${secret:TOKEN}"})
    assert (await bench.run(target)).outcome is Outcome.OK
    [found] = bench.inner.targets
    assert isinstance(found, CommandTarget)
    assert found.env == {"A": "${secret:TOKEN}", "B": "s3cr3t"}


async def test_without_references_nothing_is_read_and_without_mongodb_the_attempt_waits(bench: Bench) -> None:
    bench.backends.faults.fail_before("runs.get", 10)
    assert (await bench.run(python(rows=1))).outcome is Outcome.OK
    deferred = await bench.run(python(rows="${upstream:import.result}"))
    assert (deferred.outcome, deferred.delay is not None) == (Outcome.DEFERRED, True)

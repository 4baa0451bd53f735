"""What a handler reads about its part of a split run, by each way of executing it."""

from __future__ import annotations

import os
from dataclasses import replace

from cronflow import App, Context
from cronflow.backends import codec
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget
from cronflow.domain.split import Shard
from cronflow.executors.command import CommandExecutor
from cronflow.executors.http import HttpExecutor
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.ports import Assignment
from tests.executors import Lines, assignment
from tests.executors.pools import opened, target
from tests.executors.web import Server, answer

SHARD = Shard(3, 8)
app = App("split")


def which(ctx: Context) -> list[int] | None:
    return None if ctx.shard is None else [ctx.shard.index, ctx.shard.total]


@app.job(shards=8)
def in_a_thread(ctx: Context) -> list[int] | None:
    return which(ctx)


@app.job(run_on="every_node", process=True)
def in_a_child(ctx: Context) -> list[int] | None:
    return which(ctx)


def both(base: Assignment) -> list[Assignment]:
    return [replace(base, shard=SHARD), base]


def test_the_job_lock_of_a_part_excludes_no_other_part_and_its_item_has_the_shard() -> None:
    part, run = both(assignment(CommandTarget("true")))
    assert (part.job_lock.slot, run.job_lock.slot) == (part.run, "")
    for one in (part, run):
        # `take` puts the deadline in front.
        assert codec.assignment(b"0\x1f" + codec.item(one)).shard == one.shard


async def test_a_python_function_reads_its_shard() -> None:
    async with PythonExecutor(PythonTargets([app])) as executor:
        for function in (in_a_thread, in_a_child):
            (job,) = [job for job in app.jobs if job.name == function.__name__.replace("_", "-")]
            found = [(await executor.run(one, "n1", Lines())).result for one in both(assignment(job.target))]
            assert found == [[3, 8], None]


async def test_a_function_in_a_handler_process_reads_its_shard() -> None:
    async with opened() as pool:
        found = [(await pool.run(one, "n1", Lines())).result for one in both(assignment(target("tells_its_shard")))]
    assert found == [[3, 8], None]


async def test_a_command_has_its_shard_in_its_environment() -> None:
    async with CommandExecutor(True, environ={"PATH": os.environ["PATH"]}) as executor:
        for one, expected in zip(both(assignment(CommandTarget("env | grep SHARD || true"))), (2, 0), strict=True):
            lines = Lines()
            await executor.run(one, "n1", lines)
            assert sorted(lines.of("info")) == ["CRONFLOW_SHARD_INDEX=3", "CRONFLOW_SHARD_TOTAL=8"][:expected]


async def test_a_request_has_its_shard_in_its_headers(server: Server) -> None:
    server.answers["/hook"] = answer(200)
    async with HttpExecutor() as executor:
        for one in both(assignment(HttpTarget(f"{server.url}/hook"))):
            await executor.run(one, "n1", Lines())
    part, run = server.requests
    assert (part.headers["cronflow-shard-index"], part.headers["cronflow-shard-total"]) == ("3", "8")
    assert "cronflow-shard-index" not in run.headers


def test_a_job_of_an_app_has_its_keys() -> None:
    shards, broadcast = app.jobs
    assert (shards.shards, shards.run_on.value) == (8, "one_node")
    assert (broadcast.shards, broadcast.run_on.value) == (None, "every_node")
    assert isinstance(shards.target, PythonTarget)

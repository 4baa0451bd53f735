"""Two replicas of the API on the same servers behave as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.backends import open_backends
from cronflow.domain.run import Outcome, RunState
from cronflow.usecases import UseCases
from tests.api.conftest import Client, client_of
from tests.cli.scene import RUNS, ago, run

NEW = {"name": "report", "run": {"python": "shop.jobs:report"}}


@pytest.fixture
async def replicas(redis_url: str, mongo_url: str, namespace: str) -> AsyncIterator[tuple[Client, Client]]:
    """Two replicas, each with its own connections."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(2):
            backends = await stack.enter_async_context(open_backends(redis_url, mongo_url, namespace))
            clients.append(await stack.enter_async_context(client_of(UseCases(backends, SystemClock()))))
        await backends.runs.insert(RUNS)
        yield clients[0], clients[1]


async def test_one_of_many_concurrent_creations_succeeds(replicas: tuple[Client, Client]) -> None:
    asked = [replicas[n % 2].ask("POST", "/jobs", NEW | {"priority": n}) for n in range(10)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 9
    [winner] = [answer.json() for answer in answers if answer.status_code == 201]
    assert (await replicas[1].get("/jobs/report"))["priority"] == winner["priority"]


async def test_a_version_can_be_replaced_once(replicas: tuple[Client, Client]) -> None:
    one, other = replicas
    await one.post("/jobs", NEW, 201)
    tag = (await other.ask("GET", "/jobs/report")).headers["etag"]
    asked = [
        replicas[n % 2].ask("PUT", "/jobs/report", NEW | {"priority": n}, headers={"If-Match": tag})
        for n in (0, 1, 2, 3, 4, 6)
    ]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5


async def test_a_key_creates_one_run_across_replicas(replicas: tuple[Client, Client]) -> None:
    await replicas[0].post("/jobs", NEW, 201)
    key = {"Idempotency-Key": "deploy-1"}
    asked = [
        replicas[n % 2].ask("POST", "/jobs/report/run", {"args": {"n": n}}, headers=key, who="operator")
        for n in range(10)
    ]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    assert len({answer.content for answer in answers}) == 1


async def test_pagination_continues_on_the_other_replica(replicas: tuple[Client, Client]) -> None:
    seen: list[Any] = []
    params: dict[str, Any] = {"limit": 3}
    for turn in range(20):
        page = await replicas[turn % 2].get("/runs", params=params)
        seen += [one["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert seen == [one.id for one in sorted(RUNS, key=lambda one: (one.fire_at, one.id), reverse=True)]


async def test_every_filter_finds_the_same_runs_on_mongodb_as_in_memory(replicas: tuple[Client, Client]) -> None:
    for params, take in (
        ({"node": "node-a"}, lambda one: one.node == "node-a#5f1c"),
        ({"node": "node-b#77aa"}, lambda one: one.node == "node-b#77aa"),
        ({"node": "node"}, lambda _: False),
        ({"state": ["running", "lost", "skipped"]}, lambda one: one.state.value in ("running", "lost", "skipped")),
        ({"state": ["succeeded", "failed"]}, lambda one: one.state.value in ("succeeded", "failed")),
        (
            {"since": "2026-11-21T11:00:00Z", "until": "2026-11-21T12:00:00Z"},
            lambda one: ago(hours=1) <= one.fire_at < ago(),
        ),
        ({"dead": "true", "job": "nightly-report"}, lambda one: one.is_dead and one.job == "nightly-report"),
    ):
        wanted = [one for one in sorted(RUNS, key=lambda one: (one.fire_at, one.id), reverse=True) if take(one)]
        found = await replicas[0].all("/runs", limit=2, **params)
        assert [one["id"] for one in found] == [one.id for one in wanted], params


async def test_two_replicas_replay_every_dead_letter_once(replicas: tuple[Client, Client]) -> None:
    one, other = replicas
    await one.post("/jobs", NEW, 201)
    backends = one.api.state.service.backends
    dead = [run("report", ago(seconds=n), RunState.FAILED, outcome=Outcome.ERROR) for n in range(20)]
    await backends.runs.insert(dead)
    body = {"filter": {"job": "report"}}
    pages = await asyncio.gather(*(client.post("/runs/retry", body) for client in (one, other, one)))
    assert {item["id"] for page in pages for item in page["items"]} == {f"{one.id}~r1" for one in dead}
    assert len(await other.all("/runs", job="report", state="retrying")) == 20

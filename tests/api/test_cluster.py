"""Nodes, the cluster, schedules and health checks over the API."""

from __future__ import annotations

from collections import Counter
from datetime import time, timedelta

import pytest

from cronflow.domain.capabilities import Capabilities
from cronflow.domain.cluster import Member
from cronflow.domain.job import SWEEP, system_jobs
from cronflow.domain.rollup import Tally
from cronflow.schemas.cluster import capacity_of
from cronflow.usecases.edit import Editor
from tests.api.conftest import Client, client_of
from tests.cli.scene import NOON, Scene
from tests.contracts.builders import a_report


async def test_nodes_are_listed_with_their_load(client: Client) -> None:
    nodes = {node["name"]: node for node in await client.all("/nodes")}
    assert {name: node["state"] for name, node in nodes.items()} == {
        "node-a": "up",
        "node-b": "draining",
        "node-c": "stale",
    }
    assert nodes["node-a"]["roles"] == ["leader", "worker"]
    shown = await client.get("/nodes/node-c", who="viewer")
    assert shown["runs"] == [f"reindex-search@{n}" for n in range(6)]
    await client.get("/nodes/nobody", 404)


async def test_a_node_is_shown_with_what_it_can_run_and_the_deadline_of_its_drain(scene: Scene) -> None:
    able = Capabilities(shell=True, modules=("billing.jobs",), hosts=None)
    report = a_report("node-d", "9f31", lag_s=0.0021, capabilities=able, apps={"billing": "0a1b2c3d4e5f"})
    await scene.backends.membership.report(report, 15)
    async with client_of(scene.service) as client:
        shown = await client.get("/nodes/node-d", who="viewer")
        assert (shown["id"], shown["incarnation"], shown["lag_s"]) == ("node-d#9f31", "9f31", 0.0021)
        assert shown["apps"] == {"billing": "0a1b2c3d4e5f"}
        assert (shown["capabilities"]["modules"], shown["capabilities"]["hosts"]) == (["billing.jobs"], None)
        assert shown["drain_until"] is None
        until = (NOON + timedelta(minutes=10)).isoformat()
        drained = await client.post("/nodes/node-d/drain", {"until": until}, who="operator")
        assert drained["until"] == "2026-11-21T12:10:00Z"
        assert (await client.get("/nodes/node-d"))["drain_until"] == "2026-11-21T12:10:00Z"
        # A further request without a deadline removes it.
        assert (await client.post("/nodes/node-d/drain", who="operator"))["until"] is None


async def test_a_node_is_drained_by_name_and_undrained(client: Client) -> None:
    drained = await client.post("/nodes/node-a/drain", who="operator")
    assert (drained["name"], drained["draining"]) == ("node-a", True)
    assert (await client.get("/nodes/node-a"))["state"] == "draining"
    assert await client.post("/nodes/node-a/undrain") == {"name": "node-a", "draining": False, "up": True}
    assert (await client.get("/nodes/node-a"))["state"] == "up"
    await client.post("/nodes/nobody/drain", status=404)
    missing = await client.post("/nodes/nobody/undrain", status=404)
    assert (missing["kind"], missing["name"]) == ("node", "nobody")


async def test_the_cluster_is_shown_with_its_leader_and_its_load(scene: Scene) -> None:
    async with client_of(scene.service, namespace="blue") as client:
        shown = await client.get("/cluster", who="viewer")
    assert (shown["namespace"], shown["leader"], shown["term"]) == ("blue", "node-a", 1)
    assert shown["queue"]["slots"] == 36
    assert len(shown["nodes"]) == 3


async def test_whoever_has_the_lease_leads_only_once_the_term_is_recorded(scene: Scene) -> None:
    election, control, cluster = scene.backends.election, scene.backends.control, scene.service.cluster
    held = await election.holder()
    assert held is not None
    await election.resign(held[0])
    assert await election.acquire("node-b#2", 30)
    between = await cluster.status()
    assert (between.leader, between.term, between.lease_left_s, between.elected_at) == (None, 1, None, None)
    async with client_of(scene.service) as client:
        shown = await client.get("/cluster", who="viewer")
    assert (shown["leader"], shown["term"], shown["lease_left_s"]) == (None, 1, None)
    await control.begin_term("node-b#2")
    after = await cluster.status()
    assert (after.leader, after.term) == ("node-b", 2)
    assert after.lease_left_s == pytest.approx(30)
    async with client_of(scene.service) as client:
        shown = await client.get("/cluster", who="viewer")
    assert (shown["leader"], shown["term"], shown["lease_left_s"]) == ("node-b", 2, 30)


def test_capacity_never_exceeds_the_slots() -> None:
    quick = Member(a_report("n1#1", slots=4), timedelta(0), queued=0, held=1, ahead=250)
    busy = Member(a_report("n2#1", slots=4), timedelta(0), queued=3, held=4)
    assert (quick.capacity, busy.capacity) == (253, -3)
    assert capacity_of([quick, busy]) == 4


async def test_finished_runs_are_shown_over_time(scene: Scene, client: Client) -> None:
    early, late = Tally(Counter(succeeded=3, failed=1)), Tally(Counter(lost=2), Counter(), Counter({20: 2}))
    await scene.backends.rollups.add({NOON - timedelta(minutes=50): early, NOON - timedelta(minutes=1): late})
    hour = await client.get("/series", who="viewer")
    assert (hour["span"], hour["step_s"], len(hour["at"])) == ("1h", 60, 60)
    assert hour["at"][-1] == "2026-11-21T12:00:00Z"
    columns = {"ended": [4, 2], "succeeded": [3, 0], "failed": [1, 0], "lost": [0, 2]}
    assert {name: [hour[name][9], hour[name][58]] for name in columns} == columns
    assert all(sum(hour[name]) == sum(values) for name, values in columns.items())
    assert 700 < hour["lateness_ms"]["p50"][58] < hour["lateness_ms"]["p99"][58] <= 1024
    assert hour["lateness_ms"]["p50"][9] is hour["duration_ms"]["p95"][58] is None
    day, week = [await client.get("/series", params={"span": span}) for span in ("24h", "7d")]
    assert (len(day["at"]), day["step_s"], day["ended"][-6], day["ended"][-2]) == (144, 600, 4, 2)
    assert (len(week["at"]), week["step_s"], week["ended"][-2:]) == (168, 3600, [6, 0])
    await client.get("/series", 422, params={"span": "1y"})


async def test_the_leader_is_asked_to_step_down(scene: Scene, client: Client) -> None:
    assert await client.post("/cluster/stepdown", status=202, who="operator") == {"asked": "node-a", "term": 1}
    await scene.clock.advance(60)
    assert (await client.post("/cluster/stepdown", status=404))["detail"] == "the cluster has no leader"


async def test_a_sweep_is_a_run_of_the_system_job(scene: Scene, client: Client) -> None:
    refused = await client.post("/cluster/sweep", status=404)
    assert "the cluster has no leader" in refused["detail"]
    for job in system_jobs(time(0), time(3)):
        await Editor(
            scene.backends.jobs,
            scene.backends.versions,
            scene.backends.plans,
            scene.backends.runs,
            scene.backends.queue,
            scene.clock,
        ).define(job)
    asked = await client.post("/cluster/sweep", status=202)
    assert asked["job"] == SWEEP
    assert (await client.get(f"/runs/{asked['id']}"))["state"] == "retrying"
    for method, body in (("PUT", {"run": {"shell": "true"}}), ("PATCH", {"priority": 1}), ("DELETE", None)):
        assert (await client.ask(method, f"/jobs/{SWEEP}", body)).status_code == 422


async def test_a_schedule_preview_matches_cron_explain(client: Client) -> None:
    body = {"schedule": {"cron": "30 2 * * *", "tz": "Europe/Berlin"}, "count": 2, "start": "2026-10-01T00:30:00Z"}
    shown = await client.post("/schedules/preview", body, who="viewer")
    assert (shown["expression"], shown["tz"]) == ("30 2 * * *", "Europe/Berlin")
    assert shown["fires"] == ["2026-10-01T00:30:00Z", "2026-10-02T00:30:00Z"]
    assert any("twice" in note for note in shown["notes"])
    every = await client.post("/schedules/preview", {"schedule": {"every": "1h"}})
    assert (every["expression"], len(every["fires"]), every["fires"][0]) == (None, 10, "2026-11-21T13:00:00Z")
    once = await client.post("/schedules/preview", {"schedule": {"at": "2020-01-01T00:00:00Z"}})
    assert once["fires"] == []


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "schedule"),
        ({"schedule": None}, "schedule"),
        ({"schedule": {"cron": "0 0 31 2 *"}}, "schedule.cron"),
        ({"schedule": {"cron": "* * * * *", "tz": "Mars"}}, "schedule.tz"),
        ({"schedule": {"cron": "* * * * *", "every": "1s"}}, "schedule"),
        ({"schedule": {"every": "1h"}, "count": 101}, "count"),
        ({"schedule": {"every": "1h"}, "count": True}, "count"),
        ({"schedule": {"every": "1h"}, "start": "2026-01-01"}, "start"),
        ({"schedule": {"every": "1h"}, "start": "0001-01-01T00:00:00Z"}, "start"),
        ({"schedule": {"cron": "* * * * *"}, "start": "9999-12-31T23:59:59Z"}, "start"),
    ],
)
async def test_an_invalid_schedule_is_rejected_with_its_field(client: Client, body: object, place: str) -> None:
    refused = await client.post("/schedules/preview", body, 422)
    assert [error["place"] for error in refused["errors"]] == [place]


async def test_the_schedule_load_of_all_jobs_and_the_share_of_one(client: Client) -> None:
    empty = await client.get("/schedules/herd", who="viewer")
    assert (empty["first"], len(empty["hours"]), empty["slot"], empty["more"]) == (
        "2026-11-21T12:00:00Z",
        168,
        None,
        False,
    )
    schedule_load_report = [
        {"name": f"herd-{n}", "schedule": {"cron": "0 2 * * *"}, "run": {"shell": "true"}} for n in range(4)
    ]
    await client.post("/jobs/apply", {"jobs": schedule_load_report})
    full = await client.get("/schedules/herd", params={"job": "herd-0"})
    assert full["jobs"] == empty["jobs"] + 4
    assert full["hours"][14] == empty["hours"][14] + 4, "two o'clock in the night"
    assert (full["slot"]["minute"], full["slot"]["beside"] >= 21) == (0, True)
    moved = {"schedule": {"cron": full["slot"]["cron"]}}
    etag = (await client.ask("GET", "/jobs/herd-0")).headers["etag"]
    assert (await client.ask("PATCH", "/jobs/herd-0", moved, headers={"If-Match": etag})).status_code == 200
    assert (await client.get("/schedules/herd", params={"job": "herd-0"}))["slot"]["quieter"] is None
    new = await client.get("/schedules/herd", params={"cron": "0 2 * * *"})
    assert (new["slot"]["beside"], new["jobs"]) == (full["slot"]["beside"], full["jobs"])


@pytest.mark.parametrize(
    ("asked", "status"),
    [({"job": "nobody"}, 404), ({"cron": "61 * * * *"}, 422), ({"cron": "0 2 * * *", "tz": "Mars"}, 422)],
)
async def test_the_schedule_load_rejects_invalid_schedules(client: Client, asked: dict[str, str], status: int) -> None:
    await client.get("/schedules/herd", status, params=asked)
    await client.get("/schedules/herd", 422, params={"job": "etl", "cron": "0 2 * * *"})


async def test_health_checks_and_the_openapi_document_need_no_login(scene: Scene, client: Client) -> None:
    assert (await client.ask("GET", "/livez", who=None)).json() == {"status": "ok"}
    assert (await client.ask("GET", "/readyz", who=None)).status_code == 200
    assert (await client.ask("GET", "/docs", who=None)).status_code == 200
    assert (await client.ask("GET", "/openapi.json", who=None)).json()["openapi"] == "3.1.0"
    scene.backends.faults.fail_before("control.ping")
    answer = await client.ask("GET", "/readyz", who=None)
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")

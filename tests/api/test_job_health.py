"""Which jobs need attention, through the API."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from cronflow.domain.placement import Waiting
from tests.api.conftest import Client
from tests.cli.scene import NOON, Scene, ago

COUNTED = ("stuck", "overdue", "failing", "paused", "never_ran")


def make_stuck(scene: Scene) -> str:
    """The nightly report waits for a label that no node has."""
    record = scene.backends.documents.jobs["nightly-report"]
    fire = ago(minutes=5)
    nodes = (("eu-1#a", "no label gpu (needs gpu=h100)"),)
    waiting = Waiting(fire=fire, since=fire, reason="no node can run this job", nodes=nodes, more=2)
    scene.backends.documents.jobs["nightly-report"] = replace(record, next_fire=fire, due_at=NOON, waiting=waiting)
    return f"nightly-report@{fire:%Y%m%dT%H%M%SZ}"


async def test_a_stuck_job_has_the_reason_of_each_node(scene: Scene, client: Client) -> None:
    run = make_stuck(scene)
    found = (await client.ask("GET", "/job-health?job=nightly-report&health=stuck")).json()
    assert found["items"] == [
        {
            "job": "nightly-report",
            "health": "stuck",
            "since": (NOON - timedelta(minutes=5)).isoformat().replace("+00:00", "Z"),
            "reason": "no node can run this job",
            "run": run,
            "nodes": [{"node": "eu-1#a", "reason": "no label gpu (needs gpu=h100)"}],
            "more": 2,
        }
    ]


async def test_the_counts_are_those_of_the_filtered_lists(scene: Scene, client: Client) -> None:
    make_stuck(scene)
    counts = (await client.ask("GET", "/job-health")).json()["counts"]
    assert tuple(counts) == COUNTED
    for health in COUNTED:
        page = (await client.ask("GET", f"/jobs?health={health}&limit=500&brief=true")).json()
        assert (len(page["items"]), page["next_cursor"]) == (counts[health], None), health
    assert counts["stuck"] == 1
    assert min(counts["failing"], counts["paused"], counts["never_ran"]) > 0


async def test_a_filtered_list_has_pages_and_other_filters(client: Client) -> None:
    path = "/jobs?health=never_ran&brief=true"
    names = [one["name"] for one in (await client.ask("GET", f"{path}&limit=500")).json()["items"]]
    assert len(names) > 1
    first = (await client.ask("GET", f"{path}&limit=1")).json()
    assert [one["name"] for one in first["items"]] == names[:1]
    rest = (await client.ask("GET", f"{path}&limit=500&cursor={first['next_cursor']}")).json()
    assert [one["name"] for one in rest["items"]] == names[1:]
    found = (await client.ask("GET", f"{path}&q={names[1]}")).json()["items"]
    assert [one["name"] for one in found] == names[1:2]


async def test_an_unknown_condition_is_refused(client: Client) -> None:
    answer = await client.ask("GET", "/jobs?health=sick")
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (422, "health")

"""Chains of jobs through the API."""

from __future__ import annotations

import pytest

from cronflow.domain.access import Principal, Role
from cronflow.domain.run import RunState
from tests.api.conftest import Client
from tests.cli import chained
from tests.cli.chained import FIRST, FOLLOWING
from tests.cli.scene import FAILED, Scene

LEFT, RIGHT, REPORT = FOLLOWING


@pytest.fixture
async def chain(scene: Scene) -> None:
    await chained.fill(scene)


@pytest.mark.usefixtures("chain")
async def test_each_run_has_its_chain_and_the_runs_that_it_follows(client: Client) -> None:
    report = (await client.ask("GET", f"/runs/{REPORT}")).json()
    assert (report["kind"], report["chain"], report["depth"]) == ("after", FIRST, 2)
    assert report["follows"] == [
        {"job": "left", "run": LEFT, "state": "failed"},
        {"job": "right", "run": RIGHT, "state": "succeeded"},
    ]
    first = (await client.ask("GET", f"/runs/{FIRST}")).json()
    assert (first["chain"], first["depth"], first["follows"]) == (FIRST, 0, [])
    other = (await client.ask("GET", f"/runs/{FAILED}")).json()
    assert (other["chain"], other["depth"]) == (FAILED, 0)


@pytest.mark.usefixtures("chain")
async def test_the_runs_of_a_chain_are_listed_in_pages(client: Client) -> None:
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await client.ask("GET", f"/runs?chain={FIRST}&limit=3{cursor and '&cursor=' + cursor}")).json()
        found += [run["id"] for run in page["items"]]
        cursor = page["next_cursor"]
    assert sorted(found) == sorted([FIRST, *FOLLOWING])
    failed = (await client.ask("GET", f"/runs?chain={FIRST}&state=failed")).json()
    assert [run["id"] for run in failed["items"]] == [LEFT]


@pytest.mark.usefixtures("chain")
async def test_the_graph_has_every_edge_or_those_around_a_job(client: Client) -> None:
    whole = (await client.ask("GET", "/job-graph")).json()
    assert whole["jobs"] == ["alarm", "import", "left", "report", "right"]
    assert {"upstream": "import", "job": "alarm", "on": "failed", "join": "all"} in whole["edges"]
    assert len(whole["edges"]) == 5
    part = (await client.ask("GET", "/job-graph?job=left")).json()
    assert [(edge["upstream"], edge["job"]) for edge in part["edges"]] == [("import", "left"), ("left", "report")]
    assert (await client.ask("GET", "/job-graph?job=rebuild-cache")).json() == {"jobs": [], "edges": []}
    assert (await client.ask("GET", "/job-graph?job=absent")).status_code == 404


async def test_a_job_named_graph_is_not_hidden(client: Client) -> None:
    await client.ask("PUT", "/jobs/graph", {"run": {"shell": "true"}})
    assert (await client.ask("GET", "/jobs/graph")).json()["name"] == "graph"


@pytest.mark.usefixtures("chain")
async def test_a_job_shows_what_it_follows_and_its_followers(scene: Scene, client: Client) -> None:
    shown = (await client.ask("GET", "/jobs/import")).json()
    assert (shown["after"], shown["followers"]) == ([], ["alarm", "left", "right"])
    report = (await client.ask("GET", "/jobs/report")).json()
    assert [one["job"] for one in report["after"]] == ["left", "right"]
    assert (report["join"], report["followers"]) == ("all", [])
    items = (await client.ask("GET", "/jobs?q=left")).json()["items"]
    assert [(one["name"], one["followers"]) for one in items] == [("left", ["report"])]
    calls = scene.backends.faults.calls
    before = calls["chains.followers"]
    await client.ask("GET", "/jobs?q=sync-tokens")
    assert calls["chains.followers"] == before


def test_followers_that_a_key_may_not_read_are_left_out() -> None:
    from cronflow.api.routes.jobs import readable

    limited = Principal("ci", Role.VIEWER, jobs=("import", "left"), reads_all=False)
    assert readable(limited, ["left", "right"]) == ["left"]
    assert readable(Principal("ada", Role.VIEWER), ["left", "right"]) == ["left", "right"]


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize(
    ("name", "after", "place", "word"),
    [
        ("import", "report", "after", "jobs follow each other: import -> left -> report -> import"),
        ("new", "imprt", "after[0].job", "there is no job 'imprt' (did you mean import?)"),
        ("new", [{"job": "import", "on": "done"}], "after[0].on", "expected succeeded, failed or ended"),
    ],
)
async def test_a_wrong_graph_is_refused_with_its_place(
    client: Client, name: str, after: object, place: str, word: str
) -> None:
    answer = await client.ask("PUT", f"/jobs/{name}", {"run": {"python": "shop.jobs:work"}, "after": after})
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["place"] == place
    assert word in f"{error['what']} ({error.get('remedy')})"


@pytest.mark.usefixtures("chain")
async def test_a_followed_job_cannot_be_deleted(client: Client) -> None:
    answer = await client.ask("DELETE", "/jobs/left")
    assert answer.status_code == 409
    assert "report follows left" in answer.json()["detail"]
    assert (await client.ask("DELETE", "/jobs/report")).status_code == 200
    assert (await client.ask("DELETE", "/jobs/left")).status_code == 200


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize("followers", [False, True])
async def test_a_replay_is_followed_only_if_asked_for(scene: Scene, client: Client, followers: bool) -> None:
    body = {"followers": True} if followers else {}
    replay = (await client.ask("POST", f"/runs/{LEFT}/retry", body)).json()["id"]
    found = await scene.service.runs.get(replay)
    assert (found.followed, found.chain_id, found.state) == (followers, FIRST, RunState.RETRYING)


@pytest.mark.usefixtures("chain")
async def test_a_bulk_replay_has_followers_if_asked_for(scene: Scene, client: Client) -> None:
    answer = (await client.ask("POST", "/runs/retry", {"filter": {"job": "left"}, "followers": True})).json()
    [item] = answer["items"]
    assert (await scene.service.runs.get(item["id"])).followed

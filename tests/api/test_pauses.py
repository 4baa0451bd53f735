"""Pausing one job or many, and the maintenance mode, through the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Client
from tests.cli.scene import Scene

UNTIL = "2026-11-22T06:00:00Z"


async def test_a_pause_has_its_author_note_and_end(client: Client) -> None:
    asked = {"note": "target is down", "until": UNTIL}
    pause = (await client.ask("POST", "/jobs/nightly-report/pause", asked)).json()["pause"]
    assert pause == {"at": "2026-11-21T12:00:00Z", "by": "the-admin", "note": "target is down", "until": UNTIL}
    brief = (await client.ask("GET", "/jobs?q=nightly-report&brief=true")).json()["items"]
    assert [one["pause"] for one in brief] == [pause]
    [held] = [
        link
        for link in (await client.ask("GET", "/jobs/nightly-report/why?at=2026-11-22T01:00:00Z")).json()["chain"]
        if link["step"] == "held"
    ]
    assert (held["note"], held["until"]) == ("target is down", UNTIL)
    assert (await client.ask("POST", "/jobs/nightly-report/resume")).json()["pause"] is None


async def test_a_pause_that_is_over_is_refused(client: Client) -> None:
    answer = await client.ask("POST", "/jobs/nightly-report/pause", {"until": "2026-11-21T11:00:00Z"})
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (422, "until")


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"name": "*-report"}, ["nightly-report"]),
        ({"label": ["team=billing"]}, ["send-invoices"]),
        ({"label": ["team"], "name": "send-*"}, ["send-invoices"]),
        ({"enabled": False}, ["legacy-export"]),
        ({"q": "builds the report"}, ["nightly-report"]),
        ({"name": "nothing*"}, []),
    ],
)
async def test_jobs_are_paused_by_filter(client: Client, wanted: dict[str, Any], names: list[str]) -> None:
    body = {"filter": wanted, "note": "all of them"}
    planned = (await client.ask("POST", "/jobs/pause", {**body, "dry_run": True})).json()
    assert [one["name"] for one in planned["items"]] == names
    assert "paused" not in [one["state"] for one in planned["items"]]
    done = (await client.ask("POST", "/jobs/pause", body)).json()
    assert [one["name"] for one in done["items"]] == names
    for name in names:
        job = (await client.ask("GET", f"/jobs/{name}")).json()
        assert (job["paused"], job["pause"]["note"]) == (True, "all of them")


async def test_every_job_but_those_of_the_system_is_paused_in_pages_and_resumed(scene: Scene, client: Client) -> None:
    # A pause waits a moment for the start of a run that was dispatched, and here time stands still.
    await client.ask("POST", "/runs/cancel", {"filter": {"state": "dispatched"}})
    asked: dict[str, Any] = {"filter": {"name": "*"}, "limit": 5}
    names: list[str] = []
    while True:
        page = (await client.ask("POST", "/jobs/pause", asked)).json()
        names += [one["name"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        asked["cursor"] = page["next_cursor"]
    records = await scene.service.backends.jobs.find()
    assert names == [record.name for record in records]
    assert all(record.paused for record in records)
    await client.ask("POST", "/jobs/resume", {"filter": {"name": "*"}})
    assert not any(record.paused for record in await scene.service.backends.jobs.find())


async def test_a_filter_that_is_empty_is_refused(client: Client) -> None:
    answer = await client.ask("POST", "/jobs/pause", {"filter": {}})
    assert answer.status_code == 422
    assert "would match every job" in answer.text


async def test_maintenance_is_shown_until_it_is_turned_off(client: Client) -> None:
    asked = {"on": True, "note": "upgrade", "until": UNTIL}
    found = (await client.ask("PUT", "/cluster/maintenance", asked)).json()
    assert found == {
        "on": True,
        "since": "2026-11-21T12:00:00Z",
        "by": "the-admin",
        "note": "upgrade",
        "until": UNTIL,
    }
    assert (await client.ask("GET", "/cluster")).json()["maintenance"] == found
    assert (await client.ask("PUT", "/cluster/maintenance", {"on": False})).json()["on"] is False
    assert (await client.ask("GET", "/cluster")).json()["maintenance"]["on"] is False


@pytest.mark.parametrize("asked", [{}, {"on": "yes"}, {"on": False, "note": "why"}, {"on": True, "until": "noon"}])
async def test_a_wrong_switch_is_refused(client: Client, asked: object) -> None:
    assert (await client.ask("PUT", "/cluster/maintenance", asked)).status_code == 422

"""The past over the API."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cronflow.domain.events import LeaderElected, NodeJoined, RecordedEvent, event_id
from cronflow.domain.run import RunState
from tests.api.conftest import Client
from tests.cli.scene import Scene, ago, run

SPAN = {"since": "2026-11-21T11:00:00Z", "until": "2026-11-21T12:00:00Z"}


@pytest.fixture(autouse=True)
async def recorded(scene: Scene) -> None:
    events = [
        (3000, NodeJoined("node-a", "0.13.2", 16)),
        (40, NodeJoined("node-a", "0.14.0", 16)),
        (30, LeaderElected("node-a", 8, "node-b", "2026-11-21T11:29:10Z")),
    ]
    found = [
        RecordedEvent(event_id(ago(minutes=minutes), f"{n:04x}"), ago(minutes=minutes), "node-a", event)
        for n, (minutes, event) in enumerate(events)
    ]
    await scene.backends.events.append(found)


async def test_an_incident_has_what_failed_and_what_happened_and_its_page(client: Client) -> None:
    found = await client.get("/incident", params=SPAN | {"since": "2026-11-21T00:00:00Z"})
    assert sum(failure["count"] for failure in found["failures"]) == sum(found["jobs"].values()) > 0
    assert [mark["kind"] for mark in found["marks"]] == ["deployment", "leader"]
    assert found["markdown"].startswith("# Incident summary, 2026-11-21 00:00:00 to 2026-11-21 12:00:00\n")
    # The page has the newest error, not the reason without its parts.
    [failure] = found["failures"]
    assert (failure["reason"], failure["message"]) == (
        "ValueError: no rows for <time>",
        "ValueError: no rows for 2026-11-20",
    )
    assert "\n| ValueError: no rows for 2026-11-20 | 1 |" in found["markdown"]


@pytest.mark.parametrize(
    ("since", "place"),
    [("2026-11-21T12:00:00Z", "since"), ("2026-01-01T00:00:00Z", "since"), ("yesterday", "since")],
)
async def test_a_time_range_without_length_or_too_long_is_refused(client: Client, since: str, place: str) -> None:
    answer = await client.get("/incident", 422, params={**SPAN, "since": since})
    assert [error["place"] for error in answer["errors"]] == [place]


async def test_a_timeline_counts_runs_marks_changes_and_lists_the_next_fires(client: Client, scene: Scene) -> None:
    found = await client.get("/timeline", params=SPAN | {"fires_until": "2026-11-21T12:10:00Z"})
    listed = await client.all("/runs", limit=100, **SPAN)
    assert (found["runs"], found["more"]) == (len(listed), False)
    assert [mark["kind"] for mark in found["marks"]] == ["deployment", "leader"]
    instants = [fire["at"] for fire in found["fires"]]
    assert instants == sorted(instants)
    assert all("2026-11-21T12:00:00Z" < at <= "2026-11-21T12:10:00Z" for at in instants)
    assert {fire["job"] for fire in found["fires"]} >= {"sync-tokens"}
    one = await client.get("/timeline", params={**SPAN, "job": "sync-tokens", "fires_until": "2026-11-21T12:10:00Z"})
    assert {fire["job"] for fire in one["fires"]} == {"sync-tokens"}
    assert one["runs"] == len([shown for shown in listed if shown["job"] == "sync-tokens"])


async def test_a_job_is_shown_as_it_was_before_a_later_edit(client: Client, scene: Scene) -> None:
    service = scene.service
    record = await service.jobs.get("sync-tokens")
    await scene.clock.advance(300)
    await service.jobs.pause("sync-tokens", by="ann")
    before = {job["name"]: job for job in await client.all("/past/jobs", at="2026-11-21T12:00:01Z")}
    after = {job["name"]: job for job in await client.all("/past/jobs", at="2026-11-21T12:06:00Z")}
    assert (before["sync-tokens"]["ver"], before["sync-tokens"]["held"]) == (record.ver, None)
    assert (after["sync-tokens"]["ver"], after["sync-tokens"]["held"]) == (record.ver + 1, "paused")
    assert await client.all("/past/jobs", at="2020-01-01T00:00:00Z") == []


async def test_the_onset_of_failures_names_what_changed(client: Client, scene: Scene) -> None:
    states = [RunState.SUCCEEDED] * 4 + [RunState.FAILED] * 2
    runs = [
        replace(run("health-ping", ago(minutes=29 - k), state), node="node-a#1" if k < 4 else "node-b#1")
        for k, state in enumerate(states)
    ]
    await scene.backends.runs.insert(runs)
    found = (await client.get("/jobs/health-ping/onset"))["onset"]
    assert found["first"]["id"] == runs[4].id
    assert {match["kind"] for match in found["matches"]} == {"node", "failover"}
    await client.get("/jobs/nothing/onset", 404)


async def test_events_and_series_end_at_an_instant(client: Client) -> None:
    found = await client.all("/events", until="2026-11-21T11:25:00Z", kind=["leader_elected", "node_joined"])
    assert [event["kind"] for event in found] == ["node_joined", "node_joined"]
    series = await client.get("/series", params={"span": "15m", "until": "2026-11-21T10:00:30Z"})
    assert series["at"][-1] == "2026-11-21T10:00:00Z"

"""Runs and their logs over the API: list, read, cancel, replay and acknowledge, one or many."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cronflow.domain.run import AttemptResult, Outcome, RunState
from cronflow.domain.schedule.kinds import Every
from cronflow.ports import LateResult, LogLine
from cronflow.schemas import iso
from cronflow.schemas.runs import run_schema
from cronflow.usecases import run_search
from tests.api.conftest import Client
from tests.cli.scene import FAILED, FENCE, NOON, RETRYING, RUNNING, RUNS, SUCCEEDED, Scene, a_split_run, ago, run

NEWEST_FIRST = [one.id for one in sorted(RUNS, key=lambda one: (one.fire_at, one.id), reverse=True)]
LOST = next(one.id for one in RUNS if one.state is RunState.LOST)


async def test_pages_list_every_run_once_newest_first(client: Client) -> None:
    for limit in (1, 3, 50):
        assert [one["id"] for one in await client.all("/runs", limit=limit)] == NEWEST_FIRST


async def test_new_runs_do_not_shift_the_pages(scene: Scene, client: Client) -> None:
    first = await client.get("/runs", params={"limit": 3})
    await scene.backends.runs.insert([run("sync-tokens", NOON, RunState.DISPATCHED)])
    second = await client.get("/runs", params={"limit": 3, "cursor": first["next_cursor"]})
    assert [one["id"] for one in first["items"] + second["items"]] == NEWEST_FIRST[:6]


@pytest.mark.parametrize(
    ("params", "take"),
    [
        ({"job": "sync-tokens"}, lambda one: one.job == "sync-tokens"),
        ({"state": "failed"}, lambda one: one.state is RunState.FAILED),
        ({"state": ["running", "lost", "skipped"]}, lambda one: one.state.value in ("running", "lost", "skipped")),
        ({"node": "node-a"}, lambda one: one.node == "node-a#5f1c"),
        ({"node": "node-b#77aa"}, lambda one: one.node == "node-b#77aa"),
        ({"node": "node"}, lambda one: False),
        ({"since": "2026-11-21T11:00:00Z"}, lambda one: one.fire_at >= ago(hours=1)),
        ({"until": "2026-11-21T11:00:00Z"}, lambda one: one.fire_at < ago(hours=1)),
        ({"dead": "true"}, lambda one: one.is_dead),
        ({"id": [RUNNING, FAILED, LOST, "nobody@1"]}, lambda one: one.id in (RUNNING, FAILED, LOST)),
        ({"id": [RUNNING, FAILED], "dead": "true"}, lambda one: one.id == FAILED),
        ({"id": [RUNNING, FAILED], "state": ["running", "lost"]}, lambda one: one.id == RUNNING),
        ({"q": "tokens"}, lambda one: one.job == "sync-tokens"),
        ({"q": "*-r*"}, lambda one: one.job == "nightly-report"),
        ({"label": "team=billing"}, lambda one: one.job == "send-invoices"),
        ({"label": ["team", "tier"]}, lambda one: False),
        ({"kind": ["manual", "replay"]}, lambda one: one.kind in ("manual", "replay")),
        ({"kind": "cron", "q": "sync"}, lambda one: one.kind == "cron" and one.job == "sync-tokens"),
        ({"job": "sync-tokens", "state": "succeeded", "node": "node-b"}, lambda one: one.fire_at == ago(minutes=1)),
    ],
)
async def test_every_filter_selects_its_runs(client: Client, params: dict[str, Any], take: Any) -> None:
    wanted = [one for one in NEWEST_FIRST if take(next(run for run in RUNS if run.id == one))]
    assert [one["id"] for one in await client.all("/runs", **params, limit=2)] == wanted


async def test_runs_are_listed_from_the_oldest_on(client: Client) -> None:
    assert [one["id"] for one in await client.all("/runs", order="oldest", limit=3)] == NEWEST_FIRST[::-1]
    await client.get("/runs", 422, params={"order": "longest"})


async def test_a_search_that_stops_returns_how_far_it_has_come(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_search, "PAGE", 2)
    monkeypatch.setattr(run_search, "MOST_RUNS", 2)
    page = await client.get("/runs", params={"kind": "backfill"})
    second = next(one for one in RUNS if one.id == NEWEST_FIRST[1])
    assert (page["items"], page["searched_to"]) == ([], iso(second.fire_at))
    assert page["next_cursor"] is not None
    assert (await client.get("/runs", params={"limit": 2}))["searched_to"] is None


async def test_names_of_jobs_are_suggested(client: Client) -> None:
    found = await client.get("/job-names", who="viewer", params={"q": "RE"})
    assert found == {"names": ["rebuild-cache", "reindex-search", "nightly-report", "warehouse.import"], "more": False}
    assert await client.get("/job-names", params={"q": "re", "limit": 1}) == {"names": ["rebuild-cache"], "more": True}
    await client.get("/job-names", 422, params={"limit": 101})


async def test_at_most_a_hundred_runs_are_selected_by_id(client: Client) -> None:
    await client.get("/runs", 422, params={"id": [f"report@{n}" for n in range(101)]})


@pytest.mark.parametrize("path", ["/runs", "/jobs/sync-tokens/runs"])
async def test_a_run_in_brief_has_what_lists_show_and_nothing_of_the_size_of_its_output(
    client: Client, path: str
) -> None:
    whole, brief = await client.all(path), await client.all(path, brief="true", limit=2)
    assert len(brief) == len(whole) > 1
    for short, long in zip(brief, whole, strict=True):
        assert short.keys().isdisjoint({"result", "args", "placement"})
        attempts = [{key: attempt[key] for key in short["attempts"][n]} for n, attempt in enumerate(long["attempts"])]
        error = None if long["error"] is None else long["error"][:1000]
        assert short == {**{key: long[key] for key in short}, "attempts": attempts, "error": error}


async def test_a_long_error_is_cut_in_brief(scene: Scene, client: Client) -> None:
    failed = replace(run("sync-tokens", NOON, RunState.FAILED), error="E" * 5000)
    await scene.backends.runs.insert([failed])
    assert len((await client.get("/runs", params={"id": failed.id, "brief": "true"}))["items"][0]["error"]) == 1000


async def test_the_ids_of_dead_letters_show_what_is_new_and_what_is_gone(scene: Scene, client: Client) -> None:
    dead = [one["id"] for one in await client.all("/runs", dead="true")]
    assert await client.get("/runs/dead-letters", who="viewer") == {"ids": dead, "more": False}
    assert len(dead) > 1
    one = await client.get("/runs/dead-letters", params={"limit": 1})
    assert one == {"ids": dead[:1], "more": True}
    assert not (await client.get("/runs/dead-letters", params={"limit": len(dead)}))["more"]
    new = replace(run("sync-tokens", NOON, RunState.LOST), id="sync-tokens@new")
    await scene.backends.runs.insert([new])
    await client.post(f"/runs/{dead[0]}/ack", {})
    assert (await client.get("/runs/dead-letters"))["ids"] == [new.id, *dead[1:]]


async def test_a_run_is_shown_with_its_late_outcomes(scene: Scene, client: Client) -> None:
    late = LateResult(
        run=FAILED,
        fence=3,
        node="node-z#1",
        at=NOON,
        attempt_result=AttemptResult(Outcome.OK, {"rows": 1}),
        finish_id="f",
    )
    await scene.backends.runs.keep_late([late])
    shown = await client.get(f"/runs/{FAILED}", who="viewer")
    [outcome] = shown.pop("late")
    assert (outcome["node"], outcome["result"]) == ("node-z#1", {"rows": 1})
    assert shown.pop("part_states") is None
    assert shown == run_schema(await scene.service.runs.get(FAILED))
    for one in RUNS:
        await client.get(f"/runs/{one.id}")


async def test_a_run_that_was_split_is_shown_with_its_parts(scene: Scene, client: Client) -> None:
    parent, *parts = a_split_run()
    await scene.backends.runs.insert([parent, *parts])
    shown = await client.get(f"/runs/{parent.id}", who="viewer")
    assert (shown["parts"], shown["part_states"]) == (3, {"succeeded": 2, "failed": 1})
    found = await client.all("/runs", parent=parent.id, limit=2)
    assert [(one["id"], one["parent"], one["shard"]["index"], one["kind"]) for one in found] == [
        (f"{parent.id}~s{n}", parent.id, n, "part") for n in (2, 1, 0)
    ]
    assert {one["dead"] for one in found} == {False}
    [link] = [one for one in (await client.get(f"/runs/{parent.id}/why"))["chain"] if one["step"] == "parts"]
    assert (link["count"], link["counts"]) == (3, {"succeeded": 2, "failed": 1})
    [link, *_] = (await client.get(f"/runs/{parts[1].id}/why"))["chain"]
    assert (link["step"], link["parent"], link["shard"]) == ("requested", parent.id, {"index": 1, "total": 3})
    await client.post(f"/runs/{parts[2].id}/retry", {}, 409)
    replay = await client.post(f"/runs/{parent.id}/retry", {}, 202)
    assert (await client.get(f"/runs/{replay['id']}"))["parts"] == 1


async def test_lines_are_paginated_in_order_and_an_open_run_may_add_more(scene: Scene, client: Client) -> None:
    texts: list[str] = []
    after: dict[str, str] = {}
    for _ in range(4):
        page = await client.get(f"/runs/{RETRYING}/logs", params={"limit": 2, **after})
        texts += [line["text"] for line in page["items"]]
        assert page["next_cursor"] is not None
        after = {"after": page["next_cursor"]}
    assert texts[:2] == ["sending 120 invoices", "connection refused"]
    assert len(texts) == 5
    fresh = LogLine(
        run=RETRYING, job="send-invoices", fence=FENCE + 1, attempt=2, n=9, at=NOON, level="info", text="new"
    )
    await scene.backends.logs.append([fresh])
    page = await client.get(f"/runs/{RETRYING}/logs", params=after)
    assert [line["text"] for line in page["items"]] == ["new"]
    # After a line that arrived over the stream.
    page = await client.get(f"/runs/{RETRYING}/logs", params={"after": f"{FENCE + 1}:4"})
    assert [line["text"] for line in page["items"]] == ["new"]
    assert (await client.get(f"/runs/{SUCCEEDED}/logs")) == {"items": [], "next_cursor": None}


async def test_the_search_in_lines_ignores_case(client: Client) -> None:
    page = await client.get(f"/runs/{RETRYING}/logs", params={"q": "CONNECTION"})
    assert [line["text"] for line in page["items"]] == ["connection refused"]
    # Lines that were searched are not searched again.
    page = await client.get(f"/runs/{RETRYING}/logs", params={"q": "CONNECTION", "after": page["next_cursor"]})
    assert page["items"] == []


async def test_cancelling_records_user_and_reason_and_can_be_repeated(client: Client) -> None:
    for _ in range(2):
        asked = await client.post(f"/runs/{RUNNING}/cancel", {"reason": "wrong data"}, who="operator")
        assert (asked["state"], asked["cancel_requested"]) == ("running", True)
        assert (asked["cancel_by"], asked["cancel_reason"]) == ("the-operator", "wrong data")
    refused = await client.post(f"/runs/{FAILED}/cancel", status=409)
    assert "has already ended" in refused["detail"]
    assert (await client.post(f"/runs/{RETRYING}/cancel"))["state"] == "cancelled"


async def test_a_replay_is_a_new_run(client: Client) -> None:
    made = await client.post(f"/runs/{FAILED}/retry", {"args": {"region": "us"}, "note": "target is back"}, 202)
    assert made == {"id": f"{FAILED}~r1", "replay_of": FAILED}
    replay = await client.get(f"/runs/{FAILED}~r1")
    assert (replay["args"], replay["kind"], replay["replay_of"]) == ({"region": "us"}, "replay", FAILED)
    resolution = (await client.get(f"/runs/{FAILED}"))["resolution"]
    assert (resolution["how"], resolution["by"], resolution["note"]) == ("replayed", "the-admin", "target is back")
    assert (await client.post(f"/runs/{RUNNING}/retry", status=409))["title"] == "Conflict"
    assert (await client.post(f"/runs/{LOST}/retry", {"args": {"a": 1}}, 422))["errors"][0]["place"] == "args"


async def test_acknowledging_resolves_a_run_and_can_be_repeated(client: Client) -> None:
    for note in ("known", "once more"):
        settled = await client.post(f"/runs/{FAILED}/ack", {"note": note}, who="operator")
        assert settled["dead"] is False
        assert (settled["resolution"]["by"], settled["resolution"]["note"]) == ("the-operator", "known")
    await client.post(f"/runs/{SUCCEEDED}/ack", status=409)
    await client.post(f"/runs/{FAILED}/ack", {"note": "x" * 1001}, 422)


async def test_every_path_of_an_unknown_run_returns_404(client: Client) -> None:
    for method, tail in (("GET", ""), ("GET", "/logs"), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/ack")):
        answer = await client.ask(method, f"/runs/nobody@1{tail}")
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no run 'nobody@1'")


async def test_the_report_counts_failures_by_reason(client: Client) -> None:
    found = await client.get("/runs/report", params={"since": "2026-10-01T00:00:00Z"}, who="viewer")
    assert {failure["example"] for failure in found["failures"]} == {FAILED, LOST}
    assert (found["dead"], found["more"]) == (2, False)
    assert (await client.get("/runs/report", params={"since": "2026-10-01T00:00:00Z", "limit": 1}))["more"] is True
    assert (await client.get("/runs/report", 422))["errors"][0]["place"] == "since"


async def many(scene: Scene, state: RunState, count: int) -> list[str]:
    """`count` more runs of sync-tokens, newest first."""
    made = [run("sync-tokens", ago(days=1, seconds=n), state, outcome=Outcome.ERROR) for n in range(count)]
    await scene.backends.runs.insert(made)
    return [one.id for one in made]


async def test_many_dead_letters_are_replayed_once_each_across_pages(scene: Scene, client: Client) -> None:
    ids = await many(scene, RunState.FAILED, 7)
    body: dict[str, Any] = {"filter": {"job": "sync-tokens", "state": ["failed"]}, "limit": 3, "note": "all of them"}
    replayed = []
    while True:
        page = await client.post("/runs/retry", body, who="operator")
        replayed += [item["replay_of"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        body["cursor"] = page["next_cursor"]
    assert replayed == ids
    assert await client.post("/runs/retry", body | {"cursor": None} if False else {"filter": body["filter"]}) == {
        "items": [],
        "skipped": [],
        "count": 0,
        "next_cursor": None,
    }


async def test_a_dead_letter_of_a_deleted_job_is_reported_and_not_replayed(scene: Scene, client: Client) -> None:
    await many(scene, RunState.LOST, 1)
    await scene.service.jobs.apply([])
    await scene.service.jobs.delete("nightly-report")
    page = await client.post("/runs/retry", {"filter": {"since": "2026-11-20T00:00:00Z"}})
    assert [item["replay_of"] for item in page["items"]] == ["sync-tokens@20261120T120000Z"]
    assert page["skipped"] == [{"id": FAILED, "why": "there is no job 'nightly-report'"}]


async def test_cancelling_many_affects_only_open_runs(scene: Scene, client: Client) -> None:
    ids = await many(scene, RunState.DISPATCHED, 3)
    page = await client.post("/runs/cancel", {"filter": {"job": "sync-tokens"}, "reason": "stop"}, who="operator")
    assert page["items"] == [{"id": one, "state": "cancelled"} for one in ids]
    assert (await client.post("/runs/cancel", {"filter": {"job": "sync-tokens"}}))["items"] == []
    refused = await client.post("/runs/cancel", {"filter": {"state": "failed"}}, 422)
    assert refused["errors"][0]["place"] == "filter.state"


async def test_many_runs_are_acknowledged(scene: Scene, client: Client) -> None:
    ids = await many(scene, RunState.FAILED, 3)
    body = {"filter": {"job": "sync-tokens", "node": "node-a", "until": "2026-11-21T00:00:00Z"}, "note": "known"}
    page = await client.post("/runs/ack", body, who="operator")
    assert [item["id"] for item in page["items"]] == ids
    assert (await client.get(f"/runs/{ids[0]}"))["resolution"]["note"] == "known"
    assert (await client.post("/runs/ack", body))["items"] == []
    await client.post("/runs/ack", {"filter": {"state": ["succeeded"]}}, 422)


@pytest.mark.parametrize(
    ("what", "state"), [("retry", RunState.FAILED), ("ack", RunState.LOST), ("cancel", RunState.DISPATCHED)]
)
async def test_a_dry_run_counts_what_the_same_call_would_change(
    scene: Scene, client: Client, what: str, state: RunState
) -> None:
    ids = await many(scene, state, 5)
    await many(scene, RunState.SUCCEEDED, 5)
    body: dict[str, Any] = {"filter": {"q": "sync", "kind": ["cron"], "until": "2026-11-21T00:00:00Z"}, "limit": 3}
    first = await client.post(f"/runs/{what}", body | {"dry_run": True}, who="operator")
    assert (first["count"], first["items"]) == (3, [])
    rest = await client.post(f"/runs/{what}", body | {"dry_run": True, "cursor": first["next_cursor"]})
    assert (rest["count"], rest["next_cursor"]) == (2, None)
    before = await client.get("/audit")
    assert {(await client.get(f"/runs/{one}"))["state"] for one in ids} == {state}
    done = await client.post(f"/runs/{what}", body | {"limit": 50}, who="operator")
    assert (done["count"], len(done["items"])) == (5, 5)
    # One entry for each run.
    assert len((await client.get("/audit", params={"limit": 500}))["items"]) - len(before["items"]) == 5
    assert (await client.post(f"/runs/{what}", body))["count"] == 0
    await client.post(f"/runs/{what}", body | {"dry_run": True}, 403, who="viewer")


async def test_a_bulk_action_selects_by_label(scene: Scene, client: Client) -> None:
    await many(scene, RunState.DISPATCHED, 2)
    page = await client.post("/runs/cancel", {"filter": {"label": ["team=billing"]}, "dry_run": True})
    assert page["count"] == sum(one.job == "send-invoices" and one.is_open for one in RUNS) > 0


@pytest.mark.parametrize("what", ["retry", "cancel", "ack"])
async def test_an_empty_filter_is_rejected(client: Client, what: str) -> None:
    for body, place in (
        ({}, "filter"),
        ({"filter": {}}, "filter"),
        ({"filter": {"jobs": "sync-tokens"}}, "filter.jobs"),
        ({"filter": {"job": None}}, "filter.job"),
        ({"filter": {"state": "broken"}}, "filter.state"),
        ({"filter": {"since": "yesterday"}}, "filter.since"),
        ({"filter": {"job": "a"}, "limit": 501}, "limit"),
        ({"filter": {"job": "a"}, "cursor": "!"}, "cursor"),
        ({"filter": {"job": "a"}, "note2": ""}, "note2"),
    ):
        refused = await client.post(f"/runs/{what}", body, 422)
        assert [error["place"] for error in refused["errors"]] == [place]


async def test_two_concurrent_bulk_replays_replay_each_run_once(scene: Scene, client: Client) -> None:
    ids = await many(scene, RunState.FAILED, 5)
    body = {"filter": {"job": "sync-tokens"}}
    pages = await asyncio.gather(*(client.post("/runs/retry", body) for _ in range(3)))
    replays = {item["id"] for page in pages for item in page["items"]}
    assert replays == {f"{one}~r1" for one in ids}
    assert [
        one for one in await client.all("/runs", job="sync-tokens", state="retrying") if one["id"].endswith("~r2")
    ] == []


async def test_a_change_notifies_the_leader(scene: Scene, client: Client) -> None:
    before = scene.backends.faults.calls["bus.ring"]
    await client.post("/jobs/sync-tokens/run", status=202)
    await client.post(f"/runs/{RUNNING}/cancel")
    await client.ask("PATCH", "/jobs/sync-tokens", {"priority": 1})
    await client.ask(
        "PUT",
        "/jobs/new",
        {"schedule": {"every": str(Every("1h").interval.total_seconds())[:-2] + "s"}, "run": {"shell": "true"}},
    )
    assert scene.backends.faults.calls["bus.notify"] >= before + 4


async def test_recent_results_of_several_jobs_are_read_at_once(client: Client) -> None:
    names = ["nightly-report", "sync-tokens", "nobody"]
    found = await client.get("/runs/recent", params={"job": names, "limit": 2}, who="viewer")
    assert [one["job"] for one in found["items"]] == ["nightly-report", "sync-tokens"]
    for one in found["items"]:
        job = await client.get(f"/jobs/{one['job']}")
        assert (one["state"], one["next_fire"]) == (job["state"], job["next_fire"])
        runs = await client.get(f"/jobs/{one['job']}/runs", params={"limit": 2})
        assert one["runs"] == [{key: run[key] for key in one["runs"][0]} for run in runs["items"]]
    await client.ask("DELETE", "/jobs/sync-tokens")
    found = await client.get("/runs/recent", params={"job": names})
    assert [one["job"] for one in found["items"]] == ["nightly-report"], "what is deleted does nothing more"
    await client.get("/runs/recent", 422)
    await client.get("/runs/recent", 422, params={"job": [f"job-{n}" for n in range(51)]})


async def test_a_job_has_its_schedule_in_words(client: Client) -> None:
    for job in await client.all("/jobs"):
        if job["schedule"] is None:
            assert job["words"] is None
            continue
        asked = {key: value for key, value in job["schedule"].items() if value is not None}
        assert job["words"] == (await client.post("/schedules/preview", {"schedule": asked, "count": 1}))["words"]

"""Jobs over the API: define, read, change, run, pause, delete, explain."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cronflow.documents import job_document
from cronflow.schemas.jobs import job_schema
from cronflow.usecases.search import MOST_JOBS
from tests.api.conftest import Client, client_of
from tests.cli.scene import JOBS, NOON, Scene, job

NEW = {"name": "new", "schedule": {"every": "5m"}, "run": {"argv": ["true"]}}


async def test_pages_list_every_job_once(client: Client) -> None:
    names = [shape["name"] for shape in await client.all("/jobs", limit=5)]
    assert names == sorted(job.name for job in JOBS)
    first = await client.get("/jobs", params={"limit": 5})
    assert len(first["items"]) == 5
    assert first["next_cursor"]


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"q": "REPORT"}, ["nightly-report"]),
        ({"q": "day before"}, ["nightly-report"]),
        ({"label": "team=billing"}, ["send-invoices"]),
        ({"label": "team"}, ["send-invoices"]),
        ({"label": "team=ops"}, []),
        ({"label": ["team", "tier"]}, []),
        ({"enabled": "false"}, ["legacy-export"]),
        ({"q": "e", "enabled": "false"}, ["legacy-export"]),
        ({"q": "%"}, []),
    ],
)
async def test_jobs_are_filtered_by_text_labels_and_enabled(
    client: Client, params: dict[str, Any], names: list[str]
) -> None:
    assert [shape["name"] for shape in await client.all("/jobs", **params)] == names


async def test_a_search_for_a_rare_job_is_bounded_and_continues_on_the_next_page(scene: Scene, client: Client) -> None:
    many = [job(f"aa-{n:05}") for n in range(MOST_JOBS + 10)]
    await scene.backends.jobs.create(await scene.service.jobs.get("rebuild-cache"))
    for one in many:
        scene.backends.documents.jobs[one.name] = (await scene.service.jobs.compare([one]))[0].record
    page = await client.get("/jobs", params={"q": "rotate"})
    assert page["items"] == []
    assert page["next_cursor"] is not None
    assert [shape["name"] for shape in await client.all("/jobs", q="rotate")] == ["rotate-keys"]


async def test_a_job_is_shown_as_on_the_command_line_and_its_etag_is_its_version(scene: Scene, client: Client) -> None:
    answer = await client.ask("GET", "/jobs/nightly-report", who="viewer")
    assert answer.json() == job_schema(await scene.service.jobs.get("nightly-report"))
    assert answer.headers["etag"] == '"1"'


async def test_creating_returns_201_with_the_location_and_then_409(client: Client) -> None:
    created = await client.ask("POST", "/jobs", NEW)
    assert created.status_code == 201
    assert created.headers["location"] == "/api/v1/jobs/new"
    assert created.headers["etag"] == '"1"'
    refused = await client.post("/jobs", NEW | {"timeout": "1m"}, 409)
    assert refused["detail"] == "job 'new' already exists"
    assert (await client.get("/jobs/new"))["timeout"] == "1h"


async def test_of_two_concurrent_creations_of_a_job_one_is_rejected(client: Client) -> None:
    answers = await asyncio.gather(*(client.ask("POST", "/jobs", NEW | {"priority": n}) for n in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
    [winner] = [answer for answer in answers if answer.status_code == 201]
    assert (await client.get("/jobs/new"))["priority"] == winner.json()["priority"]


async def test_putting_creates_then_replaces_then_changes_nothing(client: Client) -> None:
    document = {"schedule": {"every": "5m"}, "run": {"argv": ["true"]}}
    created = await client.ask("PUT", "/jobs/new", document)
    assert (created.status_code, created.headers["etag"]) == (201, '"1"')
    replaced = await client.ask("PUT", "/jobs/new", document | {"priority": 7})
    assert (replaced.status_code, replaced.headers["etag"], replaced.json()["priority"]) == (200, '"2"', 7)
    same = await client.ask("PUT", "/jobs/new", document | {"priority": 7})
    assert (same.status_code, same.headers["etag"]) == (200, '"2"')


async def test_a_stale_if_match_is_rejected_and_changes_nothing(client: Client) -> None:
    await client.ask("PUT", "/jobs/new", NEW)
    await client.ask("PUT", "/jobs/new", NEW | {"priority": 7})
    for method, body in (("PUT", NEW | {"priority": 1}), ("PATCH", {"priority": 1}), ("DELETE", None)):
        stale = await client.ask(method, "/jobs/new", body, headers={"If-Match": '"1"'})
        assert stale.status_code == 409
        assert "is at version 2, not 1" in stale.json()["detail"]
    # Even if the result would be the same, because the version is outdated.
    assert (await client.ask("PUT", "/jobs/new", NEW | {"priority": 7}, headers={"If-Match": '"1"'})).status_code == 409
    assert (await client.get("/jobs/new"))["priority"] == 7
    gone = await client.ask("PUT", "/jobs/never", NEW | {"name": "never"}, headers={"If-Match": '"1"'})
    assert gone.status_code == 409
    patched = await client.ask("PATCH", "/jobs/new", {"priority": 1}, headers={"If-Match": '"2"'})
    assert (patched.status_code, patched.headers["etag"]) == (200, '"3"')
    assert (await client.ask("DELETE", "/jobs/new", headers={"If-Match": '"3"'})).status_code == 200


@pytest.mark.parametrize("tag", ["1", 'W/"1"', '"1", "2"', "*", '"0"', '"-1"', '"99999999999999999999"', "", '"1'])
async def test_an_invalid_if_match_is_rejected(client: Client, tag: str) -> None:
    answer = await client.ask("PATCH", "/jobs/rotate-keys", {"priority": 1}, headers={"If-Match": tag})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["place"] == "If-Match"


async def test_two_concurrent_patches_are_both_applied(client: Client) -> None:
    await asyncio.gather(
        client.ask("PATCH", "/jobs/rotate-keys", {"priority": 1}),
        client.ask("PATCH", "/jobs/rotate-keys", {"labels": {"team": "ops"}}),
    )
    found = await client.get("/jobs/rotate-keys")
    assert (found["priority"], found["labels"], found["version"]) == (1, {"team": "ops"}, 3)


@pytest.mark.parametrize(
    ("patch", "field", "value"),
    [
        ({"schedule": {"cron": "0 3 * * *"}}, "schedule", ("cron", "0 3 * * *", "tz", "Europe/Berlin")),
        ({"schedule": {"cron": None, "tz": None, "every": "5m"}}, "schedule", ("every", "5m", "tz", "UTC")),
        ({"schedule": None}, "schedule", None),
        ({"run": {"python": None, "shell": "true"}}, "run", ("shell", "true")),
        ({"run": {"args": {"a": {"b": [1, None]}}}}, "run", ("args", {"a": {"b": [1, None]}})),
        ({"retry": {"delays": ["1s", "2s"]}}, "retry", ("delays", ["1s", "2s"])),
        ({"timeout": "5m"}, "timeout", "5m"),
        ({"description": None}, "description", ""),
        ({"misfire": {"grace": "1h"}}, "misfire", ("grace", "1h", "policy", "fire_once")),
        ({"enabled": False}, "enabled", False),
    ],
)
async def test_a_merge_patch_changes_only_its_keys(client: Client, patch: Any, field: str, value: Any) -> None:
    before = await client.get("/jobs/nightly-report")
    answer = await client.ask("PATCH", "/jobs/nightly-report", patch)
    assert answer.status_code == 200, answer.text
    after = answer.json()
    assert after["version"] == before["version"] + 1
    if isinstance(value, tuple):
        assert {key: after[field][key] for key in value[::2]} == dict(zip(value[::2], value[1::2], strict=True))
    else:
        assert after[field] == value
    kept = job_document(JOBS[0]).keys() - {field}
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}


async def test_a_patch_without_changes_creates_no_version(client: Client) -> None:
    assert (await client.ask("PATCH", "/jobs/rotate-keys", {"priority": 9})).headers["etag"] == '"1"'
    assert (await client.ask("PATCH", "/jobs/rotate-keys", {})).headers["etag"] == '"1"'


async def test_a_patch_keeps_the_retry_of_the_job_regardless_of_the_settings(scene: Scene) -> None:
    from cronflow.domain.job import Retry

    async with client_of(scene.service, retry=Retry(max=7)) as client:
        assert (await client.ask("PUT", "/jobs/new", NEW)).json()["retry"]["max"] == 7
        assert (await client.ask("PATCH", "/jobs/rotate-keys", {"priority": 1})).json()["retry"]["max"] == 3


async def test_a_schedule_without_a_zone_gets_that_of_the_settings_when_it_is_defined(scene: Scene) -> None:
    daily = {"name": "daily", "run": {"python": "shop.jobs:daily"}, "schedule": {"cron": "0 2 * * *"}}
    async with client_of(scene.service, timezone="Europe/Berlin") as client:
        assert (await client.ask("PUT", "/jobs/daily", daily)).json()["schedule"]["tz"] == "Europe/Berlin"
        [planned] = (await client.post("/jobs/plan", {"jobs": [daily]}))["jobs"]
        assert planned["result"] == "unchanged"
        # A patch completes the stored document, which means UTC without a zone.
        patch = {"schedule": {"cron": "0 5 1 * *"}}
        assert (await client.ask("PATCH", "/jobs/warehouse.import", patch)).json()["schedule"]["tz"] == "UTC"
        preview = await client.post("/schedules/preview", {"schedule": {"cron": "0 2 * * *"}, "count": 1})
        assert (preview["tz"], preview["fires"]) == ("Europe/Berlin", ["2026-11-22T01:00:00Z"])
        own = {"cron": "0 2 * * *", "tz": "Asia/Tokyo"}
        assert (await client.post("/schedules/preview", {"schedule": own, "count": 1}))["tz"] == "Asia/Tokyo"
        assert (await client.get("/cluster/settings"))["timezone"] == "Europe/Berlin"


async def test_an_invalid_document_is_rejected_with_every_problem_and_its_field(client: Client) -> None:
    bad = {"name": "x", "schedule": {"cron": "61 * * * *"}, "run": {"shell": ""}, "timeot": "5m", "priority": 11}
    for method, path in (("POST", "/jobs"), ("PUT", "/jobs/x")):
        answer = await client.ask(method, path, bad)
        assert answer.status_code == 422
        errors = {error["place"]: error for error in answer.json()["errors"]}
        assert set(errors) == {"schedule.cron", "run.shell", "timeot", "priority"}
        assert errors["timeot"] == {"place": "timeot", "what": "unknown key", "remedy": "did you mean timeout?"}
        assert "and 3 more, see errors" in answer.json()["detail"]


async def test_a_job_cannot_be_renamed_and_reserved_names_are_rejected(client: Client) -> None:
    for method, rest in (("PUT", {"run": {"shell": "true"}}), ("PATCH", {})):
        answer = await client.ask(method, "/jobs/rotate-keys", {"name": "other", **rest})
        assert (answer.status_code, answer.json()["errors"][0]["place"]) == (422, "name")
    await client.post("/jobs", NEW | {"name": "_sys:mine"}, 422)
    assert (await client.ask("PATCH", "/jobs/nobody", {"priority": 1})).status_code == 404


async def test_the_runs_of_a_job_are_counted_per_day(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = await client.all("/jobs/nightly-report/runs")
    days = await client.get("/jobs/nightly-report/days", who="viewer")
    assert [day["day"] for day in days["items"]] == sorted({run["fire_at"][:10] for run in runs}, reverse=True)
    counted = sum(sum(day["states"].values()) for day in days["items"])
    assert (counted, days["more"]) == (len(runs), False)
    assert days["items"][0]["states"]["failed"] == 1
    monkeypatch.setattr("cronflow.usecases.jobs.MOST_COUNTED", 1)
    assert (await client.get("/jobs/nightly-report/days"))["more"] is True
    await client.get("/jobs/nobody/days", 404)


async def test_deleting_a_job_keeps_its_history_and_runs(client: Client) -> None:
    answer = await client.ask("DELETE", "/jobs/nightly-report")
    assert answer.json() == {"name": "nightly-report", "deleted_at": "2026-11-21T12:00:00Z"}
    await client.get("/jobs/nightly-report", 404)
    assert (await client.ask("DELETE", "/jobs/nightly-report")).status_code == 404
    assert len((await client.get("/jobs/nightly-report/runs"))["items"]) == 1
    versions = (await client.get("/jobs/nightly-report/history"))["items"]
    assert [(version["version"], version["state"], version["by"]) for version in versions] == [
        (1, "active", None),
        (2, "deleted", "the-admin"),
    ]
    assert (await client.ask("POST", "/jobs", NEW | {"name": "nightly-report"})).status_code == 201


async def test_pausing_and_resuming_record_the_user(client: Client) -> None:
    assert (await client.post("/jobs/sync-tokens/pause", who="operator"))["state"] == "paused"
    resumed = await client.post("/jobs/sync-tokens/resume", who="operator")
    assert (resumed["state"], resumed["version"]) == ("active", 3)
    assert resumed == await client.get("/jobs/sync-tokens")
    versions = (await client.get("/jobs/sync-tokens/history"))["items"]
    assert [version["by"] for version in versions[1:]] == ["the-operator", "the-operator"]


async def test_the_same_key_returns_the_same_run_and_response(scene: Scene, client: Client) -> None:
    key = {"Idempotency-Key": "0b5f0c1e-5d3a-4a0b-9f57-2f5a3c1d0e11"}
    first = await client.ask("POST", "/jobs/nightly-report/run", {"args": {"region": "us"}}, headers=key)
    await scene.clock.advance(5)
    again = await client.ask("POST", "/jobs/nightly-report/run", headers=key)
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.content == again.content
    assert first.json()["args"] == {"region": "us"}
    other = await client.post("/jobs/nightly-report/run", status=202)
    assert other["id"] != first.json()["id"]
    runs = await client.all("/runs", job="nightly-report", state=["retrying"])
    assert {run["id"] for run in runs} == {first.json()["id"], other["id"]}


async def test_ten_concurrent_requests_with_one_key_create_one_run(client: Client) -> None:
    key = {"Idempotency-Key": "deploy-1"}
    answers = await asyncio.gather(*(client.ask("POST", "/jobs/rebuild-cache/run", headers=key) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [202]
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 65, "a@b", "~r1", "a/b", "-x"])
async def test_an_invalid_idempotency_key_is_rejected(client: Client, key: str) -> None:
    answer = await client.ask("POST", "/jobs/rebuild-cache/run", headers={"Idempotency-Key": key})
    assert (answer.status_code, answer.json()["errors"][0]["place"]) == (422, "Idempotency-Key")


async def test_only_python_jobs_accept_arguments(client: Client) -> None:
    refused = await client.post("/jobs/reindex-search/run", {"args": {"a": 1}}, 422)
    assert refused["errors"][0]["place"] == "args"
    await client.post("/jobs/reindex-search/run", {"args": {}}, 202)
    await client.post("/jobs/rebuild-cache/run", {"args": [1]}, 422)
    await client.post("/jobs/rebuild-cache/run", {"arg": {}}, 422)


async def test_the_next_fires_start_at_the_cursor(client: Client) -> None:
    found = await client.get("/jobs/sync-tokens/next", params={"n": 2})
    assert found["fires"] == ["2026-11-21T12:00:30Z", "2026-11-21T12:01:00Z"]
    assert (found["job"], found["state"], found["tz"]) == ("sync-tokens", "active", "UTC")
    assert (await client.get("/jobs/rebuild-cache/next"))["fires"] == []


async def test_the_fires_of_another_span_of_time_are_those_of_the_schedule(client: Client) -> None:
    span = {"from": "2026-12-01T01:00:00Z", "until": "2026-12-03T01:00:00Z"}
    found = await client.get("/jobs/nightly-report/next", params=span)
    assert found["fires"] == ["2026-12-01T01:00:00Z", "2026-12-02T01:00:00Z"]
    assert found["rows"][0] == {
        "fire": "2026-12-01T01:00:00Z",
        "note": None,
        "times": {"Europe/Berlin": "2026-12-01T02:00:00+01:00", "UTC": "2026-12-01T01:00:00+00:00"},
    }
    past = {"from": "2026-01-01T00:00:00Z", "n": 1}
    assert (await client.get("/jobs/nightly-report/next", params=past))["fires"] == ["2026-01-01T01:00:00Z"]
    assert (await client.get("/jobs/rebuild-cache/next", params=past))["fires"] == []
    for bad in ({"from": "noon"}, {"from": "0900-01-01T00:00:00Z"}, {"until": "2026-01-01"}):
        assert (await client.ask("GET", "/jobs/nightly-report/next", params=bad)).status_code == 422


async def test_a_preview_has_rows_in_the_zones_that_are_asked_for(client: Client) -> None:
    asked = {"schedule": {"cron": "0 2 * * *", "tz": "Europe/Berlin"}, "count": 1}
    found = await client.post("/schedules/preview", asked)
    assert found["zones"] == ["Europe/Berlin", "UTC"]
    assert "changes" not in found
    found = await client.post("/schedules/preview", {**asked, "zones": ["Asia/Tokyo"]})
    assert found["rows"][0]["times"] == {"Asia/Tokyo": "2026-11-22T10:00:00+09:00"}
    until = {**asked, "count": 5, "until": "2026-11-23T01:00:00Z"}
    assert (await client.post("/schedules/preview", until))["fires"] == ["2026-11-22T01:00:00Z"]
    refused = await client.post("/schedules/preview", {**asked, "zones": ["Tokio"]}, 422)
    assert refused["errors"][0]["place"] == "zones"


async def test_a_preview_for_a_job_has_the_runs_that_would_appear_and_vanish(scene: Scene, client: Client) -> None:
    asked = {"schedule": {"cron": "0 2,3 * * MON", "tz": "Europe/Berlin"}, "count": 1, "job": "nightly-report"}
    changes = (await client.post("/schedules/preview", asked))["changes"]
    assert (changes["added"], changes["removed"], changes["before"], changes["after"]) == (1, 6, 7, 2)
    assert changes["first_added"] == ["2026-11-23T02:00:00Z"]
    assert (await client.post("/schedules/preview", {**asked, "days": 1}))["changes"]["removed"] == 1
    same = {**asked, "schedule": {"cron": "0 2 * * *", "tz": "Europe/Berlin"}}
    assert (await client.post("/schedules/preview", same))["changes"] is None
    await client.post("/schedules/preview", {**asked, "job": "nobody"}, 404)
    await client.post("/schedules/preview", {**asked, "job": "No Name"}, 422)
    assert (await scene.service.jobs.get("nightly-report")).ver == 1


async def test_why_returns_the_chain_of_a_fire(client: Client) -> None:
    found = await client.get("/jobs/nightly-report/why", params={"at": "2026-11-21T02:00:00+01:00"})
    assert found["run"] == "nightly-report@20261121T010000Z"
    steps = [link["step"] for link in found["chain"]]
    assert (steps[0], steps[-1]) == ("due", "ended")
    assert found["chain"][-1]["dead"] is True
    for name in [one.name for one in JOBS]:
        await client.get(f"/jobs/{name}/why")
    assert (await client.get("/jobs/sync-tokens/why", params={"at": "2027-01-01T00:00:01Z"}))["chain"][0][
        "step"
    ] == "not_due"


async def test_a_plan_returns_the_changes_and_writes_nothing(scene: Scene, client: Client) -> None:
    before = await scene.service.backends.jobs.find()
    documents = [
        NEW,
        {"name": "rotate-keys", "run": {"python": "shop.jobs:rotate_keys"}, "schedule": {"every": "1h"}},
        {**job_document(JOBS[1])},
    ]
    plan = (await client.post("/jobs/plan", {"jobs": documents}, who="viewer"))["jobs"]
    assert [(one["name"], one["result"]) for one in plan] == [
        ("new", "created"),
        ("rotate-keys", "changed"),
        ("sync-tokens", "unchanged"),
    ]
    changes = {change["field"]: (change["before"], change["after"]) for change in plan[1]["changes"]}
    assert changes["schedule.every"] == (None, "1h")
    assert changes["priority"] == (9, 5)
    assert plan[0]["next_fire"] == NOON.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert await scene.service.backends.jobs.find() == before
    done = await client.ask("PUT", "/jobs/rotate-keys", documents[1])
    assert done.json()["next_fire"] == plan[1]["next_fire"]


async def test_a_plan_and_an_application_count_the_runs_that_appear_and_vanish(client: Client) -> None:
    moved = {"name": "nightly-report", "run": {"python": "a:b"}, "schedule": {"cron": "0 4 * * *"}}
    often = {"name": "often", "run": {"python": "a:b"}, "schedule": {"every": "1s"}}
    for path in ("/jobs/plan?days=3", "/jobs/apply?days=3"):
        found = await client.post(path, {"jobs": [moved, often]}, who="admin")
        assert found["runs"] == {"added": 10_003, "removed": 3, "at_least": True, "not_compared": 0}
        assert [one["runs"]["added"] for one in found["jobs"]] == [3, None]
        assert found["jobs"][0]["runs"]["first_removed"][0] == "2026-11-22T01:00:00Z"
    plan = await client.post("/jobs/plan?days=0", {"jobs": [moved | {"schedule": {"every": "1h"}}]})
    assert "runs" not in plan["jobs"][0]
    await client.post("/jobs/plan?days=93", {"jobs": [moved]}, 422)


async def test_a_plan_returns_the_field_of_each_problem(client: Client) -> None:
    refused = await client.post("/jobs/plan", {"jobs": [NEW, {"name": "x"}, 5]}, 422)
    assert [error["place"] for error in refused["errors"]] == ["jobs[1].run", "jobs[2]"]
    await client.post("/jobs/plan", {"jobs": [NEW, NEW]}, 422)
    await client.post("/jobs/plan", {}, 422)
    await client.post("/jobs/plan", {"jobs": [NEW] * 1001}, 422)


async def test_every_path_of_an_unknown_job_returns_404(client: Client) -> None:
    for method, tail in (
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/run"),
        ("POST", "/pause"),
        ("POST", "/resume"),
        ("GET", "/next"),
        ("GET", "/why"),
        ("GET", "/runs"),
        ("GET", "/history"),
    ):
        answer = await client.ask(method, f"/jobs/nobody{tail}")
        assert (answer.status_code, answer.json()["detail"]) == (404, "there is no job 'nobody'")


SECRET = "hunter2hunter2"
SHOWING = {
    "name": "showing",
    "run": {
        "http": {
            "url": f"https://u:{SECRET}@example.com/x?token={SECRET}",
            "headers": {"Authorization": f"Bearer {SECRET}", "X-Token": "${secret:TOKEN}"},
            "body": f'{{"password": "{SECRET}"}}',
        }
    },
}


async def test_only_those_who_may_change_a_job_see_its_passwords(client: Client) -> None:
    await client.post("/jobs", SHOWING, 201)
    changed = {"run": {"http": {"headers": {"Authorization": f"Bearer {SECRET}2"}}}}
    assert (await client.ask("PATCH", "/jobs/showing", changed)).status_code == 200
    plan = SHOWING | {"description": "new"}
    for who in ("viewer", "operator"):
        answers = [
            await client.ask("GET", "/jobs/showing", who=who),
            await client.ask("GET", "/jobs", params={"q": "showing"}, who=who),
            await client.ask("GET", "/jobs", params={"q": "showing", "brief": "true"}, who=who),
            await client.ask("GET", "/jobs/showing/history", who=who),
            await client.ask("GET", "/jobs/showing/why", who=who),
            await client.ask("POST", "/jobs/plan", {"jobs": [plan]}, who=who),
        ]
        if who == "operator":
            answers += [await client.ask("POST", f"/jobs/showing/{verb}", who=who) for verb in ("pause", "resume")]
        assert [answer.status_code for answer in answers] == [200] * len(answers)
        assert not [answer.url for answer in answers if SECRET in answer.text]
        assert "${secret:TOKEN}" in answers[0].text
    for path in ("/jobs/showing", "/jobs/showing/history"):
        assert SECRET in (await client.ask("GET", path)).text
    shown = await client.get("/jobs/showing")
    again = {"name": "showing", "run": shown["run"]}
    assert (await client.ask("PUT", "/jobs/showing", again)).json()["version"] == shown["version"]


async def test_a_masked_document_cannot_be_applied(client: Client) -> None:
    await client.post("/jobs", SHOWING, 201)
    masked = (await client.ask("GET", "/jobs/showing", who="viewer")).json()
    refused = await client.ask("PUT", "/jobs/showing", {"run": masked["run"]})
    assert refused.status_code == 422
    assert {one["place"] for one in refused.json()["errors"]} == {"run.http.url", "run.http.headers.Authorization"}
    assert SECRET in (await client.ask("GET", "/jobs/showing")).text


async def test_an_at_in_the_past_is_refused_unless_misfire_is_given(client: Client) -> None:
    once = {"name": "launch", "run": {"shell": "true"}, "schedule": {"at": "2026-11-21T11:58:00Z"}}
    later = {**once, "schedule": {"at": "2026-11-21T12:30:00Z"}}
    asked: list[tuple[str, str, dict[str, Any], str]] = [
        ("POST", "/jobs", once, "schedule.at"),
        ("PUT", "/jobs/launch", once, "schedule.at"),
        ("POST", "/jobs/plan", {"jobs": [NEW, once]}, "jobs[1].schedule.at"),
        ("POST", "/jobs/apply", {"jobs": [NEW, once]}, "jobs[1].schedule.at"),
    ]
    for method, path, body, place in asked:
        refused = await client.ask(method, path, body)
        assert refused.status_code == 422, path
        [problem] = refused.json()["errors"]
        assert (problem["place"], "misfire: skip" in problem["remedy"]) == (place, True)
    await client.get("/jobs/launch", 404)
    await client.post("/jobs", later, 201)
    patch = {"schedule": once["schedule"]}
    refused = await client.ask("PATCH", "/jobs/launch", patch)
    assert [one["place"] for one in refused.json()["errors"]] == ["schedule.at"]
    assert (await client.ask("PATCH", "/jobs/launch", {**patch, "misfire": {"policy": "skip"}})).status_code == 200


async def test_a_job_in_brief_has_what_lists_show(client: Client) -> None:
    fields = {"name", "description", "schedule", "labels", "state", "words", "next_fire", "pause", "open_breaker"}
    fields |= {"takes_args"}
    whole = await client.all("/jobs")
    assert await client.all("/jobs", brief="true", limit=2) == [
        {key: job[key] for key in job if key in fields} for job in whole
    ]
    assert {job["takes_args"] for job in whole} == {True, False}


async def test_passwords_in_brief_are_masked(client: Client) -> None:
    job = {"name": "labelled", "run": {"shell": "true"}, "labels": {"password": "hunter2"}}
    await client.post("/jobs", job, 201)
    for who, label in (("viewer", "***"), ("admin", "hunter2")):
        [found] = (await client.get("/jobs", params={"q": "labelled", "brief": "true"}, who=who))["items"]
        assert found["labels"] == {"password": label}

"""Backfills through the API."""

from __future__ import annotations

import pytest

from cronflow.domain.access import Principal, Role
from cronflow.domain.run import run_id
from tests.api.conftest import Client
from tests.cli.scene import BACKFILL, NOON, Scene, ago

DAY = {"first": "2026-11-20T00:00:00Z", "last": "2026-11-20T23:00:00Z", "only": "all"}


async def test_a_request_returns_the_backfill_and_a_dry_run_starts_none(scene: Scene, client: Client) -> None:
    path = "/jobs/send-invoices/backfill"
    planned = await client.ask("POST", path, {**DAY, "rate": "10/m", "dry_run": True})
    assert planned.status_code == 200
    found = planned.json()
    assert (found["id"], found["state"], found["total"], found["least_ms"]) == (None, "planned", 9, 48_000)
    assert (found["first_instant"], found["last_instant"]) == ("2026-11-20T14:00:00Z", "2026-11-20T22:00:00Z")
    answer = await client.ask("POST", path, {**DAY, "rate": "10/m"})
    assert (answer.status_code, answer.json()["id"], answer.json()["by"]) == (202, "send-invoices~b1", "the-admin")
    again = await client.ask("POST", path, DAY)
    assert again.status_code == 409
    assert "cronflow backfills cancel send-invoices~b1" in again.json()["detail"]


async def test_without_instants_nothing_is_started(client: Client) -> None:
    answer = await client.ask("POST", "/jobs/send-invoices/backfill", {**DAY, "only": "failed"})
    assert (answer.status_code, answer.json()["id"], answer.json()["total"]) == (200, None, 0)


@pytest.mark.parametrize(
    ("body", "place", "word"),
    [
        ({**DAY, "last": "2026-11-22T00:00:00Z"}, "last", "future"),
        ({**DAY, "first": "2026-11-20"}, "first", "no time zone"),
        ({**DAY, "rate": "fast"}, "rate", "is not a rate"),
        ({**DAY, "only": "some"}, "only", "missing, failed or all"),
        ({"first": DAY["first"]}, "last", "missing"),
        ({**DAY, "until": DAY["last"]}, "until", "unknown key"),
    ],
)
async def test_a_wrong_request_names_the_place(client: Client, body: object, place: str, word: str) -> None:
    answer = await client.ask("POST", "/jobs/send-invoices/backfill", body)
    assert answer.status_code == 422
    [error] = answer.json()["errors"]
    assert error["place"] == place
    assert word in f"{error['what']} {error.get('remedy')}"


async def test_backfills_are_listed_in_pages_and_cancelled(client: Client) -> None:
    await client.ask("POST", "/jobs/send-invoices/backfill", DAY)
    first = (await client.ask("GET", "/backfills?limit=1")).json()
    assert [one["id"] for one in first["items"]] == ["send-invoices~b1"]
    second = (await client.ask("GET", f"/backfills?limit=1&cursor={first['next_cursor']}")).json()
    assert ([one["id"] for one in second["items"]], second["next_cursor"]) == ([BACKFILL], None)
    assert [one["id"] for one in (await client.ask("GET", "/backfills?job=sync-tokens")).json()["items"]] == [BACKFILL]
    answer = await client.ask("POST", f"/backfills/{BACKFILL}/cancel", {"reason": "wrong"})
    assert (answer.json()["state"], answer.json()["cancelled_by"], answer.json()["reason"]) == (
        "cancelled",
        "the-admin",
        "wrong",
    )
    assert (await client.ask("GET", f"/backfills/{BACKFILL}")).json()["ended_at"] == "2026-11-21T12:00:00Z"
    assert (await client.ask("GET", "/backfills/sync-tokens~b9")).status_code == 404


async def test_the_runs_of_a_backfill_can_be_listed(client: Client) -> None:
    assert (await client.ask("GET", f"/runs?backfill={BACKFILL}")).json()["items"] == []


async def test_why_names_the_backfills_of_an_instant(scene: Scene, client: Client) -> None:
    from cronflow.domain.planning import run_on_request
    from cronflow.domain.run import Kind, backfill_run_id

    record = await scene.service.jobs.get("sync-tokens")
    made = run_on_request(
        record, backfill_run_id(BACKFILL, ago(minutes=20)), Kind.BACKFILL, ago(minutes=20), None, NOON
    )
    await scene.backends.runs.insert([made])
    chain = (await client.ask("GET", "/jobs/sync-tokens/why?at=2026-11-21T11:40:00Z")).json()["chain"]
    assert chain[-1] == {
        "step": "backfilled",
        "run": f"{run_id('sync-tokens', ago(minutes=20))}~b1",
        "state": "retrying",
    }
    requested = (await client.ask("GET", f"/runs/{made.id}/why")).json()["chain"][0]
    assert (requested["kind"], requested["backfill"]) == ("backfill", BACKFILL)
    shown = (await client.ask("GET", f"/runs/{made.id}")).json()
    assert (shown["kind"], shown["backfill"], shown["lateness_ms"]) == ("backfill", BACKFILL, None)


def test_a_key_for_some_jobs_may_use_their_backfills() -> None:
    from types import SimpleNamespace

    from cronflow.api.access import job_of

    path = f"/api/v1/backfills/{BACKFILL}/cancel"
    request = SimpleNamespace(scope={"path": path}, path_params={"id": BACKFILL})
    assert job_of(request) == "sync-tokens"  # type: ignore[arg-type]
    limited = Principal("ci", Role.OPERATOR, jobs=("sync-*",))
    assert limited.may_touch("sync-tokens")

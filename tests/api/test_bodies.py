"""Bodies of requests: every problem at once, each at its place, with the nearest known key and no secret in it."""

from __future__ import annotations

from typing import Any

import pytest

from cronflow.documents import values
from tests.api.conftest import Client
from tests.cli.scene import FAILED

LONG = "x" * 1001


@pytest.mark.parametrize(
    ("path", "body", "problems"),
    [
        ("/users", {}, ["name: missing (add it)", "password: missing (add it)"]),
        (
            "/users",
            {"rôle": "admin", "name": 5, "enabled": True},
            [
                "rôle: unknown key (did you mean role?)",
                "name: expected text, got the number 5 (put it in quotes)",
                "enabled: unknown key (known keys: name, password, role, jobs, allow_shell, allow_secrets)",
                "password: missing (add it)",
            ],
        ),
        (
            "/users",
            {"name": "eva", "password": "long enough", "role": "admn"},
            ["role: expected viewer, operator, editor or admin, got the text 'admn' (did you mean admin?)"],
        ),
        ("/users", [], ["expected a mapping, got a list"]),
        ("/api-keys", {"name": "k", "jobs": "billing-*"}, ["jobs: expected a list, got the text 'billing-*'"]),
        (
            "/api-keys",
            {"name": "k", "jobs": ["a", 1, None]},
            [
                "jobs[1]: expected text, got the number 1 (put it in quotes)",
                "jobs[2]: expected text, got nothing",
            ],
        ),
        (
            "/jobs/spread/apply",
            {"moves": [{"job": "a", "version": 1, "cron": "0 2 * * *", "crn": ""}]},
            ["moves[0].crn: unknown key (did you mean cron?)"],
        ),
        ("/api-keys", {"name": "k", "jobs": ["a"] * 101}, ["jobs: has 101 entries; at most 100 are allowed"]),
        (
            "/api-keys",
            {"name": "k", "expires_at": "2026-12-24T18:00:00"},
            [("expires_at: 2026-12-24T18:00:00 has no time zone (add Z for UTC, or an offset such as +01:00)")],
        ),
        (
            "/runs/cancel",
            {"filter": {"jbo": "x", "state": ["runing"], "since": 5}, "limit": 501, "reason": LONG},
            [
                (
                    "filter.state[0]: expected dispatched, running, retrying, succeeded, failed, cancelled, skipped or"
                    " lost, got the text 'runing' (did you mean running?)"
                ),
                "filter.since: expected a date with a time, got the number 5 (write it like 2026-12-24T18:00:00Z)",
                "filter.jbo: unknown key (did you mean job?)",
                "limit: is 501; at most 500 is allowed",
                "reason: is longer than 1,000 characters",
            ],
        ),
        (
            "/runs/ack",
            {"filter": {}},
            [
                (
                    "filter: is empty and would match every run "
                    "(give at least one of job, q, label, kind, state, node, since, until)"
                )
            ],
        ),
        ("/runs/ack", {"filter": {"job": None}}, ["filter.job: expected text, got nothing"]),
        ("/runs/ack", {"filter": {"job": "a"}, "limit": True}, ["limit: expected a whole number, got true"]),
        (f"/runs/{FAILED}/retry", {"only_dead": 1}, ["only_dead: expected true or false, got the number 1"]),
        (f"/runs/{FAILED}/retry", {"args": None}, ["args: expected a mapping, got nothing"]),
        (
            "/schedules/preview",
            {"schedule": {"cron": "61 * * * *", "tzz": "UTC"}, "count": 0},
            [
                "schedule.cron: '61' is not allowed in the minute field of cron '61 * * * *' (write 0 to 59)",
                "schedule.tzz: unknown key (did you mean tz?)",
                "count: is 0; at least 1 is needed",
            ],
        ),
        ("/jobs/plan", {"jobs": [{}] * 1001}, ["jobs: has 1,001 jobs; at most 1,000 are allowed at once"]),
    ],
)
async def test_every_problem_of_a_body_is_reported_at_its_place(
    client: Client, path: str, body: object, problems: list[str]
) -> None:
    answer = await client.ask("POST", path, body)
    assert answer.status_code == 422
    shown = [
        f"{error['place']}: {error['what']}".removeprefix(": ") + (f" ({error['remedy']})" if error["remedy"] else "")
        for error in answer.json()["errors"]
    ]
    assert shown == problems


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/auth/token", {"username": "ada", "password": 424242}),
        ("/auth/token", {"username": "ada", "password": "424242" * 1000}),
        ("/auth/refresh", {"refresh_token": 424242}),
        ("/users", {"name": "eva", "password": [424242]}),
        ("/secrets", {"name": "token", "value": {"a": 424242}}),
    ],
)
async def test_an_error_does_not_repeat_a_secret(client: Client, path: str, body: dict[str, Any]) -> None:
    answer = await client.ask("POST", path, body)
    assert answer.status_code == 422, answer.text
    assert "4242" not in answer.text


async def test_an_empty_body_is_an_empty_object(client: Client) -> None:
    assert (await client.ask("POST", f"/runs/{FAILED}/ack", content=b"")).status_code == 200
    assert (await client.ask("POST", "/users", content=b"")).status_code == 422


MANY = {f"key{n}": n for n in range(60_000)}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/auth/token", MANY),
        ("/jobs", MANY),
        ("/jobs", {"name": "a", "labels": {f"{n}\0": "x" for n in range(20_000)}, "run": {"shell": "true"}}),
        ("/jobs/apply", {"jobs": [{"name": f"a{n}", "run": {}, "x": 1} for n in range(1000)]}),
        ("/runs/cancel", {"filter": MANY}),
        ("/runs/cancel", {"filter": {"state": ["x"] * 100_000}}),
        ("/api-keys", {"name": "k", "jobs": [1] * 100_000}),
        ("/users", {"\x01" * 200_000 + str(n): n for n in range(4)}),
        ("/users", {"role": "\x01" * 900_000}),
        ("/jobs", {"name": "x" * 1_000_000, "run": {"shell": "true"}}),
        ("/schedules/preview", {"schedule": {"cron": "\u20ac" * 300_000}}),
        ("/schedules/preview", {"schedule": {"every": "9" * 900_000}}),
    ],
)
async def test_a_bad_body_gets_few_problems_little_work_and_a_small_answer(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, body: object
) -> None:
    searches = 0

    def counted(*_: object, **__: object) -> list[str]:
        nonlocal searches
        searches += 1
        return []

    monkeypatch.setattr(values, "get_close_matches", counted)
    answer = await client.ask("POST", path, body)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) <= 20
    assert len(answer.content) <= 64 * 1024
    assert searches <= 50


async def test_a_bad_query_gets_few_problems_and_a_small_answer(client: Client) -> None:
    for query in ("&".join(f"x{n}=1" for n in range(5000)), "state=x&" * 5000, "%01" * 5000 + "=1"):
        answer = await client.ask("GET", f"/runs?{query}")
        assert answer.status_code == 422
        assert len(answer.json()["errors"]) <= 20
        assert len(answer.content) <= 64 * 1024


@pytest.mark.parametrize("depth", [250, 1000])
async def test_a_deeply_nested_body_is_refused_and_fails_nowhere(client: Client, depth: int) -> None:
    for start, end in ((b'{"a":', b"}"), (b"[", b"]"), (b'{"run":', b"}"), (b'{"labels":{"a":[', b"]}}")):
        content = start * depth + b"1" + end * depth
        for path, operations in client.document.content["paths"].items():
            path = path.removeprefix("/api/v1").replace("{name}", "rotate-keys").replace("{id}", FAILED)
            for method, operation in operations.items():
                if "requestBody" in operation:
                    answer = await client.ask(method.upper(), path, content=content)
                    assert answer.status_code in (400, 422), (method, path, answer.text)

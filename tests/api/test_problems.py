"""Every error is a problem document, and no input causes a 500."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from fastapi import HTTPException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronflow.api.access import Viewer
from cronflow.api.app import create_api
from cronflow.api.pagination import cursor_of
from cronflow.api.responses import new_router
from tests.api.conftest import Client, Document, HeaderGate, client_of
from tests.cli.scene import FAILED, Scene
from tests.drawing import examples

HUGE = "9" * 5000


async def test_unknown_paths_and_methods_return_problems(client: Client) -> None:
    nothing = await client.ask("GET", "/nowhere")
    assert nothing.json() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing at /api/v1/nowhere",
    }
    wrong = await client.ask("DELETE", "/runs")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert (await client.ask("GET", "/jobs/")).status_code == 404


async def test_an_unavailable_server_returns_503_with_retry_after(scene: Scene, client: Client) -> None:
    for verb, method, path in (
        ("jobs.find", "GET", "/jobs"),
        ("runs.find", "GET", "/runs"),
        ("membership.members", "GET", "/cluster"),
        ("runs.insert", "POST", "/jobs/rebuild-cache/run"),
    ):
        scene.backends.faults.fail_before(verb)
        answer = await client.ask(method, path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), path
        assert "memory" not in answer.text, "the address of a server must not be exposed"


async def test_a_lost_response_returns_503_and_the_key_finds_the_run(scene: Scene, client: Client) -> None:
    key = {"Idempotency-Key": "k1"}
    scene.backends.faults.fail_after("runs.insert")
    assert (await client.ask("POST", "/jobs/rebuild-cache/run", headers=key)).status_code == 503
    again = await client.ask("POST", "/jobs/rebuild-cache/run", headers=key)
    assert again.status_code == 200
    assert len(await client.all("/runs", job="rebuild-cache", state="retrying")) == 1


async def test_an_internal_error_returns_500_without_details(scene: Scene) -> None:
    # An application of its own, because it gets more routes.
    async with client_of(scene.service, create_api(scene.service, HeaderGate())) as client:
        router = new_router("tests")

        @router.get("/broken")
        async def broken(_: Viewer) -> dict[str, str]:
            raise RuntimeError("the password is hunter2")

        @router.get("/limited")
        async def limited(_: Viewer) -> dict[str, str]:
            raise HTTPException(429, "too many", headers={"Retry-After": "7"})

        @router.get("/large")
        async def large(_: Viewer) -> dict[str, str]:
            raise HTTPException(413)

        client.api.include_router(router)
        client.document = Document(client.api.openapi())
        with pytest.raises(RuntimeError, match="hunter2"):
            await client.ask("GET", "/broken")
        answer = await client.ask("GET", "/limited")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


async def test_invalid_json_returns_400(client: Client) -> None:
    for content in (
        b"{",
        b"\xff\xfe",
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"\x00",
        b'{"name": "\xc3\x28"}',
        b"name=x&run=y",
        b"1 2",
    ):
        for method, path in (("POST", "/jobs"), ("PATCH", "/jobs/rotate-keys"), ("POST", "/runs/cancel")):
            answer = await client.ask(method, path, content=content)
            assert answer.status_code == 400, content[:20]
            assert answer.json()["detail"].startswith("the body is not JSON: ")


@pytest.mark.parametrize("body", [[], [1], "text", 5, 1.5, True, None, {"": 1}, {"a\x00b": "c"}, {"name": HUGE}])
async def test_a_body_of_the_wrong_type_returns_422_on_every_route(client: Client, body: object) -> None:
    for path, operations in client.document.content["paths"].items():
        for method, operation in operations.items():
            if "requestBody" not in operation:
                continue
            path = path.removeprefix("/api/v1").replace("{name}", "rotate-keys").replace("{id}", FAILED)
            answer = await client.ask(method.upper(), path, content=orjson.dumps(body))
            assert answer.status_code == 422, (method, path, answer.text)


@pytest.mark.parametrize(
    "args",
    [
        {"a": 2**63},
        {"a": [[[1]]] * 3, "b": {"": None}},
        {"a\x00b": 1},
        {"$set": {"a.b": 1}},
        {"_id": 1},
        {"a": "\x00"},
        {"a": 1e308},
    ],
)
async def test_arguments_are_stored_unchanged_or_rejected(client: Client, args: Any) -> None:
    answer = await client.ask("POST", "/jobs/rebuild-cache/run", {"args": args})
    if answer.status_code == 202:
        assert (await client.get(f"/runs/{answer.json()['id']}"))["args"] == args
    else:
        assert (answer.status_code, answer.json()["errors"][0]["place"].startswith("args")) == (422, True)


async def test_deeply_nested_json_is_rejected_everywhere(client: Client) -> None:
    deep: object = 1
    for _ in range(200):
        deep = {"a": deep}
    body = {"name": "x", "run": {"python": "a:b", "args": {"a": deep}}}
    for method, path in (("POST", "/jobs"), ("PUT", "/jobs/x")):
        assert (await client.ask(method, path, body)).status_code == 422
    assert (await client.ask("PATCH", "/jobs/rotate-keys", {"run": {"args": {"a": deep}}})).status_code == 422
    assert (await client.ask("PATCH", "/jobs/rotate-keys", {"labels": deep})).status_code == 422


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/%00",
        "/jobs/%ff%fe",
        "/jobs/%ED%A0%80",
        "/jobs/..%2f..%2fetc%2fpasswd",
        "/jobs/" + "a" * 5000,
        "/jobs/$where",
        "/jobs/{}",
        "/runs/%00@1",
        "/runs/" + "%F0%9F%92%A9" * 100,
        "/runs/a@1~r" + "9" * 400,
        "/nodes/%00",
        "/nodes/node-a%23%23",
        "/jobs/a%0d%0aX-Evil:1/next",
    ],
)
async def test_a_malicious_path_returns_404(client: Client, path: str) -> None:
    answer = await client.ask("GET", path)
    assert answer.status_code == 404
    assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    ("path", "params", "place"),
    [
        ("/jobs", {"limit": "0"}, "limit"),
        ("/jobs", {"limit": "501"}, "limit"),
        ("/jobs", {"limit": HUGE}, "limit"),
        ("/jobs", {"limit": "1.5"}, "limit"),
        ("/jobs", {"limit": ""}, "limit"),
        ("/jobs", {"limit": "\u0661"}, "limit"),
        ("/jobs", {"enabled": "maybe"}, "enabled"),
        ("/jobs", {"q": "x" * 201}, "q"),
        ("/jobs", {"page": "2"}, "page"),
        ("/jobs", {"cursor": "x" * 1001}, "cursor"),
        ("/jobs", {"cursor": "!"}, "cursor"),
        ("/jobs", {"cursor": cursor_of(5)}, "cursor"),
        ("/jobs", {"cursor": cursor_of("a", "b")}, "cursor"),
        ("/runs", {"cursor": cursor_of("2026-01-01", "b")}, "cursor"),
        ("/runs", {"cursor": cursor_of("9999-12-31T23:59:59-23:59", "b")}, "cursor"),
        ("/runs", {"state": "broken"}, "state"),
        ("/runs", {"since": "yesterday"}, "since"),
        ("/runs", {"since": "2026-01-01T00:00:00"}, "since"),
        ("/runs", {"since": "1700000000"}, "since"),
        ("/runs", {"until": "0001-01-01T00:00:00+23:59"}, "until"),
        ("/runs", {"dead": "2"}, "dead"),
        ("/runs", {"states": "failed"}, "states"),
        ("/runs", {"since": "0001-01-01T00:00:00Z"}, None),
        ("/runs", {"job": "\x00"}, None),
        ("/runs", {"node": "#"}, None),
        ("/runs/report", {}, "since"),
        (f"/runs/{FAILED}/logs", {"after": cursor_of(1)}, "after"),
        (f"/runs/{FAILED}/logs", {"after": cursor_of(2**63 - 1, -1)}, None),
        ("/jobs/rotate-keys/next", {"n": "-1"}, "n"),
        ("/jobs/rotate-keys/why", {"at": "now"}, "at"),
        ("/jobs/rotate-keys/why", {"at": "0001-01-01T00:00:00Z"}, "at"),
        ("/jobs/rotate-keys/why", {"at": "9999-12-31T23:59:59Z"}, "at"),
        ("/cluster", {"at": "now"}, "at"),
    ],
)
async def test_a_parameter_is_accepted_or_rejected_by_name(
    client: Client, path: str, params: dict[str, str], place: str | None
) -> None:
    answer = await client.ask("GET", path, params=params)
    if place is None:
        assert answer.status_code == 200, answer.text
        return
    assert answer.status_code == 422
    assert [error["place"] for error in answer.json()["errors"]] == [place]
    assert len(answer.content) < 1000


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="ABCabc019_-=+/ \x00é", max_size=40))
async def test_no_text_breaks_a_cursor(client: Client, text: str) -> None:
    for path, name in (("/jobs", "cursor"), ("/runs", "cursor"), (f"/runs/{FAILED}/logs", "after")):
        assert (await client.ask("GET", path, params={name: text})).status_code in (200, 422)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cron", "every", "run", "shell", "retry", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("name", "description", "schedule", "run", "retry", "timeout"),
        *("misfire", "labels", "require", "priority", "enabled"),
    ]
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(patch=st.dictionaries(FIELDS, JSON, max_size=4))
async def test_no_patch_breaks_a_job(client: Client, patch: Any) -> None:
    content = json.dumps(patch).encode()  # unlike orjson it writes numbers of any size
    for method in ("PATCH", "PUT"):
        answer = await client.ask(method, "/jobs/rotate-keys", content=content)
        assert answer.status_code in (200, 422), answer.text
    assert (await client.get("/jobs/rotate-keys"))["name"] == "rotate-keys"

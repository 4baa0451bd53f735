"""What the clients send, when they send it again, and what they make of the answers; the API is a function here."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx2
import orjson
import pytest

import cronflow
from cronflow.client import calls
from cronflow.domain.errors import InvalidInput, Problem
from tools.blocking_client import CLIENT, SOURCES, generated

URL = "https://cron.example.com"

Answer = Callable[[httpx2.Request], httpx2.Response]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "FIRST_PAUSE_S", 0.0)


class Api:
    """Answers by a list, one after another, and keeps what it was asked."""

    def __init__(self, *answers: httpx2.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, token: str | None = "key") -> cronflow.AsyncClient:
        return cronflow.AsyncClient(URL, token, transport=httpx2.MockTransport(self))


def ok(content: object = None, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, content=orjson.dumps(content))


def problem(status: int, retry_after: str | None = None, **fields: Any) -> httpx2.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx2.Response(status, headers=headers, content=orjson.dumps({"status": status, **fields}))


def test_certificates_are_verified_by_every_spelling_of_https_and_are_not_read_without_tls() -> None:
    for client in (cronflow.Client, cronflow.AsyncClient):
        for url in (URL, URL.upper()):
            assert tls_of(client(url)).verify_mode is ssl.CERT_REQUIRED
            assert tls_of(client(url)).cert_store_stats()["x509_ca"] > 0
        assert tls_of(client("http://cron.example.com")).cert_store_stats()["x509_ca"] == 0


def tls_of(client: Any) -> ssl.SSLContext:
    found: ssl.SSLContext = client._http._transport._pool._ssl_context
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_the_blocking_client_is_what_the_generator_makes_of_the_other_one(name: str) -> None:
    assert (CLIENT / name).read_text("utf-8") == generated(name), "run: make client"


async def test_a_list_is_fetched_page_by_page() -> None:
    api = Api(
        ok({"items": [{"name": "a"}, {"name": "b"}], "next_cursor": "b-and-on"}),
        ok({"items": [{"name": "c"}], "next_cursor": None}),
    )
    async with api.client() as client:
        found = [job["name"] async for job in client.jobs.list("report", label=["team=billing", "x"], enabled=False)]
    assert found == ["a", "b", "c"]
    first, second = (request.url.params for request in api.asked)
    assert first.get_list("label") == ["team=billing", "x"]
    assert (first["q"], first["enabled"], "cursor" in first, second["cursor"]) == ("report", "false", False, "b-and-on")


async def test_names_are_quoted_whole_and_the_token_is_sent() -> None:
    api = Api(ok({}))
    async with api.client() as client:
        await client.runs.get("nightly/report@2026~r1?x")
    assert api.asked[0].url.raw_path == b"/api/v1/runs/nightly%2Freport%402026~r1%3Fx"
    assert api.asked[0].headers["Authorization"] == "Bearer key"


@pytest.mark.parametrize(
    "failure",
    [httpx2.ConnectError("refused"), httpx2.ReadTimeout("slow"), problem(503, "0"), problem(502), problem(429, "0")],
)
async def test_what_reads_is_asked_again(failure: httpx2.Response | Exception) -> None:
    api = Api(failure, ok({"term": 3}))
    async with api.client() as client:
        assert (await client.cluster.get())["term"] == 3
    assert len(api.asked) == 2


@pytest.mark.parametrize("failure", [httpx2.ReadTimeout("slow"), problem(503, "0", detail="MongoDB is away")])
async def test_what_may_have_taken_effect_is_not_sent_again(failure: httpx2.Response | Exception) -> None:
    api = Api(failure, ok({}))
    async with api.client() as client:
        with pytest.raises(cronflow.ApiError) as caught:
            await client.runs.retry("a@1")
    assert caught.value.status in (0, 503)
    assert len(api.asked) == 1


@pytest.mark.parametrize("failure", [httpx2.ConnectError("refused"), problem(429, "0")])
async def test_what_was_never_taken_is_sent_again(failure: httpx2.Response | Exception) -> None:
    api = Api(failure, ok({"id": "a@1~r1"}, 202))
    async with api.client() as client:
        assert (await client.runs.retry("a@1"))["id"] == "a@1~r1"


async def test_a_run_on_request_is_asked_for_again_with_the_same_key() -> None:
    api = Api(httpx2.ReadTimeout("slow"), ok({"id": "a@manual-1"}, 202))
    async with api.client() as client:
        await client.jobs.run("a", {"region": "us"})
    keys = {request.headers["Idempotency-Key"] for request in api.asked}
    assert len(api.asked) == 2
    assert len(keys) == 1
    assert orjson.loads(api.asked[0].content) == {"args": {"region": "us"}}


async def test_it_gives_up_after_four_tries_and_when_asked_to_wait_for_long() -> None:
    api = Api(*[httpx2.ConnectError("refused")] * 9)
    async with api.client() as client:
        with pytest.raises(cronflow.ApiError, match=r"cron\.example\.com does not answer: refused"):
            await client.cluster.get()
    assert len(api.asked) == 4
    api = Api(problem(429, "3600", detail="too many logins"))
    async with api.client() as client:
        with pytest.raises(cronflow.ApiError) as caught:
            await client.cluster.get()
    assert (caught.value.status, caught.value.retry_after_s) == (429, 3600)


async def test_an_error_carries_what_is_wrong_field_by_field() -> None:
    wrong = {"place": "schedule.cron", "what": "never fires", "remedy": "mend it"}
    api = Api(problem(422, detail="schedule.cron never fires", errors=[wrong]))
    async with api.client() as client:
        with pytest.raises(cronflow.ApiError, match=r"422: schedule\.cron never fires") as caught:
            await client.jobs.create({"name": "a"})
    assert caught.value.problems == (Problem("schedule.cron", "never fires", "mend it"),)


@pytest.mark.parametrize("status", [200, 502])
async def test_a_page_that_is_not_the_api_is_reported(status: int) -> None:
    api = Api(*[httpx2.Response(status, content=b"<html>")] * 4)
    async with api.client() as client:
        with pytest.raises(cronflow.ApiError) as caught:
            await client.cluster.get()
    assert caught.value.status == status


async def test_tokens_are_renewed_once_for_all_who_need_them() -> None:
    asked: list[str] = []

    def api(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        match request.url.path:
            case "/api/v1/auth/token":
                return ok({"access_token": "old", "refresh_token": "r1", "expires_in": 900})
            case "/api/v1/auth/refresh":
                assert orjson.loads(request.content) == {"refresh_token": "r1"}
                return ok({"access_token": "new", "refresh_token": "r2", "expires_in": 900})
        return ok({"term": 1}) if request.headers["Authorization"] == "Bearer new" else problem(401)

    async with cronflow.AsyncClient(URL, transport=httpx2.MockTransport(api)) as client:
        await client.login("ada", "secret")
        await asyncio.gather(*(client.cluster.get() for _ in range(5)))
    assert asked.count("/api/v1/auth/refresh") == 1


async def test_a_refused_key_is_an_error_at_once() -> None:
    api = Api(problem(401, detail="unknown key"))
    async with api.client() as client:
        with pytest.raises(cronflow.ApiError, match="unknown key"):
            await client.cluster.get()


async def test_lines_are_followed_until_the_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.client.aio.POLL_S", 0.0)
    pages = [
        {"items": [{"text": "one"}], "next_cursor": "1"},
        {"items": [], "next_cursor": "1"},
        {"items": [{"text": "two"}], "next_cursor": None},
    ]
    api = Api(*map(ok, pages))
    async with api.client() as client:
        assert [line["text"] async for line in client.runs.logs("a@1", follow=True)] == ["one", "two"]
    api = Api(*map(ok, pages))
    async with api.client() as client:
        assert [line["text"] async for line in client.runs.logs("a@1")] == ["one"]


async def test_an_instant_without_a_zone_is_refused() -> None:
    async with Api().client() as client:
        with pytest.raises(ValueError, match="no time zone"):
            await client.jobs.why("a", datetime(2026, 11, 21))  # noqa: DTZ001  that is what is refused


@pytest.mark.parametrize("url", ["cron.example.com", "ftp://cron", "http://", ""])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not"):
        cronflow.Client(url)


def test_the_blocking_client_does_the_same_from_many_threads() -> None:
    refreshed: list[str] = []

    def api(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/api/v1/auth/refresh":
            refreshed.append(request.url.path)
            return ok({"access_token": "new", "refresh_token": "r2"})
        if request.url.path == "/api/v1/auth/token":
            return ok({"access_token": "old", "refresh_token": "r1"})
        if request.headers["Authorization"] != "Bearer new":
            return problem(401)
        return ok({"items": [{"name": "node-1"}], "next_cursor": None})

    with cronflow.Client(URL, transport=httpx2.MockTransport(api)) as client:
        client.login("ada", "secret")
        found: list[str] = []
        threads = [
            threading.Thread(target=lambda: found.extend(node["name"] for node in client.nodes.list()))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == ["node-1"] * 4
    assert len(refreshed) == 1

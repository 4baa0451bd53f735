"""Which requests are sent, which are refused, and what the answers mean; against a real server on the loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from ipaddress import ip_address

import pytest

from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors import http
from cronflow.executors.http import MAX_BODY_BYTES, MAX_REDIRECTS, HttpExecutor
from tests.executors import FENCE, RUN, Lines
from tests.executors.web import Server, answer, send
from tests.waiting import eventually


@pytest.fixture
async def executor() -> AsyncIterator[HttpExecutor]:
    async with HttpExecutor() as executor:
        yield executor


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Host names of this test: for each the addresses of the first, the second … look-up; the last one stays."""
    names: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int | None, *rest: int, **named: int) -> object:
        if host not in names:
            return real(host, port, *rest, **named)
        answers = names[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        found = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            place = (address, port or 0, 0, 0) if ":" in address else (address, port or 0)
            found.append((family, socket.SOCK_STREAM, 6, "", place))
        return found

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return names


async def test_a_2xx_is_ok_and_the_result_has_status_and_milliseconds(server: Server, executor: HttpExecutor) -> None:
    server.answers["/hook"] = answer(201, "made")
    lines = Lines()
    attempt_result = await send(executor, f"{server.url}/hook", lines)
    assert attempt_result.outcome is Outcome.OK
    assert isinstance(attempt_result.result, dict)
    assert attempt_result.result["status"] == 201
    assert 0 <= attempt_result.result["ms"] < 10_000
    assert len(lines.of("info")) == 1


async def test_the_request_carries_method_headers_body_run_and_fence(server: Server, executor: HttpExecutor) -> None:
    server.answers["/hook"] = answer(200)
    own = {"X-Team": "billing", "CronFlow-Fence": "0", "Content-Type": "application/json"}
    await send(executor, f"{server.url}/hook?a=b", method="POST", headers=own, body='{"ü": 1}')
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook?a=b", '{"ü": 1}'.encode())
    assert request.headers["x-team"] == "billing"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == RUN
    assert request.headers["cronflow-fence"] == str(FENCE)
    assert request.headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_status_that_may_change_is_an_error(server: Server, executor: HttpExecutor, status: int) -> None:
    server.answers["/hook"] = answer(status)
    attempt_result = await send(executor, f"{server.url}/hook?token=secret")
    assert attempt_result == AttemptResult(Outcome.ERROR, error=f"GET {server.url}/hook answered {status}")


@pytest.mark.parametrize("status", [400, 401, 404, 410, 304])
async def test_a_status_that_will_not_change_fails_for_good(
    server: Server, executor: HttpExecutor, status: int
) -> None:
    server.answers["/hook"] = answer(status)
    assert (await send(executor, f"{server.url}/hook")).outcome is Outcome.PERMANENT


async def test_an_expected_status_is_ok_and_any_other_is_not(server: Server, executor: HttpExecutor) -> None:
    server.answers["/gone"] = answer(410)
    server.answers["/fine"] = answer(200)
    server.answers["/moved"] = answer(302, Location="/fine")
    assert (await send(executor, f"{server.url}/gone", expect=(200, 410))).outcome is Outcome.OK
    assert (await send(executor, f"{server.url}/fine", expect=(202,))).outcome is Outcome.ERROR
    assert (await send(executor, f"{server.url}/moved", expect=(302,))).result is not None
    assert [request.path for request in server.requests] == ["/gone", "/fine", "/moved"]


async def test_the_first_kib_of_an_unexpected_answer_is_one_line_of_the_log(
    server: Server, executor: HttpExecutor
) -> None:
    server.answers["/hook"] = answer(500, "out of\ncheese " + "x" * 5000)
    lines = Lines()
    await send(executor, f"{server.url}/hook", lines)
    (line,) = lines.of("warn")
    assert "out of cheese xxx" in line
    assert line.count("x") == 1024 - len("out of\ncheese ")


async def test_no_more_than_64_kib_of_a_body_are_read(server: Server, executor: HttpExecutor) -> None:
    sent = 0

    async def keys_without_ttl(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 4096)
            await writer.drain()
            sent += 4096

    server.answers["/hook"] = keys_without_ttl
    assert (await send(executor, f"{server.url}/hook")).outcome is Outcome.OK
    await eventually(lambda: server.closed == 1)
    assert sent >= MAX_BODY_BYTES


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"Retry_After": "90"}, timedelta(seconds=90)),
        ({"Retry_After": "86400"}, timedelta(hours=1)),
        ({"Retry_After": "9" * 5000}, timedelta(hours=1)),
        (
            {"Retry_After": "Sat, 21 Nov 2026 02:02:00 GMT", "Date": "Sat, 21 Nov 2026 02:00:00 GMT"},
            timedelta(minutes=2),
        ),
        ({"Retry_After": "Sat, 21 Nov 2026 01:00:00 GMT", "Date": "Sat, 21 Nov 2026 02:00:00 GMT"}, timedelta(0)),
        ({"Retry_After": "Sat, 21 Nov 2026 02:02:00 GMT"}, None),
        ({"Retry_After": "soon"}, None),
        ({}, None),
    ],
)
async def test_retry_after_is_honoured_up_to_an_hour(
    server: Server, executor: HttpExecutor, headers: dict[str, str], delay: timedelta | None
) -> None:
    server.answers["/hook"] = answer(503, **headers)
    attempt_result = await send(executor, f"{server.url}/hook")
    assert (attempt_result.outcome, attempt_result.delay) == (Outcome.ERROR, delay)


async def test_a_refused_connection_is_an_error(executor: HttpExecutor) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        attempt_result = await send(executor, f"http://127.0.0.1:{unheard.getsockname()[1]}/")
    assert attempt_result.outcome is Outcome.ERROR
    assert "ConnectError" in (attempt_result.error or "")


async def test_a_connection_that_breaks_off_is_an_error(server: Server, executor: HttpExecutor) -> None:
    async def break_off(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        writer.close()

    server.answers["/hook"] = break_off
    attempt_result = await send(executor, f"{server.url}/hook")
    assert attempt_result.outcome is Outcome.ERROR
    assert "RemoteProtocolError" in (attempt_result.error or "")


async def test_a_name_that_cannot_be_resolved_is_an_error(
    executor: HttpExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    attempt_result = await send(executor, "http://nowhere.test/")
    assert attempt_result.outcome is Outcome.ERROR
    assert "nowhere.test cannot be resolved" in (attempt_result.error or "")


@pytest.mark.parametrize(
    ("url", "headers"),
    [("http://[::1/", {}), ("http://a:b:c/", {}), ("http://127.0.0.1/", {"X-Bad": "a\r\nHost: b"})],
)
async def test_a_request_that_cannot_be_sent_fails_for_good(
    server: Server, executor: HttpExecutor, url: str, headers: dict[str, str]
) -> None:
    url = url.replace("127.0.0.1", f"127.0.0.1:{server.port}")
    attempt_result = await send(executor, url, headers=headers)
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "cannot be sent" in (attempt_result.error or "")
    assert server.requests == []


async def test_the_timeout_of_the_job_bounds_the_whole_attempt(server: Server, executor: HttpExecutor) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    server.answers["/hook"] = drip
    attempt_result = await send(executor, f"{server.url}/hook", timeout="100ms")
    assert attempt_result == AttemptResult(
        Outcome.TIMEOUT, error=f"GET {server.url}/hook was not answered within 100ms"
    )
    await eventually(lambda: server.closed == 1, what="the end of the connection")


async def test_a_cancellation_closes_the_connection_and_goes_on(server: Server, executor: HttpExecutor) -> None:
    async def never(_: asyncio.StreamWriter) -> None:
        return

    server.answers["/hook"] = never
    attempt = asyncio.create_task(send(executor, f"{server.url}/hook"))
    await eventually(lambda: server.requests)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    await eventually(lambda: server.closed == 1, what="the end of the connection")


REFUSED = [
    "169.254.169.254",
    "0.0.0.0",
    "[::]",
    "[fe80::1]",
    "[::ffff:169.254.169.254]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[64:ff9b:1:a9fe:a9:fe00::]",
    "[64:ff9b:1:a9:fe:a9fe::]",
    "[64:ff9b:1:0:a9:fea9:fe00:0]",
    "[::a9fe:a9fe]",
    "[2001:0:808:808:0:0:5601:5601]",
    "[2002:a9fe:a9fe::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fd00:42::42]",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "[::ffff:100.100.100.200]",
    "2852039166",
    "0xa9fea9fe",
]


@pytest.mark.parametrize("address", ["::1", "64:ff9b:1::a00:1", "64:ff9b::808:808", "::a00:1", "2606:4700::1111"])
def test_an_ipv6_form_of_an_ordinary_address_is_not_refused(address: str) -> None:
    assert not any(meant in network for meant in http._meanings(ip_address(address)) for network in http.REFUSED)


@pytest.mark.parametrize("host", REFUSED)
@pytest.mark.parametrize("allowed", [None, ["*"]])
async def test_link_local_addresses_are_refused_however_they_are_written(host: str, allowed: list[str] | None) -> None:
    async with HttpExecutor(allowed_hosts=allowed) as executor:
        attempt_result = await send(executor, f"http://{host}/latest/meta-data")
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "link-local" in (attempt_result.error or "")


async def test_a_name_with_one_link_local_address_is_refused(
    server: Server, executor: HttpExecutor, names: dict[str, list[list[str]]]
) -> None:
    names["mixed.test"] = [["127.0.0.1", "169.254.169.254"]]
    attempt_result = await send(executor, f"http://mixed.test:{server.port}/")
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "mixed.test is at 169.254.169.254" in (attempt_result.error or "")
    assert server.connections == 0


async def test_a_redirect_to_a_link_local_address_is_refused(
    server: Server, executor: HttpExecutor, names: dict[str, list[list[str]]]
) -> None:
    names["metadata.test"] = [["169.254.169.254"]]
    for location in ("http://169.254.169.254/latest", "http://metadata.test/latest"):
        server.answers["/hook"] = answer(307, Location=location)
        attempt_result = await send(executor, f"{server.url}/hook")
        assert attempt_result.outcome is Outcome.PERMANENT
        assert "link-local" in (attempt_result.error or "")


async def test_the_connection_goes_to_the_address_that_was_checked(
    server: Server, executor: HttpExecutor, names: dict[str, list[list[str]]]
) -> None:
    names["rebinding.test"] = [["127.0.0.1"], ["169.254.169.254"]]
    server.answers["/hook"] = answer(200)
    attempt_result = await send(executor, f"http://rebinding.test:{server.port}/hook")
    assert attempt_result.outcome is Outcome.OK
    assert server.requests[0].headers["host"] == f"rebinding.test:{server.port}"
    assert names["rebinding.test"] == [["169.254.169.254"]], "it was looked up once"


async def test_the_next_address_of_a_name_is_tried_when_one_does_not_answer(
    server: Server, executor: HttpExecutor, names: dict[str, list[list[str]]]
) -> None:
    names["two.test"] = [["127.0.0.2", "127.0.0.1"]]
    server.answers["/hook"] = answer(200)
    assert (await send(executor, f"http://two.test:{server.port}/hook")).outcome is Outcome.OK


async def test_tls_is_asked_for_the_name_and_not_for_the_address(
    executor: HttpExecutor, names: dict[str, list[list[str]]]
) -> None:
    names["secure.test"] = [["127.0.0.1"]]
    hellos: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hellos.append(await reader.read(4096))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        attempt_result = await send(executor, f"https://secure.test:{port}/")
    assert attempt_result.outcome is Outcome.ERROR
    assert b"secure.test" in hellos[0]


async def test_redirects_are_followed_a_few_times(server: Server, executor: HttpExecutor) -> None:
    for n in range(MAX_REDIRECTS):
        server.answers[f"/{n}"] = answer(307, Location=f"/{n + 1}")
    server.answers[f"/{MAX_REDIRECTS}"] = answer(200)
    attempt_result = await send(executor, f"{server.url}/0", method="POST", body="text")
    assert attempt_result.outcome is Outcome.OK
    assert server.requests[-1].body == b"text"
    server.answers[f"/{MAX_REDIRECTS}"] = answer(307, Location="/0")
    attempt_result = await send(executor, f"{server.url}/0")
    assert attempt_result.outcome is Outcome.PERMANENT
    assert "redirected more than 5 times" in (attempt_result.error or "")


async def test_the_jobs_own_headers_stay_with_their_origin(
    server: Server, executor: HttpExecutor, names: dict[str, list[list[str]]]
) -> None:
    names["other.test"] = [["127.0.0.1"]]
    server.answers["/near"] = answer(307, Location="/far")
    server.answers["/far"] = answer(307, Location=f"http://other.test:{server.port}/end")
    server.answers["/end"] = answer(200)
    own = {"X-Api-Key": "secret", "Authorization": "secret", "Content-Type": "text/plain", "Host": "front.test"}
    attempt_result = await send(executor, f"{server.url}/near", method="POST", headers=own, body="text")
    assert attempt_result.outcome is Outcome.OK
    _, near, end = server.requests
    assert near.headers["x-api-key"] == near.headers["authorization"] == "secret"
    assert "secret" not in end.headers.values()
    assert end.headers["content-type"] == "text/plain"
    assert end.headers["host"] == f"other.test:{server.port}"
    assert end.headers["idempotency-key"] == RUN


@pytest.mark.parametrize(
    ("allowed", "passes"),
    [
        (["127.0.0.0/8"], True),
        (["127.0.0.1"], True),
        (["*.test"], True),
        (["HOOKS.test", "10.0.0.0/8"], True),
        (["other.test", "10.0.0.0/8"], False),
        ([], False),
    ],
)
async def test_a_list_of_hosts_allows_those_and_no_other(
    server: Server, names: dict[str, list[list[str]]], allowed: list[str], passes: bool
) -> None:
    names["hooks.test"] = [["127.0.0.1"]]
    server.answers["/hook"] = answer(200)
    async with HttpExecutor(allowed_hosts=allowed) as executor:
        attempt_result = await send(executor, f"http://hooks.test:{server.port}/hook")
    assert attempt_result.outcome is (Outcome.OK if passes else Outcome.PERMANENT)
    assert ("ALLOW_HTTP_HOSTS" in (attempt_result.error or "")) is not passes
    assert len(server.requests) == passes


async def test_nothing_is_kept_between_requests(server: Server, executor: HttpExecutor) -> None:
    server.answers["/hook"] = answer(200, Set_Cookie="session=1; Path=/")
    for _ in range(2):
        await send(executor, f"{server.url}/hook")
    assert "cookie" not in server.requests[1].headers
    assert server.connections == 2


async def test_no_message_shows_a_password_or_a_query(server: Server, executor: HttpExecutor) -> None:
    server.answers["/hook"] = answer(500)
    lines = Lines()
    url = f"http://user:pass-word@127.0.0.1:{server.port}/hook?token=to-ken#frag"
    told = [(await send(executor, url, lines)).error, *(text for _, text in lines.all)]
    assert "authorization" in server.requests[0].headers
    assert not any("pass-word" in (text or "") or "to-ken" in (text or "") for text in told)


async def test_the_nodes_proxy_settings_are_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.answers["/hook"] = answer(200)
    async with HttpExecutor() as executor:
        assert (await send(executor, f"{server.url}/hook")).outcome is Outcome.OK


@pytest.mark.parametrize("status", [404, 429, 503])
async def test_an_unexpected_status_is_carried_for_retry_rules(
    server: Server, executor: HttpExecutor, status: int
) -> None:
    server.answers["/hook"] = answer(status)
    assert (await send(executor, f"{server.url}/hook")).error_classes == (f"http:{status}",)


async def test_without_a_response_the_classes_of_the_error_and_its_causes_are_carried(executor: HttpExecutor) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        refused = await send(executor, f"http://127.0.0.1:{free.getsockname()[1]}/")
    unknown = await send(executor, "http://no-such-host.invalid/")
    assert {"builtins.ConnectionRefusedError", "builtins.ConnectionError"} <= set(refused.error_classes)
    assert "socket.gaierror" in unknown.error_classes
    assert "builtins.ConnectionRefusedError" not in unknown.error_classes

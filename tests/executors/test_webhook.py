"""What receivers are sent, how it is signed, and what their answers come to; against a real server on the loopback."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import socket
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cronflow.auth.vault import Vault
from cronflow.backends.clock import SystemClock
from cronflow.domain.access import Secret
from cronflow.domain.alert_receivers import Webhook, WebhookFormat
from cronflow.domain.alerts import Answer
from cronflow.executors.webhook import HttpWebhookSender, key_of, signature
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import T0
from tests.executors.web import Server, answer

AT = datetime(2021, 2, 25, 12, 0, tzinfo=UTC)
KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = '{"text": "grüß"}'
VAULT = Vault([bytes(32)])


async def posted(
    webhook: Webhook, *, hosts: list[str] | None = None, secret: str | None = SECRET, vault: Vault | None = VAULT
) -> Answer:
    """What came of a notice."""
    backends = memory_backends(SystemClock())
    if secret is not None:
        await backends.secrets.put(
            Secret(name="HOOKS", sealed=VAULT.seal("HOOKS", secret), updated_at=T0, updated_by="")
        )
    webhook_sender = HttpWebhookSender(backends.secrets, vault, SystemClock(), allowed_hosts=hosts)
    return await webhook_sender.post(webhook, "msg_1", BODY, AT)


def signed(server: Server) -> Webhook:
    """A webhook of this server, with a secret."""
    return Webhook(f"{server.url}/hook", "${secret:HOOKS}")


async def test_a_notice_is_a_post_with_the_headers_of_standard_webhooks(server: Server) -> None:
    server.answers["/hook"] = answer(204)
    found = await posted(signed(server))
    assert (found.taken, found.status, found.error) == (True, 204, None)
    [request] = server.requests
    assert (request.method, request.body.decode()) == ("POST", BODY)
    headers = request.headers
    stamp = str(int(AT.timestamp()))
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_1", stamp)
    assert headers["content-type"] == "application/json"
    expected = hmac.new(KEY, f"msg_1.{stamp}.{BODY}".encode(), hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of its reference implementations."""
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", '{"test": 2432232314}')
    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_without_a_secret_nothing_is_signed(server: Server) -> None:
    server.answers["/hook"] = answer(200)
    assert (await posted(Webhook(f"{server.url}/hook"))).taken
    assert "webhook-signature" not in server.requests[0].headers


@pytest.mark.parametrize("status", [199 + 101, 301, 400, 404, 410, 429, 500, 503])
async def test_any_status_but_2xx_is_a_failure_with_the_response_text(server: Server, status: int) -> None:
    server.answers["/hook"] = answer(status, "oh\n  no" + "!" * 1000, Location="/other")
    found = await posted(signed(server))
    assert (found.taken, found.status) == (False, status)
    assert (found.error or "").startswith(f"answered {status}: oh no!!!")
    assert len(found.error or "") < 600
    assert [request.path for request in server.requests] == ["/hook"], "a redirect is not followed"


async def test_a_receiver_that_hangs_is_left_after_the_time_limit(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronflow.executors.webhook.TIMEOUT_S", 1)
    enough = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        await enough.wait()

    async def dribble(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        await enough.wait()

    for silent in (hang, dribble):
        server.answers["/hook"] = silent
        before = server.connections
        for _ in range(30):
            found = await posted(signed(server))
            assert (found.status, found.error) == (None, "no answer within 1 s")
            # On a busy machine a request may take longer than that to arrive.
            if server.connections > before:
                break
        assert server.connections > before
    enough.set()


async def test_an_unreachable_receiver_is_reported_without_its_query(server: Server) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = await posted(Webhook(f"http://127.0.0.1:{port}/hook?token=abc", "${secret:HOOKS}"))
    assert found.status is None
    assert f"http://127.0.0.1:{port}/hook cannot be reached" in (found.error or "")
    assert "abc" not in (found.error or "")


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "100.100.100.200"])
async def test_metadata_and_link_local_addresses_are_never_talked_to(host: str) -> None:
    found = await posted(Webhook(f"http://{host}/hook"))
    assert (found.taken, found.status) == (False, None)
    assert "never connects to link-local and metadata addresses" in (found.error or "")


async def test_a_host_that_is_not_allowed_is_not_talked_to(server: Server) -> None:
    found = await posted(signed(server), hosts=["hooks.example.com"])
    assert "add it to ALLOW_HTTP_HOSTS" in (found.error or "")
    assert server.connections == 0


async def test_an_unsignable_notification_is_not_sent_and_reports_a_remedy(server: Server) -> None:
    server.answers["/hook"] = answer(200)
    missing = await posted(signed(server), secret=None)
    assert "there is no secret HOOKS" in (missing.error or "")
    assert "cronflow secrets set HOOKS" in (missing.error or "")
    keyless = await posted(signed(server), vault=None)
    assert "no SECRETS_KEY" in (keyless.error or "")
    other = await posted(signed(server), vault=Vault([bytes([1]) * 32]))
    assert "sealed with a key that is not in SECRETS_KEY" in (other.error or "")
    for text in ("a long password", "whsec_x", "whsec_" + base64.b64encode(b"short").decode(), SECRET[6:]):
        unfit = await posted(signed(server), secret=text)
        assert "is not whsec_" in (unfit.error or "")
        assert text not in (unfit.error or "")
    assert server.connections == 0


# ------------------------------------------------------------------------------------- an address that is a secret

TOKEN = "T0K3N-n0b0dy-kn0ws"


async def posted_to_secret(url: str, body: str = "", server: Server | None = None) -> str:
    """The error of an answer with this body, from a receiver whose address is a secret."""
    if server is not None:
        server.answers["/services/B0X/" + TOKEN] = answer(500, body)
    found = await posted(Webhook("${secret:HOOKS}", format=WebhookFormat.SLACK), secret=url)
    assert found.error is not None
    return found.error


ECHOES = {
    "the address": "no such hook: {url}",
    "the path": "no such hook: {path}",
    "the token": f"unknown token {TOKEN}",
    "as JSON": '{{"path": "\\/services\\/B0X\\/' + TOKEN + '", "key": "s3cr3t+v4lue"}}',
    "as HTML": "<p>{html}</p>",
    "decoded": "key s3cr3t v4lue, or s3cr3t+v4lue",
    "far behind": "x" * 490 + " {path}",
    "at the very end": "x" * 495 + TOKEN,
}


@pytest.mark.parametrize("echo", ECHOES)
async def test_an_answer_that_repeats_a_secret_address_is_masked(server: Server, echo: str) -> None:
    path = f"/services/B0X/{TOKEN}?key=s3cr3t%2Bv4lue&to=a"
    shown = ECHOES[echo].format(url=server.url + path, path=path, html=path.replace("&", "&amp;"))
    error = await posted_to_secret(server.url + path, shown, server)
    assert error.startswith("answered 500: ")
    for part in (TOKEN, TOKEN[:5], "s3cr3t%2Bv4lue", "s3cr3t+v4lue", "B0X/"):
        assert part not in error, error
    assert len(error) <= 520


async def test_an_answer_is_cut_and_no_secret_is_cut_in_two(server: Server) -> None:
    url = f"{server.url}/services/B0X/{TOKEN}"
    for before in range(470, 530, 3):
        body = "y" * before + f" {url} " + TOKEN * 40
        error = await posted_to_secret(url, body, server)
        assert TOKEN[:4] not in error, before
        assert error.startswith("answered 500: " + "y" * min(before, 400))


async def test_an_answer_of_a_plain_address_is_shown_as_it_is(server: Server) -> None:
    server.answers["/hook"] = answer(500, "no such path: /hook")
    assert (await posted(signed(server))).error == "answered 500: no such path: /hook"


async def test_a_secret_address_that_is_not_valid_is_not_repeated() -> None:
    error = await posted_to_secret(f"http://127.0.0.1:{TOKEN}/hook")
    assert error == "the address in the secret is not valid"
    public = await posted(Webhook("http://127.0.0.1:nine/hook"))
    assert "nine" in (public.error or "")


async def test_an_answer_is_taken_only_for_2xx() -> None:
    good = Answer(204, None, 1)
    assert good.taken
    assert not replace(good, error="x").taken

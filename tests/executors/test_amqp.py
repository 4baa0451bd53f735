"""What is published, what a confirm, a return and a reply mean; against a real RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from pamqp.common import FieldTable

from cronflow.domain.amqp_target import AmqpReply, AmqpTarget
from cronflow.domain.capabilities import Capabilities, needs_of
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors import amqp
from cronflow.executors.amqp import AmqpExecutor
from cronflow.executors.http import Breakers
from tests.executors import FENCE, RUN, Lines, assignment
from tests.rabbitmq import RabbitServer, taken
from tests.secured import certificates
from tests.servers import fresh_namespace
from tests.waiting import eventually


@pytest.fixture
async def executor() -> AsyncIterator[AmqpExecutor]:
    async with AmqpExecutor(namespace=fresh_namespace()) as executor:
        yield executor


@pytest.fixture
async def channel(rabbit: RabbitServer) -> AsyncIterator[AbstractChannel]:
    """A channel of the consumers of a test."""
    async with await aio_pika.connect(rabbit.url) as connection, connection.channel() as channel:
        yield channel


async def reply(
    channel: AbstractChannel, to: AbstractIncomingMessage, body: object, *, fence: int | None = None
) -> None:
    """Reply as a consumer does."""
    assert to.reply_to is not None
    correlation = to.correlation_id if fence is None else f"{RUN}#{fence}"
    message = aio_pika.Message(json.dumps(body).encode(), correlation_id=correlation, delivery_mode=2)
    await channel.default_exchange.publish(message, to.reply_to)


def sending(executor: AmqpExecutor, target: AmqpTarget, lines: Lines, **given: Any) -> asyncio.Task[AttemptResult]:
    return asyncio.create_task(executor.run(assignment(target, **given), "node-1", lines))


async def test_a_confirmed_message_has_its_properties_headers_and_body(
    executor: AmqpExecutor, rabbit: RabbitServer, channel: AbstractChannel
) -> None:
    queue = await channel.declare_queue(fresh_namespace(), durable=True)
    exchange = await channel.declare_exchange(fresh_namespace(), auto_delete=True)
    await queue.bind(exchange, "reports")
    target = AmqpTarget(
        rabbit.url,
        exchange.name,
        "reports",
        body='{"ü": 1}',
        headers={"x-team": "billing"},
        expiration=timedelta(minutes=1),
    )
    lines = Lines()
    assert (await sending(executor, target, lines)).outcome is Outcome.OK
    message = await taken(channel, queue.name)
    assert (message.body, message.content_type) == ('{"ü": 1}'.encode(), "application/json")
    assert (message.message_id, message.type, message.app_id) == (RUN, "demo", "cronflow")
    assert (message.delivery_mode, message.expiration) == (2, 60)
    assert (message.reply_to, message.correlation_id) == (None, None)
    assert message.headers == {
        "x-team": "billing",
        "Idempotency-Key": RUN,
        "CronFlow-Run": RUN,
        "CronFlow-Job": "demo",
        "CronFlow-Fire-At": "2026-11-21T02:00:00Z",
        "CronFlow-Attempt": 1,
        "CronFlow-Fence": FENCE,
        "CronFlow-Chain": RUN,
    }
    assert "guest" not in str(lines.all)

    # Without these defaults, and without a queue: the broker drops it, as the job allows.
    plain = replace(target, exchange="", routing_key="nowhere", mandatory=False, persistent=False)
    assert (await sending(executor, plain, lines)).outcome is Outcome.OK
    await queue.delete()


async def test_what_a_broker_does_not_accept_fails_the_attempt_and_no_other(
    executor: AmqpExecutor, rabbit: RabbitServer, channel: AbstractChannel
) -> None:
    full = fresh_namespace()
    limits: FieldTable = {"x-max-length": 0, "x-overflow": "reject-publish"}
    queue = await channel.declare_queue(full, arguments=limits)
    cases = {
        "was returned: no queue is bound to receive it": AmqpTarget(rabbit.url, routing_key="absent"),
        "no exchange 'absent' in vhost '/'": AmqpTarget(rabbit.url, exchange="absent"),
        "was not accepted (nack)": AmqpTarget(rabbit.url, routing_key=full),
    }
    # At the same time, over one connection.
    tasks = {words: sending(executor, target, Lines()) for words, target in cases.items()}
    for words, task in tasks.items():
        result = await task
        assert result.outcome is Outcome.ERROR
        assert words in (result.error or "")
        assert result.error_classes
    await queue.delete()

    wrong = await sending(executor, AmqpTarget(rabbit.url.replace(":guest@", ":wrong@"), routing_key="x"), Lines())
    assert wrong.outcome is Outcome.PERMANENT
    assert "refused the login" in (wrong.error or "")
    assert "wrong" not in (wrong.error or "")


async def test_the_reply_ends_the_attempt(
    executor: AmqpExecutor, rabbit: RabbitServer, channel: AbstractChannel
) -> None:
    queue = await channel.declare_queue(fresh_namespace(), durable=True)
    target = AmqpTarget(rabbit.url, routing_key=queue.name, reply=AmqpReply())
    answers: Mapping[str, tuple[Outcome, object]] = {
        '{"ok": true, "result": {"rows": 3}}': (Outcome.OK, {"rows": 3}),
        '{"ok": true}': (Outcome.OK, None),
        '{"failed": true, "error": "no rows"}': (Outcome.ERROR, "no rows"),
        '{"failed": true, "error": "closed", "permanent": true}': (Outcome.PERMANENT, "closed"),
        '{"failed": true}': (Outcome.ERROR, "the consumer gave no error"),
        '"done"': (Outcome.PERMANENT, "the reply '\"done\"' is neither"),
    }
    for body, (outcome, value) in answers.items():
        attempt = sending(executor, target, Lines())
        message = await taken(channel, queue.name)
        assert message.correlation_id == f"{RUN}#{FENCE}"
        # A message that outlives its attempt would be worked on for nothing.
        assert message.expiration == 20
        await reply(channel, message, json.loads(body))
        result = await attempt
        assert result.outcome is outcome
        if outcome is Outcome.OK:
            assert result.result == value
        else:
            assert str(value) in (result.error or "")
    await queue.delete()


async def test_a_late_reply_and_one_to_an_older_fence_are_rejected(
    executor: AmqpExecutor, rabbit: RabbitServer, channel: AbstractChannel
) -> None:
    queue = await channel.declare_queue(fresh_namespace(), durable=True)
    own = fresh_namespace()
    target = AmqpTarget(rabbit.url, routing_key=queue.name, reply=AmqpReply(own))
    lines = Lines()
    late = await sending(executor, target, lines, timeout="500ms")
    assert late.outcome is Outcome.TIMEOUT
    # On a busy machine, even the confirm may take longer.
    expected = "was confirmed, but no reply came" if lines.of("info") else "was not confirmed"
    assert f"{expected} within 500ms" in (late.error or "")
    lines = Lines()
    attempt = sending(executor, target, lines)
    # The first message may have expired in the queue.
    await eventually(lambda: lines.of("info"), what="the confirm")
    message = await taken(channel, queue.name)
    while message.expiration != 20:
        message = await taken(channel, queue.name)
    assert message.reply_to == f"{own}.node-1"
    await reply(channel, message, {"ok": True, "result": "of an older attempt"}, fence=FENCE - 1)
    await eventually(lambda: lines.of("warn"), what="the rejected reply")
    assert lines.of("warn") == [f"rejected a reply to fence {FENCE - 1}: this attempt has fence {FENCE}"]
    assert not attempt.done()
    await reply(channel, message, {"ok": True, "result": "of this one"})
    assert (await attempt).result == "of this one"
    await queue.delete()


async def test_a_reply_arrives_although_the_broker_was_restarted_meanwhile(
    executor: AmqpExecutor, rabbit: RabbitServer
) -> None:
    async with await aio_pika.connect(rabbit.url) as connection, connection.channel() as channel:
        queue = await channel.declare_queue(fresh_namespace(), durable=True)
        lines = Lines()
        target = AmqpTarget(rabbit.url, routing_key=queue.name, reply=AmqpReply())
        attempt = sending(executor, target, lines)
        await eventually(lambda: lines.of("info"), what="the confirm")
    await asyncio.to_thread(rabbit.restart)
    async with await aio_pika.connect(rabbit.url) as connection, connection.channel() as channel:
        # The message was persistent, and so is the queue for its reply.
        message = await taken(channel, queue.name)
        await reply(channel, message, {"ok": True, "result": 7})
        assert (await attempt).result == 7
        assert (await sending(executor, replace(target, reply=None), Lines())).outcome is Outcome.OK
        await channel.queue_delete(queue.name)


async def test_a_broker_that_is_down_is_not_called_by_every_run_and_where_nothing_may_go_nothing_goes(
    rabbit: RabbitServer,
) -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    target = AmqpTarget(f"amqp://127.0.0.1:{port}", routing_key="x")
    async with silent, AmqpExecutor(namespace="t", breakers=Breakers(failures=1)) as executor:
        slow = await sending(executor, target, Lines(), timeout="200ms")
        assert slow.outcome is Outcome.TIMEOUT
        assert slow.error == f"the message to queue x at 127.0.0.1:{port} was not confirmed within 200ms"
        assert (await sending(executor, target, Lines())).outcome is Outcome.DEFERRED
    async with AmqpExecutor(namespace="t", allowed_hosts=["10.0.0.0/8"]) as executor:
        refused = await sending(executor, AmqpTarget(rabbit.url, routing_key="x"), Lines())
        assert refused.outcome is Outcome.PERMANENT
        assert "is not allowed on this node" in (refused.error or "")
        options = await sending(executor, AmqpTarget("${secret:X}", routing_key="x"), Lines())
        assert options.outcome is Outcome.PERMANENT


class Names:
    """Resolves one name: first to the loopback, and then to where no job may go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.asked = 0
        real = socket.getaddrinfo

        def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
            if host != name:
                return real(host, port, *args, **kwargs)
            self.asked += 1
            return real("127.0.0.1" if self.asked == 1 else "169.254.169.254", port, *args, **kwargs)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)


async def test_the_connection_goes_to_the_address_that_was_checked(
    executor: AmqpExecutor, rabbit: RabbitServer, channel: AbstractChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await channel.declare_queue(fresh_namespace(), auto_delete=True)
    names = Names(monkeypatch, "broker.example.com")
    target = AmqpTarget(rabbit.url.replace("127.0.0.1", "broker.example.com"), routing_key=queue.name)
    for _ in range(2):
        sent = await sending(executor, target, Lines())
        assert sent.outcome is Outcome.OK, sent.error
        await taken(channel, queue.name)
    assert names.asked == 1, "an open connection needs no address"
    async with AmqpExecutor(namespace="t") as other:
        refused = await sending(other, target, Lines())
    assert refused.outcome is Outcome.PERMANENT
    assert "never connects to link-local and metadata addresses" in (refused.error or "")


async def test_a_name_that_does_not_resolve_fails_the_attempt_and_the_next_address_is_tried(
    rabbit: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def several(host: str, port: int | None, allowed: object) -> list[str]:
        if host == "nowhere.example.com":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ["127.0.0.2", "127.0.0.1"]

    monkeypatch.setattr(amqp, "checked_addresses", several)
    async with AmqpExecutor(namespace="t") as executor:
        nowhere = AmqpTarget("amqp://nowhere.example.com", routing_key="x")
        lost = await sending(executor, nowhere, Lines())
        assert (lost.outcome, lost.error) == (
            Outcome.ERROR,
            "nowhere.example.com cannot be resolved: Name or service not known",
        )
        url = rabbit.url.replace("127.0.0.1", "broker.example.com")
        unbound = await sending(executor, AmqpTarget(url, routing_key="nobody-listens"), Lines())
        assert "no queue is bound" in (unbound.error or "")


async def test_the_certificate_of_a_checked_address_is_verified_for_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificates(tmp_path)
    asked: list[str | None] = []
    server_side = made.context
    server_side.sni_callback = lambda _socket, name, _context: asked.append(name)
    trusting = ssl.create_default_context(cafile=made.authority)
    monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)

    async def here(host: str, port: int | None, allowed: object) -> list[str]:
        return ["127.0.0.1"]

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    monkeypatch.setattr(amqp, "checked_addresses", here)
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=server_side)
    port = server.sockets[0].getsockname()[1]
    async with server, AmqpExecutor(namespace="t") as executor:
        for name, verified in (("localhost", True), ("broker.example.com", False)):
            failed = await sending(executor, AmqpTarget(f"amqps://{name}:{port}", routing_key="x"), Lines())
            assert failed.outcome is Outcome.ERROR
            assert ("certificate verify failed" in (failed.error or "")) is not verified, failed.error
    assert asked == ["localhost", "broker.example.com"]


async def test_a_node_without_the_extra_declines_and_announces_it(monkeypatch: pytest.MonkeyPatch) -> None:
    one = assignment(AmqpTarget("amqp://broker", routing_key="x"))
    executor = AmqpExecutor(namespace="t")
    assert await executor.declines(one, "node-1") is None
    monkeypatch.setattr(amqp, "client_is_installed", lambda: False)
    reason = "node node-1 cannot publish to a broker; install cronflow[amqp] there"
    assert await executor.declines(one, "node-1") == reason
    assert Capabilities().obstacle(needs_of(one.job)) == "cannot publish to a broker (install cronflow[amqp])"
    assert Capabilities(amqp=True).obstacle(needs_of(one.job)) is None

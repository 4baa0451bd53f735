"""Publishes one message to a broker with publisher confirms, and may wait for the reply of its consumer.

An attempt succeeds when the broker has confirmed the message. With `reply` it ends with the reply, and its run keeps
its lease until then. Messages carry the run id, attempt and fence, so consumers can drop duplicates and late messages.
A reply counts only for the attempt that asked for it: those of earlier attempts have an older fence and are rejected.

Rule: an attempt never publishes twice, whatever happens to the connection. A message that may have been published is
published again only by the next attempt, which the job's `retry` and `delivery` decide about. A published message
cannot be taken back, so cancelling a run only stops the wait for its reply.

The library is in the extra `amqp`; a node without it announces that, and declines what it is given nevertheless.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import orjson

from cronflow.circuit_breaker import Circuit, CircuitOpen
from cronflow.domain.amqp_target import AmqpTarget, address_problem
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import PermanentError
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.http import Breakers, HostFailed, checked_addresses, error_classes
from cronflow.ports import Assignment, LineSink

if TYPE_CHECKING:
    from cronflow.executors.amqp_broker import Broker, OutgoingMessage

EXTRA = "cronflow[amqp]"
LONGEST_ERROR = 10_000
"""Characters of a consumer's error that are kept."""
PORTS = {"amqp": 5672, "amqps": 5671}


def client_is_installed() -> bool:
    return importlib.util.find_spec("aio_pika") is not None


class AmqpExecutor:
    """Runs AmqpTargets, as an async context manager. It keeps one connection per address while it is in use.

    For `allowed_hosts` see HttpExecutor. `namespace` names the queues for replies of this cluster.
    """

    def __init__(
        self, *, namespace: str, allowed_hosts: Sequence[str] | None = None, breakers: Breakers | None = None
    ) -> None:
        self._namespace = namespace
        self._allowed_hosts = allowed_hosts
        self._breakers = breakers or Breakers()
        self._brokers: dict[str, Broker] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        brokers = list(self._brokers.values())
        self._brokers.clear()
        for broker in brokers:
            await broker.close()

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See SelectiveExecutor."""
        return None if client_is_installed() else f"node {node} cannot publish to a broker; install {EXTRA} there"

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. A message that no queue receives, a nack, a missing exchange, a lost connection and a reply
        with `failed` fail the attempt; a missing confirm or reply is a timeout. A refused login and a reply with
        `permanent` fail permanently. While the breaker of a broker is open, attempts are deferred.
        """
        if not client_is_installed():
            return AttemptResult(Outcome.PERMANENT, error=f"node {node} cannot publish to a broker; install {EXTRA}")
        target = assignment.job.target
        assert isinstance(target, AmqpTarget)
        if (why := address_problem(target.url)) is not None:
            return AttemptResult(Outcome.PERMANENT, error=f"the address of the broker cannot be used: {why}")
        parts = urlsplit(target.url)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        where = f"{host}:{port}"
        attempt = _Attempt(self, assignment, target, node, where, log)
        try:
            return await attempt.run(host, port, self._breakers.of(f"amqp {where}"))
        except HostFailed as failed:
            return failed.attempt_result
        except CircuitOpen as refusal:
            why = f"nothing was sent to {where}: it has failed too often, its circuit breaker is open"
            return AttemptResult(Outcome.DEFERRED, error=why, delay=timedelta(seconds=refusal.retry_in_s))

    def broker(self, url: str, host: str, port: int) -> Broker:
        """The broker at this address."""
        # Imported here, because the library is optional.
        from cronflow.executors.amqp_broker import Broker

        broker = self._brokers.get(url)
        if broker is None:
            resolve = partial(checked_addresses, host, port, self._allowed_hosts)
            broker = self._brokers[url] = Broker(url, resolve, forget=lambda: self._brokers.pop(url, None))
        return broker

    def reply_queue(self, target: AmqpTarget, node: str) -> str | None:
        """The queue of this node for replies. Each node has its own, so every reply reaches the node that waits."""
        if target.reply is None:
            return None
        return f"{target.reply.queue or f'cronflow.{self._namespace}.replies'}.{node}"


class _Attempt:
    """One attempt to publish, and then the wait for the reply. Only the first counts for the breaker of the broker."""

    def __init__(
        self, owner: AmqpExecutor, assignment: Assignment, target: AmqpTarget, node: str, where: str, log: LineSink
    ) -> None:
        self._owner = owner
        self._assignment = assignment
        self._target = target
        self._queue = owner.reply_queue(target, node)
        self._log = log
        self._what = f"the message to {_destination(target)} at {where}"
        self._where = where

    async def run(self, host: str, port: int, circuit: Circuit) -> AttemptResult:
        """Raises CircuitOpen, and HostFailed with the result if the failure counts against the broker."""
        from cronflow.executors.amqp_broker import BrokerRefused, MessageRejected

        timeout = self._assignment.job.timeout
        deadline = asyncio.get_running_loop().time() + timeout.total_seconds()
        try:
            async with AsyncExitStack() as stack:
                with circuit.calling():
                    reply = await self._sent(stack, host, port, deadline)
                if reply is None:
                    return AttemptResult(Outcome.OK)
                try:
                    async with asyncio.timeout_at(deadline):
                        body = await reply
                except TimeoutError:
                    text = f"{self._what} was confirmed, but no reply came within {format_duration(timeout)}"
                    return AttemptResult(Outcome.TIMEOUT, error=text)
                return answered(body)
        except PermanentError as error:
            return AttemptResult(Outcome.PERMANENT, error=f"{self._what}: {error}")
        except BrokerRefused as error:
            return AttemptResult(Outcome.PERMANENT, error=f"{self._where}: {error}", error_classes=error_classes(error))
        except MessageRejected as error:
            text = f"{self._what} {error}"
            return AttemptResult(Outcome.ERROR, error=text, error_classes=error_classes(error))

    async def _sent(self, stack: AsyncExitStack, host: str, port: int, deadline: float) -> asyncio.Future[bytes] | None:
        """Publish the message. Returns the reply to come, if one is expected."""
        from cronflow.executors.amqp_broker import BrokerLost

        try:
            async with asyncio.timeout_at(deadline):
                return await self._publish(stack, self._owner.broker(self._target.url, host, port))
        except TimeoutError:
            text = f"{self._what} was not confirmed within {format_duration(self._assignment.job.timeout)}"
            raise HostFailed(AttemptResult(Outcome.TIMEOUT, error=text)) from None
        except BrokerLost as error:
            text = f"{self._what}: {error}"
            raise HostFailed(AttemptResult(Outcome.ERROR, error=text, error_classes=error_classes(error))) from error
        except socket.gaierror as error:
            text = f"{host} cannot be resolved: {error.strerror}"
            raise HostFailed(AttemptResult(Outcome.ERROR, error=text, error_classes=error_classes(error))) from error

    async def _publish(self, stack: AsyncExitStack, broker: Broker) -> asyncio.Future[bytes] | None:
        run, fence = self._assignment.run, self._assignment.fence
        reply = None
        if self._queue is not None:
            # First of all: the reply may come before the confirm.
            reply = await stack.enter_async_context(broker.reply_to(self._queue, run, fence, self._log))
        loop = asyncio.get_running_loop()
        started = loop.time()
        await broker.publish(self._message())
        ms = round((loop.time() - started) * 1000)
        waiting = "" if self._queue is None else f"; waiting for the reply in {self._queue}"
        self._log("info", f"{self._what} was confirmed in {ms} ms{waiting}")
        return reply

    def _message(self) -> OutgoingMessage:
        from cronflow.executors.amqp_broker import OutgoingMessage, correlation_id

        assignment, target = self._assignment, self._target
        expiration = target.expiration
        if expiration is None and self._queue is not None:
            # The reply to a message that outlives its attempt would be rejected, after all the work.
            expiration = assignment.job.timeout
        return OutgoingMessage(
            exchange=target.exchange,
            routing_key=target.routing_key,
            body=(target.body or "").encode(),
            content_type=target.content_type,
            headers={**target.headers, **headers_of(assignment)},
            message_id=assignment.run,
            type=assignment.job.name,
            persistent=target.persistent,
            mandatory=target.mandatory,
            expiration=expiration,
            reply_to=self._queue,
            correlation_id=None if self._queue is None else correlation_id(assignment.run, assignment.fence),
        )


def headers_of(assignment: Assignment) -> dict[str, str | int]:
    """The headers of every message. An HTTP request has those of the same names."""
    headers: dict[str, str | int] = {
        "Idempotency-Key": assignment.run,
        "CronFlow-Run": assignment.run,
        "CronFlow-Job": assignment.job.name,
        "CronFlow-Fire-At": assignment.fire_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "CronFlow-Attempt": assignment.attempt,
        "CronFlow-Fence": assignment.fence,
        "CronFlow-Chain": assignment.chain_id,
    }
    if (shard := assignment.shard) is not None:
        headers |= {"CronFlow-Shard-Index": shard.index, "CronFlow-Shard-Total": shard.total}
    return headers


def answered(body: bytes) -> AttemptResult:
    """The result that a reply stands for. A reply that means nothing fails permanently: the work may be done."""
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict):
        if found.get("ok") is True and not found.get("failed"):
            return AttemptResult(Outcome.OK, result=found.get("result"))
        if found.get("failed") is True and not found.get("ok"):
            error = found.get("error") or "the consumer gave no error"
            text = error if isinstance(error, str) else orjson.dumps(error).decode()
            outcome = Outcome.PERMANENT if found.get("permanent") is True else Outcome.ERROR
            return AttemptResult(outcome, error=text[:LONGEST_ERROR])
    shown = body[:200].decode(errors="replace")
    text = f'the reply {shown!r} is neither {{"ok": true, "result": …}} nor {{"failed": true, "error": …}}'
    return AttemptResult(Outcome.PERMANENT, error=text)


def _destination(target: AmqpTarget) -> str:
    if not target.exchange:
        return f"queue {target.routing_key}"
    return f"exchange {target.exchange}" + (f" with key {target.routing_key}" if target.routing_key else "")

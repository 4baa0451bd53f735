"""The connection of a node to one broker, with the aio-pika library.

Rule: nothing is published twice, and no reply is lost while its attempt waits. A connection is opened on first use,
opened again while replies are awaited, and closed when it has been idle. Each message has a channel of its own, because
a broker closes the channel of a message that it refuses. Replies wait in a durable queue of the node, so neither a lost
connection nor a restart of the broker loses them; it is deleted when the node has not used it for a day.

The name of the broker is resolved here, and the connection goes to a checked address, so DNS that changes in between
cannot bypass the check. TLS verifies the certificate for the name.

It does not publish again, and it does not decide what a failure means for the attempt.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import aio_pika
import structlog
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aiormq.connection import TransportFactory
from aiormq.exceptions import (
    AMQPConnectionError,
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelInvalidStateError,
    ConnectionNotAllowed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from pamqp.common import FieldTable
from yarl import URL

from cronflow.domain.errors import PermanentError
from cronflow.ports import LineSink

# Failures are in the result of the attempt.
for _name in ("aio_pika", "aiormq"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

log = structlog.get_logger("cronflow.node")
CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
IDLE_S = 300.0
RECONNECT_S = 1.0
HEARTBEAT_S = 15
"""A connection without an answer for three times as long is lost. The default of the library is a minute."""
QUEUE_UNUSED = timedelta(days=1)
PREFETCH = 100


class BrokerRefused(Exception):
    """The broker refused the login or the access; only a changed configuration helps."""


class MessageRejected(Exception):
    """The broker did not accept the message. The text continues a sentence about the message."""


class BrokerLost(Exception):
    """The broker cannot be reached, or the connection was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMessage:
    """A message and where it goes."""

    exchange: str
    routing_key: str
    body: bytes
    content_type: str
    headers: Mapping[str, str | int]
    message_id: str
    type: str
    persistent: bool
    mandatory: bool
    expiration: timedelta | None
    reply_to: str | None
    correlation_id: str | None


class _Awaited(NamedTuple):
    queue: str
    fence: int
    body: asyncio.Future[bytes]
    log: LineSink


def correlation_id(run: str, fence: int) -> str:
    """Identifies one attempt in its reply."""
    return f"{run}#{fence}"


class _CheckedTransport(TransportFactory):
    """Connects to the first of these addresses that answers, whatever the name in the URL resolves to by now."""

    def __init__(self, addresses: Sequence[str], context: ssl.SSLContext | None) -> None:
        self._addresses = addresses
        self._context = context

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = url.host if self._context is not None else None
        failure = OSError(f"{url.host} has no address")
        for address in self._addresses:
            try:
                return await asyncio.open_connection(address, url.port, ssl=self._context, server_hostname=name)
            except OSError as error:
                failure = error
        raise AMQPConnectionError(*failure.args) from failure


class Broker:
    """A broker at one address. `resolve` returns the addresses that may be contacted, or raises PermanentError or
    gaierror; so does whatever connects. `forget` is called when its idle connection has been closed.
    """

    def __init__(
        self,
        url: str,
        resolve: Callable[[], Awaitable[Sequence[str]]],
        *,
        forget: Callable[[], object],
        idle_s: float = IDLE_S,
    ) -> None:
        self._url = url
        self._resolve = resolve
        self._forget = forget
        self._idle_s = idle_s
        self._users = 0
        self._closed = False
        self._connection: AbstractConnection | None = None
        self._connecting = asyncio.Lock()
        self._declaring = asyncio.Lock()
        self._consuming: dict[str, AbstractChannel] = {}
        self._awaited: dict[str, _Awaited] = {}
        self._reconnecting: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None

    async def publish(self, message: OutgoingMessage) -> None:
        """Publish once and wait for the confirm. Raises BrokerRefused, MessageRejected, BrokerLost."""
        with self._in_use():
            connection = await self._connected()
            try:
                channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
                try:
                    await _publish(channel, message)
                finally:
                    await _close(channel)
            except (AMQPConnectionError, ChannelInvalidStateError, OSError, ssl.SSLError) as error:
                raise BrokerLost(f"the connection was lost before the confirm ({_text(error)})") from error
            except ChannelAccessRefused as error:
                raise BrokerRefused(_text(error)) from error
            except AMQPError as error:
                raise MessageRejected(f"was refused: {_text(error)}") from error

    @asynccontextmanager
    async def reply_to(self, queue: str, run: str, fence: int, sink: LineSink) -> AsyncIterator[asyncio.Future[bytes]]:
        """The body of the reply to this attempt, once it comes. Its queue is consumed when this begins, and again after
        a lost connection. Raises BrokerRefused, MessageRejected, BrokerLost.
        """
        with self._in_use():
            body: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._awaited[run] = _Awaited(queue, fence, body, sink)
            try:
                await self._consume(queue)
                yield body
            finally:
                if (current := self._awaited.get(run)) is not None and current.body is body:
                    del self._awaited[run]
                body.cancel()

    async def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        for task in (self._reconnecting, self._idle):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        connection, self._connection = self._connection, None
        self._consuming.clear()
        if connection is not None:
            await _close(connection)

    async def _connected(self) -> AbstractConnection:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed:
                return self._connection
            self._consuming.clear()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    connection = await self._open(await self._resolve())
            except socket.gaierror:
                raise
            except (AuthenticationError, ProbableAuthenticationError) as error:
                raise BrokerRefused(f"the broker refused the login ({_text(error)})") from error
            except ConnectionNotAllowed as error:
                raise BrokerRefused(_text(error)) from error
            except TimeoutError as error:
                raise BrokerLost(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
            except (AMQPError, OSError, ssl.SSLError) as error:
                raise BrokerLost(_text(error)) from error
            connection.close_callbacks.add(self._on_connection_closed)
            self._connection = connection
            return connection

    async def _open(self, addresses: Sequence[str]) -> AbstractConnection:
        context = ssl.create_default_context() if self._url.startswith("amqps:") else None
        connection = aio_pika.Connection(
            URL(self._url).update_query(heartbeat=HEARTBEAT_S),
            ssl_context=context,
            client_properties={"connection_name": "cronflow"},
        )
        # The library passes it on, and has no parameter for it.
        connection.kwargs["transport_factory"] = _CheckedTransport(addresses, context)
        await connection.connect()
        return connection

    async def _consume(self, queue: str) -> None:
        """Consume the queue, unless this connection does already."""
        connection = await self._connected()
        try:
            async with self._declaring:
                known = self._consuming.get(queue)
                if known is not None and not known.is_closed:
                    return
                channel = await connection.channel(publisher_confirms=False)
                channel.close_callbacks.add(self._on_closed)
                await channel.set_qos(prefetch_count=PREFETCH)
                arguments: FieldTable = {"x-expires": round(QUEUE_UNUSED.total_seconds() * 1000)}
                declared = await channel.declare_queue(queue, durable=True, arguments=arguments)
                await declared.consume(self._on_reply)
                self._consuming[queue] = channel
        except (AMQPConnectionError, ChannelInvalidStateError, OSError) as error:
            raise BrokerLost(f"the connection was lost ({_text(error)})") from error
        except ChannelAccessRefused as error:
            raise BrokerRefused(_text(error)) from error
        except AMQPError as error:
            raise MessageRejected(
                f"was not sent: the queue {queue} for the reply cannot be used: {_text(error)}"
            ) from error

    async def _on_reply(self, message: AbstractIncomingMessage) -> None:
        run, _, fence = (message.correlation_id or "").rpartition("#")
        awaited = self._awaited.get(run)
        if awaited is not None and fence == str(awaited.fence):
            if not awaited.body.done():
                awaited.body.set_result(message.body)
        elif awaited is not None:
            awaited.log("warn", f"rejected a reply to fence {fence or '?'}: this attempt has fence {awaited.fence}")
        else:
            log.warning("rejected a reply that no attempt waits for", run=run, fence=fence, queue=message.routing_key)
        try:
            await message.ack()
        except (AMQPError, ChannelInvalidStateError, OSError):
            pass  # It comes again over the next connection, and is rejected then.

    def _on_connection_closed(self, connection: object, error: BaseException | None = None) -> None:
        # The library leaves a connection that was lost without the mark that it is closed.
        if connection is self._connection:
            self._connection = None
            self._consuming.clear()
        self._on_closed(connection, error)

    def _on_closed(self, _closed: object, _error: BaseException | None = None) -> None:
        """A channel for replies, or the connection, was closed."""
        if self._awaited and not self._closed and (self._reconnecting is None or self._reconnecting.done()):
            self._reconnecting = asyncio.create_task(self._reconnect(), name="reconnect to the broker")

    async def _reconnect(self) -> None:
        """Consume the queues of the awaited replies again."""
        while self._awaited:
            try:
                for queue in sorted({awaited.queue for awaited in self._awaited.values()}):
                    await self._consume(queue)
            except (BrokerLost, BrokerRefused, MessageRejected, PermanentError, OSError) as error:
                log.warning("cannot wait for replies; trying again", error=str(error))
                await asyncio.sleep(RECONNECT_S)
            else:
                return

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._users += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        try:
            yield
        finally:
            self._users -= 1
            if not self._users and not self._closed:
                self._idle = asyncio.create_task(self._close_idle(), name="idle broker")

    async def _close_idle(self) -> None:
        await asyncio.sleep(self._idle_s)
        self._forget()
        await self.close()


async def _close(what: AbstractChannel | AbstractConnection) -> None:
    """Close it. A broker that does not answer, or a connection that was lost, must not hold an attempt."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await what.close()
    except (AMQPError, ChannelInvalidStateError, OSError, TimeoutError):
        pass


async def _publish(channel: AbstractChannel, message: OutgoingMessage) -> None:
    mode = aio_pika.DeliveryMode.PERSISTENT if message.persistent else aio_pika.DeliveryMode.NOT_PERSISTENT
    outgoing = aio_pika.Message(
        message.body,
        content_type=message.content_type or None,
        headers=dict(message.headers),
        delivery_mode=mode,
        expiration=message.expiration,
        message_id=message.message_id,
        type=message.type,
        app_id="cronflow",
        reply_to=message.reply_to,
        correlation_id=message.correlation_id,
    )
    exchange = channel.default_exchange
    if message.exchange:
        # Not declared: publishing to one that does not exist is an error, and rights to declare are not needed.
        exchange = await channel.get_exchange(message.exchange, ensure=False)
    try:
        await exchange.publish(outgoing, message.routing_key, mandatory=message.mandatory)
    except PublishError as error:
        raise MessageRejected("was returned: no queue is bound to receive it") from error
    except DeliveryError as error:
        raise MessageRejected("was not accepted (nack), for example because a queue is full") from error


def _text(error: BaseException) -> str:
    """The broker's words without the addresses that the library adds."""
    words = [str(one) for one in error.args if isinstance(one, str) and one]
    return words[-1] if words else type(error).__name__

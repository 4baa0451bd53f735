"""A target that publishes a message to a broker that speaks AMQP 0-9-1, such as RabbitMQ, and may wait for a reply.

The address may come from a secret, because it contains a password. So the host may be unknown until an attempt begins;
the node then checks what it received (`address_problem`). Options in the address are refused: client libraries read
files that it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.secret import HIDDEN, check_references, referenced

LONGEST_NAME = 255
"""Bytes of a short string in AMQP 0-9-1, such as a routing key or the name of a queue."""
LONGEST_QUEUE_PREFIX = 100
RESERVED_HEADERS = "cronflow-"
SHORTEST_EXPIRATION = timedelta(milliseconds=1)
LONGEST_EXPIRATION = timedelta(days=49)
"""Brokers count milliseconds in 32 bits."""
_ADDRESS = re.compile(r"amqps?://[^/\s?#]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_MASKED = (f"is {HIDDEN}, from a document that was masked for a viewer", "write the value, or ${secret:NAME}")


@dataclass(frozen=True, slots=True)
class AmqpReply:
    """Wait for the reply of the consumer. The node's queue for replies is named `queue`, a dot and the node's name."""

    queue: str | None = None

    def __post_init__(self) -> None:
        if self.queue is not None and not 1 <= len(self.queue.encode()) <= LONGEST_QUEUE_PREFIX:
            raise InvalidInput(f"it must have 1 to {LONGEST_QUEUE_PREFIX} bytes")


@dataclass(frozen=True, slots=True)
class AmqpTarget:
    """Publish one message. The attempt succeeds when the broker has confirmed it, or with `reply` by the reply."""

    url: str
    exchange: str = ""
    routing_key: str = ""
    body: str | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    persistent: bool = True
    mandatory: bool = True
    expiration: timedelta | None = None
    reply: AmqpReply | None = None

    def __post_init__(self) -> None:
        check_references((self.url, self.headers, self.body), "amqp")
        if not referenced(self.url) and (why := address_problem(self.url)) is not None:
            raise InvalidInput(why)
        for name in ("exchange", "routing_key", "content_type"):
            if len(getattr(self, name).encode()) > LONGEST_NAME:
                raise InvalidInput(f"{name} must have at most {LONGEST_NAME} bytes")
        if self.expiration is not None and not SHORTEST_EXPIRATION <= self.expiration <= LONGEST_EXPIRATION:
            raise InvalidInput("it must be 1ms to 49d")

    @property
    def host(self) -> str:
        """The host of the address; empty if only a secret has it."""
        if not _ADDRESS.match(self.url):
            return ""
        try:
            host = urlsplit(self.url).hostname or ""
        except ValueError:
            return ""
        return "" if "${" in host else host


def address_problem(url: str) -> str | None:
    """What is wrong with the address of a broker; does not repeat it, because it may contain a password."""
    if not _ADDRESS.match(url):
        return "it is not an amqp:// or amqps:// address"
    try:
        parts = urlsplit(url)
        if not parts.hostname or parts.port == 0:
            return "it has no host, or port 0"
    except ValueError:
        # The text of the error repeats a part of the address.
        return "it is not an address; percent-encode the user and the password"
    if parts.query or parts.fragment:
        return "it has options; remove everything from '?' or '#' on"
    return None


def message_problems(target: AmqpTarget) -> list[Problem]:
    """Parts of a message that no node can send; see `job.target_problems`."""
    problems = []
    if not target.exchange and not target.routing_key:
        remedy = "add one; the default exchange delivers to the queue that routing_key names"
        problems.append(Problem("run.amqp", "has neither an exchange nor a routing_key", remedy))
    if _CONTROL.search(target.url):
        problems.append(Problem("run.amqp.url", "contains a control character", "remove it"))
    if f"://{HIDDEN}@" in target.url or f":{HIDDEN}@" in target.url:
        problems.append(Problem("run.amqp.url", *_MASKED))
    problems += [
        Problem(f"run.amqp.{name}", "contains a control character", "remove it")
        for name in ("exchange", "routing_key", "content_type")
        if _CONTROL.search(getattr(target, name))
    ]
    for name, value in target.headers.items():
        if not name or len(name.encode()) > LONGEST_NAME or _CONTROL.search(name):
            what = f"{name[:40]!r} is not the name of a header"
            problems.append(Problem("run.amqp.headers", what, "write a name such as x-team"))
        elif name.lower().startswith(RESERVED_HEADERS) or name.lower() == "idempotency-key":
            what = f"{name!r} is set by CronFlow"
            problems.append(Problem("run.amqp.headers", what, "choose another name"))
        elif HIDDEN in value.split():
            problems.append(Problem(f"run.amqp.headers.{name}", *_MASKED))
    return problems

"""The document of a message for a broker that speaks AMQP 0-9-1, which is a part of a job's document."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from cronflow.documents.keys import OPTIONAL_TEXT, TEXT, TEXTS, LengthForm
from cronflow.documents.retry import OPTIONAL_LENGTH
from cronflow.documents.tables import DocumentTable, Key
from cronflow.documents.values import flag, optional, text
from cronflow.domain.amqp_target import AmqpReply, AmqpTarget


class AmqpReplyForm(TypedDict):
    """Where the consumer sends its reply."""

    queue: Annotated[str | None, OPTIONAL_TEXT]
    """Prefix of the names of the nodes' reply queues; null: `cronflow.NAMESPACE.replies`."""


AMQP_REPLY = DocumentTable(AmqpReplyForm, AmqpReply)
OPTIONAL_REPLY = Key(optional(AMQP_REPLY.read), optional(AMQP_REPLY.write), shorten=optional(AMQP_REPLY.shorten))


class AmqpMessageForm(TypedDict):
    """A message for RabbitMQ, or another broker that speaks AMQP 0-9-1."""

    url: Annotated[str, Key(text, sample="amqp://host", missing="add the address of the broker")]
    """An amqp:// or amqps:// address, preferably from a secret: `${secret:NAME}`."""
    exchange: Annotated[str, TEXT]
    """The exchange; empty: the default exchange, which delivers to the queue that `routing_key` names."""
    routing_key: Annotated[str, TEXT]
    """The routing key."""
    body: Annotated[str | None, OPTIONAL_TEXT]
    """The body, sent unchanged."""
    content_type: Annotated[str, TEXT]
    """MIME type of the body."""
    headers: Annotated[dict[str, str], TEXTS]
    """Headers, in addition to `CronFlow-Run`, `CronFlow-Fence` and the others that every message has."""
    persistent: Annotated[bool, Key(flag)]
    """Whether the broker stores the message on disk, in a durable queue."""
    mandatory: Annotated[bool, Key(flag)]
    """Whether the attempt fails if no queue receives the message."""
    expiration: Annotated[LengthForm | None, OPTIONAL_LENGTH]
    """How long it may wait in a queue; null: no limit, or with `reply` until the attempt times out."""
    reply: Annotated[AmqpReplyForm | None, OPTIONAL_REPLY]
    """Whether the run stays open until the consumer replies; null: it ends when the broker confirms the message."""


AMQP_MESSAGE = DocumentTable(AmqpMessageForm, AmqpTarget)

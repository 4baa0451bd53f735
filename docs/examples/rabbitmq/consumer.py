"""A consumer of tasks: `consumer.py 5` handles five messages, one at a time, and ends; without a number it stays.

A message with `reply_to` is answered, and CronFlow decides about another attempt. Any other message that fails is
rejected, so that RabbitMQ delivers it again after the delay of the retry queue; after TASK_MAX_RETRIES it goes to the
failed queue.
"""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

URL = os.environ.get("RABBIT_URL", "amqp://guest:guest@127.0.0.1:5672")
MAX_RETRIES = int(os.environ.get("TASK_MAX_RETRIES", "3"))
MAIN, EXCHANGE = "cron_scheduler", "cron_dlx"


class PermanentFailure(Exception):
    """Another attempt would fail too."""


def work(task: dict) -> object:
    """The work itself. It may see a task again, so it must be idempotent."""
    if task["type"] == "worker" and task["id"] == 13:
        raise ConnectionError("the warehouse does not answer")
    if task["type"] not in ("report", "worker", "reminder"):
        raise PermanentFailure(f"there are no tasks of type {task['type']}")
    return {"done": f"{task['type']} {task['id']}"}


def retries_of(message: AbstractIncomingMessage) -> int:
    """How often the main queue has rejected it. The header has an entry for each queue and reason."""
    deaths = message.headers.get("x-death") or []
    return sum(int(death["count"]) for death in deaths if death["queue"] == MAIN and death["reason"] == "rejected")


async def reply(channel: AbstractChannel, to: AbstractIncomingMessage, body: dict) -> None:
    message = aio_pika.Message(
        json.dumps(body).encode(),
        correlation_id=to.correlation_id,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )
    await channel.default_exchange.publish(message, to.reply_to)


async def handle(channel: AbstractChannel, message: AbstractIncomingMessage) -> None:
    task, retries = json.loads(message.body), retries_of(message)
    print(f"{message.message_id or 'a task'}: {task['type']} {task['id']}, retry {retries}", flush=True)
    try:
        result = work(task)
    except Exception as error:
        permanent = isinstance(error, PermanentFailure)
        if message.reply_to:
            await reply(channel, message, {"failed": True, "error": str(error), "permanent": permanent})
        elif permanent or retries >= MAX_RETRIES:
            failed = {
                **task,
                "failed_at": datetime.now(UTC).isoformat(),
                "failed_reason": str(error),
                "retry_count": retries,
            }
            body = json.dumps(failed).encode()
            kept = aio_pika.Message(body, headers=message.headers, message_id=message.message_id, delivery_mode=2)
            await (await channel.get_exchange(EXCHANGE)).publish(kept, "failed")
        else:
            await message.reject(requeue=False)
            return
    else:
        if message.reply_to:
            await reply(channel, message, {"ok": True, "result": result})
    # Only now: if this process dies before, RabbitMQ delivers the task again.
    await message.ack()


async def main(count: int | None) -> None:
    async with await aio_pika.connect_robust(URL) as connection, connection.channel() as channel:
        await channel.set_qos(prefetch_count=1)
        queue = await channel.get_queue(MAIN)
        async with queue.iterator() as messages:
            async for message in messages:
                await handle(channel, message)
                if count is not None and (count := count - 1) == 0:
                    return


asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else None))

"""Declares the main, retry and failed queues, and prints how many messages each has. Running it again is harmless."""

import asyncio
import os

import aio_pika

URL = os.environ.get("RABBIT_URL", "amqp://guest:guest@127.0.0.1:5672")
RETRY_DELAY_MS = int(os.environ.get("TASK_RETRY_DELAY_MS", "30000"))
MAIN, RETRY, FAILED, EXCHANGE = "cron_scheduler", "cron_scheduler_retry", "cron_scheduler_failed", "cron_dlx"


async def main() -> None:
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        exchange = await channel.declare_exchange(EXCHANGE, aio_pika.ExchangeType.DIRECT, durable=True)
        # What the consumer rejects goes to the retry queue, and from there back to the main queue after the delay.
        to_retry = {"x-dead-letter-exchange": EXCHANGE, "x-dead-letter-routing-key": "retry"}
        back = {"x-message-ttl": RETRY_DELAY_MS, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": MAIN}
        for name, key, arguments in ((MAIN, None, to_retry), (RETRY, "retry", back), (FAILED, "failed", None)):
            queue = await channel.declare_queue(name, durable=True, arguments=arguments)
            if key is not None:
                await queue.bind(exchange, key)
            print(f"{name:<22} {queue.declaration_result.message_count}")


asyncio.run(main())

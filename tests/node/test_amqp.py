"""A cluster that publishes runs to a real RabbitMQ: what happens when the node that waits for the reply dies."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import aio_pika
from aio_pika.abc import AbstractChannel

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.roles import build_node
from cronflow.domain.amqp_target import AmqpReply, AmqpTarget
from cronflow.domain.capabilities import Capabilities
from cronflow.domain.job import Delivery, Job, Retry
from cronflow.domain.run import Run, RunState
from cronflow.executors.amqp import AmqpExecutor
from cronflow.executors.by_target import Executors
from cronflow.node.timings import Timings
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from tests.node.cluster import Steady
from tests.rabbitmq import RabbitServer, taken
from tests.servers import fresh_namespace
from tests.waiting import PATIENCE_S, eventually

FAST = Timings(
    leader_ttl=1.0, leader_renew=0.2, failover_check=0.5, heartbeat=0.2, node_ttl=1.0, run_lease=1.0, lock_buffer=0.2
)
ABLE = Capabilities(amqp=True)


async def end(tasks: list[asyncio.Task[None]]) -> None:
    """End nodes without a goodbye."""
    for task in tasks:
        task.cancel()
    _, left = await asyncio.wait(tasks, timeout=PATIENCE_S)
    assert not left


async def test_a_run_whose_node_dies_is_published_again_with_a_higher_fence_unless_it_must_not_repeat(
    rabbit: RabbitServer,
) -> None:
    clock = SystemClock()
    backends, name = memory_backends(clock), fresh_namespace()
    service = UseCases(backends, clock)
    twice, once = f"{name}.twice", f"{name}.once"

    def publishing(queue: str) -> AmqpTarget:
        return AmqpTarget(rabbit.url, routing_key=queue, reply=AmqpReply())

    async def run_of(job: str) -> Run:
        [run] = [run for run in backends.documents.runs.values() if run.job == job]
        return run

    async def running(job: str) -> bool:
        return (await run_of(job)).state is RunState.RUNNING

    async with AsyncExitStack() as stack:
        connection = await stack.enter_async_context(await aio_pika.connect(rabbit.url))
        channel: AbstractChannel = await stack.enter_async_context(connection.channel())  # type: ignore[arg-type]
        for queue in (twice, once):
            await channel.declare_queue(queue, durable=True, arguments={"x-expires": 600_000})

        async def start(node: str, capabilities: Capabilities) -> asyncio.Task[None]:
            executor = await stack.enter_async_context(AmqpExecutor(namespace=name))
            by_target = Executors({AmqpTarget: executor})
            made = build_node(
                backends, by_target, clock, FAST, name=node, resources=Steady(), capabilities=capabilities
            )
            return asyncio.create_task(made.run(), name=node)

        # This node cannot publish, so it leads and gets no run.
        tasks = [await start("leads", Capabilities())]
        stack.push_async_callback(end, tasks)
        await eventually(backends.control.leader, what="a leader")
        await service.jobs.apply(
            [
                Job(name="twice", target=publishing(twice)),
                Job(name="once", target=publishing(once), delivery=Delivery.AT_MOST_ONCE, retry=Retry(max=0)),
            ]
        )
        for job in ("twice", "once"):
            await service.jobs.trigger(job)
        tasks.append(await start("dies", ABLE))
        first = await taken(channel, twice)
        await taken(channel, once)
        for job in ("twice", "once"):
            await eventually(lambda job=job: running(job), what=f"the start of {job} is recorded")  # type: ignore[misc]
        await end([tasks.pop()])

        tasks.append(await start("takes-over", ABLE))
        second = await taken(channel, twice)
        assert second.message_id == first.message_id
        assert int(str(second.headers["CronFlow-Fence"])) > int(str(first.headers["CronFlow-Fence"]))
        for message, rows in ((first, 1), (second, 2)):
            body = json.dumps({"ok": True, "result": {"rows": rows}}).encode()
            reply = aio_pika.Message(body, correlation_id=message.correlation_id)
            assert message.reply_to is not None
            await channel.default_exchange.publish(reply, message.reply_to)

        async def ended(job: str) -> bool:
            return not (await run_of(job)).is_open

        for job in ("twice", "once"):
            await eventually(lambda job=job: ended(job), what=f"the end of {job}")  # type: ignore[misc]
        assert (await run_of("twice")).result == {"rows": 2}
        assert (await run_of("once")).state is RunState.LOST
        again = await (await channel.get_queue(once)).get(no_ack=True, fail=False)
        assert again is None
        await channel.queue_delete(twice)
        await channel.queue_delete(once)

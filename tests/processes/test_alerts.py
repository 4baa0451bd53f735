"""Alerts from real nodes on real servers to receivers that fail, and the signature check of the how-to."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from cronflow.auth.vault import Vault
from cronflow.backends.clock import SystemClock
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, Notification, NotificationState
from cronflow.domain.job import CommandTarget, Job, Retry
from cronflow.usecases import UseCases
from tests.executors.web import Server, answer
from tests.processes.conftest import Processes, process_cluster
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "alerts.md"
KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
SEALED_WITH = bytes(32)
FAILS = Job(name="billing-sums", target=CommandTarget("false"), retry=Retry(max=0))


@pytest.fixture
async def processes(redis_url: str, mongo_url: str, namespace: str, tmp_path: Path) -> AsyncIterator[Processes]:
    """A cluster without nodes."""
    async with process_cluster(redis_url, mongo_url, namespace, tmp_path) as cluster:
        yield cluster


def genuine() -> Callable[[dict[str, str], bytes, str], bool]:
    """The signature check in the how-to."""
    [code] = re.findall(r"^```python\n(.*?)^```$", HOW_TO.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)
    found: Callable[[dict[str, str], bytes, str], bool] = made["is_genuine"]
    return found


@dataclass
class Receiver:
    """A server with a list of responses, one per request; the last one repeats. None: the request hangs."""

    web: Server
    answers: list[int | None] = field(default_factory=lambda: [204])
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, writer: asyncio.StreamWriter) -> None:
        status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status is None:
            await self.enough.wait()
        else:
            writer.write(answer(status))
            await writer.drain()


@asynccontextmanager
async def receiving(port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver at `/hook`."""
    receiver = Receiver(Server())
    receiver.web.answers["/hook"] = receiver.answer
    listening = await asyncio.start_server(receiver.web.serve, "127.0.0.1", port)
    receiver.web.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield receiver
        receiver.enough.set()


async def define(processes: Processes, port: int, secret: str | None = None) -> None:
    await processes.service.alerts.define(
        Alert(name="all", on=(AlertKind.FAILED,), webhook=Webhook(f"http://127.0.0.1:{port}/hook", secret))
    )


async def due_now(processes: Processes, mongo_url: str) -> None:
    """Move retries forward, so that the test does not wait half a minute."""
    from cronflow.backends.mongo.database import MongoDatabase

    async with MongoDatabase(mongo_url, processes.namespace) as database:
        await database["notices"].update_many({"waiting": True}, [{"$set": {"due_at": "$created_at"}}])


async def the_notice(processes: Processes) -> Notification | None:
    found = await processes.backends.outbox.of("all")
    assert len(found) <= 1
    return found[0] if found else None


async def ended(processes: Processes) -> bool:
    notification = await the_notice(processes)
    return notification is not None and notification.state is NotificationState.DELIVERED


async def test_a_receiver_verifies_a_real_notification_as_in_the_how_to(processes: Processes) -> None:
    processes.limits["CRONFLOW_SECRETS_KEY"] = base64.b64encode(SEALED_WITH).decode()
    service = UseCases(processes.backends, SystemClock(), vault=Vault([SEALED_WITH]))
    await service.secrets.set("HOOKS", SECRET)
    async with receiving() as receiver:
        await define(processes, receiver.web.port, "${secret:HOOKS}")
        await processes.up("a")
        await processes.apply(FAILS)
        run = await processes.service.jobs.trigger("billing-sums")
        await eventually(lambda: ended(processes), what="the notification was delivered")
        [request] = receiver.web.requests
        is_genuine = genuine()
        assert is_genuine(request.headers, request.body, SECRET)
        assert not is_genuine(request.headers, request.body + b" ", SECRET)
        assert not is_genuine(request.headers, request.body, SECRET.replace("AAEC", "AAED"))
        assert not is_genuine({**request.headers, "webhook-timestamp": "1614265330"}, request.body, SECRET)
        body = orjson.loads(request.body)
        assert (body["run"]["id"], body["namespace"]) == (run, processes.namespace)
        assert request.headers["webhook-id"] == body["id"]
        shown, *_ = re.findall(r"^```json\n(.*?)^```$", HOW_TO.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        example = orjson.loads(shown)
        assert (example.keys(), example["run"].keys()) == (body.keys(), body["run"].keys())


async def test_a_receiver_that_is_down_then_fails_then_recovers_gets_the_notification(
    processes: Processes, mongo_url: str
) -> None:
    async with receiving() as receiver:
        port = receiver.web.port
    await define(processes, port)
    await processes.up("a")
    await processes.apply(FAILS)
    await processes.service.jobs.trigger("billing-sums")

    async def refused() -> bool:
        notification = await the_notice(processes)
        return notification is not None and "cannot be reached" in (notification.error or "")

    await eventually(refused, what="a refused connection")
    async with receiving(port) as receiver:
        receiver.answers = [500, 200]

        async def taken() -> bool:
            # A receiver that failed is skipped for ten seconds; the retry is due even later.
            await due_now(processes, mongo_url)
            return await ended(processes)

        await eventually(taken, 90, "the notice was taken")
        notification = await the_notice(processes)
        assert notification is not None
        assert (notification.attempts, notification.status) == (3, 200)
        assert {request.headers["webhook-id"] for request in receiver.web.requests} == {notification.id}
        assert len(receiver.web.requests) == 2


async def test_another_node_delivers_the_notification_of_a_node_killed_while_the_receiver_hangs(
    processes: Processes, mongo_url: str
) -> None:
    async with receiving() as receiver:
        receiver.answers = [None, 204]
        await define(processes, receiver.web.port)
        leader = await processes.up("a", "b")
        await processes.apply(FAILS)
        await processes.service.jobs.trigger("billing-sums")
        await eventually(lambda: receiver.web.requests, what="a first attempt")
        processes.kill(leader)
        await processes.new_leader(leader, 60)

        async def taken() -> bool:
            await due_now(processes, mongo_url)
            return await ended(processes)

        await eventually(taken, what="the notification was delivered")
        notification = await the_notice(processes)
        assert notification is not None
        assert {request.headers["webhook-id"] for request in receiver.web.requests} == {notification.id}
        assert len(receiver.web.requests) >= 2
        assert notification.attempts >= 2

"""The write and read concern of every command to MongoDB, on a real server."""

from __future__ import annotations

from typing import Any

from motor.motor_asyncio import AsyncIOMotorCollection
from pymongo import ReadPreference
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from cronflow.backends.mongo.admin import MongoArchive, MongoStoreAdmin
from cronflow.backends.mongo.control import MongoControl
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.mongo.jobs import MongoJobStore, MongoPlanStore, MongoVersionStore
from cronflow.backends.mongo.logs import MongoLogStore
from cronflow.backends.mongo.runs import MongoDeadLetters, MongoLateStore, MongoRunStore
from cronflow.domain import transitions
from cronflow.domain.job import PlanIntent
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import LateResult, Move
from tests.contracts.builders import T0, a_pend, a_record, a_run
from tests.contracts.test_stores import HELD, LEASE

ADAPTERS = (
    MongoJobStore,
    MongoPlanStore,
    MongoRunStore,
    MongoVersionStore,
    MongoLateStore,
    MongoDeadLetters,
    MongoLogStore,
    MongoControl,
    MongoArchive,
    MongoStoreAdmin,
)
WRITES = {"insert", "update", "delete", "findAndModify"}
READS = {"find", "aggregate", "count", "distinct"}
WEAK = "w=1&journal=false&readConcernLevel=local&readPreference=secondaryPreferred"


class Seen(CommandListener):
    """The writes and reads, as they were sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def started(self, event: CommandStartedEvent) -> None:
        """Keep it."""
        self.sent.append((event.command_name, dict(event.command)))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing to see."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing to see."""


def weakened(url: str) -> str:
    """A URL that asks for weaker guarantees."""
    return f"{url}{'&' if '?' in url else '?' if url.count('/') > 2 else '/?'}{WEAK}"


async def test_server_48307_every_handle_asks_for_majority_and_journal_whatever_the_url_says(
    mongo_url: str, namespace: str
) -> None:
    """MongoDB SERVER-48307, Jepsen 4.2.6: the defaults of a handle were weaker than those of its client, and
    acknowledged writes were lost.
    """
    async with MongoDatabase(weakened(mongo_url), namespace) as database:
        handles = [
            value
            for adapter in ADAPTERS
            for value in vars(adapter(database)).values()
            if isinstance(value, AsyncIOMotorCollection)
        ]
        assert len(handles) >= len(ADAPTERS) - 1
        for handle in [*handles, database["any"]]:
            assert handle.write_concern.document == {"w": "majority", "j": True}
            assert handle.read_concern.level == "majority"
            assert handle.read_preference == ReadPreference.PRIMARY


async def test_server_48307_every_write_and_read_says_so_to_the_server(mongo_url: str, namespace: str) -> None:
    """MongoDB SERVER-48307: each command must carry its concern, bulk writes included."""
    seen = Seen()
    async with MongoDatabase(weakened(mongo_url), namespace, listeners=[seen]) as database:
        jobs, plans, runs = MongoJobStore(database), MongoPlanStore(database), MongoRunStore(database)
        control, archive, late = MongoControl(database), MongoArchive(database), MongoLateStore(database)
        seen.sent.clear()
        assert await jobs.create(a_record())
        await control.begin_term("n1#a#x")
        await control.extend(1, "n1#a#x")
        await plans.write(PlanIntent(id="1-1", term=1, jobs=("report",)))
        (record,) = await jobs.due(T0, 10)
        assert await jobs.due_in_turn(T0, T0, 10) == [record]
        await jobs.move([Move(job="report", rev=record.rev, next_fire=None, pending_run=a_pend())], term=1)
        await jobs.fence(["report"], term=2)
        await runs.insert([a_run()])
        await runs.apply([transitions.start(HELD, "s1", T0, LEASE)])
        await runs.apply([transitions.renew(HELD, LEASE)])
        await runs.apply([transitions.finish(HELD, AttemptResult(Outcome.OK), "f1", T0, T0)])
        await runs.keep_late(
            [LateResult(run="r", fence=1, node="n", at=T0, attempt_result=AttemptResult(Outcome.OK), finish_id="f1")]
        )
        assert await late.of(a_run().id) == []
        await runs.overdue(10)
        await runs.open_of(["report"])
        await archive.rows([a_run().id])
        await plans.remove(["1-1"])
    found = {name for name, _ in seen.sent}
    assert found >= WRITES | {"find"}
    for name, command in seen.sent:
        if name in WRITES:
            assert command.get("writeConcern") == {"w": "majority", "j": True}, command
        if name in READS:
            assert command.get("readConcern", {}).get("level") == "majority", command
            assert command.get("$readPreference", {"mode": "primary"}) == {"mode": "primary"}, command

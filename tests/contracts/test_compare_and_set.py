"""Compare-and-set updates on a real server: sent again if the reply is lost, in several commands if they are large, and
without the server's record for retries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, BulkWriteError
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from cronflow.backends.mongo import database as module
from cronflow.backends.mongo.database import MongoDatabase, Update
from cronflow.backends.mongo.jobs import MongoJobStore
from cronflow.backends.mongo.runs import MongoRunStore
from cronflow.domain import transitions
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.ports import Move
from tests.contracts.builders import T0, a_pend, a_record, a_run
from tests.contracts.test_stores import HELD

MOVE = Move(job="report", rev=0, next_fire=None, pending_run=a_pend())


class Updates(CommandListener):
    """The update commands, as they were sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "update":
            self.sent.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Nothing to see."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Nothing to see."""


@pytest.fixture
def updates() -> Updates:
    return Updates()


@pytest.fixture
async def database(mongo_url: str, namespace: str, updates: Updates) -> AsyncIterator[MongoDatabase]:
    async with MongoDatabase(mongo_url, namespace, listeners=[updates]) as opened:
        yield opened


def lose_replies(database: MongoDatabase, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The server executes the next commands, but their replies do not arrive."""
    send, lost = database._database.command, 0

    async def command(*arguments: Any) -> Any:
        nonlocal lost
        reply = await send(*arguments)
        if lost < most:
            lost += 1
            raise AutoReconnect("connection closed")
        return reply

    monkeypatch.setattr(database._database, "command", command, raising=False)


async def test_a_move_whose_reply_is_lost_is_applied_once_and_reported(
    database: MongoDatabase, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = MongoJobStore(database)
    await jobs.create(a_record())
    lose_replies(database, monkeypatch, 1)
    assert await jobs.move([MOVE], term=1) == {"report"}
    (record,) = await jobs.get(["report"])
    assert (record.rev, record.pending_run) == (1, MOVE.pending_run)
    assert len(updates.sent) == 2


async def test_an_outcome_whose_reply_is_lost_is_applied_once_and_reported(
    database: MongoDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = MongoRunStore(database)
    await runs.insert([a_run()])
    lose_replies(database, monkeypatch, 1)
    ended = transitions.finish(HELD, AttemptResult(Outcome.OK), "f1", T0, T0)
    assert await runs.apply([ended]) == {a_run().id}
    (run,) = await runs.get([a_run().id])
    assert [attempt.n for attempt in run.attempts] == [1]


async def test_after_two_lost_replies_mongodb_is_unavailable(
    database: MongoDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = MongoJobStore(database)
    await jobs.create(a_record())
    lose_replies(database, monkeypatch, 2)
    with pytest.raises(BackendUnavailable, match="connection closed"):
        await jobs.move([MOVE], term=1)


async def test_large_updates_are_sent_in_several_commands(
    database: MongoDatabase, updates: Updates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND_BYTES", 1000)
    await database["runs"].insert_many([{"_id": k, "rev": 0} for k in range(5)])
    large = {"$set": {"text": "x" * 400}}
    changes = [Update({"_id": k, "rev": 0 if k < 4 else 7}, large) for k in range(5)]
    assert await database.compare_and_set("runs", changes) == 4
    assert [len(command["updates"]) for command in updates.sent] == [2, 2, 1]


async def test_the_server_keeps_no_record_for_retries(database: MongoDatabase, updates: Updates) -> None:
    await MongoJobStore(database).move([MOVE], term=1)
    (command,) = updates.sent
    assert "txnNumber" not in command


async def test_a_refused_update_is_an_error_and_the_others_are_applied(database: MongoDatabase) -> None:
    await database["runs"].insert_many([{"_id": k} for k in range(2)])
    changes = [Update({"_id": 0}, {"$nonsense": {}}), Update({"_id": 1}, {"$set": {"done": True}})]
    with pytest.raises(BulkWriteError):
        await database.compare_and_set("runs", changes)
    assert await database["runs"].find_one({"_id": 1}) == {"_id": 1, "done": True}


async def test_a_document_that_the_server_refuses_is_no_outage(database: MongoDatabase) -> None:
    """An outage is waited for, and the same document would be refused for ever."""
    await database["runs"].insert_one({"_id": 0, "text": "x" * (9 << 20)})
    twice = Update({"_id": 0}, [{"$set": {"text": {"$concat": ["$text", "$text"]}}}])
    for refused in (twice, Update({"_id": 0}, {"$nonsense": {}})):
        with pytest.raises(BulkWriteError):
            async with database.translated():
                await database.compare_and_set("runs", [refused])


@pytest.mark.parametrize("code", [91, 112, 10107, 14031])
def test_a_write_of_a_bulk_that_may_succeed_later_is_an_outage(code: int) -> None:
    refused, later = {"code": 2, "errmsg": "bad value"}, {"code": code, "errmsg": "shutdown in progress"}
    assert module._reason_away(BulkWriteError({"writeErrors": [refused, later]})) == "shutdown in progress"
    assert module._reason_away(BulkWriteError({"writeErrors": [refused]})) is None


def test_a_bulk_that_is_not_acknowledged_by_a_majority_is_an_outage() -> None:
    concern = {"code": 64, "errmsg": "waiting for replication timed out"}
    error = BulkWriteError({"writeErrors": [], "writeConcernErrors": [concern]})
    assert module._reason_away(error) == "waiting for replication timed out"

"""The circuit breaker of MongoDB, on a real server that is killed: when it opens, and which errors do not count."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from pymongo.errors import OperationFailure

from cronflow.backends.mongo.control import MongoControl
from cronflow.backends.mongo.database import FAILURES_TO_OPEN, MongoDatabase, mongo_circuit
from cronflow.backends.mongo.jobs import MongoJobStore
from cronflow.backends.mongo.runs import MongoRunStore
from cronflow.circuit_breaker import Circuit
from cronflow.domain.errors import BackendUnavailable
from cronflow.testing.embedded import MongoServer
from tests.contracts.builders import a_record, a_run
from tests.waiting import eventually


@pytest.fixture
def circuit() -> Circuit:
    return mongo_circuit()


async def test_duplicate_keys_compare_and_set_misses_and_our_own_bugs_are_no_failures(
    mongo_url: str, namespace: str, circuit: Circuit
) -> None:
    async with MongoDatabase(mongo_url, namespace, circuit=circuit) as database:
        jobs, runs = MongoJobStore(database), MongoRunStore(database)
        await jobs.create(a_record())
        await runs.insert([a_run()])
        for _ in range(3 * FAILURES_TO_OPEN):
            assert not await jobs.create(a_record())
            assert not await jobs.replace(a_record(), rev=99)
            assert await runs.insert([a_run()]) == set()
            with pytest.raises(OperationFailure):
                async with database.translated():
                    await database["runs"].update_one({}, {"$nonsense": {}})
        assert circuit.state == "closed"
        assert circuit.opened == 0


async def test_pybreaker_7_async_calls_trip_the_breaker(
    own_mongo: MongoServer, namespace: str, circuit: Circuit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pybreaker #7: around a coroutine function the breaker saw only the coroutine made, and never tripped."""
    async with MongoDatabase(own_mongo.url, namespace):
        pass  # creates the indexes, which may take longer than the timeout below
    monkeypatch.setattr("cronflow.backends.mongo.database.TIMEOUT_MS", 1000)
    async with MongoDatabase(own_mongo.url, namespace, circuit=circuit) as database:
        control, jobs = MongoControl(database), MongoJobStore(database)
        await control.ping()
        await asyncio.to_thread(own_mongo.kill)
        with pytest.raises(BackendUnavailable):
            await control.ping()
        for _ in range(FAILURES_TO_OPEN - 1):
            with pytest.raises(BackendUnavailable):
                await jobs.get(["report"])
        assert circuit.state == "open"
        refused = circuit.refused
        # Every store of the process fails at once, without network traffic.
        for _ in range(100):
            with pytest.raises(BackendUnavailable, match="circuit open"):
                await control.extend(1, "me")
        assert circuit.refused == refused + 100
        await asyncio.to_thread(own_mongo.start)

        async def answers() -> bool:
            try:
                await jobs.create(a_record(updated_at=a_record().updated_at + timedelta(seconds=1)))
            except BackendUnavailable:
                return False
            return True

        await eventually(answers, what="the circuit has closed")
        assert circuit.state == "closed"

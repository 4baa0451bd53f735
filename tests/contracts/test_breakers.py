"""The contract of the store of circuit breakers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.breakers import MongoBreakerStore
from cronflow.domain.job_breaker import BreakerState, closed
from cronflow.ports import BreakerStore
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import T0
from tests.contracts.conftest import emptied

MINUTE = timedelta(minutes=1)
NEW = BreakerState(job="report")
OPEN = replace(NEW, opened_at=T0, probe_at=T0 + MINUTE, failed=3, attempts=4)


@pytest.fixture(params=["memory", "mongodb"])
async def breakers(request: pytest.FixtureRequest, emptied_namespace: str) -> AsyncIterator[BreakerStore]:
    if request.param == "memory":
        yield memory_backends(SystemClock()).breakers
        return
    async with emptied(request.getfixturevalue("mongo_url"), emptied_namespace) as database:
        yield MongoBreakerStore(database)


async def test_a_state_comes_back_as_it_was_stored(breakers: BreakerStore) -> None:
    assert await breakers.get(["report"]) == {}
    assert await breakers.replace(NEW, OPEN)
    other = replace(OPEN, job="other", counts_from=T0)
    assert await breakers.replace(BreakerState(job="other"), other)
    assert await breakers.get(["report", "nobody"]) == {"report": OPEN}
    assert await breakers.get(["report", "other"]) == {"report": OPEN, "other": other}


async def test_of_several_that_saw_the_same_state_one_changes_it(breakers: BreakerStore) -> None:
    later = replace(OPEN, opened_at=T0 + MINUTE)
    assert [await breakers.replace(NEW, OPEN), await breakers.replace(NEW, later)] == [True, False]
    assert await breakers.get(["report"]) == {"report": OPEN}
    shut = closed(OPEN, T0 + 2 * MINUTE)
    assert [await breakers.replace(OPEN, shut), await breakers.replace(OPEN, shut)] == [True, False]
    assert await breakers.get(["report"]) == {"report": shut}


@pytest.mark.parametrize(
    "seen",
    [
        replace(OPEN, opened_at=T0 - MINUTE),
        replace(OPEN, probe_at=T0),
        replace(OPEN, counts_from=T0),
        replace(OPEN, job="other"),
    ],
)
async def test_a_state_that_differs_from_what_was_seen_stays(breakers: BreakerStore, seen: BreakerState) -> None:
    assert await breakers.replace(NEW, OPEN)
    assert not await breakers.replace(seen, closed(seen, T0))
    assert await breakers.get(["report", "other"]) == {"report": OPEN}


async def test_a_state_that_was_seen_and_is_gone_is_not_made_again(breakers: BreakerStore) -> None:
    assert not await breakers.replace(OPEN, closed(OPEN, T0))
    assert await breakers.get(["report"]) == {}


async def test_only_the_named_states_are_removed(breakers: BreakerStore) -> None:
    for job in ("a", "b", "c"):
        await breakers.replace(BreakerState(job=job), replace(OPEN, job=job))
    await breakers.remove(["a", "c", "nobody"])
    await breakers.remove([])
    assert list(await breakers.get(["a", "b", "c"])) == ["b"]

"""The contract of limits and permits, on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.domain.concurrency import LimitUse, Rate, named_id
from cronflow.domain.permits import LimitState, NamedLimit, PermitRequest, absent_reason, full_reason, rate_reason
from cronflow.domain.placement import Waiting
from cronflow.domain.run import RunState
from cronflow.ports import Backends, Deferral, LimitStore, PermitKey
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import T0, a_record, a_run
from tests.contracts.conftest import emptied
from tests.waiting import eventually

HOUR = timedelta(hours=1)
KEY = LimitUse("key:eu", 2)
HOURLY = LimitUse("rate:1/h:job:report", rate=Rate(1, HOUR))
NOW = SystemClock().now()


@pytest.fixture(params=["memory", "mongodb"])
async def stores(request: pytest.FixtureRequest, emptied_namespace: str) -> AsyncIterator[Backends]:
    """The stores of each backend."""
    if request.param == "memory":
        yield memory_backends(SystemClock())
        return
    async with emptied(request.getfixturevalue("mongo_url"), emptied_namespace) as database:
        yield adapters(RedisConnection("redis://127.0.0.1:1", "unused"), database)


@pytest.fixture
def limits(stores: Backends) -> LimitStore:
    return stores.limits


async def take(limits: LimitStore, use: LimitUse, *runs: str, fence: int = 1) -> list[bool]:
    """Whether each run got its permit."""
    refusals = await limits.acquire([PermitRequest(use, run, fence, "n1#a") for run in runs])
    return [refusal is None for refusal in refusals]


async def one(limits: LimitStore, limit: str) -> LimitState:
    (state,) = await limits.get([limit])
    return state


async def holders(limits: LimitStore, limit: str) -> list[tuple[str, int]]:
    return [(permit.run, permit.fence) for permit in (await one(limits, limit)).permits]


# -------------------------------------------------------------------------------------------------------------- permits


async def test_no_more_runs_get_a_permit_than_the_limit_and_a_refusal_shows_the_holders(limits: LimitStore) -> None:
    refusals = await limits.acquire([PermitRequest(KEY, run, 1, "n1#a") for run in ("a", "b", "c")])
    assert [refusal is None for refusal in refusals] == [True, True, False]
    assert refusals[2] is not None
    assert refusals[2].state is not None
    assert [(one.run, one.node) for one in refusals[2].state.permits] == [("a", "n1#a"), ("b", "n1#a")]
    assert await take(limits, KEY, "d") == [False]
    assert await holders(limits, KEY.id) == [("a", 1), ("b", 1)]


async def test_permits_of_several_limits_are_given_in_one_call_and_do_not_count_for_each_other(
    limits: LimitStore,
) -> None:
    other = LimitUse("key:us", 1)
    requests = [PermitRequest(use, run, 1, "n") for use, run in ((KEY, "a"), (other, "b"), (other, "c"), (KEY, "d"))]
    assert [refusal is None for refusal in await limits.acquire(requests)] == [True, True, False, True]
    assert await limits.acquire([]) == []


async def test_acquiring_again_after_a_lost_reply_finds_the_permit_and_takes_no_second_start(
    limits: LimitStore,
) -> None:
    assert await take(limits, KEY, "a", "a") == [True, True]
    assert await take(limits, KEY, "a") == [True]
    assert await holders(limits, KEY.id) == [("a", 1)]
    burst = LimitUse("rate:1/h+2:job:report", rate=Rate(1, HOUR, burst=2))
    assert await take(limits, burst, "a", "a", "a") == [True, True, True]
    assert await take(limits, burst, "b", "c") == [True, False]


async def test_a_later_attempt_replaces_the_permit_of_its_run_and_is_never_replaced_by_an_earlier_one(
    limits: LimitStore,
) -> None:
    single = LimitUse("key:eu", 1)
    assert await take(limits, single, "a", fence=5) == [True]
    assert await take(limits, single, "a", fence=7) == [True]
    assert await take(limits, single, "a", fence=6) == [False]
    assert await take(limits, single, "b", fence=8) == [False]
    assert await holders(limits, single.id) == [("a", 7)]


async def test_a_release_removes_this_attempt_alone_and_is_safe_to_repeat(limits: LimitStore) -> None:
    await take(limits, KEY, "a", "b", fence=5)
    for _ in range(2):
        await limits.release([PermitKey(KEY.id, "a", 4), PermitKey(KEY.id, "b", 5), PermitKey("key:none", "a", 5)])
        assert await holders(limits, KEY.id) == [("a", 5)]
    assert await take(limits, KEY, "c") == [True]
    await limits.release([])


async def test_a_release_frees_a_permit_for_the_next_run(limits: LimitStore) -> None:
    assert await take(limits, KEY, "a", "b", "c") == [True, True, False]
    await limits.release([PermitKey(KEY.id, "a", 1)])
    assert await take(limits, KEY, "c") == [True]


async def test_the_names_of_runs_are_text_whatever_they_contain(limits: LimitStore) -> None:
    use = LimitUse("key:$$NOW {x}", 1)
    requests = [PermitRequest(use, "$run", 1, "$$ROOT"), PermitRequest(use, "$other", 1, "n")]
    assert [refusal is None for refusal in await limits.acquire(requests)] == [True, False]
    (permit,) = (await one(limits, use.id)).permits
    assert (permit.run, permit.node) == ("$run", "$$ROOT")


# ---------------------------------------------------------------------------------------------------------------- rates


async def test_a_rate_admits_one_start_per_interval_and_a_release_gives_none_back(limits: LimitStore) -> None:
    assert await take(limits, HOURLY, "a", "b") == [True, False]
    await limits.release([PermitKey(HOURLY.id, "a", 1)])
    assert await take(limits, HOURLY, "b") == [False]


async def test_the_next_start_is_an_interval_later(limits: LimitStore) -> None:
    quick = LimitUse("rate:1000/s:job:report", rate=Rate(1000, timedelta(seconds=1)))
    assert await take(limits, quick, "a") == [True]

    async def admitted() -> bool:
        return (await take(limits, quick, "b"))[0]

    await eventually(admitted, what="a millisecond has passed")


async def test_a_burst_admits_so_many_starts_at_once(limits: LimitStore) -> None:
    burst = LimitUse("rate:1/h+3:job:report", rate=Rate(1, HOUR, burst=3))
    assert await take(limits, burst, "a", "b") == [True, True]
    assert await take(limits, burst, "c", "d") == [True, False]


async def test_a_time_that_no_start_of_the_rate_can_have_left_is_ignored(limits: LimitStore) -> None:
    """The store's clock was set back: otherwise nothing could start until it is where it was."""
    await take(limits, LimitUse(HOURLY.id, rate=Rate(1, timedelta(days=1))), "a")
    assert await take(limits, HOURLY, "b", "c") == [True, False]


# --------------------------------------------------------------------------------------------------------- named limits


async def test_a_named_limit_has_its_own_bounds_and_must_exist(limits: LimitStore) -> None:
    use = LimitUse(named_id("db"))
    (refusal,) = await limits.acquire([PermitRequest(use, "a", 1, "n")])
    assert refusal is not None
    assert refusal.state is None
    await limits.define(NamedLimit(name="db", limit=1), "ada", NOW)
    assert await take(limits, use, "a", "b") == [True, False]
    await limits.define(NamedLimit(name="db", limit=2, description="connections"), "bob", NOW)
    assert await take(limits, use, "b", "c") == [True, False]
    state = await one(limits, use.id)
    assert (state.limit, state.description, state.updated_by, state.name) == (2, "connections", "bob", "db")
    assert await holders(limits, use.id) == [("a", 1), ("b", 1)]


async def test_a_named_limit_may_have_a_rate_alone_or_both(limits: LimitStore) -> None:
    await limits.define(NamedLimit(name="api", rate=Rate(1, HOUR, burst=2)), "", NOW)
    assert await take(limits, LimitUse(named_id("api")), "a", "b", "c") == [True, True, False]
    assert (await one(limits, named_id("api"))).definition == NamedLimit(name="api", rate=Rate(1, HOUR, burst=2))
    await limits.define(NamedLimit(name="both", limit=1, rate=Rate(1, HOUR, burst=2)), "", NOW)
    use = LimitUse(named_id("both"))
    assert await take(limits, use, "a", "b") == [True, False]
    await limits.release([PermitKey(use.id, "a", 1)])
    assert await take(limits, use, "b") == [True]
    await limits.release([PermitKey(use.id, "b", 1)])
    assert await take(limits, use, "c") == [False]


async def test_a_limit_without_a_rate_admits_any_number_of_starts_in_a_row(limits: LimitStore) -> None:
    await limits.define(NamedLimit(name="db", limit=1), "", NOW)
    for run in ("a", "b", "c"):
        assert await take(limits, LimitUse(named_id("db")), run) == [True]
        await limits.release([PermitKey(named_id("db"), run, 1)])


async def test_changing_a_limit_frees_the_next_start_at_once(limits: LimitStore) -> None:
    use = LimitUse(named_id("api"))
    await limits.define(NamedLimit(name="api", rate=Rate(2, timedelta(days=1))), "", NOW)
    assert await take(limits, use, "a", "b") == [True, False]
    await limits.define(NamedLimit(name="api", rate=Rate(1, timedelta(days=1))), "", NOW)
    assert await take(limits, use, "b", "c") == [True, False]


async def test_named_limits_are_listed_by_name_without_keys_and_deleted_alone(limits: LimitStore) -> None:
    for name in ("b", "a", "c"):
        await limits.define(NamedLimit(name=name, limit=1), "", NOW)
    await take(limits, LimitUse("key:a", 1), "run")
    await take(limits, HOURLY, "run")
    assert [state.name for state in await limits.named()] == ["a", "b", "c"]
    assert [state.name for state in await limits.named(after="a", limit=1)] == ["b"]
    assert await limits.delete("b")
    assert not await limits.delete("b")
    assert [state.name for state in await limits.named()] == ["a", "c"]
    assert len(await limits.get(["key:a", "key:b", "name:a"])) == 2


# ----------------------------------------------------------------------------------------------------- who holds, waits


async def test_held_finds_the_limits_with_permits_before_an_instant(limits: LimitStore) -> None:
    await take(limits, KEY, "a")
    await take(limits, LimitUse("key:us", 1), "b")
    await limits.release([PermitKey("key:us", "b", 1)])
    assert [state.id for state in await limits.held(NOW + HOUR)] == [KEY.id]
    assert await limits.held(NOW - HOUR) == []


async def test_fires_and_runs_that_wait_for_a_limit_are_found(stores: Backends) -> None:
    limit = named_id("db")

    def wait(reason: str, seconds: int) -> Waiting:
        return Waiting(fire=T0, since=T0 + timedelta(seconds=seconds), reason=reason)

    jobs = {"fire": full_reason(limit), "rated": rate_reason(limit), "other": full_reason(named_id("api"))}
    await stores.jobs.create_all([a_record(name) for name in jobs])
    await stores.jobs.defer({name: Deferral(0, T0, wait(reason, 3)) for name, reason in jobs.items()})
    fields: dict[str, Any] = {"state": RunState.RETRYING, "check_at": T0}
    await stores.runs.insert(
        [
            a_run("one", waiting=wait(absent_reason(limit), 2), **fields),
            a_run("two", waiting=wait(full_reason(limit), 1), **fields),
            a_run("three", waiting=wait("no free slot", 0), **fields),
            a_run("four", waiting=wait(full_reason(limit), 0), state=RunState.SKIPPED, check_at=None, ended_at=T0),
        ]
    )
    found = await stores.limits.waiting(limit, 10)
    assert [waiter.run.partition("@")[0] for waiter in found[:2]] == ["two", "one"]
    assert {waiter.run for waiter in found[2:]} == {"fire@20261121T120000Z", "rated@20261121T120000Z"}
    assert [waiter.since for waiter in found] == [T0 + timedelta(seconds=k) for k in (1, 2, 3, 3)]
    assert len(await stores.limits.waiting(limit, 1)) == 2


async def test_keys_that_were_not_used_are_forgotten_and_named_limits_and_permits_stay(limits: LimitStore) -> None:
    await limits.define(NamedLimit(name="db", limit=1), "", NOW - 9 * HOUR)
    await take(limits, KEY, "a")
    await take(limits, LimitUse("key:us", 1), "b")
    await limits.release([PermitKey("key:us", "b", 1)])
    assert await limits.forget_unused(HOUR) == 0
    assert await limits.forget_unused(-HOUR) == 1
    assert {state.id for state in await limits.get([KEY.id, "key:us", named_id("db")])} == {KEY.id, named_id("db")}


async def test_the_standing_of_runs_is_their_state_and_fence(stores: Backends) -> None:
    await stores.runs.insert([a_run("one", fence=7), a_run("two", state=RunState.RUNNING, fence=8)])
    runs = [a_run("one").id, a_run("two").id]
    found = await stores.runs.standings([*runs, "none"])
    assert found == {runs[0]: (RunState.DISPATCHED, 7), runs[1]: (RunState.RUNNING, 8)}

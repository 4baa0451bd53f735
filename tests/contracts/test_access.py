"""The contract of users, sessions, keys, secrets, the audit log, rates and tickets, on every backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import fakeredis
import pytest

from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import MongoDatabase
from cronflow.backends.redis.access import RedisRateLimiter, RedisTicketStore
from cronflow.backends.redis.connection import RedisConnection
from cronflow.bootstrap.backends import adapters
from cronflow.domain.access import (
    ApiKey,
    AuditEntry,
    LoginMethod,
    Principal,
    Role,
    Secret,
    Session,
    User,
    UserSource,
    entry_id,
)
from cronflow.ports import AuditQuery, Backends, RateLimiter, TicketStore
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from tests.contracts.builders import T0
from tests.contracts.conftest import emptied
from tests.waiting import eventually

ADA = User(name="ada", role=Role.OPERATOR, password_hash="$argon2id$…", stamp="s1", created_at=T0)
KEY = ApiKey(name="ci", role=Role.VIEWER, key_hash="ab", created_at=T0, created_by="ada", jobs=("billing-*",))


@pytest.fixture(params=["memory", "mongodb"])
async def stores(request: pytest.FixtureRequest, emptied_namespace: str) -> AsyncIterator[Backends]:
    """The stores of each backend."""
    if request.param == "memory":
        yield memory_backends(SystemClock())
        return
    async with emptied(request.getfixturevalue("mongo_url"), emptied_namespace) as database:
        yield adapters(RedisConnection("redis://nobody", emptied_namespace), database)


class Rates:
    """The ports that Redis serves."""

    def __init__(self, limiter: RateLimiter, tickets: TicketStore) -> None:
        self.limiter, self.tickets = limiter, tickets


@pytest.fixture(params=["memory", "redis", "fakeredis"])
async def rates(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Rates]:
    """The limiter and the tickets of each backend, on real time."""
    if request.param == "memory":
        memory = memory_backends(SystemClock())
        yield Rates(memory.limiter, memory.tickets)
        return
    async with AsyncExitStack() as stack:
        if request.param == "redis":
            connection = RedisConnection(request.getfixturevalue("redis_url"), namespace)
        else:
            client = await stack.enter_async_context(fakeredis.FakeAsyncRedis())
            connection = RedisConnection("redis://fake", namespace, client=client)
        await stack.enter_async_context(connection)
        yield Rates(RedisRateLimiter(connection), RedisTicketStore(connection))


# -------------------------------------------------------------------------------------------------------------- users


async def test_a_user_is_created_once_and_comes_back_whole(stores: Backends) -> None:
    assert await stores.users.create(ADA)
    assert not await stores.users.create(replace(ADA, role=Role.ADMIN))
    assert await stores.users.get("ada") == ADA
    assert await stores.users.get("bob") is None


PERSON = replace(ADA, name="oidc:ada", password_hash="", source=UserSource.OIDC, subject="https://id 1")


async def test_a_person_of_the_provider_is_found_by_subject_and_exists_once(stores: Backends) -> None:
    assert await stores.users.create(ADA)
    assert await stores.users.create(replace(ADA, name="bob"))
    assert await stores.users.create(PERSON)
    assert await stores.users.of_subject("https://id 1") == [PERSON]
    assert await stores.users.of_subject("https://id 2") == []
    assert not await stores.users.create(replace(PERSON, name="oidc:ada.smith"))
    assert await stores.users.create(replace(PERSON, name="oidc:eve", subject="https://id 2"))


async def test_people_who_exist_twice_since_an_earlier_version_stop_no_process(
    mongo_url: str, emptied_namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with emptied(mongo_url, emptied_namespace) as database:
        await database["users"].drop_indexes()
        users = adapters(RedisConnection("redis://nobody", emptied_namespace), database).users
        twice = [PERSON, replace(PERSON, name="oidc:ada.smith", created_at=T0 + timedelta(days=1))]
        assert [await users.create(one) for one in twice] == [True, True]
        await database.make_indexes()
        assert "an index of users is not created: several have" in caplog.text
        assert await users.of_subject(PERSON.subject) == twice
        await users.delete("oidc:ada.smith")
        await database.make_indexes()
        assert not await users.create(twice[1])


async def test_the_subject_of_a_person_is_looked_up_in_an_index(mongo_url: str, emptied_namespace: str) -> None:
    async with emptied(mongo_url, emptied_namespace) as database:
        found = await database["users"].find({"subject": PERSON.subject}).explain()
        assert "'subject'" in str(found["queryPlanner"]["winningPlan"])
        assert "COLLSCAN" not in str(found["queryPlanner"]["winningPlan"])


@pytest.mark.parametrize(("shell", "secret"), [(True, False), (False, True), (False, False)])
async def test_the_patterns_and_rights_of_an_editor_come_back(stores: Backends, shell: bool, secret: bool) -> None:
    rights: dict[str, Any] = {"role": Role.EDITOR, "allow_shell": shell, "allow_secrets": secret}
    for limits in ((), ("billing-*", "report")):
        user = replace(ADA, name=f"ada{len(limits)}", jobs=limits, **rights)
        key = replace(KEY, name=user.name, jobs=limits, **rights)
        await stores.users.create(user)
        await stores.keys.create(key)
        assert (await stores.users.get(user.name), await stores.keys.get(key.name)) == (user, key)


async def test_records_of_0_6_are_read_with_the_least_rights(mongo_url: str, emptied_namespace: str) -> None:
    """That version had keys of admins for some jobs; and it reads an editor as a viewer."""
    async with emptied(mongo_url, emptied_namespace) as database:
        stores = adapters(RedisConnection("redis://nobody", emptied_namespace), database)
        old = {"role": "admin", "key_hash": "ab", "created_at": T0, "created_by": "ada"}
        old |= {"expires_at": None, "last_used_at": None}
        await database["api_keys"].insert_one({**old, "_id": "limited", "jobs": ["billing-*"]})
        await database["api_keys"].insert_one({**old, "_id": "whole", "jobs": []})
        user = {"role": "operator", "password_hash": "x", "stamp": "s", "created_at": T0, "enabled": True}
        await database["users"].insert_one({**user, "_id": "bob"})
        limited, whole = await stores.keys.find()
        assert (limited.role, limited.jobs) == (Role.EDITOR, ("billing-*",))
        assert not limited.allow_shell
        assert not limited.allow_secrets
        assert (whole.role, whole.jobs) == (Role.ADMIN, ())
        found = await stores.users.get("bob")
        assert found is not None
        assert (found.role, found.jobs) == (Role.OPERATOR, ())
        await stores.users.create(replace(ADA, role=Role.EDITOR, allow_shell=True))
        stored = await database["users"].find_one({"_id": "ada"})
        assert stored["role"] == "viewer"


async def test_a_user_is_replaced_only_as_they_were_read(stores: Backends) -> None:
    await stores.users.create(ADA)
    changed = replace(ADA, enabled=False, stamp="s2")
    assert await stores.users.replace(changed, "s1")
    assert not await stores.users.replace(replace(ADA, stamp="s3"), "s1")
    assert await stores.users.get("ada") == changed
    assert not await stores.users.replace(replace(ADA, name="bob"), "s1")
    assert await stores.users.get("bob") is None


async def test_lists_are_by_name_and_paged(stores: Backends) -> None:
    for name in ("cy", "ada", "bob"):
        await stores.users.create(replace(ADA, name=name))
        await stores.keys.create(replace(KEY, name=name))
        await stores.secrets.put(Secret(name=name, sealed="k:x", updated_at=T0, updated_by="ada"))
    for find in (stores.users.find, stores.keys.find, stores.secrets.find):
        assert [one.name for one in await find(limit=2)] == ["ada", "bob"]
        assert [one.name for one in await find(after="bob")] == ["cy"]


async def test_what_is_deleted_is_gone_and_twice_is_told(stores: Backends) -> None:
    await stores.users.create(ADA)
    await stores.keys.create(KEY)
    await stores.secrets.put(Secret(name="ada", sealed="k:x", updated_at=T0, updated_by=""))
    for delete, name in ((stores.users.delete, "ada"), (stores.keys.delete, "ci"), (stores.secrets.delete, "ada")):
        assert await delete(name)
        assert not await delete(name)
    assert await stores.users.get("ada") is None
    assert await stores.keys.get("ci") is None
    assert await stores.secrets.get(["ada"]) == []


# ----------------------------------------------------------------------------------------------------------- sessions


def a_session(**fields: Any) -> Session:
    until = SystemClock().now().replace(microsecond=0) + timedelta(days=1)
    return Session(**{"id": "f1", "user": "ada", "stamp": "s1", "token_hash": "h1", "expires_at": until, **fields})


async def test_a_token_is_rotated_by_one_of_those_who_have_it(stores: Backends) -> None:
    session = a_session()
    await stores.sessions.create(session)
    won = await asyncio.gather(*(stores.sessions.rotate("f1", "h1", f"h2{n}") for n in range(5)))
    assert sorted(won) == [False, False, False, False, True]
    found = await stores.sessions.get("f1")
    assert found == replace(session, token_hash=f"h2{won.index(True)}")


async def test_a_session_that_has_ended_is_gone_and_cannot_be_rotated(stores: Backends) -> None:
    await stores.sessions.create(a_session())
    await stores.sessions.end("f1")
    await stores.sessions.end("f1")
    assert await stores.sessions.get("f1") is None
    assert not await stores.sessions.rotate("f1", "h1", "h2")


async def test_a_session_comes_back_whole_is_touched_confirmed_and_listed_by_user(stores: Backends) -> None:
    at = SystemClock().now().replace(microsecond=0)
    whole = a_session(
        method=LoginMethod.DEVICE,
        created_at=at,
        last_used_at=at,
        address="2001:db8::1",
        agent="curl",
        checked_at=at,
        rules="r",
        grant="k:sealed",
    )
    for session in (whole, a_session(id="f3"), a_session(id="f2", user="bob")):
        await stores.sessions.create(session)
    assert await stores.sessions.get("f1") == whole
    assert [one.id for one in await stores.sessions.find(limit=2)] == ["f1", "f2"]
    assert [one.id for one in await stores.sessions.find(after="f2")] == ["f3"]
    assert [one.id for one in await stores.sessions.find(user="ada")] == ["f1", "f3"]
    later = at + timedelta(minutes=5)
    await stores.sessions.touch("f1", later)
    await stores.sessions.confirm("f1", later, "r2", "k:again")
    found = replace(whole, last_used_at=later, checked_at=later, rules="r2", grant="k:again")
    assert await stores.sessions.get("f1") == found
    await stores.sessions.touch("gone", at)
    await stores.sessions.confirm("gone", at, "", "")
    assert await stores.sessions.get("gone") is None


async def test_a_session_of_0_11_is_read_as_one_with_a_password(mongo_url: str, emptied_namespace: str) -> None:
    async with emptied(mongo_url, emptied_namespace) as database:
        until = SystemClock().now().replace(microsecond=0) + timedelta(days=1)
        old = {"_id": "f1", "user": "ada", "stamp": "s1", "token_hash": "h1", "expires_at": until}
        await database["sessions"].insert_one(old)
        found = await adapters(RedisConnection("redis://nobody", emptied_namespace), database).sessions.get("f1")
        assert found == a_session(expires_at=until)


async def test_a_person_of_the_provider_comes_back_with_the_subject(stores: Backends) -> None:
    person = replace(ADA, name="oidc:ada@example.com", source=UserSource.OIDC, subject="https://id.example.com 1")
    assert await stores.users.create(person)
    assert await stores.users.get(person.name) == person


async def test_mongodb_takes_expired_sessions_away(mongo_url: str, namespace: str) -> None:
    async with MongoDatabase(mongo_url, namespace) as database:
        index = (await database["sessions"].index_information())["expired"]
    assert (index["key"], index["expireAfterSeconds"]) == ([("expires_at", 1)], 0)


# --------------------------------------------------------------------------------------------------- keys and secrets


async def test_a_key_is_created_once_comes_back_whole_and_remembers_its_use(stores: Backends) -> None:
    key = replace(KEY, expires_at=T0 + timedelta(days=1))
    assert await stores.keys.create(key)
    assert not await stores.keys.create(KEY)
    await stores.keys.touch("ci", T0 + timedelta(hours=1))
    assert await stores.keys.get("ci") == replace(key, last_used_at=T0 + timedelta(hours=1))
    await stores.keys.touch("gone", T0)
    assert await stores.keys.get("gone") is None


async def test_a_secret_is_put_again_in_place_of_the_one_before(stores: Backends) -> None:
    first = Secret(name="token", sealed="k:1", updated_at=T0, updated_by="ada")
    assert await stores.secrets.put(first)
    assert not await stores.secrets.put(replace(first, sealed="k:2"))
    assert await stores.secrets.get(["token", "none"]) == [replace(first, sealed="k:2")]


# ---------------------------------------------------------------------------------------------------------- audit log


def an_entry(number: int, **fields: Any) -> AuditEntry:
    now = SystemClock().now().replace(microsecond=0)
    base: dict[str, Any] = {"id": f"{number:04}", "at": now, "by": "ada", "action": "job.pause", "target": "job:a"}
    return AuditEntry(**base | fields)


async def test_entries_come_back_whole_the_newest_first_and_in_pages(stores: Backends) -> None:
    odd = {"a.b": {"$set": 1}, "list": [None, "ü", 2.5]}
    entries = [an_entry(n, before=odd, address="192.0.2.1") for n in range(5)]
    await stores.audit.append(entries[:3])
    await stores.audit.append(entries[2:])
    assert await stores.audit.find(AuditQuery()) == entries[::-1]
    first = await stores.audit.find(AuditQuery(limit=2))
    assert [entry.id for entry in first] == ["0004", "0003"]
    rest = await stores.audit.find(AuditQuery(before=first[-1].id))
    assert [entry.id for entry in rest] == ["0002", "0001", "0000"]


async def test_entries_are_chosen_by_author_action_and_target(stores: Backends) -> None:
    await stores.audit.append(
        [an_entry(1, by="bob"), an_entry(2, action="job.delete"), an_entry(3, target="job:b"), an_entry(4)]
    )
    for query, ids in (
        (AuditQuery(by="bob"), ["0001"]),
        (AuditQuery(action="job.delete"), ["0002"]),
        (AuditQuery(target="job:b", by="ada"), ["0003"]),
    ):
        assert [entry.id for entry in await stores.audit.find(query)] == ids


async def test_entries_are_chosen_by_time_and_by_job_and_its_runs(stores: Backends) -> None:
    targets = ("job:a", "run:a@1", "job:ab", "run:ab@1", "user:a")
    instants = [T0 + timedelta(seconds=n) for n in range(5)]
    entries = [an_entry(0, id=f"{entry_id(at)}-x", target=target) for at, target in zip(instants, targets, strict=True)]
    await stores.audit.append(entries)
    assert await stores.audit.find(AuditQuery(job="a")) == entries[1::-1]
    assert await stores.audit.find(AuditQuery(since=instants[1], until=instants[3])) == entries[2:0:-1]
    assert await stores.audit.find(AuditQuery(until=instants[3], before=entries[2].id)) == entries[1::-1]
    assert await stores.audit.find(AuditQuery(until=instants[1], before=entries[3].id)) == entries[:1]


async def test_entries_go_when_they_are_too_old(stores: Backends) -> None:
    old = an_entry(1, at=SystemClock().now() - timedelta(days=31))
    await stores.audit.append([old, an_entry(2)])
    await stores.audit.keep(timedelta(days=60))
    await stores.audit.keep(timedelta(days=30))
    await stores.audit.keep(timedelta(days=30))

    async def gone() -> bool:
        return [entry.id for entry in await stores.audit.find(AuditQuery())] == ["0002"]

    await eventually(gone, 120, "the old entry is gone")


# -------------------------------------------------------------------------------------------------- rates and tickets


async def test_an_allowance_is_a_burst_and_comes_back_with_time(rates: Rates) -> None:
    # One in a thousand seconds: no machine is so slow that one comes back meanwhile.
    assert [await rates.limiter.take("a", 0.001, 3) for _ in range(3)] == [0, 0, 0]
    assert 900 < await rates.limiter.take("a", 0.001, 3) <= 1000
    assert await rates.limiter.take("b", 0.001, 3) == 0
    assert await rates.limiter.take("c", 20, 1) == 0

    async def again() -> bool:
        return await rates.limiter.take("c", 20, 1) == 0

    await eventually(again)


async def test_what_is_refused_is_not_counted(rates: Rates) -> None:
    await rates.limiter.take("a", 0.001, 1)
    first = await rates.limiter.take("a", 0.001, 1)
    for _ in range(5):
        assert 0 < await rates.limiter.take("a", 0.001, 1) <= first
    await rates.limiter.attempt("b", 1, 500.0, 900.0)
    for _ in range(5):
        assert 400 < await rates.limiter.attempt("b", 1, 500.0, 900.0) <= 500


async def test_after_the_free_attempts_one_has_to_wait_and_longer_each_time(rates: Rates) -> None:
    async def attempt() -> float:
        return await rates.limiter.attempt("a", 3, 0.4, 900.0)

    asked = [0.0]

    async def let_in() -> bool:
        asked[0] = SystemClock().monotonic()
        return await attempt() == 0

    for _ in range(3):
        before = SystemClock().monotonic()
        assert await attempt() == 0
    # Less the time that has passed, which may be long on a busy machine.
    wait = await attempt()
    assert 0.4 - (SystemClock().monotonic() - before) - 0.01 <= wait <= 0.4
    await eventually(let_in)
    wait = await attempt()
    assert 0.8 - (SystemClock().monotonic() - asked[0]) - 0.01 <= wait <= 0.8


async def test_no_wait_is_longer_than_the_longest(rates: Rates) -> None:
    for _ in range(2):
        await rates.limiter.attempt("a", 1, 1e6, 300.0)
    assert 200 < await rates.limiter.attempt("a", 1, 1e6, 300.0) <= 300


async def test_who_keeps_away_begins_anew(rates: Rates) -> None:
    assert await rates.limiter.attempt("a", 1, 0.3, 900.0) == 0
    before = SystemClock().monotonic()
    await eventually(lambda: SystemClock().monotonic() > before + 0.7)
    assert await rates.limiter.attempt("a", 1, 0.3, 900.0) == 0
    assert await rates.limiter.attempt("a", 1, 0.3, 900.0) <= 0.3, "the first wait again, and not the second"


async def test_an_attempt_that_did_not_fail_can_be_taken_back(rates: Rates) -> None:
    for _ in range(10):
        assert await rates.limiter.attempt("a", 2, 600.0, 900.0) == 0
        await rates.limiter.take_back("a")
    await rates.limiter.take_back("nobody")
    assert [await rates.limiter.attempt("a", 2, 600.0, 900.0) for _ in range(2)] == [0, 0]
    assert await rates.limiter.attempt("a", 2, 600.0, 900.0) > 500


async def test_what_was_counted_can_be_forgiven(rates: Rates) -> None:
    await rates.limiter.attempt("a", 1, 600.0, 900.0)
    assert await rates.limiter.attempt("a", 1, 600.0, 900.0) > 500
    await rates.limiter.forgive("a")
    assert await rates.limiter.attempt("a", 1, 600.0, 900.0) == 0


async def test_uses_are_counted_until_there_is_none_for_a_while(rates: Rates) -> None:
    assert [await rates.limiter.count("a", 600.0) for _ in range(3)] == [1, 2, 3]
    assert await rates.limiter.count("b", 0.3) == 1
    await rates.limiter.forgive("a")
    assert await rates.limiter.count("a", 600.0) == 1
    before = SystemClock().monotonic()
    await eventually(lambda: SystemClock().monotonic() > before + 0.4)
    assert await rates.limiter.count("b", 0.3) == 1


async def test_a_ticket_lets_in_once_and_not_for_ever(rates: Rates) -> None:
    ada = Principal("ada", Role.EDITOR, ("billing-*",), allow_shell=True, reads_all=True, login="its hash")
    await rates.tickets.put("t1", ada, 600.0)
    found = await rates.tickets.take("t1")
    assert (found, found.login if found else "") == (ada, "its hash")
    assert await rates.tickets.take("t1") is None
    assert await rates.tickets.take("nothing") is None
    await rates.tickets.put("t2", ada, 0.001)
    before = SystemClock().monotonic()
    await eventually(lambda: SystemClock().monotonic() > before + 0.002)
    assert await rates.tickets.take("t2") is None


async def test_every_key_of_the_limits_has_an_end(redis_url: str, namespace: str) -> None:
    async with RedisConnection(redis_url, namespace) as connection:
        limiter = RedisRateLimiter(connection)
        await limiter.take("a", 100, 100)
        for _ in range(3):
            await limiter.attempt("b", 2, 60.0, 900.0)
        await limiter.attempt("c", 2, 60.0, 900.0)
        await limiter.take_back("c")
        await limiter.count("d", 60.0)
        for key in ("b", "c", "d"):
            ttl_ms = await connection.command("PTTL", connection.keys.rate(key))
            assert 0 < ttl_ms <= 120_000
            assert connection.keys.expires(connection.keys.rate(key))


async def test_the_waits_double_up_to_the_longest_on_virtual_time() -> None:
    clock = FakeClock()
    limiter = memory_backends(clock).limiter
    waits = []
    for _ in range(5):
        assert await limiter.attempt("a", 5, 60.0, 900.0) == 0
    for _ in range(6):
        waits.append(await limiter.attempt("a", 5, 60.0, 900.0))
        await clock.advance(waits[-1])
        assert await limiter.attempt("a", 5, 60.0, 900.0) == 0
    assert waits == [60, 120, 240, 480, 900, 900]
    await clock.advance(1800)
    assert [await limiter.attempt("a", 5, 60.0, 900.0) for _ in range(5)] == [0] * 5


async def test_taking_back_what_was_never_tried_allows_no_more_attempts(rates: Rates) -> None:
    await rates.limiter.take_back("a")
    for _ in range(2):
        assert await rates.limiter.attempt("a", 2, 600.0, 900.0) == 0
    assert await rates.limiter.attempt("a", 2, 600.0, 900.0) > 500


async def test_a_free_attempt_does_not_prolong_the_time_of_its_key_in_redis(redis_url: str, namespace: str) -> None:
    async with RedisConnection(redis_url, namespace) as connection:
        limiter, key = RedisRateLimiter(connection), connection.keys.rate("a")
        await limiter.attempt("a", 3, 600.0, 900.0)
        # As if most of the time were over.
        assert await connection.command("PEXPIRE", key, 60_000) == 1
        await limiter.attempt("a", 3, 600.0, 900.0)
        assert 0 < await connection.command("PTTL", key) <= 60_000


async def test_a_login_that_has_begun_is_taken_by_one(rates: Rates) -> None:
    await rates.tickets.put_login("a", "k:sealed", 500)
    assert await rates.tickets.get_login("a") == "k:sealed"
    taken = await asyncio.gather(*(rates.tickets.take_login("a") for _ in range(5)))
    assert sorted(taken, key=str) == [None] * 4 + ["k:sealed"]
    assert await rates.tickets.get_login("a") is None
    await rates.tickets.put_login("b", "k:sealed", 0.001)

    async def gone() -> bool:
        return await rates.tickets.get_login("b") is None

    await eventually(gone)

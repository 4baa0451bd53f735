"""API keys: shown once, kept hashed, for a role, for some jobs, for some time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cronflow.domain.access import Role
from cronflow.domain.errors import Conflict, InvalidInput
from cronflow.domain.job import Job, PythonTarget
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends
from tests.auth.bench import Replica


async def admins(api: Replica) -> str:
    token: str = (await api.tokens_of())["access_token"]
    return token


async def test_a_key_is_shown_once_and_only_its_hash_is_kept(api: Replica, memory: MemoryBackends) -> None:
    token = await admins(api)
    made = await api.send("POST", "/api-keys", {"name": "ci", "role": "operator"}, token=token)
    assert made.status_code == 201
    key = made.json()["key"]
    assert key.startswith("cfk.ci.")
    assert len(key.rpartition(".")[2]) == 43, "256 random bits"
    listed = await api.send("GET", "/api-keys", token=token)
    assert [one["name"] for one in listed.json()["items"]] == ["ci"]
    assert "key" not in listed.json()["items"][0]
    everything = listed.text + repr(vars(memory.keys)) + repr(vars(memory.audit))
    assert key.rpartition(".")[2] not in everything
    assert await api.lets_in(key)


async def test_a_key_acts_under_its_name_and_with_its_role(api: Replica) -> None:
    _, key = await api.service.keys.create("ci", Role.VIEWER)
    assert (await api.send("GET", "/jobs", token=key)).status_code == 200
    assert (await api.send("POST", "/jobs/a/run", token=key)).status_code == 403
    assert (await api.send("GET", "/users", token=key)).status_code == 403
    _, key = await api.service.keys.create("deploy", Role.ADMIN)
    assert (await api.send("POST", "/users", {"name": "ada", "password": "a good one"}, token=key)).status_code == 201
    assert (await api.service.backends.audit.find(AuditQuery()))[0].by == "key:deploy"


async def test_an_incomplete_key_is_refused(api: Replica) -> None:
    _, key = await api.service.keys.create("ci", Role.VIEWER)
    _, other = await api.service.keys.create("other", Role.VIEWER)
    swapped = f"cfk.ci.{other.rpartition('.')[2]}"
    for text in (key[:-1], key + "x", key.upper(), swapped, "cfk.ci.", "cfk.nobody." + key.rpartition(".")[2]):
        assert not await api.lets_in(text)


async def test_an_expired_or_deleted_key_is_refused(api: Replica, clock: FakeClock) -> None:
    until = clock.now() + timedelta(days=1)
    _, short = await api.service.keys.create("short", Role.VIEWER, expires_at=until)
    _, long = await api.service.keys.create("long", Role.VIEWER)
    await clock.advance(86_399)
    assert await api.lets_in(short)
    await clock.advance(1)
    assert not await api.lets_in(short)
    assert await api.lets_in(long)
    assert (await api.send("DELETE", "/api-keys/long", token=await admins(api))).status_code == 204
    assert not await api.lets_in(long)
    assert (await api.send("DELETE", "/api-keys/long", token=await admins(api))).status_code == 404


async def test_a_key_with_a_used_name_past_expiry_or_invalid_pattern_is_refused(api: Replica, clock: FakeClock) -> None:
    await api.service.keys.create("ci", Role.VIEWER)
    with pytest.raises(Conflict):
        await api.service.keys.create("ci", Role.ADMIN)
    with pytest.raises(InvalidInput, match="past"):
        await api.service.keys.create("old", Role.VIEWER, expires_at=clock.now())
    for pattern in ("", "Billing*", "a b", "a/b"):
        with pytest.raises(InvalidInput, match="is not a pattern of job names"):
            await api.service.keys.create("odd", Role.VIEWER, jobs=(pattern,))
    with pytest.raises(InvalidInput, match="key name"):
        await api.service.keys.create("a.b/c", Role.VIEWER)


async def test_the_last_use_is_written_now_and_then(api: Replica, memory: MemoryBackends, clock: FakeClock) -> None:
    _, key = await api.service.keys.create("ci", Role.VIEWER)
    for _ in range(5):
        await api.lets_in(key)
    assert memory.faults.calls["keys.touch"] == 1
    await clock.advance(301)
    memory.faults.fail_before("keys.touch")
    assert await api.lets_in(key), "a note for people is no reason to refuse"
    assert await api.lets_in(key)
    [found] = await api.service.keys.find()
    assert found.last_used_at == clock.now()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/jobs/billing-report", 200),
        ("GET", "/jobs/billing-report/runs", 200),
        ("POST", "/jobs/billing-report/run", 202),
        ("GET", "/runs/billing-report@manual-one", 200),
        ("GET", "/jobs/payroll", 403),
        ("GET", "/jobs/payroll%2Fbilling-x", 404),
        ("POST", "/jobs/payroll/run", 403),
        ("GET", "/runs/payroll@20261121T020000Z", 403),
        ("GET", "/runs/payroll@billing-x", 403),
        ("GET", "/runs/billing-report", 403),
        ("GET", "/jobs", 200),
        ("POST", "/jobs/plan", 422),
        ("GET", "/cluster/settings", 200),
        ("POST", "/runs/retry", 403),
        ("GET", "/nodes/billing-node", 403),
        ("GET", "/users", 403),
        ("POST", "/auth/ws-ticket", 403),
        ("GET", "/auth/me", 200),
    ],
)
async def test_a_key_for_some_jobs_reaches_these_and_nothing_else(
    api: Replica, method: str, path: str, status: int
) -> None:
    await api.service.jobs.apply([Job(name="billing-report", target=PythonTarget("a:b"))])
    await api.service.jobs.trigger("billing-report", key="one")
    _, key = await api.service.keys.create("ci", Role.OPERATOR, jobs=("billing-*", "r*", "p*n"))
    assert (await api.send(method, path, token=key)).status_code == status


async def test_a_logged_in_user_can_read_their_own_name_and_role(api: Replica) -> None:
    _, key = await api.service.keys.create("ci", Role.OPERATOR, jobs=("billing-*",))
    found = await api.send("GET", "/auth/me", token=key)
    no_rights = {"allow_shell": False, "allow_secrets": False}
    assert found.json() == {"name": "key:ci", "role": "operator", "jobs": ["billing-*"], **no_rights}
    found = await api.send("GET", "/auth/me", token=await admins(api))
    assert found.json() == {"name": "admin", "role": "admin", "jobs": [], **no_rights}
    assert (await api.send("GET", "/auth/me")).status_code == 401


async def test_a_principal_may_ask_so_often_and_another_one_too(memory: MemoryBackends, clock: FakeClock) -> None:
    api = Replica(memory, clock, per_s=10)
    _, one = await api.service.keys.create("one", Role.VIEWER)
    _, two = await api.service.keys.create("two", Role.VIEWER)
    codes = [(await api.send("GET", "/jobs", token=one)).status_code for _ in range(12)]
    assert codes == [200] * 10 + [429] * 2
    refused = await api.send("GET", "/jobs", token=one)
    assert refused.headers["Retry-After"] == "1"
    assert refused.headers["content-type"] == "application/problem+json"
    assert await api.lets_in(two)
    await clock.advance(0.1)
    assert await api.lets_in(one)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YWRtaW46eA==", "Token x", "bearer  x", "x"])
async def test_only_a_bearer_is_looked_at(api: Replica, header: str) -> None:
    answer = await api.send("GET", "/jobs", headers={"Authorization": header} if header else {})
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_a_good_token_under_another_scheme_is_none(api: Replica) -> None:
    token = await admins(api)
    for scheme, status in (("bearer", 200), ("BEARER", 200), ("Basic", 401), ("Token", 401), ("DPoP", 401)):
        answer = await api.send("GET", "/jobs", headers={"Authorization": f"{scheme} {token}"})
        assert answer.status_code == status
    assert (await api.send("GET", "/jobs", headers={"Authorization": token})).status_code == 401


async def test_no_cookie_and_no_query_logs_in(api: Replica) -> None:
    token = await admins(api)
    for name in ("token", "access_token", "Authorization", "session"):
        assert (await api.send("GET", f"/jobs?{name}={token}")).status_code in {401, 422}
        assert (await api.send("GET", "/jobs", headers={"Cookie": f"{name}={token}"})).status_code == 401
    assert "set-cookie" not in (await api.login()).headers

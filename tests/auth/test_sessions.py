"""Sessions: who sees and revokes which, and that revoking counts at once. Logins are in the audit log."""

from __future__ import annotations

import pytest

from cronflow.domain.access import Role
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends
from tests.auth.bench import Replica

GOOD = "another good password"


@pytest.fixture
async def tokens(api: Replica) -> dict[str, str]:
    """The access tokens of an admin, an operator and a viewer."""
    await api.service.users.create("ada", Role.OPERATOR, GOOD)
    await api.service.users.create("bob", Role.VIEWER, GOOD)
    found = {"admin": (await api.tokens_of())["access_token"]}
    for name in ("ada", "bob"):
        found[name] = (await api.tokens_of(name, GOOD))["access_token"]
    return found


async def ids(api: Replica, token: str, query: str = "") -> dict[str, str]:
    answer = await api.send("GET", f"/sessions{query}", token=token)
    assert answer.status_code == 200, answer.text
    return {one["user"]: one["id"] for one in answer.json()["items"]}


async def test_everybody_sees_their_own_sessions_and_an_admin_sees_all(api: Replica, tokens: dict[str, str]) -> None:
    [own] = (await api.send("GET", "/sessions", token=tokens["ada"])).json()["items"]
    assert (own["user"], own["method"], own["address"], own["current"]) == ("ada", "password", "192.0.2.1", True)
    assert own["agent"].startswith("python-httpx2")
    assert len(own["id"]) == 12, "the whole id is half of a refresh token"
    assert set(await ids(api, tokens["admin"])) == {"admin", "ada", "bob"}
    assert set(await ids(api, tokens["admin"], "?user=bob")) == {"bob"}
    refused = await api.send("GET", "/sessions?user=bob", token=tokens["ada"])
    assert (refused.status_code, refused.json()["detail"][:12]) == (403, "ada may only")
    first = (await api.send("GET", "/sessions?limit=2", token=tokens["admin"])).json()
    rest = (await api.send("GET", f"/sessions?limit=2&cursor={first['next_cursor']}", token=tokens["admin"])).json()
    assert len({one["id"] for one in (*first["items"], *rest["items"])}) == 3


async def test_revoking_counts_at_once_and_only_for_ones_own_or_by_an_admin(
    api: Replica, tokens: dict[str, str]
) -> None:
    all_ids = await ids(api, tokens["admin"])
    for name in (all_ids["admin"], "0" * 12, "x", all_ids["ada"][:-1]):
        assert (await api.send("DELETE", f"/sessions/{name}", token=tokens["bob"])).status_code == 404
    assert (await api.send("DELETE", "/sessions?user=ada", token=tokens["bob"])).status_code == 403
    assert all([await api.lets_in(token) for token in tokens.values()])
    ticket = (await api.send("POST", "/auth/ws-ticket", token=tokens["bob"])).json()["ticket"]
    assert (await api.send("DELETE", f"/sessions/{all_ids['bob']}", token=tokens["bob"])).status_code == 204
    assert not await api.lets_in(tokens["bob"])
    assert await api.logins.redeem(ticket) is None
    second = (await api.tokens_of("ada", GOOD))["access_token"]
    ended = await api.send("DELETE", "/sessions?user=ada", token=tokens["admin"])
    assert len(ended.json()["sessions"]) == 2
    assert not await api.lets_in(tokens["ada"])
    assert not await api.lets_in(second)
    assert await api.lets_in(tokens["admin"])
    entries = await api.backends.audit.find(AuditQuery(action="session.revoke"))
    assert [(one.by, one.target) for one in entries] == [("admin", "user:ada")] * 2 + [("bob", "user:bob")]


async def test_a_session_shows_its_last_use_and_is_gone_when_it_has_expired(
    api: Replica, clock: FakeClock, memory: MemoryBackends, tokens: dict[str, str]
) -> None:
    memory.faults.calls.clear()
    for _ in range(3):
        assert await api.lets_in(tokens["ada"])
    assert memory.faults.calls["sessions.touch"] == 0, "a use is not written each time"
    await clock.advance(300)
    assert await api.lets_in(tokens["ada"])
    [own] = (await api.send("GET", "/sessions", token=tokens["ada"])).json()["items"]
    assert own["last_used_at"] == clock.now().isoformat().replace("+00:00", "Z")
    await clock.advance(7 * 86400)
    admin = (await api.tokens_of())["access_token"]
    assert set(await ids(api, admin)) == {"admin"}


async def test_logins_and_refusals_are_recorded_and_refusals_are_bounded(api: Replica, memory: MemoryBackends) -> None:
    await api.service.users.create("ada", Role.VIEWER, GOOD)
    given = await api.tokens_of("ada", GOOD)
    await api.send("POST", "/auth/logout", {"refresh_token": given["refresh_token"]})
    await api.login("ada", "wrong password")
    await api.login("a password in the wrong field", "wrong")
    found = [(one.action, one.by, one.target, one.address) for one in await memory.audit.find(AuditQuery(limit=4))]
    assert found == [
        ("login.refuse", "", "user:?", "192.0.2.1"),
        ("login.refuse", "", "user:ada", "192.0.2.1"),
        ("session.end", "ada", "user:ada", "192.0.2.1"),
        ("session.create", "ada", "user:ada", "192.0.2.1"),
    ]
    for n in range(150):
        await api.logins.record_refusal(f"n{n}", {})
    assert len(await memory.audit.find(AuditQuery(action="login.refuse", limit=500))) == 100

"""Logging in, staying logged in and logging out, over one replica on virtual time and over two on either stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx2
import pytest

from cronflow.auth.passwords import MOST_WAITING, Passwords
from cronflow.auth.tokens import ACCESS_S, Claims
from cronflow.domain.access import Role
from cronflow.domain.errors import TooSoon
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends
from cronflow.usecases.logins import COUNTED_FOR_S, SESSION_LASTS
from tests.auth.bench import PASSWORD, QUICK, CountedPasswords, Replica

Two = tuple[Replica, Replica]
OTHERS = "another good password"
FROM_PAGE = {"X-CronFlow-Page": "1"}


# ---------------------------------------------------------------------------------------------------------- replicas


async def test_a_login_on_one_replica_is_good_on_the_other(replicas: Two) -> None:
    one, two = replicas
    given = await one.tokens_of()
    assert given["expires_in"] == ACCESS_S == 900
    assert await two.lets_in(given["access_token"])
    refreshed = (await two.refresh(given["refresh_token"])).json()
    assert await one.lets_in(refreshed["access_token"])
    assert refreshed["refresh_token"] != given["refresh_token"]


async def test_a_refresh_token_that_is_used_again_on_another_replica_ends_the_session(replicas: Two) -> None:
    one, two = replicas
    first = await one.tokens_of()
    second = (await one.refresh(first["refresh_token"])).json()
    third = (await two.refresh(second["refresh_token"])).json()
    assert (await two.refresh(first["refresh_token"])).status_code == 401
    # Whoever has the latest one may be the thief: it is worth nothing either.
    assert (await one.refresh(third["refresh_token"])).status_code == 401
    for given in (first, second, third):
        assert not await one.lets_in(given["access_token"])
    [entry] = await one.backends.audit.find(AuditQuery(action="session.revoke"))
    assert (entry.by, entry.address) == ("admin", "192.0.2.1")


async def test_of_two_concurrent_refreshes_at_most_one_gets_tokens(replicas: Two) -> None:
    given = await replicas[0].tokens_of()
    answers = await asyncio.gather(*(one.refresh(given["refresh_token"]) for one in replicas))
    assert [answer.status_code for answer in answers].count(200) <= 1
    assert not await replicas[0].lets_in(given["access_token"])


async def test_another_session_of_the_user_goes_on(replicas: Two) -> None:
    one, two = replicas
    robbed, other = await one.tokens_of(), await two.tokens_of()
    await one.refresh(robbed["refresh_token"])
    await one.refresh(robbed["refresh_token"])
    assert not await one.lets_in(robbed["access_token"])
    assert await one.lets_in(other["access_token"])


async def test_logging_out_ends_the_session_at_once_everywhere(replicas: Two) -> None:
    one, two = replicas
    given = await one.tokens_of()
    session = given["refresh_token"].partition(".")[0]
    guessed = await two.send("POST", "/auth/logout", {"refresh_token": f"{session}.guessed"})
    assert guessed.status_code == 401
    assert await two.lets_in(given["access_token"]), "the id of a session is not enough to end it"
    ticket = (await one.send("POST", "/auth/ws-ticket", token=given["access_token"])).json()["ticket"]
    assert (await one.send("POST", "/auth/logout", {"refresh_token": given["refresh_token"]})).status_code == 204
    assert not await two.lets_in(given["access_token"])
    assert (await two.refresh(given["refresh_token"])).status_code == 401
    assert await two.logins.redeem(ticket) is None, "a ticket ends with its session"
    assert (await two.send("POST", "/auth/logout", {"refresh_token": given["refresh_token"]})).status_code == 204


@pytest.mark.parametrize(
    "change", [{"enabled": False}, {"role": Role.VIEWER}, {"password": "and a third one"}], ids=str
)
async def test_changing_a_user_ends_their_sessions_at_once_everywhere(replicas: Two, change: dict[str, object]) -> None:
    one, two = replicas
    await one.service.users.create("ada", Role.OPERATOR, OTHERS)
    given = await one.tokens_of("ada", OTHERS)
    assert await two.lets_in(given["access_token"])
    await one.service.users.change("ada", **change)  # type: ignore[arg-type]
    assert not await two.lets_in(given["access_token"])
    assert (await two.refresh(given["refresh_token"])).status_code == 401
    assert (await two.login("ada", OTHERS)).status_code == (200 if "role" in change else 401)


async def test_deleting_a_user_and_making_another_of_the_name_ends_the_sessions(replicas: Two) -> None:
    one, two = replicas
    await one.service.users.create("ada", Role.OPERATOR, OTHERS)
    given = await one.tokens_of("ada", OTHERS)
    await one.service.users.delete("ada")
    assert not await two.lets_in(given["access_token"])
    await one.service.users.create("ada", Role.ADMIN, OTHERS)
    assert not await two.lets_in(given["access_token"])
    assert (await two.refresh(given["refresh_token"])).status_code == 401


async def test_guesses_are_counted_over_all_replicas_and_the_response_has_a_retry_time(replicas: Two) -> None:
    for n in range(5):
        assert (await replicas[n % 2].login(password="wrong")).status_code == 401
    refused = await replicas[1].login()
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert (await replicas[0].login(address="192.0.2.2")).status_code == 200, "the user is not locked out elsewhere"


async def test_a_ticket_of_one_replica_lets_in_once_on_the_other(replicas: Two) -> None:
    one, two = replicas
    given = await one.tokens_of()
    answer = await one.send("POST", "/auth/ws-ticket", token=given["access_token"])
    assert (answer.status_code, answer.json()["expires_in"]) == (200, 30)
    found = await two.logins.redeem(answer.json()["ticket"])
    assert found is not None
    assert (found.name, found.role) == ("admin", Role.ADMIN)
    assert await one.logins.redeem(answer.json()["ticket"]) is None
    assert (await one.send("POST", "/auth/ws-ticket")).status_code == 401


@pytest.mark.parametrize("change", [{"enabled": False}, {"role": Role.VIEWER}, "delete", "log out"], ids=str)
async def test_a_login_is_not_current_once_it_has_ended(replicas: Two, change: object) -> None:
    one, two = replicas
    await one.service.users.create("ada", Role.OPERATOR, OTHERS)
    given = await one.tokens_of("ada", OTHERS)
    found = await one.logins.principal(given["access_token"])
    assert found is not None
    assert await two.logins.is_current(found)
    match change:
        case dict():
            await one.service.users.change("ada", **change)
        case "delete":
            await one.service.users.delete("ada")
        case _:
            await one.logins.logout(given["refresh_token"])
    assert not await two.logins.is_current(found)


async def test_a_key_is_current_until_it_expires_or_is_replaced(api: Replica, clock: FakeClock) -> None:
    until = clock.now() + timedelta(hours=1)
    _, text = await api.service.keys.create("ci", Role.OPERATOR, expires_at=until)
    found = await api.service.keys.principal(text)
    assert found is not None
    assert await api.logins.is_current(found)
    await clock.advance(3600)
    assert not await api.logins.is_current(found)
    await api.service.keys.delete("ci")
    await api.service.keys.create("ci", Role.OPERATOR)
    assert not await api.logins.is_current(found), "a new key of the same name is another login"


# --------------------------------------------------------------------------------------------------- cookie of the page


async def page(api: Replica, path: str, body: object = None, cookie: str = "", **headers: str) -> httpx2.Response:
    """A request of the page."""
    sent = {**FROM_PAGE, "Origin": "http://api", **({"Cookie": cookie} if cookie else {}), **headers}
    return await api.send("POST", f"/auth/session{path}", body, headers=sent)


async def test_the_page_keeps_its_refresh_token_in_a_cookie_that_scripts_cannot_read(replicas: Two) -> None:
    one, two = replicas
    answer = await page(one, "", {"username": "admin", "password": PASSWORD})
    assert (answer.status_code, "refresh_token" in answer.json()) == (200, False)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/api/v1/auth/session", "Max-Age=604800"} <= set(attributes)
    assert await two.lets_in(answer.json()["access_token"])
    again = await page(two, "/refresh", cookie=cookie)
    following = again.headers["set-cookie"].partition(";")[0]
    assert following != cookie
    assert await one.lets_in(again.json()["access_token"])
    left = await page(one, "/logout", cookie=following)
    assert left.status_code == 204
    assert left.headers["set-cookie"].startswith('cronflow_refresh=""; ')
    assert not await two.lets_in(again.json()["access_token"])
    for old in (cookie, following, ""):
        assert (await page(two, "/refresh", cookie=old)).status_code == 401


async def test_the_cookie_is_secure_over_https_and_named_after_the_port(api: Replica) -> None:
    body = {"username": "admin", "password": PASSWORD}
    headers = {**FROM_PAGE, "Host": "cron:8501"}
    answer = await api.send("POST", "/auth/session", body, headers=headers, scheme="https")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie.startswith("cronflow_refresh_8501=")
    assert "Secure" in attributes


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 422),
        ({**FROM_PAGE, "Origin": "https://evil.example"}, 403),
        ({**FROM_PAGE, "Origin": "null"}, 403),
        ({**FROM_PAGE, "Origin": "http://api.evil.example"}, 403),
    ],
)
async def test_other_sites_can_neither_use_nor_end_the_session_of_the_page(
    api: Replica, headers: dict[str, str], status: int
) -> None:
    answer = await page(api, "", {"username": "admin", "password": PASSWORD})
    cookie = answer.headers["set-cookie"].partition(";")[0]
    for path in ("/refresh", "/logout"):
        refused = await api.send("POST", f"/auth/session{path}", headers={**headers, "Cookie": cookie})
        assert refused.status_code == status
        assert "set-cookie" not in refused.headers
    assert (await api.send("GET", "/jobs", headers={"Cookie": cookie})).status_code == 401
    assert (await page(api, "/refresh", cookie=cookie)).status_code == 200


# ---------------------------------------------------------------------------------------------------------- sessions


async def test_the_admin_of_the_settings_needs_no_store_and_a_new_password_ends_the_sessions(
    api: Replica, memory: MemoryBackends, clock: FakeClock
) -> None:
    given = await api.tokens_of()
    assert memory.documents.users == {}
    restarted = Replica(memory, clock)
    assert await restarted.lets_in(given["access_token"])
    changed = Replica(memory, clock, admin_password="a new password of the admin")
    assert not await changed.lets_in(given["access_token"])
    assert (await changed.refresh(given["refresh_token"])).status_code == 401


async def test_an_access_token_ends_with_its_time_and_a_session_with_its_own(api: Replica, clock: FakeClock) -> None:
    given = await api.tokens_of()
    await clock.advance(ACCESS_S)
    assert not await api.lets_in(given["access_token"])
    given = (await api.refresh(given["refresh_token"])).json()
    assert await api.lets_in(given["access_token"])
    await clock.advance(SESSION_LASTS.total_seconds() - ACCESS_S - 1)
    given = (await api.refresh(given["refresh_token"])).json()
    assert await api.lets_in(given["access_token"])
    await clock.advance(1)
    assert not await api.lets_in(given["access_token"])
    assert (await api.refresh(given["refresh_token"])).status_code == 401


async def test_a_token_is_good_only_for_the_user_of_its_session(api: Replica) -> None:
    await api.service.users.create("ada", Role.VIEWER, OTHERS)
    session = (await api.tokens_of("ada", OTHERS))["refresh_token"].partition(".")[0]
    assert not await api.lets_in(api.tokens.make(Claims("admin", session)))


@pytest.mark.parametrize("text", ["x", "x.y", "a" * 400, "cfk.x.y"])
async def test_text_that_is_not_a_refresh_token_is_refused(api: Replica, text: str) -> None:
    assert (await api.refresh(text)).status_code == 401


async def test_nothing_that_logs_in_is_kept_in_clear_text(api: Replica, memory: MemoryBackends) -> None:
    await api.service.users.create("ada", Role.VIEWER, OTHERS)
    _, key = await api.service.keys.create("ci", Role.VIEWER)
    given = await api.tokens_of("ada", OTHERS)
    ticket = (await api.send("POST", "/auth/ws-ticket", token=given["access_token"])).json()["ticket"]
    kept = repr([vars(store) for store in (memory.users, memory.sessions, memory.keys, memory.audit, memory.tickets)])
    for secret in (OTHERS, key.rpartition(".")[2], given["refresh_token"].partition(".")[2], ticket):
        assert secret not in kept
    assert "$argon2id$" in kept


# ------------------------------------------------------------------------------------------------------------ guesses


@pytest.mark.parametrize("name", ["admin", "ada", "nobody", "ünknown\0", "off"])
async def test_every_refused_login_costs_one_hash_for_any_user(api: Replica, name: str) -> None:
    await api.service.users.create("ada", Role.VIEWER, OTHERS)
    await api.service.users.create("off", Role.VIEWER, OTHERS)
    await api.service.users.change("off", enabled=False)
    wrong = await api.login(name, "wrong password")
    assert (wrong.status_code, api.passwords.compared) == (401, 1)
    assert wrong.json()["detail"] == "wrong username or password"
    if name == "off":
        disabled = await api.login(name, OTHERS)
        assert (disabled.status_code, disabled.json()["detail"]) == (401, wrong.json()["detail"])
        assert api.passwords.compared == 2


async def test_a_limited_login_costs_no_hash(api: Replica) -> None:
    for _ in range(5):
        await api.login(password="wrong password")
    assert (await api.login()).status_code == 429
    assert api.passwords.compared == 5


async def test_guesses_from_one_address_are_limited_whatever_the_account(api: Replica, clock: FakeClock) -> None:
    for n in range(20):
        assert (await api.login(f"user-{n}", "wrong password")).status_code == 401
    assert (await api.login()).status_code == 429
    assert (await api.login(address="192.0.2.2")).status_code == 200
    await clock.advance(60)
    assert (await api.login("user-99", "wrong password")).status_code == 401
    assert (await api.login()).headers["Retry-After"] == "120"


async def test_attempts_are_counted_by_address_before_the_body_is_read(api: Replica) -> None:
    read = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"{}")
        yield read[-1]

    for _ in range(20):
        assert (await api.send("POST", "/auth/token", content=body())).status_code == 422
    for path in ("/auth/token", "/auth/session"):
        refused = await api.send("POST", path, content=body(), headers=FROM_PAGE)
        assert (refused.status_code, len(read)) == (429, 20), path


async def test_wrong_passwords_of_others_delay_a_user_and_lock_nobody_out(
    api: Replica, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    for n in range(11):
        assert (await api.login(password="wrong password", address=f"192.0.2.{n}")).status_code == 401
    assert (await api.login(address="192.0.2.99")).status_code == 200
    assert waits == [0.5, 1, 2, 4, 8, 8, 8]
    # Who has shown the password begins anew.
    for n in range(5):
        assert (await api.login(password="wrong password", address=f"192.0.2.1{n}")).status_code == 401
    assert len(waits) == 7
    await clock.advance(COUNTED_FOR_S)
    assert (await api.login(address="192.0.2.98")).status_code == 200
    assert len(waits) == 7


async def test_logins_that_succeed_are_not_limited(api: Replica) -> None:
    for _ in range(20):
        assert (await api.login()).status_code == 200


async def test_a_good_login_in_between_does_not_free_the_guesses_of_an_address(api: Replica) -> None:
    for n in range(20):
        assert (await api.login()).status_code == 200
        assert (await api.login(f"user-{n}", "wrong password")).status_code == 401
    assert (await api.login()).status_code == 429


async def test_the_addresses_of_one_ipv6_network_count_as_one(api: Replica) -> None:
    for n in range(20):
        await api.login(f"user-{n}", "wrong password", address=f"2001:db8:1:2::{n:x}")
    assert (await api.login(address="2001:db8:1:2:ffff::1")).status_code == 429
    assert (await api.login(address="2001:db8:1:3::1")).status_code == 200


async def test_without_redis_no_login_succeeds_and_sessions_continue(api: Replica, memory: MemoryBackends) -> None:
    given = await api.tokens_of()
    memory.faults.fail_before("Redis", 2)
    assert (await api.login()).status_code == 503
    assert await api.lets_in(given["access_token"])
    assert api.passwords.compared == 1


# ---------------------------------------------------------------------------------------------------------- passwords


async def test_at_most_two_hashes_are_made_at_once_and_too_many_are_refused() -> None:
    passwords = Passwords(QUICK)
    most = 2 + MOST_WAITING
    answers = await asyncio.gather(*(passwords.matches("a", None) for _ in range(most + 3)), return_exceptions=True)
    assert answers.count(False) == most
    assert sum(isinstance(answer, TooSoon) for answer in answers) == 3
    assert await passwords.matches("a", await passwords.hashed("a"))
    assert passwords._threads._max_workers == 2


async def test_an_invalid_hash_matches_no_password() -> None:
    passwords = CountedPasswords()
    assert not await passwords.matches("", "")
    assert not await passwords.matches(PASSWORD, "plain")
    assert not await passwords.matches(PASSWORD, None)
    assert await passwords.matches(PASSWORD, QUICK.hash(PASSWORD))
    assert not await passwords.matches(PASSWORD + " ", QUICK.hash(PASSWORD))
    assert passwords.compared == 4, "as much for nobody as for somebody"

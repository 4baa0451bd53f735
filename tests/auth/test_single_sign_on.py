"""Single sign-on against a real provider: who gets in, with which role and for how long; and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from cronflow.auth.tokens import ACCESS_S
from cronflow.backends.clock import SystemClock
from cronflow.domain.access import LoginMethod, Role, Session, UserSource
from cronflow.domain.errors import InvalidInput
from cronflow.ports import AuditQuery
from cronflow.ports.identity import ProviderUnavailable
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases.people import CHECK_AFTER_S, UNCHECKED_LASTS
from tests.auth.bench import PASSWORD, Replica
from tests.provider import PEOPLE, ROLES, SECRET, Provider, providing

PUBLIC = "http://127.0.0.1:8500"
FROM_PAGE = {"X-CronFlow-Page": "1"}


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    running.reset()
    return running


@pytest.fixture
def stores() -> MemoryBackends:
    """On real time, which the provider has too."""
    return memory_backends(SystemClock())


def settings(provider: Provider, **changed: str) -> dict[str, str]:
    found = {
        "OIDC_ISSUER": provider.issuer,
        "OIDC_CLIENT_ID": "cronflow",
        "OIDC_CLIENT_SECRET": SECRET,
        "OIDC_SCOPES": "openid profile email groups offline_access",
        "OIDC_ROLES": ROLES,
        "OIDC_NAME": "Example ID",
        "PUBLIC_URL": PUBLIC,
        **changed,
    }
    return {f"CRONFLOW_{name}": value for name, value in found.items()}


def api_of(provider: Provider, stores: MemoryBackends, *, passwords: bool = True, **changed: str) -> Replica:
    return Replica(stores, SystemClock(), oidc=settings(provider, **changed), passwords_for_all=passwords)


@pytest.fixture
def api(provider: Provider, stores: MemoryBackends) -> Replica:
    return api_of(provider, stores)


class Visit:
    """A login of the page: where the browser was sent, its cookie, and the answer of the provider."""

    def __init__(self, started: httpx2.Response, answered: httpx2.Response) -> None:
        self.cookie, *self.attributes = started.headers["set-cookie"].split("; ")
        self.asked = parse_qs(urlsplit(started.headers["location"]).query)
        self.back = answered.headers["location"].removeprefix(f"{PUBLIC}/api/v1")


async def visit(api: Replica, provider: Provider, name: str, goal: str = "/jobs?q=a") -> Visit:
    started = await api.send("GET", f"/auth/oidc/start?{httpx2.QueryParams({'next': goal})}")
    assert started.status_code == 303, started.text
    return Visit(started, await asyncio.to_thread(provider.log_in, started.headers["location"], name))


async def callback(api: Replica, back: str, cookie: str) -> httpx2.Response:
    answer = await api.send("GET", back, headers={"Cookie": cookie, "User-Agent": "Firefox\x1b[31m"})
    assert answer.status_code == 303, answer.text
    return answer


def refresh_cookie(answer: httpx2.Response) -> str:
    [found] = [one for one in answer.headers.get_list("set-cookie") if one.startswith("cronflow_refresh")]
    return str(found)


async def page_of(api: Replica, provider: Provider, name: str) -> tuple[str, str]:
    """The access token and the cookie of a page that has logged in."""
    visited = await visit(api, provider, name)
    answer = await callback(api, visited.back, visited.cookie)
    assert answer.headers["location"].endswith("#signed-in"), answer.headers["location"]
    return await renewed(api, refresh_cookie(answer).partition(";")[0])


async def renewed(api: Replica, cookie: str) -> tuple[str, str]:
    answer = await renew(api, cookie)
    assert answer.status_code == 200, answer.text
    return answer.json()["access_token"], refresh_cookie(answer).partition(";")[0]


async def renew(api: Replica, cookie: str) -> httpx2.Response:
    return await api.send("POST", "/auth/session/refresh", headers={**FROM_PAGE, "Cookie": cookie})


async def reason_of(api: Replica, provider: Provider, name: str) -> str:
    """Why a login is refused."""
    visited = await visit(api, provider, name)
    answer = await callback(api, visited.back, visited.cookie)
    assert not [one for one in answer.headers.get_list("set-cookie") if one.startswith("cronflow_refresh")]
    return answer.headers["location"].removeprefix(f"{PUBLIC}/?sign_in=")


def provider_of(api: Replica) -> Any:
    """The side of the API that speaks to the provider."""
    assert api.sign_in is not None
    return api.sign_in._provider


async def age(stores: MemoryBackends, seconds: float) -> Session:
    """Move the only session's check into the past."""
    [session] = stores.documents.sessions.values()
    assert session.checked_at is not None
    stores.documents.sessions[session.id] = replace(session, checked_at=session.checked_at - timedelta(seconds=seconds))
    return session


async def recorded(stores: MemoryBackends, action: str) -> list[Any]:
    return [entry.after or entry.before for entry in await stores.audit.find(AuditQuery(action=action))]


async def device(api: Replica, provider: Provider, name: str) -> httpx2.Response:
    begun = (await api.send("POST", "/auth/oidc/device")).json()
    await asyncio.to_thread(provider.enter_code, begun["user_code"], name)
    return await api.send("POST", "/auth/oidc/device/token", {"handle": begun["handle"]})


# ----------------------------------------------------------------------------------------------------------- the page


async def test_the_page_logs_in_with_pkce_and_gets_its_session_in_a_cookie(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    options = (await api.send("GET", "/auth/options")).json()
    url = f"{PUBLIC}/api/v1/auth/oidc/start"
    assert options == {"password": True, "single_sign_on": {"name": "Example ID", "url": url}}
    visited = await visit(api, provider, "grace")
    assert visited.asked["code_challenge_method"] == ["S256"]
    assert visited.asked["redirect_uri"] == [f"{PUBLIC}/api/v1/auth/oidc/callback"]
    assert {"HttpOnly", "SameSite=lax", "Path=/api/v1/auth/oidc"} <= set(visited.attributes)
    kept = repr(stores.memory.logins)
    assert all(visited.asked[name][0] not in kept for name in ("state", "nonce"))
    # Providers add parameters of their own.
    answer = await callback(api, f"{visited.back}&session_state=x", visited.cookie)
    assert answer.headers["location"] == f"{PUBLIC}/jobs?q=a#signed-in"
    cookie, *attributes = refresh_cookie(answer).split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/api/v1/auth/session"} <= set(attributes)
    token, _ = await renewed(api, cookie)
    me = (await api.send("GET", "/auth/me", token=token)).json()
    assert (me["name"], me["role"], me["jobs"]) == ("oidc:grace", "editor", ["payroll-*"])
    [session] = stores.documents.sessions.values()
    assert (session.method, session.agent, session.address) == (LoginMethod.OIDC, "Firefox[31m", "192.0.2.1")
    assert session.grant, "the provider gave a refresh token"
    [after] = await recorded(stores, "session.create")
    assert after["groups"] == ["everybody", "payroll"]


async def test_the_browser_goes_on_to_a_view_and_nowhere_else(api: Replica, provider: Provider) -> None:
    for goal in ("//evil.example", "https://evil.example/", "/\\evil.example", "/api/v1/jobs", "/jobs\r\nX: y", "/x"):
        visited = await visit(api, provider, "ada", goal)
        answer = await callback(api, visited.back, visited.cookie)
        assert answer.headers["location"] == f"{PUBLIC}/#signed-in", goal


@pytest.mark.parametrize("dest", ["image", "iframe", "script", "empty", "embed"])
async def test_a_page_of_another_site_begins_no_login_and_uses_up_no_attempt(
    api: Replica, provider: Provider, dest: str
) -> None:
    for _ in range(25):
        loaded = await api.send("GET", "/auth/oidc/start", headers={"Sec-Fetch-Dest": dest})
        assert (loaded.status_code, "set-cookie" in loaded.headers) == (403, False)
        sent = await api.send("POST", "/auth/oidc/device", headers={"Sec-Fetch-Site": "cross-site"})
        assert sent.status_code == 403
    opened = await api.send("GET", "/auth/oidc/start", headers={"Sec-Fetch-Dest": "document"})
    assert opened.status_code == 303
    assert (await api.login()).status_code == 200


async def test_logins_through_the_provider_have_a_count_of_their_own(api: Replica, provider: Provider) -> None:
    for _ in range(20):
        assert (await api.send("GET", "/auth/oidc/start")).status_code == 303
    assert (await api.send("GET", "/auth/oidc/start")).status_code == 429
    assert (await api.send("POST", "/auth/oidc/device")).status_code == 429
    assert (await api.login()).status_code == 200
    assert (await api.send("GET", "/auth/oidc/start", address="192.0.2.9")).status_code == 303


async def test_a_login_through_the_provider_that_succeeds_is_not_counted(api: Replica, provider: Provider) -> None:
    for _ in range(19):
        assert (await api.send("GET", "/auth/oidc/start")).status_code == 303
    for _ in range(2):
        await page_of(api, provider, "grace")


async def test_an_answer_counts_once_and_only_in_the_browser_that_asked(api: Replica, provider: Provider) -> None:
    mine, theirs = [await visit(api, provider, "ada") for _ in range(2)]
    for cookie in ("", theirs.cookie, f"{mine.cookie.partition('=')[0]}=guessed"):
        answer = await callback(api, mine.back, cookie)
        assert answer.headers["location"] == f"{PUBLIC}/?sign_in=expired", "login CSRF"
    # A wrong proof has used it up.
    assert (await callback(api, mine.back, mine.cookie)).headers["location"].endswith("=expired")
    assert (await callback(api, theirs.back, theirs.cookie)).headers["location"].endswith("#signed-in")
    replayed = await callback(api, theirs.back, theirs.cookie)
    assert replayed.headers["location"] == f"{PUBLIC}/?sign_in=expired"
    code = parse_qs(urlsplit(mine.back).query)["code"][0]
    injected = await visit(api, provider, "grace")
    back = (
        f"{injected.back.partition('?')[0]}?{httpx2.QueryParams({'state': injected.asked['state'][0], 'code': code})}"
    )
    assert (await callback(api, back, injected.cookie)).headers["location"].endswith(("=refused", "=invalid"))


async def test_the_answer_of_another_provider_is_refused(api: Replica, provider: Provider) -> None:
    visited = await visit(api, provider, "ada")
    mixed = httpx2.QueryParams({**httpx2.QueryParams(urlsplit(visited.back).query), "iss": "https://evil.example"})
    answer = await callback(api, f"/auth/oidc/callback?{mixed}", visited.cookie)
    assert answer.headers["location"].endswith("=invalid")


FORGED: list[dict[str, Any]] = [
    {"nonce": "another"},
    {"nonce": None},
    {"aud": "another-client"},
    {"aud": ["cronflow", "another-client"]},
    {"aud": ["cronflow", "another-client"], "azp": "another-client"},
    {"iss": "https://evil.example"},
    {"exp": 1_000_000_000},
    {"exp": "soon"},
    {"iat": 4_000_000_000},
    {"sub": ""},
    {"header": {"alg": "none"}},
    {"header": {"alg": "HS256"}},
]


async def test_an_id_token_that_proves_nothing_is_refused(api: Replica, provider: Provider) -> None:
    found = []
    for forged in FORGED:
        provider.change("forge", **forged)
        if await reason_of(api, provider, "ada") != "invalid":
            found.append(forged)
        # One address may not try so often.
        api.backends.memory.attempts.clear()  # type: ignore[attr-defined]
    assert found == []
    provider.change("forge")
    await page_of(api, provider, "ada")


async def test_new_keys_of_the_provider_are_fetched(provider: Provider, stores: MemoryBackends) -> None:
    api = api_of(provider, stores)
    await page_of(api, provider, "ada")
    provider.change("keys")
    speaking: Any = provider_of(api)
    # As after an hour; a key that is missing is not looked for again within ten seconds.
    speaking._keys = (-1e9, speaking._keys[1])
    await page_of(api, provider, "ada")
    provider.change("keys")
    assert await reason_of(api, provider, "ada") == "invalid", "keys are not fetched for every token"


# ------------------------------------------------------------------------------------------------------------- people


async def test_a_person_in_no_group_of_the_table_is_refused_clearly(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    assert await reason_of(api, provider, "eve") == "no_role"
    refused = await device(api, provider, "eve")
    assert refused.status_code == 403
    assert "no group of oidc:eve has a role here" in refused.json()["detail"]
    assert not stores.documents.users
    assert not stores.documents.sessions
    assert {one["groups"][0] for one in await recorded(stores, "login.refuse")} == {"everybody"}


async def test_groups_come_from_userinfo_too_and_from_a_path(provider: Provider, stores: MemoryBackends) -> None:
    provider.change("claims", **{"in": "userinfo"})
    token, _ = await page_of(api_of(provider, stores), provider, "ada")
    assert (await api_of(provider, stores).send("GET", "/auth/me", token=token)).json()["role"] == "admin"
    provider.change("claims", **{"in": "id_token"})
    nested = api_of(provider, stores, OIDC_GROUPS_CLAIM="realm.groups")
    assert await reason_of(nested, provider, "ada") == "no_role"


async def test_a_name_belongs_to_one_person_and_never_to_a_local_user(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    await api.service.users.create("grace", Role.ADMIN, "another good password")
    with pytest.raises(InvalidInput):
        await api.service.users.create("oidc:grace", Role.ADMIN, "another good password")
    token, _ = await page_of(api, provider, "grace")
    assert (await api.send("GET", "/auth/me", token=token)).json()["role"] == "editor"
    provider.change("people", **PEOPLE, mallory={"groups": ["cronflow-admins"], "preferred_username": "Grace"})
    assert await reason_of(api, provider, "mallory") == "name"
    assert (await api.login("oidc:grace", "")).status_code in (401, 422)
    assert (await api.login("oidc:grace", "another good password")).status_code == 401
    [user] = [one for one in await stores.users.find() if one.source is UserSource.OIDC]
    assert user.subject == f"{provider.issuer} grace"
    with pytest.raises(InvalidInput, match="groups determine the role"):
        await api.service.users.change("oidc:grace", role=Role.ADMIN)
    with pytest.raises(InvalidInput, match="groups determine the role"):
        await api.service.users.change("oidc:grace", password="another good password")
    await api.service.users.change("oidc:grace", enabled=False)
    assert not await api.lets_in(token), "at once"
    assert await reason_of(api, provider, "grace") == "disabled"


async def test_a_person_who_is_renamed_at_the_provider_stays_the_same_user(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    await page_of(api, provider, "grace")
    renamed = {"grace": PEOPLE["grace"] | {"preferred_username": "hopper", "email": "hopper@example.com"}}
    provider.change("people", **(PEOPLE | renamed))
    token, _ = await page_of(api, provider, "grace")
    assert (await api.send("GET", "/auth/me", token=token)).json()["name"] == "oidc:grace"
    await api.service.users.change("oidc:grace", enabled=False)
    assert await reason_of(api, provider, "grace") == "disabled"
    assert [user.name for user in await stores.users.find() if user.source is UserSource.OIDC] == ["oidc:grace"]


async def test_two_users_of_one_person_do_not_let_a_disabled_one_in(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    """CronFlow 0.12 made a user for each name of a person."""
    await page_of(api, provider, "grace")
    [grace] = [user for user in await stores.users.find() if user.source is UserSource.OIDC]
    stores.documents.users["oidc:hopper"] = replace(grace, name="oidc:hopper", enabled=False)
    assert await reason_of(api, provider, "grace") == "disabled"


async def test_new_groups_count_at_the_next_check_and_a_person_without_any_is_out_everywhere(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    token, cookie = await page_of(api, provider, "grace")
    provider.change("people", **{**PEOPLE, "grace": {"groups": ["ops"]}})
    token, cookie = await renewed(api, cookie)
    assert (await api.send("GET", "/auth/me", token=token)).json()["role"] == "editor", "it was checked just now"
    await age(stores, CHECK_AFTER_S)
    _, cookie = await renewed(api, cookie)
    me = (await api.send("GET", "/auth/me", token=token)).json()
    assert (me["role"], me["jobs"]) == ("operator", []), "for tokens from before too"
    provider.change("people", **{**PEOPLE, "grace": {"groups": []}})
    await age(stores, CHECK_AFTER_S)
    refused = await renew(api, cookie)
    assert refused.status_code == 403
    assert not await api.lets_in(token)
    assert [one["reason"][:21] for one in await recorded(stores, "session.revoke")] == ["no group of oidc:grac"]


async def test_a_person_removed_at_the_provider_is_out_after_fifteen_minutes_at_the_latest(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    token, cookie = await page_of(api, provider, "grace")
    provider.change("people", ada=PEOPLE["ada"])
    await age(stores, ACCESS_S - 1)
    assert await api.lets_in(token)
    await age(stores, 1)
    assert not await api.lets_in(token), "whatever the client does"
    assert (await renew(api, cookie)).status_code == 401
    assert stores.documents.sessions == {}


async def test_a_provider_that_is_away_ends_no_session_and_passwords_still_work(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    token, cookie = await page_of(api, provider, "grace")
    back = Replica(stores, api.clock, oidc=settings(provider))
    await age(stores, ACCESS_S)
    broken = provider_of(api)
    at, metadata = broken._metadata
    broken._metadata = at, {**metadata, "token_endpoint": "http://127.0.0.1:9/token"}
    answer = await renew(api, cookie)
    assert answer.status_code == 503
    assert "the identity provider" in answer.json()["detail"]
    assert not await api.lets_in(token)
    assert (await api.login()).status_code == 200
    assert (await renew(back, cookie)).status_code == 200, "the client's token is still good when it is back"
    nowhere = Replica(stores, api.clock, oidc=settings(provider, OIDC_ISSUER="http://127.0.0.1:9"))
    refused = await nowhere.send("GET", "/auth/oidc/start")
    assert refused.headers["location"] == f"{PUBLIC}/?sign_in=unavailable"
    assert (await nowhere.send("POST", "/auth/oidc/device")).status_code == 503
    other = Replica(stores, api.clock, oidc=settings(provider, OIDC_ISSUER=f"{provider.issuer}/"))
    detail = (await other.send("POST", "/auth/oidc/device")).json()["detail"]
    assert "OIDC_ISSUER must be exactly the same" in detail


@pytest.mark.parametrize("verb", ["sessions.confirm", "users.replace"])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_replaced_refresh_token_survives_a_failure_of_mongodb(
    api: Replica, provider: Provider, stores: MemoryBackends, verb: str, times: int
) -> None:
    """The provider of the tests replaces it with each answer, and ends the grant when an earlier one is presented."""
    _, cookie = await page_of(api, provider, "grace")
    other = api_of(provider, stores)
    provider.change("people", **(PEOPLE | {"grace": {"groups": ["ops"]}}))
    for _ in range(times):
        await age(stores, CHECK_AFTER_S + 1)
        stores.faults.fail_before(verb)
        assert (await renew(api, cookie)).status_code == 503
    token, cookie = await renewed(other, cookie)
    assert (await other.send("GET", "/auth/me", token=token)).json()["role"] == "operator"
    await age(stores, CHECK_AFTER_S + 1)
    await renewed(other, cookie)


async def test_a_replaced_refresh_token_survives_when_the_provider_breaks_off(
    provider: Provider, stores: MemoryBackends, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = api_of(provider, stores)
    _, cookie = await page_of(api, provider, "grace")
    side = provider_of(api)
    identity_of = side._identity

    async def break_off(*_: Any, **__: Any) -> Any:
        raise ProviderUnavailable(provider.issuer, "userinfo answered 502")

    await age(stores, CHECK_AFTER_S + 1)
    monkeypatch.setattr(side, "_identity", break_off)
    assert (await renew(api, cookie)).status_code == 503
    monkeypatch.setattr(side, "_identity", identity_of)
    await renewed(api, cookie)


async def test_a_session_without_a_refresh_token_of_the_provider_is_short(
    provider: Provider, stores: MemoryBackends
) -> None:
    api = api_of(provider, stores, OIDC_CLIENT_ID="short")
    _, cookie = await page_of(api, provider, "ada")
    [session] = stores.documents.sessions.values()
    assert not session.grant
    assert session.created_at is not None
    assert session.expires_at - session.created_at == UNCHECKED_LASTS
    await renewed(api, cookie)


async def test_changed_settings_count_for_sessions_that_exist(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    token, cookie = await page_of(api, provider, "grace")
    changed = api_of(provider, stores, OIDC_ROLES="payroll=viewer")
    assert not await changed.lets_in(token), "it has to be checked first"
    token, cookie = await renewed(changed, cookie)
    assert (await changed.send("GET", "/auth/me", token=token)).json()["role"] == "viewer"
    without = Replica(stores, api.clock)
    assert not await without.lets_in(token)
    assert (await renew(without, cookie)).status_code == 401


async def test_without_passwords_only_the_admin_of_the_settings_has_one(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    await api.service.users.create("bob", Role.OPERATOR, "another good password")
    token = (await api.tokens_of("bob", "another good password"))["access_token"]
    strict = api_of(provider, stores, passwords=False)
    assert (await strict.send("GET", "/auth/options")).json()["password"] is False
    assert not await strict.lets_in(token), "sessions from before end"
    for name in ("bob", "nobody"):
        refused = await strict.login(name, "another good password")
        assert (refused.status_code, refused.json()["detail"][:13]) == (403, "passwords are"), name
    assert (await strict.login("admin", PASSWORD)).status_code == 200
    await page_of(strict, provider, "ada")


# ------------------------------------------------------------------------------------------------------------ commands


async def test_a_code_for_devices_lets_one_client_in_once(
    api: Replica, provider: Provider, stores: MemoryBackends
) -> None:
    begun = (await api.send("POST", "/auth/oidc/device")).json()
    assert begun["verification_uri"] == f"{provider.issuer}/device"
    asked = {"handle": begun["handle"]}
    pending = await api.send("POST", "/auth/oidc/device/token", asked)
    assert (pending.status_code, pending.json()) == (202, {"slow_down": False})
    hasty = await api.send("POST", "/auth/oidc/device/token", asked)
    assert (hasty.status_code, hasty.json()) == (202, {"slow_down": True}), "the provider is not asked"
    await asyncio.to_thread(provider.enter_code, begun["user_code"], "grace")
    stores.memory.full_at.clear()
    given = (await api.send("POST", "/auth/oidc/device/token", asked)).json()
    assert await api.lets_in(given["access_token"])
    [session] = stores.documents.sessions.values()
    assert session.method is LoginMethod.DEVICE
    stores.memory.full_at.clear()
    assert (await api.send("POST", "/auth/oidc/device/token", asked)).status_code == 401
    assert (await api.send("POST", "/auth/oidc/device/token", {"handle": "guessed"})).status_code == 401


async def test_a_command_may_listen_on_loopback_if_there_are_no_codes(
    provider: Provider, stores: MemoryBackends
) -> None:
    api = api_of(provider, stores, OIDC_CLIENT_ID="browser-only")
    assert (await api.send("POST", "/auth/oidc/device")).status_code == 404
    assert (await api.send("POST", "/auth/oidc/loopback", {"port": 80})).status_code == 422
    begun = (await api.send("POST", "/auth/oidc/loopback", {"port": 49152})).json()
    answer = await asyncio.to_thread(provider.log_in, begun["url"], "ada")
    back = urlsplit(answer.headers["location"])
    assert (back.netloc, back.path) == ("127.0.0.1:49152", "/callback")
    given = {name: values[0] for name, values in parse_qs(back.query).items()}
    assert given["state"] == begun["state"]
    sent = {"state": given["state"], "code": given["code"], "iss": given["iss"]}
    page = await callback(api, f"/auth/oidc/callback?{back.query}", f"cronflow_oidc_{sent['state'][:16]}=x")
    assert page.headers["location"].endswith("=expired"), "the page cannot finish a login of a command"
    begun = (await api.send("POST", "/auth/oidc/loopback", {"port": 49152})).json()
    answer = await asyncio.to_thread(provider.log_in, begun["url"], "ada")
    given = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    sent = {"state": given["state"], "code": given["code"], "iss": given["iss"], "handle": begun["handle"]}
    finished = await api.send("POST", "/auth/oidc/loopback/token", sent)
    assert await api.lets_in(finished.json()["access_token"])
    assert (await api.send("POST", "/auth/oidc/loopback/token", sent)).status_code == 401


async def test_an_api_without_a_provider_says_so(stores: MemoryBackends) -> None:
    api = Replica(stores, SystemClock())
    assert (await api.send("GET", "/auth/options")).json() == {"password": True, "single_sign_on": None}
    assert (await api.send("POST", "/auth/oidc/device")).status_code == 404
    assert (await api.send("GET", "/auth/oidc/start")).status_code == 404

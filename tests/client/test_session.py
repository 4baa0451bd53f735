"""The login that is kept: who can read it, and several commands that need new tokens at the same time."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from cronflow.auth.tokens import ACCESS_S
from cronflow.client.authenticated import AuthenticatedClient
from cronflow.client.session import Login, LoginFile, check_transport
from cronflow.domain.errors import BackendUnavailable, CronFlowError, InvalidInput
from tests.auth.bench import Replica
from tests.cli.scene import Scene

URL = "http://127.0.0.1:8500"


@pytest.fixture
def file(tmp_path: Path) -> LoginFile:
    return LoginFile(tmp_path / "cronflow" / "login.json")


@pytest.fixture
def replica() -> Replica:
    scene = Scene()
    return Replica(scene.backends, scene.clock)


async def logged_in(replica: Replica, file: LoginFile) -> Login:
    tokens = await replica.tokens_of()
    login = Login(url=URL, token=tokens["access_token"], refresh=tokens["refresh_token"], user="admin")
    file.write(login)
    return login


def client(replica: Replica, login: Login, file: LoginFile | None) -> AuthenticatedClient:
    return AuthenticatedClient(login, file, transport=httpx2.ASGITransport(app=replica.app))


# ----------------------------------------------------------------------------------------------------------- the file


def test_it_is_for_its_owner_alone_and_read_as_it_was_written(file: LoginFile) -> None:
    assert file.read() is None
    login = Login(url=URL, token="access", refresh="refresh", user="ada", insecure=True)
    file.write(login)
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    assert file.read() == login
    assert "access" not in repr(login)
    file.forget()
    file.forget()
    assert file.read() is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_one_that_others_can_read_is_refused(file: LoginFile, mode: int) -> None:
    file.write(Login(url=URL, token="access"))
    file.path.chmod(mode)
    with pytest.raises(InvalidInput, match=f"mode {mode:04o}.*chmod 600"):
        file.read()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"url": 1, "token": "x", "refresh": null}', "\xff"])
def test_what_is_no_login_is_refused(file: LoginFile, content: str) -> None:
    file.write(Login(url=URL, token="access"))
    file.path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidInput, match="is not a login file"):
        file.read()


def test_a_write_that_fails_leaves_the_one_before_and_nothing_beside_it(
    file: LoginFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Login(url=URL, token="before")
    file.write(before)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidInput, match="No space left"):
        file.write(Login(url=URL, token="after"))
    assert file.read() == before
    assert [one.name for one in file.path.parent.iterdir()] == ["login.json"]


@pytest.mark.parametrize(
    ("url", "insecure", "fine"),
    [
        ("https://cron.example.com", False, True),
        ("http://127.0.0.1:8500", False, True),
        ("http://[::1]:8500", False, True),
        ("http://localhost:8500", False, True),
        ("http://10.0.0.7:8500", False, False),
        ("http://cron.example.com", False, False),
        ("http://localhost.example.com", False, False),
        ("http://127.0.0.1@cron.example.com", False, False),
        ("http://cron.example.com", True, True),
    ],
)
def test_plain_http_goes_to_this_machine_alone_unless_it_is_meant(url: str, *, insecure: bool, fine: bool) -> None:
    if fine:
        check_transport(url, insecure=insecure)
        return
    with pytest.raises(InvalidInput, match="plain http exposes the password"):
        check_transport(url, insecure=insecure)
    with pytest.raises(InvalidInput, match="plain http exposes the password"):
        AuthenticatedClient(Login(url=url, token="x"))


# ---------------------------------------------------------------------------------------------------------- new tokens


async def test_commands_at_the_same_time_share_one_refresh_and_none_is_logged_out(
    replica: Replica, file: LoginFile
) -> None:
    login = await logged_in(replica, file)
    replica.clock.step(timedelta(seconds=ACCESS_S + 1))  # type: ignore[attr-defined]
    clients = [client(replica, login, file) for _ in range(5)]
    found = await asyncio.gather(*(one.me() for one in clients))
    assert {one["name"] for one in found} == {"admin"}
    kept = file.read()
    assert kept is not None
    assert kept.refresh != login.refresh
    assert {one.tokens.refresh for one in clients if one.tokens is not None} == {kept.refresh}
    # And the session goes on with what stands in the file.
    replica.clock.step(timedelta(seconds=ACCESS_S + 1))  # type: ignore[attr-defined]
    assert (await client(replica, kept, file).me())["name"] == "admin"
    for one in clients:
        await one.aclose()


async def test_new_tokens_stand_in_the_file_before_anything_is_asked_with_them(
    replica: Replica, file: LoginFile
) -> None:
    login = await logged_in(replica, file)
    replica.clock.step(timedelta(seconds=ACCESS_S + 1))  # type: ignore[attr-defined]
    kept: list[str] = []

    async def looking(scope: object, receive: object, send: object) -> None:
        found = file.read()
        assert isinstance(scope, dict)
        assert found is not None
        asked_with = dict(scope["headers"]).get(b"authorization", b"").decode()
        kept.append(f"{scope['path'].rpartition('/')[2]} {asked_with == f'Bearer {found.token}'}")
        await replica.app(scope, receive, send)  # type: ignore[arg-type]

    async with AuthenticatedClient(login, file, transport=httpx2.ASGITransport(app=looking)) as one:
        await one.me()
    assert kept == ["me True", "refresh False", "me True"]


async def test_tokens_of_another_address_are_not_sent_to_this_one(replica: Replica, file: LoginFile) -> None:
    login = await logged_in(replica, file)
    replica.clock.step(timedelta(seconds=ACCESS_S + 1))  # type: ignore[attr-defined]
    other = Login(url="https://other.example.com", token="other", refresh="theirs", user="eva")
    file.write(other)
    sent: list[str] = []

    async def looking(scope: object, receive: object, send: object) -> None:
        assert isinstance(scope, dict)
        sent.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await replica.app(scope, receive, send)  # type: ignore[arg-type]

    async with AuthenticatedClient(login, file, transport=httpx2.ASGITransport(app=looking)) as one:
        with pytest.raises(CronFlowError, match=r"the login of admin at .* has ended"):
            await one.me()
    assert sent == [f"Bearer {login.token}"]
    assert file.read() == other


async def test_a_login_that_ended_shows_how_to_log_in_again(replica: Replica, file: LoginFile) -> None:
    login = await logged_in(replica, file)
    assert login.refresh is not None
    await replica.logins.logout(login.refresh)
    async with client(replica, login, file) as one:
        with pytest.raises(CronFlowError, match="has ended") as raised:
            await one.cluster.get()
    assert raised.value.__notes__ == [f"log in again: cronflow login {URL}"]


async def test_a_rejected_key_is_reported(replica: Replica) -> None:
    async with client(replica, Login(url=URL, token="cfk.deploy.nothing"), None) as one:
        with pytest.raises(CronFlowError, match="does not accept this API key") as raised:
            await one.cluster.get()
    assert "--key-stdin" in raised.value.__notes__[0]


async def test_following_ends_at_once_when_the_api_was_never_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.client.calls.FIRST_PAUSE_S", 0.0)

    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    async with AuthenticatedClient(Login(url=URL, token="x"), transport=httpx2.MockTransport(refuse)) as one:
        with pytest.raises(BackendUnavailable, match="refused"):
            await anext(one.follow())


async def test_an_unreachable_api_is_reported() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadError("gone", request=request)

    async with AuthenticatedClient(Login(url=URL, token="x"), transport=httpx2.MockTransport(refuse)) as one:
        with pytest.raises(BackendUnavailable, match=f"the API at {URL} is unavailable: gone") as raised:
            await one.jobs.run("report")
    assert raised.value.__notes__ == [f"via {URL}"]

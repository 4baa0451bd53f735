"""`cronflow login --sso` against an API and a real provider: with a code for devices, and with a browser here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest

from cronflow.backends.clock import SystemClock
from cronflow.cli import single_sign_on
from cronflow.testing.memory import memory_backends
from tests.auth.bench import Replica
from tests.auth.test_single_sign_on import settings
from tests.cli.conftest import Cli, parsed
from tests.cli.served import Served, serving
from tests.provider import Provider, providing

pytestmark = pytest.mark.usefixtures("logged_to_stderr")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


def serve(server: Served, provider: Provider, client: str) -> Replica:
    clock = SystemClock()
    replica = Replica(memory_backends(clock), clock, oidc=settings(provider, OIDC_CLIENT_ID=client))
    server.app = replica.app
    return replica


def test_a_command_logs_in_with_a_code_and_sees_and_revokes_its_session(
    cli: Cli, server: Served, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = serve(server, provider, "cronflow")
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)
        replica.backends.memory.full_at.clear()  # type: ignore[attr-defined]
        if len(waited) == 2:
            [code] = provider.change("codes")
            provider.enter_code(code, "ada")

    monkeypatch.setattr(single_sign_on, "pause", pause)
    result = cli("login", server.url, "--sso")
    assert (result.exit_code, waited) == (0, [5.0, 5.0]), result.output
    assert result.stdout == f"✓ ok  oidc:ada, admin, via {server.url}\n"
    assert f"open {provider.issuer}/device\n" in result.stderr
    assert re.search(r"and enter the code \w{4}-\w{4}\n", result.stderr)
    assert parsed(cli("users", "list", "-o", "json"))[0]["source"] == "oidc"
    [session] = parsed(cli("sessions", "list", "-o", "json"))
    assert (session["user"], session["method"], session["current"]) == ("oidc:ada", "device", True)
    assert [row["action"] for row in parsed(cli("audit", "list", "-o", "json"))] == ["session.create"]
    table = cli("sessions", "list", columns=80)
    assert max(map(len, table.stdout.splitlines())) <= 80
    assert f"{session['id']} *" in table.stdout
    assert cli("sessions", "revoke", session["id"]).stdout == f"session {session['id']} revoked\n"
    refused = cli("sessions", "list")
    assert refused.exit_code == 1
    assert "the login of oidc:ada" in refused.stderr


def test_a_command_logs_in_with_a_browser_if_there_are_no_codes(
    cli: Cli, server: Served, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, provider, "browser-only")

    def browse(url: str) -> bool:
        back = provider.log_in(url, "grace").headers["Location"]
        for wrong in (back.replace("state=", "state=x"), back.replace("/callback", "/other")):
            assert httpx2.get(wrong, verify=False).status_code == 400
        assert httpx2.get(back, verify=False).status_code == 200
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    result = cli("login", server.url, "--oidc", "-o", "name")
    assert (result.exit_code, result.stdout) == (0, "oidc:grace\n"), result.output


def test_a_login_that_is_refused_says_why(
    cli: Cli, server: Served, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(server, provider, "browser-only")

    def browse(url: str) -> bool:
        back = provider.log_in(url, "eve").headers["Location"]
        return httpx2.get(back, verify=False).is_success

    monkeypatch.setattr("webbrowser.open", browse)
    result = cli("login", server.url, "--sso")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{server.url} refused the login: no group of oidc:eve has a role here" in result.stderr
    server.app = Replica(memory_backends(SystemClock()), SystemClock()).app
    assert "has no single sign-on" in cli("login", server.url, "--sso").stderr
    assert "leave out --user" in cli("login", server.url, "--sso", "--user", "ada").stderr

"""The routes of admins: users, secrets, and the audit log; and what the log says of every change."""

from __future__ import annotations

from typing import Any

import pytest

from cronflow.documents.masking import masked
from cronflow.domain.access import AuditEntry, Role
from cronflow.domain.cluster import NodeReport
from cronflow.domain.errors import Conflict, InvalidInput
from cronflow.domain.job import CommandTarget, HttpTarget, Job
from cronflow.ports import AuditQuery
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends
from cronflow.usecases import UseCases
from cronflow.usecases.audit import Auditor, Changed, client_address
from tests.auth.bench import PASSWORD, Replica, a_job

GOOD = "a good password"


@pytest.fixture
async def token(api: Replica) -> str:
    """An admin's."""
    found: str = (await api.tokens_of())["access_token"]
    return found


async def entries(service: UseCases, **query: Any) -> list[AuditEntry]:
    """The oldest first."""
    return (await service.backends.audit.find(AuditQuery(**query)))[::-1]


# -------------------------------------------------------------------------------------------------------------- users


async def test_a_user_is_created_listed_changed_and_deleted(api: Replica, token: str) -> None:
    made = await api.send("POST", "/users", {"name": "ada", "role": "operator", "password": GOOD}, token=token)
    assert made.status_code == 201
    assert made.json() == {
        "name": "ada",
        "role": "operator",
        "jobs": [],
        "allow_shell": False,
        "allow_secrets": False,
        "enabled": True,
        "source": "local",
        "created_at": "2026-11-21T12:00:00Z",
    }
    again = await api.send("POST", "/users", {"name": "ada", "password": GOOD}, token=token)
    assert (again.status_code, again.json()["title"]) == (409, "Conflict")
    changed = await api.send("PATCH", "/users/ada", {"enabled": False}, token=token)
    assert (changed.status_code, changed.json()["enabled"]) == (200, False)
    assert (await api.send("GET", "/users", token=token)).json()["items"] == [changed.json()]
    assert (await api.send("DELETE", "/users/ada", token=token)).status_code == 204
    assert (await api.send("DELETE", "/users/ada", token=token)).status_code == 404
    assert (await api.send("PATCH", "/users/ada", {"enabled": True}, token=token)).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"name": "ada", "password": "short"},
        {"name": "Ada", "password": GOOD},
        {"name": "key:ada", "password": GOOD},
        {"name": "ada", "password": GOOD, "role": "root"},
        {"name": "ada", "password": GOOD, "enabled": True},
        {"name": "ada"},
        {"name": "ada", "password": "p" * 2000},
        {"name": "ada", "password": {"is": "hunter2"}},
    ],
    ids=str,
)
async def test_a_user_that_cannot_be_is_refused_and_no_password_is_echoed(
    api: Replica, token: str, body: dict[str, object]
) -> None:
    answer = await api.send("POST", "/users", body, token=token)
    assert answer.status_code == 422
    assert not any(word in answer.text for word in (GOOD, "hunter2", "ppp"))
    assert (await api.send("GET", "/users", token=token)).json()["items"] == []


async def test_the_name_of_the_settings_admin_is_taken(api: Replica, token: str) -> None:
    answer = await api.send("POST", "/users", {"name": "admin", "password": GOOD}, token=token)
    assert (answer.status_code, "ADMIN_USER" in answer.text) == (409, True)


async def test_lists_are_paged(api: Replica, token: str) -> None:
    for name in ("cy", "ada", "bob"):
        await api.service.users.create(name, Role.VIEWER, GOOD)
    first = (await api.send("GET", "/users?limit=2", token=token)).json()
    assert [one["name"] for one in first["items"]] == ["ada", "bob"]
    rest = (await api.send("GET", f"/users?limit=2&cursor={first['next_cursor']}", token=token)).json()
    assert ([one["name"] for one in rest["items"]], rest["next_cursor"]) == (["cy"], None)
    assert (await api.send("GET", "/users?limit=501", token=token)).status_code == 422


async def test_concurrent_changes_of_a_user_do_not_overwrite_each_other(
    api: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.service.users.create("ada", Role.ADMIN, GOOD)

    async def meanwhile(password: str) -> str:
        await api.service.users.change("ada", enabled=False)
        return password

    monkeypatch.setattr(api.passwords, "hashed", meanwhile)
    with pytest.raises(Conflict, match="someone else"):
        await api.service.users.change("ada", password=GOOD)
    [user] = await api.service.users.find()
    assert not user.enabled


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.EDITOR])
@pytest.mark.parametrize("path", ["/users", "/api-keys", "/secrets", "/audit"])
async def test_only_admins_manage(api: Replica, role: Role, path: str) -> None:
    await api.service.users.create("ada", role, GOOD)
    token = (await api.tokens_of("ada", GOOD))["access_token"]
    assert (await api.send("GET", path, token=token)).status_code == 403
    if path != "/audit":
        body = {"name": "bob", "password": GOOD, "value": GOOD}
        assert (await api.send("POST", path, body, token=token)).status_code in (403, 422)
        assert (await api.send("DELETE", f"{path}/ada", token=token)).status_code == 403
    assert (await api.send("GET", path)).status_code == 401


# ------------------------------------------------------------------------------------------------------------ secrets


async def test_a_secret_goes_in_and_never_comes_out(api: Replica, token: str, memory: MemoryBackends) -> None:
    made = await api.send("POST", "/secrets", {"name": "DB_PASSWORD", "value": "hunter2"}, token=token)
    assert (made.status_code, made.json()) == (201, {"name": "DB_PASSWORD", "new": True})
    again = await api.send("POST", "/secrets", {"name": "DB_PASSWORD", "value": "hunter3"}, token=token)
    assert (again.status_code, again.json()["new"]) == (200, False)
    listed = await api.send("GET", "/secrets", token=token)
    assert [one["name"] for one in listed.json()["items"]] == ["DB_PASSWORD"]
    assert (await api.send("GET", "/secrets/DB_PASSWORD", token=token)).status_code == 405
    seen = made.text + listed.text + (await api.send("GET", "/audit", token=token)).text
    kept = repr([vars(memory.secrets), vars(memory.audit)])
    assert not any(word in seen + kept for word in ("hunter2", "hunter3"))
    assert (await api.send("DELETE", "/secrets/DB_PASSWORD", token=token)).status_code == 204
    assert (await api.send("DELETE", "/secrets/DB_PASSWORD", token=token)).status_code == 404


@pytest.mark.parametrize(
    ("name", "value"), [("a b", "hunter2"), ("", "hunter2"), ("ok", "abc"), ("ok", "x\0yz"), ("ok", "${secret:other}")]
)
async def test_a_secret_that_cannot_be_kept_is_refused(api: Replica, token: str, name: str, value: str) -> None:
    answer = await api.send("POST", "/secrets", {"name": name, "value": value}, token=token)
    assert (answer.status_code, "hunter2" in answer.text) == (422, False)


async def test_without_a_key_no_secret_is_kept(memory: MemoryBackends, clock: FakeClock) -> None:
    with pytest.raises(InvalidInput, match="SECRETS_KEY"):
        await UseCases(memory, clock).secrets.set("name", "value")


# ---------------------------------------------------------------------------------------------------------- audit log


async def test_every_change_has_an_entry_with_author_and_address(api: Replica, token: str) -> None:
    await api.send("POST", "/users", {"name": "ada", "password": GOOD}, token=token, address="192.0.2.7")
    await api.send("PATCH", "/users/ada", {"role": "admin", "password": PASSWORD}, token=token)
    await api.send("DELETE", "/users/ada", token=token)
    answer = await api.send("GET", "/audit?limit=2", token=token)
    newest, second = answer.json()["items"]
    assert (newest["action"], newest["target"], newest["by"]) == ("user.delete", "user:ada", "admin")
    assert second["before"] == {"role": "viewer", "enabled": True}
    assert second["after"] == {"role": "admin", "enabled": True, "new_password": True}
    rest = await api.send("GET", f"/audit?limit=2&cursor={answer.json()['next_cursor']}", token=token)
    [first, _] = rest.json()["items"]
    assert (first["action"], first["address"], rest.json()["next_cursor"]) == ("user.create", "192.0.2.7", None)
    assert client_address.get() is None
    by = await api.send("GET", "/audit?by=nobody", token=token)
    assert by.json() == {"items": [], "next_cursor": None}
    chosen = await api.send("GET", "/audit?action=user.create&target=user:ada", token=token)
    assert len(chosen.json()["items"]) == 1


async def test_the_service_writes_an_entry_for_each_change_of_a_job(api: Replica) -> None:
    service = api.service
    job = a_job(description="old")
    await service.jobs.apply([job, a_job("other")], by="ada")
    await service.jobs.apply([a_job(description="new"), a_job("other")], by="bob")
    await service.jobs.pause("report", by="cy")
    await service.jobs.resume("report", by="cy")
    await service.jobs.resume("report", by="cy")
    run = await service.jobs.trigger("report", {"n": 1}, key="k", by="cy")
    await service.jobs.trigger("report", {"n": 1}, key="k", by="cy")
    await service.runs.cancel(run, "wrong", by="dee")
    await service.runs.replay(run, by="dee", note="again")
    await service.jobs.delete("report", by="eve")
    found = await entries(service)
    assert [(entry.by, entry.action, entry.target) for entry in found] == [
        ("ada", "job.create", "job:report"),
        ("ada", "job.create", "job:other"),
        ("bob", "job.change", "job:report"),
        ("cy", "job.pause", "job:report"),
        ("cy", "job.resume", "job:report"),
        ("cy", "job.run", "job:report"),
        ("dee", "run.cancel", f"run:{run}"),
        ("dee", "run.retry", f"run:{run}"),
        ("eve", "job.delete", "job:report"),
    ]
    created, _, changed, paused = found[:4]
    assert created.before is None
    assert (changed.before, changed.after) == (
        {"name": "report", "description": "old", "run": {"shell": "true"}},
        {"name": "report", "description": "new", "run": {"shell": "true"}},
    )
    assert (paused.before, paused.after) == (
        {"version": 2, "paused": False, "deleted": False},
        {"version": 3, "paused": True, "deleted": False, "note": "", "until": None},
    )
    assert all(entry.address is None for entry in found)


async def test_the_service_writes_an_entry_for_each_change_of_the_cluster(api: Replica, memory: MemoryBackends) -> None:
    report = NodeReport(name="n1", incarnation="a", cpu=0.1, memory=0.1, slots=1, in_flight=0)
    await memory.membership.report(report, 600)
    await memory.election.acquire("n1#a", 600)
    await memory.control.begin_term("n1#a")
    await api.service.cluster.drain("n1", by="ada")
    await api.service.cluster.undrain("n1", by="ada")
    await api.service.cluster.stepdown(by="ada")
    assert [(entry.action, entry.target) for entry in await entries(api.service, by="ada")] == [
        ("node.drain", "node:n1"),
        ("node.undrain", "node:n1"),
        ("cluster.stepdown", "node:n1"),
    ]


async def test_what_was_applied_before_an_error_has_its_entry(api: Replica, memory: MemoryBackends) -> None:
    await api.service.jobs.apply([a_job("b")])
    memory.jobs.replace = _refused  # type: ignore[method-assign, assignment]
    with pytest.raises(Conflict):
        await api.service.jobs.apply([a_job("a"), a_job("b", description="new"), a_job("c")], by="ada")
    assert [entry.target for entry in await entries(api.service, by="ada")] == ["job:a", "job:c"]


async def _refused(*_: object) -> bool:
    return False


async def test_what_changes_nothing_has_no_entry(api: Replica) -> None:
    await api.service.jobs.apply([a_job()])
    before = await entries(api.service)
    await api.service.jobs.apply([a_job()])
    await api.service.runs.acknowledge(["report@1"])
    with pytest.raises(InvalidInput):
        await api.service.jobs.apply([a_job("a"), a_job("a")])
    assert await entries(api.service) == before


async def test_entries_of_one_instant_keep_their_order(memory: MemoryBackends, clock: FakeClock) -> None:
    await Auditor(memory.audit, clock).record("ada", *(Changed("a.b", f"job:{n}") for n in range(30)))
    await clock.advance(0.001)
    await Auditor(memory.audit, clock).record("ada", Changed("a.b", "job:last"))
    found = await memory.audit.find(AuditQuery())
    assert [entry.target for entry in found] == ["job:last", *(f"job:{n}" for n in reversed(range(30)))]


async def test_passwords_in_the_documents_of_jobs_are_masked(api: Replica) -> None:
    headers = {"Authorization": "Bearer abcdefghij", "X-Api-Key": "hunter2", "X-Team": "billing"}
    http = HttpTarget("https://u:hunter2@host/x?token=hunter2&day=1", headers=headers, body="Bearer hunter2hunter2")
    env = {"DB_PASSWORD": "hunter2", "TOKEN": "${secret:token}", "PATH": "/bin"}
    command = CommandTarget("curl https://u:hunter2@host", env=env)
    await api.service.jobs.apply([Job(name="a", target=http), Job(name="b", target=command)])
    await api.service.jobs.apply([Job(name="a", target=http, description="new")])
    first, second, changed = await entries(api.service)
    assert "hunter2" not in repr([first, second, changed])
    assert changed.before == first.after
    assert first.after["run"]["http"]["headers"] == {  # type: ignore[index]
        "Authorization": "***",
        "X-Api-Key": "***",
        "X-Team": "billing",
    }
    assert first.after["run"]["http"]["url"] == "https://***@host/x?token=***&day=1"  # type: ignore[index]
    assert second.after["run"]["env"] == {"DB_PASSWORD": "***", "TOKEN": "${secret:token}", "PATH": "/bin"}  # type: ignore[index]


def test_all_that_stands_under_a_telling_key_is_masked() -> None:
    value = {"credentials": {"user": "ada", "more": ["x", 5, None, True, ""]}, "n": [1.5, {"password": 5}]}
    assert masked(value) == {
        "credentials": {"user": "***", "more": ["***", "***", None, True, ""]},
        "n": [1.5, {"password": "***"}],
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl -u admin:hunter2 https://x", "curl -u admin:*** https://x"),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=*** psql"),
        ("mysql --password hunter2 db", "mysql --password *** db"),
        ("curl -H 'X-Api-Key: hunter2' h", "curl -H 'X-Api-Key: ***' h"),
        ('{"password": "hunter2", "n": 1}', '{"password": "***", "n": 1}'),
        ("https://u:hunter2@h/x?token=hunter2&y=2", "https://***@h/x?token=***&y=2"),
    ],
)
def test_passwords_within_text_are_masked(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        '{"token": "${secret:X}"}',
        "tool --token $TOKEN x",
        'export TOKEN="$X"',
        "echo the secret of success",
        "docker run -u 1000:1000 x; date -u +%H:%M",
        "get-secret-value --secret-id prod/db",
        "password: true",
    ],
)
def test_text_without_a_password_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abcdefghij",
        "basic abcdefghij",
        "BAS\u0130C abcdefghij",
        "ba\u017f\u0131c abcdefghij",
        "passphrase=hunter2",
        "passwd: hunter2",
        "secret=hunter2",
        "to\u212aen=hunter2",
        "api_key=hunter2",
        "private.key=hunter2",
        "x?sig=hunter2",
        "x&mykey=hunter2",
        "ftp://u:hunter2@h",
        "curl --user ada:hunter2",
    ],
)
def test_each_pattern_is_tried_on_text_that_it_may_match(text: str) -> None:
    assert "***" in str(masked({"a": [{"b": text}]}))


@pytest.mark.parametrize(
    "key", ["Authorization", "Cookie", "passwd", "passphrase", "SECRET", "token", "credential", "\u017f\u0131gnature"]
)
def test_each_telling_key_is_found(key: str) -> None:
    assert masked({"a": {key: "hunter2"}}) == {"a": {key: "***"}}


def test_masking_takes_no_longer_than_linear_time() -> None:
    """A quadratic pattern would need many minutes for these texts, and the test would not end."""
    for part in ("token", "?key", "--user a", "://", "api-key"):
        masked(part * 40_000)

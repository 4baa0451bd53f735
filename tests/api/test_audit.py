"""Every change through the API is in the audit log, with its author."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from cronflow.domain.access import Role, Session
from cronflow.domain.job import system_jobs
from cronflow.domain.schedule.kinds import Cron
from cronflow.ports import AuditQuery
from cronflow.usecases.edit import Editor
from tests.api.conftest import Client
from tests.api.test_access import MATRIX
from tests.cli.scene import BACKFILL, FAILED, RETRYING, RUNNING, Scene
from tests.cli.scene import job as a_job

JOB = {"name": "new", "run": {"python": "a:b"}}
ASKED = {"first": "2026-11-10T00:00:00Z", "last": "2026-11-20T00:00:00Z", "only": "all"}
ALERT = {"on": ["dead_letter"], "webhook": {"url": "http://hooks"}}
NO_CHANGE = {"/jobs/plan", "/calendars/{name}/plan", "/calendars/{name}/read", "/schedules/preview", "/auth/ws-ticket"}

CHANGES = [
    ("POST", "/jobs", {}, JOB, "job.create"),
    ("POST", "/jobs/apply", {}, {"jobs": [JOB]}, "job.create"),
    ("PUT", "/jobs/{name}", {"name": "new"}, JOB, "job.create"),
    ("PATCH", "/jobs/{name}", {"name": "nightly-report"}, {"timeout": "7m"}, "job.change"),
    ("DELETE", "/jobs/{name}", {"name": "nightly-report"}, None, "job.delete"),
    ("POST", "/jobs/{name}/run", {"name": "nightly-report"}, None, "job.run"),
    ("POST", "/jobs/{name}/pause", {"name": "nightly-report"}, None, "job.pause"),
    ("POST", "/jobs/{name}/resume", {"name": "warehouse.import"}, None, "job.resume"),
    ("POST", "/jobs/{name}/close-breaker", {"name": "black-friday"}, None, "job.close_breaker"),
    ("POST", "/jobs/{name}/backfill", {"name": "nightly-report"}, ASKED, "job.backfill"),
    ("POST", "/backfills/{id}/cancel", {"id": BACKFILL}, None, "backfill.cancel"),
    ("POST", "/jobs/spread", {}, {"name": "twin-*"}, "job.spread"),
    ("POST", "/jobs/spread/apply", {}, {"moves": [{"job": "twin-1", "version": 1, "cron": "9 5 * * *"}]}, "job.spread"),
    ("POST", "/jobs/pause", {}, {"filter": {"name": "sync-*"}}, "job.pause"),
    ("POST", "/jobs/resume", {}, {"filter": {"name": "warehouse.*"}}, "job.resume"),
    ("POST", "/runs/{id}/cancel", {"id": RUNNING}, None, "run.cancel"),
    ("POST", "/runs/{id}/retry", {"id": FAILED}, None, "run.retry"),
    ("POST", "/runs/{id}/ack", {"id": FAILED}, None, "run.ack"),
    ("POST", "/runs/cancel", {}, {"filter": {"job": RETRYING.partition("@")[0]}}, "run.cancel"),
    ("POST", "/runs/retry", {}, {"filter": {"job": "nightly-report"}}, "run.retry"),
    ("POST", "/runs/ack", {}, {"filter": {"job": "nightly-report"}}, "run.ack"),
    ("POST", "/nodes/{name}/drain", {"name": "node-a"}, None, "node.drain"),
    ("POST", "/nodes/{name}/undrain", {"name": "node-b"}, None, "node.undrain"),
    ("POST", "/cluster/stepdown", {}, None, "cluster.stepdown"),
    ("PUT", "/cluster/maintenance", {}, {"on": True, "note": "upgrade"}, "cluster.maintenance"),
    ("POST", "/cluster/recovery/approve", {}, {"rate": "100/s"}, "cluster.recovery"),
    ("POST", "/cluster/recovery/skip", {}, {"note": "stale"}, "cluster.recovery"),
    ("POST", "/cluster/sweep", {}, None, "job.run"),
    ("POST", "/users", {}, {"name": "bob", "password": "a long password"}, "user.create"),
    ("PATCH", "/users/{name}", {"name": "ada"}, {"enabled": False}, "user.change"),
    ("DELETE", "/users/{name}", {"name": "ada"}, None, "user.delete"),
    ("DELETE", "/sessions/{id}", {"id": "a1" * 6}, None, "session.revoke"),
    ("DELETE", "/sessions", {}, None, "session.revoke"),
    ("POST", "/api-keys", {}, {"name": "deploy"}, "key.create"),
    ("DELETE", "/api-keys/{name}", {"name": "ci"}, None, "key.delete"),
    ("POST", "/secrets", {}, {"name": "token", "value": "a long value"}, "secret.set"),
    ("DELETE", "/secrets/{name}", {"name": "pay"}, None, "secret.delete"),
    ("PUT", "/calendars/{name}", {"name": "freeze"}, {"days": ["2026-12-24"]}, "calendar.create"),
    ("DELETE", "/calendars/{name}", {"name": "quiet"}, None, "calendar.delete"),
    ("PUT", "/limits/{name}", {"name": "mail"}, {"rate": "100/m"}, "limit.create"),
    ("DELETE", "/limits/{name}", {"name": "database"}, None, "limit.delete"),
    ("POST", "/alerts", {}, {"name": "new", **ALERT}, "alert.create"),
    ("PUT", "/alerts/{name}", {"name": "billing"}, ALERT, "alert.change"),
    ("DELETE", "/alerts/{name}", {"name": "billing"}, None, "alert.delete"),
    ("POST", "/alerts/{name}/test", {"name": "billing"}, None, "alert.test"),
]

ALSO = {"job.spread": {"job.change"}}
"""Actions whose jobs have entries of their own too."""


def a_session(scene: Scene) -> Session:
    """Of ada."""
    until = scene.clock.now() + timedelta(days=1)
    return Session(id="a1" * 16, user="ada", stamp="s", token_hash="h", expires_at=until)


def test_every_route_that_changes_something_is_covered() -> None:
    found = {(method, path.removeprefix("/api/v1")) for method, path, _ in MATRIX if method != "GET"}
    assert {(method, path) for method, path, *_ in CHANGES} == {pair for pair in found if pair[1] not in NO_CHANGE}


@pytest.mark.parametrize(("method", "path", "where", "body", "action"), CHANGES)
async def test_a_change_has_an_entry_with_its_author(
    scene: Scene, client: Client, method: str, path: str, where: dict[str, str], body: object, action: str
) -> None:
    service = scene.service
    await service.users.create("ada", Role.VIEWER, "a long password", by="before")
    await service.keys.create("ci", Role.VIEWER, by="before")
    await service.backends.sessions.create(a_session(scene))
    await service.secrets.set("pay", "a long value", by="before")
    for job in system_jobs(time(0), time(3)):
        await Editor(
            scene.backends.jobs,
            scene.backends.versions,
            scene.backends.plans,
            scene.backends.runs,
            scene.backends.queue,
            scene.clock,
        ).define(job)
    for name in ("twin-1", "twin-2"):
        await service.jobs.define(a_job(name, Cron("0 5 * * *")))
    query = "?user=ada" if (method, path) == ("DELETE", "/sessions") else ""
    answer = await client.ask(method, path.format(**where) + query, body)
    assert answer.status_code < 300, answer.text
    entries = await service.backends.audit.find(AuditQuery(by="the-admin"))
    found = {entry.action for entry in entries}
    assert action in found
    assert found - ALSO.get(action, set()) == {action}

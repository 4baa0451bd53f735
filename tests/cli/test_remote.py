"""Every management command, twice: on the servers themselves, and through an API served by uvicorn.

Both must give the same exit code, the same stdout and the same messages, as a view and as JSON. Time stands still and
both ways act as `admin`; random values (ids of manual runs, the text of a key) are replaced, and the note with the
address of the API is removed.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import typer.main

from cronflow.cli import connect
from cronflow.cli.commands.access import keys, users
from cronflow.cli.commands.access import secrets as secrets_commands
from cronflow.cli.commands.alerts import alerts
from cronflow.cli.commands.audit import audit
from cronflow.cli.commands.backfills import backfills
from cronflow.cli.commands.calendars import calendars
from cronflow.cli.commands.cluster import cluster, nodes
from cronflow.cli.commands.jobs import jobs
from cronflow.cli.commands.ledger import ledger
from cronflow.cli.commands.limits import limits
from cronflow.cli.commands.runs import runs
from cronflow.cli.commands.sessions import sessions
from cronflow.cli.terminal import times
from cronflow.client import aio
from cronflow.domain.access import LoginMethod, Role, Session
from cronflow.domain.events import JobPaused, LeaderElected, NodeLost, RecordedEvent, event_id
from cronflow.domain.job import system_jobs
from cronflow.domain.placement import Placement
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.schedule.kinds import Cron
from cronflow.domain.sweep import Finding, Flaw, SweepReport
from cronflow.ports import AuditQuery, LargeResult, LateResult
from cronflow.usecases.edit import Editor
from tests.auth.bench import PASSWORD
from tests.cli.conftest import Cli
from tests.cli.scene import BACKFILL, FAILED, FENCE, NOON, RETRYING, RUNNING, SUCCEEDED, Scene, ago, job, run
from tests.cli.served import Served, serving

LOST = "warehouse.import@20261101T120000Z"
LARGE = "clean-uploads@20261122T043000Z"
FILE = """
jobs:
  - name: new-report
    schedule: {cron: "0 3 * * *", tz: Europe/Berlin}
    run: {python: "billing.jobs:new_report"}
  - name: sync-tokens
    schedule: {every: 45s}
    run: {python: "shop.jobs:sync_tokens"}
    timeout: 20s
  - name: rebuild-cache
    run: {python: "shop.jobs:rebuild_cache"}
    retry: {max: 7}
"""


ALERTS = """
alerts:
  - {name: billing, on: [failed], webhook: {url: "https://hooks.example.com/other"}}
  - {name: no-leader, on: [no_leader], webhook: {url: "https://hooks.example.com/cronflow"}}
"""


LIMITS = """
limits:
  database: 2
  mail: {rate: 100/m, burst: 5, description: The quota}
"""


CALENDARS = """
calendars:
  de-holidays: [{day: 12-25, name: Christmas Day}, 2026-12-24]
  freeze: {days: [{first: 2026-12-21, last: 2027-01-03}], description: No changes}
"""


class Given(NamedTuple):
    """A command line and its stdin."""

    words: str
    stdin: str | None = None

    def __str__(self) -> str:
        return self.words


COMMANDS = [
    Given("jobs list"),
    Given("jobs list --all"),
    Given("jobs show nightly-report"),
    Given("jobs show rebuild-cache"),
    Given("jobs show _sys:sweep"),
    Given("jobs next rotate-keys -n 600"),
    Given("jobs next warehouse.import"),
    Given("jobs why nightly-report"),
    Given("jobs why send-invoices 2026-11-21T11:00:00Z"),
    Given("jobs why sync-tokens -10s"),
    Given("jobs why rotate-keys 2026-12-14T00:00:00Z"),
    Given(f"runs why {RETRYING}"),
    Given("jobs history rebuild-cache"),
    Given("jobs history gone"),
    Given("jobs apply -f jobs.yaml --no-import"),
    Given("jobs apply -f jobs.yaml --no-import --dry-run"),
    Given("jobs pause sync-tokens rotate-keys"),
    Given("jobs pause sync-tokens --until 2026-11-22T06:00:00Z --note later"),
    Given("jobs pause sync-* re* --yes"),
    Given("jobs pause --label team=billing --until 2h --yes"),
    Given("jobs load"),
    Given("jobs load --label team=billing --all"),
    Given("jobs load no-job-*"),
    Given("jobs spread --dry-run"),
    Given("jobs spread twin-* --yes"),
    Given("jobs spread legacy-export --yes"),
    Given("jobs spread --label team=twins --yes"),
    Given("jobs resume --all --yes"),
    Given("jobs resume warehouse.import"),
    Given("jobs show black-friday"),
    Given("jobs close-breaker black-friday"),
    Given("jobs backfill send-invoices --from 3d --to 1d --rate 10/m"),
    Given("jobs backfill send-invoices --from 2026-11-20T00:00:00Z --only all --dry-run"),
    Given("jobs backfill send-invoices --from 3d --only failed"),
    Given(f"runs chain {RETRYING}"),
    Given("backfills list"),
    Given("backfills list --job sync-tokens"),
    Given(f"backfills show {BACKFILL}"),
    Given(f"backfills cancel {BACKFILL} --reason wrong"),
    Given("jobs delete sync-tokens legacy-export"),
    Given("jobs run nightly-report --arg region=us"),
    Given("jobs run nightly-report --wait"),
    Given("runs list"),
    Given("runs list --limit 3"),
    Given("runs list --job sync-tokens --state succeeded --since 1h"),
    Given("runs list --job rotate-keys"),
    Given("runs list --dead"),
    Given(f"runs show {RETRYING}"),
    Given(f"runs show {FAILED}"),
    Given(f"runs show {LARGE}"),
    Given(f"runs logs {RETRYING}"),
    Given("runs report --since 30d"),
    Given("runs report --job nightly-report"),
    Given(f"runs retry {FAILED} --note again --arg region=us"),
    Given("runs retry --since 40d --yes"),
    Given(f"runs ack {FAILED} {LOST} --note known"),
    Given("runs ack --state lost --yes"),
    Given(f"runs cancel {RUNNING} --reason slow"),
    Given(f"runs cancel {RETRYING} --wait"),
    Given("runs cancel --state running --yes"),
    Given("nodes list"),
    Given("nodes show node-a"),
    Given("nodes show node-c"),
    Given("nodes drain node-a"),
    Given("nodes drain node-a --deadline 5m"),
    Given("nodes undrain node-b"),
    Given("cluster status"),
    Given("cluster stepdown"),
    Given("cluster maintenance on --note upgrade --until 2h"),
    Given("cluster maintenance off"),
    Given("cluster recovery show"),
    Given("cluster recovery approve --rate 100/s"),
    Given("cluster recovery skip --note stale"),
    Given("cluster sweep"),
    Given("cluster events --since 3h"),
    Given("cluster incident --since 3h --until 1m"),
    Given("cluster events --kind job_paused --since 3h"),
    Given("users list"),
    Given("users create grace --role operator", "a long password\n"),
    Given("users create edith --role editor --jobs billing-* --allow-shell", "a long password\n"),
    Given("users change ada --role editor --jobs report --allow-secrets --no-shell"),
    Given("users change ada --role admin --disable"),
    Given("users delete ada"),
    Given("sessions list --user ada"),
    Given("sessions revoke a1a1a1a1a1a1"),
    Given("sessions revoke --user ada"),
    Given("keys list"),
    Given("keys create nightly --role operator --job billing-* --expires-in 90d"),
    Given("keys create apply --role editor --jobs billing-* --jobs report --allow-shell --allow-secrets"),
    Given("keys delete deploy"),
    Given("secrets list"),
    Given("secrets set shop-token", "another value"),
    Given("secrets set new-token", "a value"),
    Given("secrets delete shop-token"),
    Given("alerts list"),
    Given("alerts show billing"),
    Given("alerts apply -f alerts.yaml"),
    Given("alerts apply -f alerts.yaml --dry-run"),
    Given("alerts test billing"),
    Given("alerts delete billing"),
    Given("limits list"),
    Given("limits show database"),
    Given("limits apply -f limits.yaml"),
    Given("limits delete database"),
    Given("calendars list"),
    Given("calendars show de-holidays"),
    Given("calendars apply -f calendars.yaml --dry-run"),
    Given("calendars apply -f calendars.yaml --days 30"),
    Given("calendars delete quiet"),
    Given("audit list --who ada --action job.pause -n 5"),
    Given("audit list --who ada --job sync-tokens --since 2h --until 1h"),
    Given("ledger check --from 2026-11-21T00:00:00Z --job nightly-report --job gone"),
]
FOLLOWED = {"runs watch", "cluster watch"}
"""They get what they show in another way; `test_follow.py` has them."""
OWN_FORMATS = {
    "jobs graph",
    "jobs diff",
    "jobs export",
    "jobs check",
    "jobs schema",
    "jobs activate",
    "calendars import",
    "ledger export",
    "ledger verify",
}
"""Printed as text, dot or mermaid, and as files, with another exit code, or for jobs of a kind that the scene does not
have; `test_chains.py`, `test_calendars.py`, `test_jobs_as_code.py`, `test_shadow.py` and `test_ledger.py` have them.
"""
REFUSED = [
    (3, Given("jobs show nightly-reprot"), "did you mean nightly-report?"),
    (3, Given("jobs pause sync-tokens no-such-job"), "there is no job 'no-such-job'"),
    (3, Given("jobs why no-such-job"), "there is no job"),
    (3, Given("jobs history no-such-job"), "there is no job"),
    (3, Given(f"runs show {SUCCEEDED[:-2]}1Z"), SUCCEEDED),
    (3, Given("runs list --job no-such-job"), "there is no job"),
    (3, Given("runs logs nothing@1"), "there is no run"),
    (3, Given("nodes show missing"), "list the nodes: cronflow nodes list"),
    (3, Given("nodes drain missing"), "there is no node 'missing'"),
    (3, Given("nodes undrain missing"), "there is no node 'missing'"),
    (3, Given("users delete missing"), "there is no user"),
    (3, Given("sessions revoke ffffffffffff"), "there is no session"),
    (2, Given("sessions revoke"), "give the ID of a session or --user"),
    (3, Given("keys delete nothing"), "there is no key"),
    (3, Given("secrets delete nothing"), "there is no secret"),
    (3, Given("alerts show nothing"), "there is no alert"),
    (3, Given("limits show nothing"), "there is no limit"),
    (3, Given("calendars show nothing"), "there is no calendar"),
    (3, Given("calendars delete nothing"), "there is no calendar"),
    (2, Given("jobs pause _sys:sweep"), "is a system job"),
    (2, Given("jobs pause nothing-*"), "no job matches 'nothing-*'"),
    (2, Given("jobs pause"), "no jobs selected"),
    (2, Given("jobs pause sync-tokens --all"), "cannot be combined"),
    (2, Given("jobs pause --all"), "add --yes to continue"),
    (2, Given("jobs spread --label team=twins"), "add --yes to continue"),
    (2, Given("jobs pause sync-tokens --until 2026-11-20T00:00:00Z"), "has passed"),
    (2, Given("jobs backfill rebuild-cache --from 1d"), "cronflow jobs run rebuild-cache"),
    (1, Given("jobs backfill sync-tokens --from 30d"), "still running"),
    (2, Given("jobs backfill send-invoices --from 1d --rate fast"), "--rate: 'fast' is not a rate"),
    (2, Given("jobs backfill send-invoices --from 1d --to 2026-12-01T00:00:00Z"), "is in the future"),
    (2, Given("cluster recovery approve --rate fast"), "--rate: 'fast' is not a rate"),
    (2, Given("cluster recovery approve --by-job nothing-*"), "no waiting job matches"),
    (2, Given("cluster maintenance off --note x"), "have no effect with off"),
    (3, Given("backfills show nothing~b1"), "there is no backfill"),
    (2, Given("jobs apply -f wrong.yaml"), "did you mean timeout?"),
    (2, Given("jobs run reindex-search --arg a=1"), "is not a Python job"),
    (2, Given("cluster events --kind leader_elcted"), "did you mean leader_elected?"),
    (2, Given("users create ada2", "short\n"), "8 to 1024 characters"),
    (1, Given("users create ada", "a long password\n"), "user 'ada' already exists"),
    (2, Given("keys create limited --role admin --jobs billing-*"), "jobs: cannot limit an admin"),
    (2, Given("keys create odd --role operator --allow-shell"), "allow_shell: is a right of editors"),
    (1, Given("keys create deploy"), "key 'deploy' already exists"),
    (1, Given(f"runs cancel {SUCCEEDED}"), "has already ended: succeeded"),
    (1, Given(f"runs ack {SUCCEEDED}"), "only failed or lost runs"),
    (1, Given(f"runs retry {RUNNING}"), "only a run that has ended can be replayed"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


async def more(scene: Scene) -> None:
    """Add what the common scene lacks."""
    service = scene.service
    for one in system_jobs(time(0, 0), time(3, 0)):
        assert (
            await Editor(
                scene.backends.jobs,
                scene.backends.versions,
                scene.backends.plans,
                scene.backends.runs,
                scene.backends.queue,
                scene.clock,
            ).define(one, by="the leader")
            == "created"
        )
    await service.jobs.define(job("rebuild-cache", description="As it was asked for", priority=7), by="eva")
    for name in ("twin-1", "twin-2"):
        await service.jobs.define(job(name, Cron("0 5 * * *"), labels={"team": "twins"}), by="eva")
    await service.jobs.define(job("gone"), by="eva")
    await service.jobs.delete("gone", by="ada")
    await service.users.create("ada", Role.VIEWER, "a long password")
    await service.users.create("olga", Role.OPERATOR, "a long password")
    await scene.backends.sessions.create(
        Session(
            id="a1" * 16,
            user="ada",
            stamp="s",
            token_hash="h",
            expires_at=NOON + timedelta(days=7),
            method=LoginMethod.OIDC,
            created_at=ago(hours=2),
            last_used_at=ago(minutes=4),
            address="192.0.2.7",
            agent="Mozilla/5.0",
        )
    )
    await service.keys.create(
        "deploy", Role.OPERATOR, jobs=("billing-*",), expires_at=NOON + timedelta(days=9), by="eva"
    )
    await service.secrets.set("shop-token", "a value", by="eva")
    for event, length in ((JobPaused("report", "eva"), 90), (LeaderElected("node-a", 7), 30), (NodeLost("b", 3), 20)):
        at = ago(minutes=length)
        await scene.backends.events.append([RecordedEvent(event_id(at, "x"), at, "node-a#5f1c", event)])
    finding = Finding(kind=Flaw.RUN_UNWATCHED, where=RUNNING, what="no node watches it", repaired=True)
    report = SweepReport(
        at=ago(hours=12), run="_sys:sweep@1", took_ms=12, checked={"runs": 9}, found=1, findings=[finding]
    )
    await scene.backends.store_admin.write_report(report)
    large = run(
        "clean-uploads",
        NOON + timedelta(hours=16.5),
        RunState.SUCCEEDED,
        finish_id="f1",
        result_size=70_000,
        placement=Placement("node-a", 0.25, (("node-b", "draining"), ("node-c", 1.5)), 2),
    )
    await scene.backends.runs.insert([large])
    await scene.backends.results.keep([LargeResult(id="f1", run=large.id, text='{"rows": 12}')])
    late = LateResult(
        run=FAILED,
        fence=FENCE,
        node="node-d#1",
        at=ago(hours=10),
        attempt_result=AttemptResult(Outcome.OK, {"rows": 3}),
        finish_id="f2",
    )
    await scene.backends.runs.keep_late([late])


def finish_while_waiting(scene: Scene) -> Any:
    """Each wait of a command ends the open runs; a sweep stores its report."""

    async def wait(_seconds: float) -> None:
        kept: dict[str, Run] = scene.backends.documents.runs
        for name, one in kept.items():
            if one.is_open:
                state = RunState.CANCELLED if one.cancel_requested else RunState.SUCCEEDED
                kept[name] = replace(one, state=state, attempt=1, ended_at=NOON, outcome=Outcome.OK, result={"a": 1})
            if one.job == "_sys:sweep":
                checked = {"runs": 14}
                report = SweepReport(at=NOON, run=name, took_ms=5, checked=checked, found=0, findings=())
                await scene.backends.store_admin.write_report(report)

    return wait


class Printed(NamedTuple):
    """The output of a command."""

    code: int
    stdout: str
    stderr: str
    names_cluster: bool


class Both:
    """Runs commands in a fresh scene, directly or through the API."""

    def __init__(self, cli: Cli, server: Served, patch: pytest.MonkeyPatch) -> None:
        self._cli, self._server, self._patch = cli, server, patch
        self.changed = False
        """Whether the last command asked the API for a change."""
        self.scene = Scene()

    def run(self, given: Given, *options: str, api: bool, user: str = "admin") -> Printed:
        self.scene = scene = Scene()
        self._server.serve(scene)
        asyncio.run(self._fill())
        self._patch.setattr(connect, "open_service", scene.open_service)
        self._patch.setattr(times, "sleep", finish_while_waiting(scene))
        if api:
            self._server.log_in(self._cli, user, "a long password" if user != "admin" else PASSWORD)
        scene.opened = 0
        self._server.requests.clear()
        result = self._cli(*given.words.split(), *options, stdin=given.stdin)
        assert not (api and scene.opened), "it went to the servers"
        self.changed = any(_changes(*request) for request in self._server.requests)
        if api:
            assert self._cli("logout").exit_code == 0
        lines = result.stderr.splitlines(keepends=True)
        named = [line for line in lines if line.startswith("cluster: ")]
        assert named in (
            [],
            [f"cluster: {f'{self._server.url} as {user}, context default' if api else 'namespace default'}\n"],
        )
        rest = "".join(line for line in lines if not line.startswith(("cluster: ", "  → via http://")))
        return Printed(result.exit_code, blotted(result.stdout), blotted(rest), bool(named))

    async def _fill(self) -> None:
        await self.scene.fill()
        await more(self.scene)


def blotted(text: str) -> str:
    """Replace random values with fixed ones of the same length."""
    text = re.sub(r"msg_test_[0-9a-f]{24}", "msg_test_0123456789abcdef01234567", text)
    text = re.sub(r"manual-[0-9a-f]{16}", "manual-0123456789abcdef", text)
    return re.sub(r"(cfk\.[\w-]+\.)[\w-]+", r"\1text", text)


def _changes(method: str, path: str) -> bool:
    return method != "GET" and "/auth/" not in path and not path.endswith("/plan")


@pytest.fixture
def both(cli: Cli, server: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Both:
    (tmp_path / "jobs.yaml").write_text(FILE)
    (tmp_path / "alerts.yaml").write_text(ALERTS)
    (tmp_path / "limits.yaml").write_text(LIMITS)
    (tmp_path / "calendars.yaml").write_text(CALENDARS)
    (tmp_path / "wrong.yaml").write_text(FILE.replace("timeout:", "time_out:"))
    monkeypatch.setattr(connect, "author", lambda: "admin")
    # The id of a run contains the key of the request, which is shorter without HTTP.
    token_hex = secrets.token_hex
    monkeypatch.setattr(aio, "secrets", SimpleNamespace(token_hex=lambda _: token_hex(8)))
    return Both(cli, server, monkeypatch)


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("given", COMMANDS, ids=str)
def test_both_ways_print_the_same(both: Both, given: Given, form: str) -> None:
    direct = both.run(given, "-o", form, api=False)
    assert direct.stdout, direct
    assert direct.code == 0, direct
    assert both.run(given, "-o", form, api=True) == direct
    changed = both.changed and "--dry-run" not in given.words
    assert direct.names_cluster == changed, "a command names its cluster if and only if it changes something"


@pytest.mark.parametrize(("code", "given", "message"), REFUSED, ids=str)
def test_both_ways_refuse_with_the_same_message_and_exit_code(
    both: Both, code: int, given: Given, message: str
) -> None:
    direct = both.run(given, api=False)
    assert (direct.code, direct.stdout) == (code, ""), direct
    assert message in direct.stderr
    assert both.run(given, api=True) == direct


def test_every_management_command_is_covered() -> None:
    groups = {
        "jobs": jobs,
        "runs": runs,
        "backfills": backfills,
        "nodes": nodes,
        "cluster": cluster,
        "users": users,
        "sessions": sessions,
        "keys": keys,
        "secrets": secrets_commands,
        "alerts": alerts,
        "limits": limits,
        "calendars": calendars,
        "audit": audit,
        "ledger": ledger,
    }
    there = {
        f"{name} {command}"
        for name, group in groups.items()
        for command in typer.main.get_command(group).commands  # type: ignore[attr-defined]
    }
    assert there - {" ".join(given.words.split()[:2]) for given in COMMANDS} == FOLLOWED | OWN_FORMATS


CHANGES: Sequence[tuple[Given, Role]] = [
    (Given("jobs pause sync-tokens"), Role.OPERATOR),
    (Given("jobs apply -f jobs.yaml --no-import"), Role.EDITOR),
    (Given(f"runs cancel {RUNNING}"), Role.OPERATOR),
    (Given("users list"), Role.ADMIN),
]


@pytest.mark.parametrize(("given", "needed"), CHANGES, ids=str)
def test_a_refused_viewer_sees_the_required_role_in_one_line(both: Both, given: Given, needed: Role) -> None:
    refused = both.run(given, api=True, user="ada")
    assert (refused.code, refused.stdout) == (1, "")
    assert refused.stderr == f"error: this login may not do that: ada has the role viewer; this requires {needed}\n"


def test_the_audit_log_names_the_logged_in_user_not_the_machines(both: Both) -> None:
    assert both.run(Given("jobs pause sync-tokens"), api=True, user="olga").code == 0
    entries = asyncio.run(both.scene.service.backends.audit.find(AuditQuery(action="job.pause")))
    assert [(entry.by, entry.address) for entry in entries] == [("olga", "127.0.0.1")]

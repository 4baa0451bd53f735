"""Every page works: its files are saved, and its commands and programs run in order.

The rule: readers can copy any block and it works. Each page gets its own directory, and a cluster with the objects that
the page uses. Names of other machines and of old runs are replaced (`stand_ins`); everything else runs unchanged.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cronflow.domain.errors import InvalidInput
from cronflow.files.alerts import read_alert_files
from cronflow.files.jobs import read_job_files
from tests.docs.blocks import EXECUTED, PAGES, PARSED, ROOT, SHOWN, Block, blocks
from tests.docs.commands import PASSWORD
from tests.docs.conftest import APPS, Cluster
from tests.provider import SECRET, providing

pytestmark = pytest.mark.chaos

WITH_BLOCKS = [
    page for page in PAGES if page.name != "first-day.md" and any(block.language in EXECUTED for block in blocks(page))
]
"""All pages with commands but one, which `test_first_day.py` has."""
BROKER = "amqp://guest:guest@127.0.0.1:5672"
JOB = {"run": {"python": "billing:nightly_report"}, "overlap": "allow", "retry": {"max": 0}, "timeout": "2m"}


@dataclass(frozen=True)
class Scene:
    """What a page needs besides the cluster, and the texts that its output must contain."""

    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    prints: tuple[str, ...] = ()
    report: bool = True
    """Whether a page that mentions `nightly-report` starts with this job and a failed run of it."""


JOBS_FILE = "jobs:\n  - {name: sums, run: {argv: ['true']}}\n"
LOGGED_IN = {"CRONFLOW_REDIS_URL": "", "CRONFLOW_MONGO_URL": "", "CRONFLOW_NAMESPACE": ""}
"""For pages that log in: the servers of the environment would come before a login."""
SCENES = {
    "README.md": Scene(
        files={"crontab": "17 * * * * root run-parts --report /etc/cron.hourly\n"},
        stand_ins={"/etc/crontab": "crontab"},
        prints=("every fire has exactly one run", "no rows"),
    ),
    "quickstart.md": Scene(
        environment=LOGGED_IN,
        files={".venv/bin/activate": "", ".cronflow/demo/admin-password": PASSWORD},
        prints=("hello from hello@manual-", "node-3"),
    ),
    "first-job.md": Scene(prints=("every fire has exactly one run", "node up", "nightly-report")),
    "http-and-shell-jobs.md": Scene(prints=("created", "the second Monday")),
    "coming-from-celery-beat.md": Scene(
        prints=(
            "gap: shift",
            "settings.SYNC_HOUR is not in this file",
            "exit code 1",
            "0 9 * * MON-FRI",
            "18 L * *",
        )
    ),
    "coming-from-kubernetes-cronjobs.md": Scene(
        secrets=("PGPASSWORD",),
        prints=("overlap: both", "${secret:PGPASSWORD}", "on': succeeded", "require: {role: web}"),
    ),
    "everyday-commands.md": Scene(files={"jobs.yaml": JOBS_FILE}, prints=("every fire has exactly one run",)),
    "follow.md": Scene(
        environment={"API": "{url}", "PASSWORD": PASSWORD},
        stand_ins={" RUN ": " {failed} "},
        prints=(
            "info reading 3 rows",
            "warn almost nothing",
            "run state: succeeded",
            "leader node-3",
            "found reading 3 rows",
        ),
    ),
    "backfill-and-pause.md": Scene(prints=("hourly-sums~b1", "etl-stock~b1", "upgrade of the database")),
    "recover-after-an-outage.md": Scene(
        environment={"API": "{url}", "PASSWORD": PASSWORD}, prints=("No recovery", "none 0 of 0")
    ),
    "rehearse.md": Scene(prints=("fires due", "outage  ", "no leader for", "+ close-books", "in Europe/Berlin")),
    "chains.md": Scene(prints=("(all of index, report)", "digraph jobs", "import@manual-", "upstream", "~r1")),
    "audit-ledger.md": Scene(
        report=False, prints=("lost or doubled", "SHA-256 ", "the file is whole", "line 1 changed", "exit code 1")
    ),
    "shadow-mode.md": Scene(prints=("mode: shadow", "shadow", "Remove these lines from cron now")),
    "coming-from-cron.md": Scene(prints=("jitter: 1h", "overlap: forbid", "feeds", "created", "PrivateTmp=yes")),
    "calendars.md": Scene(prints=("Christmas Day", "skipped: blackout: night", "calendar nyse was")),
    "schedule-load.md": Scene(
        report=False,
        prints=(
            "Busiest minutes",
            "the label spread=false prevents a move",
            "3 of 4 jobs to move",
            "H 2 * * mon-fri",
            "job.spread",
            " 3 jobs to move",
        ),
    ),
    "test-your-jobs.md": Scene(report=False, prints=("9 passed",)),
    "ship-your-code.md": Scene(prints=("no node has ledger.jobs:close_books", "does not have module ledger.jobs")),
    "alerts.md": Scene(
        report=False, prints=("answered 250", "ok late", "answered 204", "ok heartbeat", "ops@example.com")
    ),
    "monitor.md": Scene(stand_ins={"10.0.0.11": "127.0.0.1", "=9500": "=0"}, prints=("metrics served",)),
    "log-in-from-the-command-line.md": Scene(
        environment=LOGGED_IN,
        stand_ins={"https://cron.test.example.com": "{url}"},
        files={"jobs.yaml": JOBS_FILE, "secrets/ada": PASSWORD},
        users=("ada",),
        prints=("ada, operator", "created", "context prod"),
    ),
    "logins-and-secrets.md": Scene(files={"secrets/admin": PASSWORD}, prints=("ada", "cfk.ci.")),
    "single-sign-on.md": Scene(
        environment={**LOGGED_IN, "CRONFLOW_JWT_SECRET": "only for this page, and long enough for it"},
        files={"secrets/oidc": SECRET},
        prints=("ok  oidc:ada, admin", "device", "sessions of oidc:grace revoked"),
    ),
    "use-the-api.md": Scene(
        report=False,
        environment={"PASSWORD": PASSWORD},
        prints=('"result":"created"', "active\n", "10m\n", "nightly-report@manual-deploy-42", '"deleted_at"'),
    ),
    "jobs-as-code.md": Scene(
        report=False,
        prints=(
            "✓ ok: 2 jobs",
            '+ schedule.cron: "30 6 * * *"',
            "- billing-cleanup  deleted",
            "1 job: 0 created, 0 changed, 0 deleted, 1 unchanged",
        ),
    ),
    "jobs-from-a-table.md": Scene(
        prints=("6 created", "Report 25 for north", '"status": "completed"', "6 unchanged"),
    ),
    "rabbitmq.md": Scene(
        prints=(
            "cron_scheduler_failed  0",
            ": report 25, retry 0",
            "done: report 25",
            ": worker 13, retry 1",
            "cron_scheduler_failed  1",
        )
    ),
    "retries.md": Scene(prints=("created", "initial: 10s", "match: AuthInvalid", "active")),
    "when-something-failed.md": Scene(prints=("no rows", "~r1")),
}


async def prepared(page: Path, cluster: Cluster, folder: Path) -> tuple[Scene, dict[str, str]]:
    """Prepare the scene of a page. Returns it with the replacements for its texts."""
    scene = SCENES.get(page.name, Scene())
    failed = ""
    if scene.report and any("nightly-report" in block.text for block in blocks(page)):
        cluster.call("PUT", "jobs/nightly-report", JOB)
        failed = await cluster.run("failed", region="bad")
    for user in scene.users:
        cluster.call("POST", "users", {"name": user, "password": PASSWORD, "role": "operator"})
    key = cluster.call("POST", "api-keys", {"name": "deploy-docs", "role": "admin"})["key"]
    files = {"secrets/cronflow-key": key, **scene.files}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "billing.py").write_text((APPS / "billing.py").read_text("utf-8"), "utf-8")
    stand_ins = {
        "http://127.0.0.1:8500": cluster.url,
        "https://cron.example.com": cluster.url,
        "https://hooks.example.com": cluster.hooks,
        "/tmp/cronflow-table": cluster.environment["TABLE_OUT"],
        "redis://127.0.0.1:6379/0": cluster.environment["CRONFLOW_REDIS_URL"],
        "mongodb://127.0.0.1:27017/?replicaSet=rs0": cluster.environment["CRONFLOW_MONGO_URL"],
        "/run/secrets/": f"{folder}/secrets/",
        "nightly-report@20261121T010000Z": failed,
        "cfk.deploy.…": cluster.token,
        **{word: text.format(failed=failed, url=cluster.url) for word, text in scene.stand_ins.items()},
    }
    return scene, stand_ins


def replaced(text: str, stand_ins: Mapping[str, str]) -> str:
    """The text with its replacements."""
    for word, here in stand_ins.items():
        text = text.replace(word, here)
    return text


def program(page: list[Block], folder: Path, stand_ins: Mapping[str, str]) -> str:
    """The page as one bash program; saves the files of the page."""
    lines = []
    for block in page:
        text = replaced(block.text, stand_ins)
        if block.name or block.language == "python":
            file = folder / (block.name or f"line_{block.line}.py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            text = f"python3 {shlex.quote(str(file))}" if block.language == "python" else ""
        if block.language in EXECUTED:
            lines += [f"echo '=== {block.place}' | tee /dev/stderr", text]
    return "\n".join(lines)


def tools(folder: Path, cronflow: str) -> Path:
    """A directory with `cronflow`, `python3` and `make` for the PATH. `make` only prints its commands."""
    found = {
        "cronflow": cronflow,
        "python3": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "make": f'#!/bin/sh\nexec /usr/bin/make -n -C {ROOT} "$@"\n',
    }
    place = folder / "tools"
    place.mkdir()
    for name, text in found.items():
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return place


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
async def test_every_block_of_a_page_works(
    page: Path, cluster: Cluster, tmp_path: Path, home: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    brokers = {}
    if any(BROKER in block.text for block in blocks(page)):
        brokers[BROKER] = request.getfixturevalue("rabbit").url
    with ExitStack() as stack:
        if page.name == "single-sign-on.md":
            provider = stack.enter_context(providing(cluster.provider_port))
            stack.enter_context(provider.entering_codes("ada"))
        await run_page(page, cluster, folder, tmp_path, home, brokers)


async def run_page(
    page: Path, cluster: Cluster, folder: Path, tmp_path: Path, home: Path, brokers: Mapping[str, str]
) -> None:
    """Run all blocks of a page."""
    try:
        scene, stand_ins = await prepared(page, cluster, folder)
        stand_ins |= brokers
        environment = {
            **cluster.environment,
            **{name: value.format(url=cluster.url) for name, value in scene.environment.items()},
            "PATH": f"{tools(tmp_path, cluster.program)}:{cluster.environment['PATH']}",
            "HOME": str(home),
        }
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euo", "pipefail", "-c", program(blocks(page), folder, stand_ins)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
    finally:
        cluster.reset()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for words in scene.prints:
        assert words in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_executed_parsed_or_marked_as_output(page: Path, tmp_path: Path) -> None:
    assert page.read_text("utf-8").count("\n```") == 2 * len(blocks(page))
    for block in blocks(page):
        assert block.language in (*EXECUTED, *PARSED, *SHOWN), f"{block.place} is in {block.language or 'nothing'}"
        if block.language == "json":
            read_objects(block.text)
        elif block.language == "yaml":
            read(block, tmp_path / f"{block.line}.yaml")


def read_objects(text: str) -> None:
    """Parse JSON values that follow each other."""
    while text := text.lstrip():
        text = text[json.JSONDecoder().raw_decode(text)[1] :]


def read(block: Block, file: Path) -> None:
    """Parse job files and alert files like CronFlow does, and compare the names; other files only as YAML."""
    file.write_text(block.text, "utf-8")
    found = yaml.safe_load(block.text)
    if "alerts" in found:
        assert [alert.name for alert in read_alert_files([file])] == names(found["alerts"]), block.place
    elif isinstance(found.get("jobs"), list):  # a workflow of GitHub Actions has jobs too
        assert [job.name for job in read_job_files([file], check_python=False)] == names(found["jobs"]), block.place


def names(items: list[dict[str, str]]) -> list[str]:
    return [item["name"] for item in items]


def test_the_commands_of_the_workflow_are_those_that_the_page_runs() -> None:
    page = blocks(ROOT / "docs" / "how-to" / "jobs-as-code.md")
    [workflow] = [yaml.safe_load(block.text) for block in page if (block.name or "").endswith("workflows/jobs.yml")]
    commands = [step["run"] for step in workflow["jobs"]["jobs"]["steps"] if "cronflow jobs" in step.get("run", "")]
    ran = [line for block in page if block.language == "sh" for line in block.text.splitlines()]
    assert len(commands) == 3
    assert ran[-3:] == commands


def test_an_example_with_a_mistake_is_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```yaml\njobs:\n  - {name: a, run: {argv: ['true']}, time_out: 1s}\n```\n")
    [block] = blocks(page)
    with pytest.raises(InvalidInput, match="did you mean timeout"):
        read(block, tmp_path / "a.yaml")

"""What a page tells the reader to do, done: its files are saved, its commands and programs run, in its order.

The rule it protects: nobody copies something out of a document that does not work. A page has a folder of its own, and
a cluster in which the things exist that it speaks of. What is here stands in for other machines and for runs of another
day (`stand_ins`); the rest is given to bash and Python as it stands.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cronflow.domain.errors import InvalidInput
from cronflow.files.alerts import read_alert_files
from cronflow.files.jobs import read_job_files
from tests.docs.blocks import DONE, PAGES, READ, ROOT, SHOWN, Block, blocks
from tests.docs.commands import PASSWORD
from tests.docs.conftest import APPS, Cluster

pytestmark = pytest.mark.chaos

WITH_BLOCKS = [page for page in PAGES if any(block.language in DONE for block in blocks(page))]
JOB = {"run": {"python": "billing:nightly_report"}, "overlap": "allow", "retry": {"max": 0}, "timeout": "2m"}


@dataclass(frozen=True)
class Scene:
    """What a page needs beside the cluster, and what has to be among all that its commands and programs say."""

    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    users: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    report: bool = True
    """Whether there is `nightly-report`, with a run that failed, before a page that speaks of it begins."""


JOBS_FILE = "jobs:\n  - {name: sums, run: {argv: ['true']}}\n"
SCENES = {
    "README.md": Scene(says=("every fire has exactly one run", "no rows")),
    "quickstart.md": Scene(
        files={".venv/bin/activate": "", ".cronflow/demo/admin-password": PASSWORD},
        says=("hello from hello@manual-", "node-3"),
    ),
    "first-job.md": Scene(says=("every fire has exactly one run", "node up", "nightly-report")),
    "http-and-shell-jobs.md": Scene(says=("created", "the second Monday")),
    "everyday-commands.md": Scene(files={"jobs.yaml": JOBS_FILE}, says=("every fire has exactly one run",)),
    "follow.md": Scene(
        environment={"API": "{url}", "PASSWORD": PASSWORD},
        stand_ins={" RUN ": " {failed} "},
        says=(
            "info reading 3 rows",
            "warn almost nothing",
            "the run is succeeded",
            "leader node-3",
            "found reading 3 rows",
        ),
    ),
    "alerts.md": Scene(says=("204",)),
    "monitor.md": Scene(stand_ins={"10.0.0.11": "127.0.0.1", "=9500": "=0"}, says=("metrics served",)),
    "log-in-from-the-command-line.md": Scene(
        files={"jobs.yaml": JOBS_FILE, "secrets/ada": PASSWORD},
        users=("ada",),
        says=("ada, operator", "created"),
    ),
    "logins-and-secrets.md": Scene(files={"secrets/admin": PASSWORD}, says=("ada", "cfk.ci.")),
    "use-the-api.md": Scene(
        report=False,
        environment={"PASSWORD": PASSWORD},
        says=('"result":"created"', "active\n", "10m\n", "nightly-report@manual-deploy-42", '"deleted_at"'),
    ),
    "when-something-failed.md": Scene(says=("no rows", "~r1")),
}


async def prepared(page: Path, cluster: Cluster, folder: Path) -> tuple[Scene, dict[str, str]]:
    """The page's scene, set, and what stands for what in its texts."""
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
        "redis://127.0.0.1:6379/0": cluster.environment["CRONFLOW_REDIS_URL"],
        "mongodb://127.0.0.1:27017/?replicaSet=rs0": cluster.environment["CRONFLOW_MONGO_URL"],
        "/run/secrets/": f"{folder}/secrets/",
        "nightly-report@20261121T010000Z": failed,
        "cfk.deploy.…": cluster.token,
        **{word: text.format(failed=failed) for word, text in scene.stand_ins.items()},
    }
    return scene, stand_ins


def put(text: str, stand_ins: Mapping[str, str]) -> str:
    """The text with what is here for what is elsewhere."""
    for word, here in stand_ins.items():
        text = text.replace(word, here)
    return text


def program(page: list[Block], folder: Path, stand_ins: Mapping[str, str]) -> str:
    """The page as one program of bash; its files are saved on the way."""
    lines = []
    for block in page:
        text = put(block.text, stand_ins)
        if block.name or block.language == "python":
            file = folder / (block.name or f"line_{block.line}.py")
            file.write_text(text, "utf-8")
            text = f"python3 {shlex.quote(str(file))}" if block.language == "python" else ""
        if block.language in DONE:
            lines += [f"echo '=== {block.place}' | tee /dev/stderr", text]
    return "\n".join(lines)


def tools(folder: Path, cronflow: str) -> Path:
    """A folder with `cronflow`, `python3` and `make` as they are to be found here. Make only says what it would do."""
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
async def test_what_a_page_says_can_be_done(page: Path, cluster: Cluster, tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    try:
        scene, stand_ins = await prepared(page, cluster, folder)
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
        cluster.forget()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for words in scene.says:
        assert words in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_run_read_or_marked_as_shown_alone(page: Path, tmp_path: Path) -> None:
    assert page.read_text("utf-8").count("\n```") == 2 * len(blocks(page))
    for block in blocks(page):
        assert block.language in (*DONE, *READ, *SHOWN), f"{block.place} is in {block.language or 'nothing'}"
        if block.language == "json":
            read_objects(block.text)
        elif block.language == "yaml":
            read(block, tmp_path / f"{block.line}.yaml")


def read_objects(text: str) -> None:
    """One value of JSON after the other."""
    while text := text.lstrip():
        text = text[json.JSONDecoder().raw_decode(text)[1] :]


def read(block: Block, file: Path) -> None:
    """As the reader of its kind does; the names are those that the block has. Files of other programs are YAML."""
    file.write_text(block.text, "utf-8")
    found = yaml.safe_load(block.text)
    if "alerts" in found:
        assert [alert.name for alert in read_alert_files([file])] == names(found["alerts"]), block.place
    elif "jobs" in found:
        assert [job.name for job in read_job_files([file], check_python=False)] == names(found["jobs"]), block.place


def names(items: list[dict[str, str]]) -> list[str]:
    """Of the jobs or alerts of a file."""
    return [item["name"] for item in items]


def test_an_example_with_a_mistake_would_be_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```yaml\njobs:\n  - {name: a, run: {argv: ['true']}, time_out: 1s}\n```\n")
    [block] = blocks(page)
    with pytest.raises(InvalidInput, match="did you mean timeout"):
        read(block, tmp_path / "a.yaml")

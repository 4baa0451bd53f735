"""`cronflow jobs check`, `diff`, `export`, `schema`, and `apply --prune`, on the servers and through an API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cronflow.domain.access import Role
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import Scene
from tests.cli.served import Served, serving
from tests.cli.test_apply import APP

FILE = """
defaults:
  labels: {owner: team-a}
jobs:
  - name: nightly
    schedule: {cron: "0 2 * * *", tz: Europe/Berlin}
    run: {shell: "set -e\\nbin/report\\n"}
  - name: tokens
    schedule: {every: 1h}
    run: {argv: [bin/tokens]}
"""
ONE = FILE[: FILE.index("  - name: tokens")].replace("0 2 * * *", "0 3 * * *").replace("bin/report", "bin/report --all")
OTHERS = """
jobs:
  - {name: theirs, run: {argv: [x]}, labels: {owner: team-b}}
  - {name: nobodys, run: {argv: [x]}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture(params=["servers", "api"])
def cluster(request: pytest.FixtureRequest, cli: Cli, empty: Scene, server: Served, tmp_path: Path) -> Scene:
    """A cluster with the jobs of two teams, which the commands use directly or through an API."""
    if request.param == "api":
        server.serve(empty)
        server.log_in(cli)
    for name, text in (("jobs.yaml", FILE), ("one.yaml", ONE), ("others.yaml", OTHERS)):
        (tmp_path / name).write_text(text)
    assert cli("jobs", "apply", "-f", "jobs.yaml", "others.yaml").exit_code == 0
    return empty


def names(scene: Scene) -> list[str]:
    return [record.name for record in asyncio.run(scene.service.backends.jobs.find())]


def test_a_diff_shows_what_apply_changes_key_by_key_with_the_exit_code_of_diff(cli: Cli, cluster: Scene) -> None:
    same = cli("jobs", "diff", "-f", "jobs.yaml", "others.yaml")
    assert (same.exit_code, same.stdout) == (0, "4 jobs: 0 created, 0 changed, 0 deleted, 4 unchanged\n")
    Path("new.yaml").write_text('jobs:\n  - {name: new, run: {argv: [x], env: {API_KEY: "hunter2"}}}\n')
    before = names(cluster)
    result = cli("jobs", "diff", "-f", "one.yaml", "new.yaml", "--days", "7", columns=80)
    assert result.exit_code == 1
    assert (
        result.stdout
        == (
            "~ nightly  changed\n"
            '  - schedule.cron: "0 2 * * *"\n'
            '  + schedule.cron: "0 3 * * *"\n'
            "    run.shell:\n"
            "    @@ -1,2 +1,2 @@\n"
            "      set -e\n"
            "  -   bin/report\n"
            "  +   bin/report --all\n"
            "\n"
            "  runs in 7 days: +7 -7\n"
            "+ new  created\n"
            '  + run.argv: ["x"]\n'
            '  + run.env.API_KEY: "***"\n'
            "  + retry.max: 3\n"
        )
        + result.stdout[result.stdout.index('  + retry.initial: "30s"') :]
    )
    assert names(cluster) == before
    answer = cli("jobs", "diff", "-f", "one.yaml", "new.yaml", "-o", "json")
    assert answer.exit_code == 1
    assert [(one["name"], one["result"]) for one in json.loads(answer.stdout)] == [
        ("nightly", "changed"),
        ("new", "created"),
    ]
    assert "hunter2" not in answer.stdout
    broken = cli("jobs", "diff", "-f", "missing.yaml")
    assert (broken.exit_code, broken.stdout) == (2, "")
    assert cli("jobs", "diff", "-f", "jobs.yaml", "-o", "name").stdout == ""


def test_prune_deletes_what_is_gone_from_the_files_of_the_owner(cli: Cli, cluster: Scene) -> None:
    planned = cli("jobs", "diff", "-f", "one.yaml", "--prune")
    assert planned.exit_code == 1
    assert "- tokens  deleted\n  - name: " in planned.stdout
    assert '  - run.argv: ["bin/tokens"]' in planned.stdout
    assert planned.stdout.endswith("2 jobs: 0 created, 1 changed, 1 deleted, 0 unchanged\n")
    tried = cli("jobs", "apply", "-f", "one.yaml", "--prune", "--dry-run")
    assert row(tried, "tokens").split() == ["-", "deleted", "tokens", "-169"]
    assert names(cluster) == ["nightly", "nobodys", "theirs", "tokens"]
    applied = cli("jobs", "apply", "-f", "one.yaml", "--prune")
    assert applied.exit_code == 0
    assert "2 jobs: 0 created, 1 changed, 0 unchanged, 1 deleted" in applied.stdout
    assert names(cluster) == ["nightly", "nobodys", "theirs"]
    again = cli("jobs", "diff", "-f", "one.yaml", "--prune")
    assert again.exit_code == 0


def test_prune_needs_one_owner_and_leaves_the_jobs_of_others_alone(cli: Cli, cluster: Scene) -> None:
    before = asyncio.run(cluster.service.backends.jobs.find())

    def refused(*words: str) -> str:
        result = cli("jobs", "apply", *words, "--prune")
        assert result.exit_code == 2, result.output
        assert asyncio.run(cluster.service.backends.jobs.find()) == before
        return result.stderr

    assert "theirs has" not in refused("-f", "jobs.yaml", "others.yaml")
    Path("none.yaml").write_text("jobs:\n  - {name: one, run: {argv: [x]}}\n")
    assert "--prune: one has no label owner (give --owner NAME, or" in refused("-f", "none.yaml")
    Path("two.yaml").write_text(OTHERS.replace("nobodys, run: {argv: [x]}", "b, run: {argv: [x]}, labels: {owner: c}"))
    assert "--prune: the jobs have several owners: c, team-b" in refused("-f", "two.yaml")
    assert "the owner of theirs is 'team-b', not 'team-a'" in refused("-f", "others.yaml", "--owner", "team-a")
    Path("taken.yaml").write_text("jobs:\n  - {name: theirs, run: {argv: [x]}}\n")
    assert "theirs exists and belongs to 'team-b'" in refused("-f", "taken.yaml", "--owner", "team-a")


def test_the_jobs_of_an_app_get_an_owner_by_the_flag(
    cli: Cli, cluster: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    (tmp_path / "shop_as_code.py").write_text(APP + '\n@shop.job(every="2h")\ndef second(): ...\n')
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        assert cli("jobs", "apply", "--app", "shop_as_code:shop", "--owner", "shop").exit_code == 0
        assert names(cluster) == ["nightly", "nobodys", "second", "sweep", "theirs", "tokens"]
        sys.modules["shop_as_code"].shop._jobs.pop("second")
        assert cli("jobs", "apply", "--app", "shop_as_code:shop", "--owner", "shop", "--prune").exit_code == 0
    finally:
        sys.modules.pop("shop_as_code", None)
    assert names(cluster) == ["nightly", "nobodys", "sweep", "theirs", "tokens"]


def test_an_export_applies_again_without_a_change(cli: Cli, cluster: Scene, tmp_path: Path) -> None:
    text = cli("jobs", "export")
    assert text.exit_code == 0
    assert [line for line in text.stdout.splitlines() if line.startswith("  - name:")] == [
        f"  - name: {name}" for name in names(cluster)
    ]
    (tmp_path / "all.yaml").write_text(text.stdout)
    assert cli("jobs", "diff", "-f", "all.yaml").exit_code == 0
    assert cli("jobs", "export", "nightly").stdout == cli("jobs", "show", "nightly", "-o", "yaml").stdout
    assert cli("jobs", "export", "n*").stdout.count("- name:") == 2
    assert cli("jobs", "export", "--label", "owner=team-a").stdout.count("- name:") == 2
    assert cli("jobs", "export", "missing").exit_code == 3
    folder = cli("jobs", "export", "--label", "owner=team-a", "--out", "stored")
    assert (folder.exit_code, folder.stdout) == (0, "")
    assert "wrote 2 files; apply: cronflow jobs apply -f stored/*.yaml" in folder.stderr
    assert cli("jobs", "diff", "-f", "stored/nightly.yaml", "stored/tokens.yaml", "--prune").exit_code == 0
    again = cli("jobs", "export", "--out", "stored")
    assert (again.exit_code, "stored/nightly.yaml and 1 more exist" in again.stderr) == (2, True)
    assert not (tmp_path / "stored" / "theirs.yaml").exists()


def test_an_editor_prunes_only_what_it_may_delete_and_a_viewer_exports_no_masks(
    cli: Cli, empty: Scene, server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = server.serve(empty)
    for name, text in (("jobs.yaml", FILE), ("one.yaml", ONE)):
        (tmp_path / name).write_text(text)
    assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 0
    monkeypatch.setenv("CRONFLOW_API_URL", server.url)

    def use(name: str, role: Role, *jobs: str, **rights: Any) -> None:
        _, key = asyncio.run(replica.service.keys.create(name, role, jobs=jobs or None, **rights))
        monkeypatch.setenv("CRONFLOW_API_KEY", key)

    use("narrow", Role.EDITOR, "night*", allow_shell=True)
    for command in ("diff", "apply"):
        refused = cli("jobs", command, "-f", "one.yaml", "--prune")
        assert refused.exit_code == (2 if command == "diff" else 1)
        assert "is limited to jobs that match night* and may not delete tokens" in refused.stderr
    assert names(empty) == ["nightly", "tokens"]
    use("wide", Role.EDITOR, "night*", "tok*", allow_shell=True)
    assert cli("jobs", "diff", "-f", "one.yaml", "--prune").exit_code == 1
    assert cli("jobs", "apply", "-f", "one.yaml", "--prune").exit_code == 0
    assert names(empty) == ["nightly"]


def test_check_needs_no_cluster_and_reports_everything_in_three_formats(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(FILE.replace("Europe/Berlin", "UTC"))
    good = cli("jobs", "check", "jobs.yaml", "--no-import")
    assert (good.exit_code, good.stdout) == (0, "✓ ok: 2 jobs\n")
    (tmp_path / "bad.yaml").write_text(
        "jobs:\n  - {name: a, run: {argv: [x]}, timout: 5s}\n"
        "  - {name: b, run: {argv: [x]}, schedule: {cron: '0 0 1 * MON'}}\n"
    )
    text = cli("jobs", "check", "bad.yaml", "jobs.yaml", columns=80)
    assert text.exit_code == 1
    assert text.stdout.startswith("bad.yaml:2: jobs[0].timout: error: unknown key\n  → did you mean timeout?\n")
    assert "bad.yaml:3: jobs[1].schedule: warning: " in text.stdout
    assert text.stdout.endswith("1 problem, 1 warning; valid: 3 jobs\n")
    answer = json.loads(cli("jobs", "check", "bad.yaml", "-o", "json").stdout)
    assert answer["problems"] == [
        {
            "file": "bad.yaml",
            "line": 2,
            "key": "jobs[0].timout",
            "problem": "unknown key",
            "remedy": "did you mean timeout?",
        }
    ]
    assert [one["line"] for one in answer["warnings"]] == [3]
    annotated = cli("jobs", "check", "bad.yaml", "-o", "github").stdout.splitlines()
    assert annotated[0] == ("::error file=bad.yaml,line=2,title=jobs[0].timout::unknown key (did you mean timeout?)")
    assert annotated[1].startswith("::warning file=bad.yaml,line=3,title=jobs[1].schedule::")
    (tmp_path / "warned.yaml").write_text("jobs:\n  - {name: b, run: {argv: [x]}, schedule: {cron: '0 0 1 * MON'}}\n")
    assert cli("jobs", "check", "warned.yaml").exit_code == 0
    assert cli("jobs", "check", "warned.yaml", "--strict").exit_code == 1
    assert cli("jobs", "check").exit_code == 2
    assert cli("jobs", "check", "missing.yaml").exit_code == 1


def test_the_schema_is_printed(cli: Cli) -> None:
    assert parsed(cli("jobs", "schema"))["title"] == "CronFlow job file"


def test_a_dry_run_of_alerts_shows_each_key_and_writes_nothing(cli: Cli, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(
        "alerts:\n  - {name: billing, on: [failed], webhook: {url: https://other.example.com}}\n"
        "  - {name: new, on: [retries], webhook: {url: https://host}}\n"
    )
    before = asyncio.run(scene.service.alerts.find())
    result = cli("alerts", "apply", "-f", "alerts.yaml", "--dry-run")
    assert result.exit_code == 0
    assert "~ billing  changed\n" in result.stdout
    assert '  + webhook.url: "https://other.example.com"\n' in result.stdout
    assert '+ new  created\n  + on: ["retries"]\n' in result.stdout
    assert asyncio.run(scene.service.alerts.find()) == before

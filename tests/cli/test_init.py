"""`cronflow init`: what it writes is valid, and nothing is overwritten."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from cronflow.cli.commands.init import FILES
from cronflow.cli.main import COMMANDS
from cronflow.files.schema import HINT, schema_text
from tests.children import child_environment, python
from tests.cli.conftest import Cli, parsed
from tests.deploy import files
from tests.test_documents_shown import parse, shown


def test_it_writes_a_folder_and_names_the_next_steps(cli: Cli, tmp_path: Path) -> None:
    result = cli("init", "new/shop", columns=80)
    assert result.exit_code == 0
    written = {str(path.relative_to(tmp_path / "new/shop")) for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert written == {*FILES, "job-file.schema.json"}
    assert "  cd new/shop\n" in result.stdout
    assert "  cronflow dev jobs.yaml jobs.py  " in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert (tmp_path / "new/shop/job-file.schema.json").read_text() == schema_text()
    assert (tmp_path / "new/shop/jobs.yaml").read_text().startswith(HINT)
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file() and "@VERSION@" in path.read_text()]
    assert {one["file"] for one in parsed(cli("init", "other", "-o", "json"))} == {f"other/{path}" for path in written}


def test_nothing_is_written_if_a_file_exists(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text("mine")
    result = cli("init")
    assert result.exit_code == 2
    assert f"DIR: jobs.yaml exists in {tmp_path}; nothing was written (name another folder, or" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.yaml"]


def test_what_it_writes_is_valid(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("init", "shop")
    monkeypatch.chdir(tmp_path / "shop")
    assert cli("jobs", "check", "jobs.yaml", "--strict").exit_code == 0
    assert cli("config", "check").exit_code == 0
    done = subprocess.run(
        python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"),
        env=child_environment(PYTHONPATH=str(tmp_path / "shop")),
        cwd=tmp_path / "shop",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    workflow = yaml.safe_load(Path(".github/workflows/jobs.yml").read_text())
    assert {"checkout", "setup-python"} == {
        step["uses"].partition("@")[0].removeprefix("actions/") for step in workflow["jobs"]["jobs"]["steps"][:2]
    }
    text = "".join(path.read_text() for path in (Path("docker-compose.yml"), Path(".github/workflows/jobs.yml")))
    for line in text.splitlines():
        words = line.strip().removeprefix("# ").removeprefix("The API key: ").removeprefix("run: ")
        if words.startswith("cronflow ") and words.split()[1] in COMMANDS:
            [call] = shown(f"```sh\n{words.partition(' || ')[0]}\n```\n", "cronflow")
            parse(call)


def test_docker_compose_accepts_the_file(cli: Cli, tmp_path: Path) -> None:
    command = files.tool("docker-compose", package="docker-compose")
    cli("init", "shop")
    compose = str(tmp_path / "shop" / "docker-compose.yml")
    (tmp_path / "shop" / ".env").write_text("SECRETS_KEY=a\nJWT_SECRET=b\nADMIN_PASSWORD=c\n")
    code, output = files.output_of(command, "--project-directory", str(tmp_path / "shop"), "-f", compose, "config")
    assert code == 0, output


def test_systemd_accepts_the_unit(cli: Cli, tmp_path: Path) -> None:
    command = files.tool("systemd-analyze", package="systemd")
    cli("init", "shop")
    unit = tmp_path / "shop" / "cronflow-node.service"
    unit.write_text(unit.read_text().replace("/opt/cronflow/bin/cronflow", "/bin/true"))
    code, output = files.output_of(command, "verify", "--man=no", str(unit))
    assert code == 0, output
    assert "cronflow" not in output, output

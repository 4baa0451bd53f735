"""`cronflow import`: what is printed where, folders and stdin, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from cronflow.files.jobs import read_jobs
from tests.cli.conftest import Cli

LINES = "0 5 * * * root /usr/bin/report\n@reboot root /usr/bin/warm\n"


def test_a_folder_is_imported_as_cron_reads_it(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "cron.d"
    folder.mkdir()
    for name in ("report", "other", "report.dpkg-old", "README~"):
        (folder / name).write_text(LINES.replace("report", name))
    done = cli("import", "crontab", str(folder), "--tz", "Europe/Berlin", "--host", "web-1")
    assert done.exit_code == 1
    path = tmp_path / "jobs.yaml"
    path.write_text(done.stdout)
    jobs = read_jobs([path]).jobs
    assert [(job.name, job.labels) for job in jobs] == [("other", {"host": "web-1"}), ("report", {"host": "web-1"})]
    assert "2 jobs imported, 2 refused" in done.stderr
    assert "a cluster does not boot" in done.stderr
    assert "# Not imported" in done.stdout


def test_stdin_and_units(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    drop_in = tmp_path / "a.timer.d"
    drop_in.mkdir()
    (drop_in / "x.conf").write_text("[Timer]\nOnCalendar=\nOnCalendar=*-*-* 07:00\n")
    for argument in ("a.timer", "."):
        monkeypatch.chdir(tmp_path)
        done = cli("import", "systemd", argument)
        assert 'cron: "0 7 * * *"' in done.stdout
        assert "1 job imported" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("crontab", "missing"), "missing: cannot read the file: No such file or directory"),
        (("crontab", "empty"), "empty: has no files to import"),
        (("crontab", "binary"), "binary: cannot read the file: not UTF-8 text"),
        (("crontab", "ok", "--tz", "Mars/Olympus"), "--tz: there is no time zone 'Mars/Olympus'"),
        (("crontab", "ok", "--label", "team"), "--label: 'team' is not KEY=VALUE"),
        (("systemd", "ok"), "ok: has no timers"),
    ],
)
def test_wrong_input_is_one_error_with_code_2(
    cli: Cli, arguments: tuple[str, ...], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "ok").write_text(LINES)
    done = cli("import", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: {error}" in done.stderr

"""The example that makes jobs of the rows of a table: its jobs, its handlers and its status columns."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cronflow import Context, PermanentError
from cronflow.documents import parse_job
from cronflow.domain.job import target_problems
from cronflow.domain.schedule.fires import next_after
from tests.children import ROOT

FOLDER = ROOT / "docs" / "examples" / "table"
START = datetime(2026, 11, 24, 19, tzinfo=UTC)


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("TABLE_OUT", str(tmp_path))
    return module("table_handlers")


def context(run: str = "job@1", fire_at: datetime = START, attempt: int = 1) -> Context:
    return Context(
        run_id=run,
        job="job",
        fire_at=fire_at,
        attempt=attempt,
        fence=attempt,
        node="n",
        args={},
        sink=lambda level, text: None,
    )


def test_every_row_is_a_job_that_fires_at_its_hour_in_its_zone() -> None:
    rows = json.loads((FOLDER / "rows.json").read_text())
    jobs = {job.name: job for job in map(parse_job, module("rows").jobs_of(rows))}
    assert [*jobs] == [
        "backup-vps-7",
        "backup-cloud-server-12",
        "backup-vps-8",
        "report-16",
        "worker-17",
        "reminder-18",
    ]
    zone = ZoneInfo("Asia/Ho_Chi_Minh")
    for name, hour, days in (("backup-vps-7", 2, 1), ("backup-cloud-server-12", 23, 7), ("backup-vps-8", 4, 30)):
        schedule = jobs[name].schedule
        assert schedule is not None
        first = next_after(schedule, START)
        assert first is not None
        second = next_after(schedule, first)
        assert second is not None
        assert first.astimezone(zone).hour == hour
        assert second - first == timedelta(days=days)
    assert [name for name, job in jobs.items() if not job.enabled] == ["backup-vps-8"]
    assert not any(target_problems(job.target) for job in jobs.values())


def test_a_backup_keeps_the_newest_archives_also_when_it_is_tried_again(handlers: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        handlers.back_up(context(), "vps", "7", 3)
    (tmp_path / "servers" / "7").mkdir(parents=True)
    for day in range(5):
        for attempt in (1, 2):
            made = handlers.back_up(context(fire_at=START + timedelta(days=day), attempt=attempt), "vps", "7", 3)
    kept = sorted(file.name for file in (tmp_path / "backups" / "vps-7").iterdir())
    assert kept == [f"202611{day}T190000Z.tar.gz" for day in (26, 27, 28)]
    assert made == {"file": "20261128T190000Z.tar.gz", "pruned": []}
    with pytest.raises(PermanentError, match="'nas' is not one of vps, cloud-server"):
        handlers.back_up(context(), "nas", "7", 3)


def test_reports_workers_and_reminders(handlers: ModuleType, tmp_path: Path) -> None:
    text = "Report 25 for north at 2026-11-24 19:00 UTC"
    params: dict[str, Any] = {"region": "north", "delivery": {"instant": True}}
    assert handlers.run_task(context(), "report", 25, params) == {"report": text}
    assert not (tmp_path / "outbox").exists()
    later = handlers.run_task(context("report@2"), "report", 25, {"region": "north"})
    assert json.loads((tmp_path / "outbox" / later["file"]).read_text()) == {"report": text}
    assert handlers.run_task(context(), "worker", 3, {"a": 1}) == {"worker": 3, "params": 1}
    reminder = {"to": "ada@example.com", "text": "The audit is tomorrow"}
    for attempt in (1, 2):
        handlers.run_task(context("reminder@3", attempt=attempt), "reminder", 9, reminder)
    assert sorted(file.name for file in (tmp_path / "outbox").iterdir()) == ["reminder-3.json", "report-2.json"]
    for kind, given in (("invoice", reminder), ("reminder", {"to": "ada@example.com"})):
        with pytest.raises(PermanentError):
            handlers.run_task(context(), kind, 9, given)


def test_the_status_columns_follow_from_the_runs() -> None:
    status_of = module("rows").status_of
    job = {"next_fire": "next"}
    ended = {"id": "r1", "state": "succeeded", "started_at": "s", "ended_at": "e", "error": None, "attempt": 1}
    dead = {**ended, "id": "r0", "state": "failed", "ended_at": "f", "error": "disk full", "attempt": 4}
    running = {**ended, "id": "r2", "state": "running", "ended_at": None, "attempt": 2}
    idle = status_of(job, [])
    assert (idle["status"], idle["nextRunAt"], idle["lastRunAt"]) == ("idle", "next", None)
    done = status_of(job, [ended, dead])
    assert (done["status"], done["completedAt"], done["lastError"]) == ("completed", "e", "disk full")
    assert (done["failedAt"], done["runningJobId"]) == ("f", None)
    assert status_of(job, [dead])["status"] == "failed"
    now = status_of(job, [running, ended])
    assert (now["status"], now["runningJobId"], now["retryCount"]) == ("running", "r2", 1)

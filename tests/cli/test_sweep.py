"""`cronflow cluster sweep`, and system jobs in other commands."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import time
from typing import Any

import orjson
import pytest

from cronflow.cli.terminal import times
from cronflow.domain.job import SWEEP, system_jobs
from cronflow.domain.run import Outcome, Run, RunState
from cronflow.domain.sweep import Finding, Flaw, SweepReport
from cronflow.usecases.edit import Editor
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import JOBS, NOON, Scene

FINDINGS = (
    Finding(kind=Flaw.RUN_UNWATCHED, where="sync-tokens@20261121T115930Z", what="no node watches it", repaired=True),
    Finding(kind=Flaw.JOB_BEHIND, where="rebuild-cache", what="due for long", repaired=False),
)


@pytest.fixture
def swept(scene: Scene) -> Scene:
    """The scene after a leader has defined the system jobs."""

    async def define() -> None:
        for job in system_jobs(time(0, 0), time(3, 0)):
            assert (
                await Editor(
                    scene.backends.jobs,
                    scene.backends.versions,
                    scene.backends.plans,
                    scene.backends.runs,
                    scene.backends.queue,
                    scene.clock,
                ).define(job)
                == "created"
            )

    asyncio.run(define())
    return scene


def finish_while_waiting(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    findings: Sequence[Finding] = (),
    state: RunState = RunState.SUCCEEDED,
    report_of: str | None = None,
) -> None:
    """The requested sweep ends while the command waits for the first time."""

    async def wait(_seconds: float) -> None:
        runs: dict[str, Run] = scene.backends.documents.runs
        name = list(runs)[-1]
        runs[name] = replace(runs[name], state=state, attempt=1, ended_at=NOON, outcome=Outcome.OK, error="no")
        report = SweepReport(
            at=NOON,
            run=report_of or name,
            took_ms=1234,
            checked={"runs": 14, "jobs": 12},
            found=len(findings),
            findings=findings,
        )
        await scene.backends.store_admin.write_report(report)

    monkeypatch.setattr(times, "sleep", wait)


def test_a_sweep_without_findings_exits_0_and_prints_what_it_checked(
    cli: Cli, swept: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish_while_waiting(swept, monkeypatch)
    result = cli("cluster", "sweep")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "sweep    2026-11-21 12:00:00Z, now  no findings",
        "checked  14 runs  12 jobs",
        "took     1,234 ms",
    ]
    assert f"requested {SWEEP}@manual-" in result.stderr


def test_a_sweep_with_findings_exits_1_and_lists_them(cli: Cli, swept: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_while_waiting(swept, monkeypatch, FINDINGS)
    result = cli("cluster", "sweep")
    assert result.exit_code == 1
    assert "2 findings, 1 repaired" in result.stdout
    assert row(result, "run_unwatched").startswith("yes")
    assert row(result, "job_behind").startswith("no")
    as_json = cli("cluster", "sweep", "-o", "json")
    assert as_json.exit_code == 1
    shape: Any = orjson.loads(as_json.stdout_bytes)
    assert (shape["found"], shape["checked"], shape["took_ms"]) == (2, {"runs": 14, "jobs": 12}, 1234)
    assert shape["findings"][1] == {
        "kind": "job_behind",
        "where": "rebuild-cache",
        "what": "due for long",
        "repaired": False,
    }


def test_a_failed_sweep_exits_4(cli: Cli, swept: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_while_waiting(swept, monkeypatch, state=RunState.FAILED)
    result = cli("cluster", "sweep")
    assert (result.exit_code, result.stdout) == (4, "")
    assert "the sweep failed: no" in result.stderr


def test_the_report_of_another_sweep_is_not_printed(cli: Cli, swept: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_while_waiting(swept, monkeypatch, report_of=f"{SWEEP}@20261121T000000Z")
    result = cli("cluster", "sweep")
    assert result.exit_code == 1
    assert "another sweep has finished since" in result.stderr


@pytest.mark.usefixtures("scene")
def test_before_the_first_leader_there_is_no_sweep_to_run(cli: Cli) -> None:
    result = cli("cluster", "sweep")
    assert result.exit_code == 3
    assert "start one: cronflow node" in result.stderr


def test_the_status_shows_the_last_sweep(cli: Cli, swept: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed(cli("cluster", "status", "-o", "json"))["sweep"] is None
    assert "sweep" not in cli("cluster", "status").stdout
    finish_while_waiting(swept, monkeypatch, FINDINGS)
    cli("cluster", "sweep")
    assert "sweep    2026-11-21 12:00:00Z, now  2 findings, 1 repaired" in cli("cluster", "status").stdout
    assert parsed(cli("cluster", "status", "-o", "json"))["sweep"]["found"] == 2


@pytest.mark.usefixtures("swept")
def test_system_jobs_are_listed_on_request(cli: Cli) -> None:
    assert cli("jobs", "list", "-o", "name").stdout.splitlines() == sorted(job.name for job in JOBS)
    listed = cli("jobs", "list", "--all", "-o", "name").stdout.splitlines()
    assert set(listed) - {job.name for job in JOBS} == {"_sys:sweep", "_sys:cleanup"}
    assert "system: sweep" in cli("jobs", "show", SWEEP).stdout
    assert cli("jobs", "next", SWEEP, "-n", "1").exit_code == 0


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("verb", ["pause", "resume", "delete"])
def test_system_jobs_cannot_be_changed(cli: Cli, verb: str) -> None:
    result = cli("jobs", verb, SWEEP)
    assert result.exit_code == 2
    assert "set SWEEP_AT and CLEANUP_AT to choose when system jobs run" in result.stderr

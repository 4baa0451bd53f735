"""`cronflow runs cancel`, and `cronflow nodes show`, `drain`, `undrain`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.cli.terminal import times
from cronflow.domain.cluster import Backlog
from cronflow.domain.run import RunState
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import NOON, RETRYING, RUNNING, SUCCEEDED, Scene
from tests.contracts.builders import a_report


def state_of(scene: Scene, run_id: str) -> RunState:
    return asyncio.run(scene.service.runs.get(run_id)).state


def finish_while_waiting(scene: Scene, monkeypatch: pytest.MonkeyPatch, run_id: str, state: RunState) -> None:
    """End the run while the command waits."""

    async def wait(_seconds: float) -> None:
        runs: dict[str, Any] = scene.backends.documents.runs
        runs[run_id] = replace(runs[run_id], state=state, check_at=None, ended_at=NOON)

    monkeypatch.setattr(times, "sleep", wait)


def test_a_waiting_run_is_cancelled_immediately(cli: Cli, scene: Scene) -> None:
    result = cli("runs", "cancel", RETRYING, "--reason", "wrong month")
    assert row(result, RETRYING).startswith("⊘ cancelled")
    assert result.stderr == "cluster: namespace default\n"
    run = asyncio.run(scene.service.runs.get(RETRYING))
    assert (run.state, run.cancel_reason) == (RunState.CANCELLED, "wrong month")
    assert "wrong month" in (run.reason or "")


def test_cancelling_a_running_run_shows_the_request(cli: Cli, scene: Scene) -> None:
    shape = parsed(cli("runs", "cancel", RUNNING, "-o", "json"))[0]
    assert (shape["state"], shape["cancel_requested"]) == ("running", True)
    assert shape["cancel_by"]
    assert "use --wait to wait for them" in cli("runs", "cancel", RUNNING).stderr  # asking again is harmless
    assert "requested  cancelled by" in cli("runs", "show", RUNNING).stdout
    assert scene.backends.memory.is_cancelled(RUNNING)


@pytest.mark.parametrize(("state", "code"), [(RunState.CANCELLED, 0), (RunState.SUCCEEDED, 1)])
def test_waiting_prints_the_outcome(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch, state: RunState, code: int
) -> None:
    finish_while_waiting(scene, monkeypatch, RUNNING, state)
    result = cli("runs", "cancel", RUNNING, "--wait")
    assert result.exit_code == code
    assert state.value in row(result, RUNNING)
    assert ("succeeded before it could be stopped" in result.stderr) == bool(code)


@pytest.mark.usefixtures("scene")
def test_cancelling_an_ended_run_is_refused(cli: Cli) -> None:
    result = cli("runs", "cancel", SUCCEEDED)
    assert result.exit_code == 1
    assert f"run {SUCCEEDED} has already ended: succeeded" in result.stderr
    assert cli("runs", "cancel", "nothing@1").exit_code == 3


def test_cancelling_several_runs_prints_their_number_and_asks(cli: Cli, scene: Scene) -> None:
    result = cli("runs", "cancel", "--state", "running", "--state", "retrying", stdin="n\n")
    assert result.exit_code == 1
    assert "Cancel 2 open runs?" in result.stderr
    assert state_of(scene, RETRYING) is RunState.RETRYING
    result = cli("runs", "cancel", "--state", "running", "--state", "retrying", stdin="y\n")
    assert result.exit_code == 0
    assert state_of(scene, RETRYING) is RunState.CANCELLED
    assert {word for word in result.stdout.split() if "@" in word} == {RETRYING, RUNNING}


def test_yes_skips_the_question_and_still_prints_the_count(cli: Cli, scene: Scene) -> None:
    result = cli("runs", "cancel", "--job", "send-invoices", "--yes", "-o", "name")
    assert result.stdout.split() == [RETRYING]
    assert "cancelling 1 open run" in result.stderr
    assert state_of(scene, RUNNING) is RunState.RUNNING


@pytest.mark.usefixtures("scene")
def test_no_match_is_fine_but_an_unknown_job_is_an_error(cli: Cli) -> None:
    assert cli("runs", "cancel", "--job", "rotate-keys", "--yes").stdout == (
        "No open runs match; nothing was cancelled.\n"
    )
    assert cli("runs", "cancel", "--job", "rotate-kies", "--yes").exit_code == 3


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("words", [[], [RUNNING, "--job", "reindex-search"], ["--state", "succeeded"]])
def test_contradictory_selections_are_refused(cli: Cli, words: list[str]) -> None:
    assert cli("runs", "cancel", *words).exit_code == 2


# --------------------------------------------------------------------------------------------------------------- nodes


@pytest.mark.usefixtures("scene")
def test_a_node_is_shown_with_its_runs(cli: Cli) -> None:
    page = cli("nodes", "show", "node-a").stdout
    assert page.startswith("● up  node-a")
    assert "♛ leader" in page
    assert "disk=ssd region=eu" in page
    shape = parsed(cli("nodes", "show", "node-c", "-o", "json"))
    assert shape["runs"] == sorted(f"reindex-search@{n}" for n in range(6))
    assert (shape["state"], shape["drained"]) == ("stale", False)
    assert shape["breakers"] == {}
    assert shape["spool"] == {"outcomes": 0, "bytes": 0, "since": None}
    missing = cli("nodes", "show", "node-z")
    assert missing.exit_code == 3
    assert "list the nodes: cronflow nodes list" in missing.stderr


def test_a_node_is_drained_and_undrained(cli: Cli, scene: Scene) -> None:
    result = cli("nodes", "drain", "node-a")
    assert "node-a: accepts no new runs" in result.stdout
    assert "cronflow nodes undrain node-a" in result.stderr
    assert scene.backends.memory.drains == {"node-a": True}
    assert row(cli("nodes", "list"), "node-a").startswith("↓ draining")
    assert "node-a: accepts runs again" in cli("nodes", "undrain", "node-a").stdout
    assert scene.backends.memory.drains == {"node-a": False}


def test_waiting_for_a_drain_ends_when_the_node_is_empty(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    async def wait(_seconds: float) -> None:
        looks.append(1)
        memory = scene.backends.memory
        report, until, seen = memory.reports["node-c#0c44"]
        memory.reports["node-c#0c44"] = (replace(report, draining=True), until, seen)
        memory.held["node-c#0c44"] = {f"run-{len(looks)}": 1} if len(looks) < 3 else {}

    monkeypatch.setattr(times, "sleep", wait)
    assert parsed(cli("nodes", "drain", "node-c", "--wait", "-o", "json"))["drained"] is True
    assert len(looks) == 3


def test_a_drained_node_that_is_not_up_can_be_undrained_and_an_unknown_one_not(cli: Cli, scene: Scene) -> None:
    assert cli("nodes", "drain", "node-z").exit_code == 3
    assert cli("nodes", "undrain", "node-z").exit_code == 3
    asyncio.run(scene.backends.membership.drain("node-z", wanted=True))
    result = cli("nodes", "undrain", "node-z")
    assert result.exit_code == 0
    assert "node node-z is not up" in result.stderr
    assert cli("nodes", "undrain", "node-z").exit_code == 3


def test_a_node_is_shown_with_its_breakers_and_its_spool(cli: Cli, empty: Scene) -> None:
    spool = Backlog(12, 3400, NOON - timedelta(minutes=5))
    report = a_report("n1", breakers={"MongoDB": "open", "shop:443": "half-open"}, spool=spool, zones="2026a")
    asyncio.run(empty.backends.membership.report(report, 60.0))
    page = cli("nodes", "show", "n1").stdout
    assert "breakers   MongoDB open, shop:443 half-open" in page
    assert "spool      12 results, 3,400 bytes, waiting for MongoDB since 2026-11-21 11:55:00Z" in page
    shape = parsed(cli("nodes", "show", "n1", "-o", "json"))
    assert shape["breakers"] == {"MongoDB": "open", "shop:443": "half-open"}
    assert shape["spool"] == {"outcomes": 12, "bytes": 3400, "since": "2026-11-21T11:55:00Z"}
    assert shape["zones"] == "2026a"

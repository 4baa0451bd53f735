"""`cronflow jobs run`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cronflow.cli.commands.jobs import parse_args
from cronflow.cli.terminal import times
from cronflow.domain.errors import BackendUnavailable, InvalidInput
from cronflow.domain.run import Kind, Outcome, RunState
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import NOON, Scene


def finish_while_waiting(scene: Scene, monkeypatch: pytest.MonkeyPatch, *states: RunState, **fields: Any) -> None:
    """Each wait of the command moves the newest manual run to the next of these states."""
    steps = iter(states)

    async def wait(_seconds: float) -> None:
        runs: dict[str, Any] = scene.backends.documents.runs
        name = list(runs)[-1]
        runs[name] = replace(runs[name], state=next(steps), attempt=1, node="node-a#5f1c", **fields)

    monkeypatch.setattr(times, "sleep", wait)


def test_a_run_is_requested_and_its_id_is_printed(cli: Cli, scene: Scene) -> None:
    [name] = cli("jobs", "run", "rebuild-cache", "-o", "name").stdout.split()
    run = asyncio.run(scene.service.runs.get(name))
    assert (run.job, run.args, run.fire_at) == ("rebuild-cache", None, NOON)
    result = cli("jobs", "run", "rebuild-cache")
    assert result.stdout.startswith("requested rebuild-cache@manual-")
    assert "cronflow runs show rebuild-cache@manual-" in result.stderr


@pytest.mark.usefixtures("scene")
def test_arguments_reach_the_run(cli: Cli) -> None:
    shape = parsed(cli("jobs", "run", "rebuild-cache", "--arg", "n=3", "--arg", "region=eu", "-o", "json"))
    assert shape["args"] == {"n": 3, "region": "eu"}
    assert shape["state"] == "retrying"


def test_arguments_are_parsed_as_json_if_possible() -> None:
    pairs = ["a=1", 'b="1"', "c=[1,null]", "d=true", "e=", "f=x=y", "g={", "h=NaN"]
    assert parse_args(pairs) == {
        "a": 1,
        "b": "1",
        "c": [1, None],
        "d": True,
        "e": "",
        "f": "x=y",
        "g": "{",
        "h": "NaN",
    }


def test_every_wrong_argument_is_reported() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_args(["alone", "a b=1", "a=1", "a=2"])
    assert [problem.what for problem in caught.value.problems] == [
        "'alone' is not KEY=VALUE",
        "'a b=1' is not KEY=VALUE",
        "a is given twice",
    ]


def test_arguments_for_a_command_job_are_refused(cli: Cli, scene: Scene) -> None:
    result = cli("jobs", "run", "reindex-search", "--arg", "a=1")
    assert result.exit_code == 2
    assert "reindex-search is not a Python job" in result.stderr
    assert scene.backends.faults.calls["runs.insert"] == 1  # the scene's own


def test_waiting_shows_the_outcome(cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {"started_at": NOON, "ended_at": NOON, "result": {"rows": 42}, "outcome": Outcome.OK}
    finish_while_waiting(scene, monkeypatch, RunState.DISPATCHED, RunState.RUNNING, RunState.SUCCEEDED, **ended)
    result = cli("jobs", "run", "rebuild-cache", "--wait")
    assert result.exit_code == 0
    assert "result   rows: 42" in result.stdout
    assert result.stderr.splitlines()[2:] == [
        "◌ waiting for a node",
        "◌ dispatched, node-a",
        "▶ running, node-a",
    ]


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        (RunState.SUCCEEDED, Outcome.OK, 0),
        (RunState.FAILED, Outcome.ERROR, 4),
        (RunState.CANCELLED, Outcome.CANCELLED, 4),
        (RunState.LOST, Outcome.LOST, 4),
        (RunState.SKIPPED, Outcome.SKIPPED, 0),
        (RunState.SKIPPED, None, 4),
    ],
)
def test_the_exit_code_is_that_of_the_outcome(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch, state: RunState, outcome: Outcome | None, code: int
) -> None:
    finish_while_waiting(scene, monkeypatch, state, outcome=outcome, error="it broke", ended_at=NOON)
    result = cli("jobs", "run", "rebuild-cache", "--wait", "-o", "json")
    assert result.exit_code == code
    assert f'"state": "{state}"' in result.stdout


def test_waiting_ends_after_the_timeout_and_the_run_continues(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--wait` for a job that no node could take waited for ever."""
    clock = [NOON]

    async def sleep(seconds: float) -> None:
        clock[0] += timedelta(seconds=seconds)

    monkeypatch.setattr(times, "now", lambda: clock[0])
    monkeypatch.setattr(times, "sleep", sleep)
    result = cli("jobs", "run", "rebuild-cache", "--wait", "--timeout", "30s")
    assert result.exit_code == 1
    assert clock[0] - NOON == timedelta(seconds=30)
    [run] = [
        run for run in scene.backends.documents.runs.values() if run.kind is Kind.MANUAL and run.created_at == NOON
    ]
    assert f"run {run.id} has not ended after 30s: it is retrying, and continues" in " ".join(result.stderr.split())
    assert run.is_open
    assert cli("jobs", "run", "rebuild-cache", "--timeout", "30s").exit_code == 2


def test_a_run_that_no_live_node_can_take_is_requested_with_the_reason_of_each(cli: Cli, scene: Scene) -> None:
    asyncio.run(scene.service.jobs.amend("rebuild-cache", lambda job: replace(job, require={"gpu": "h100"})))
    result = cli("jobs", "run", "rebuild-cache")
    assert result.exit_code == 0
    shown = " ".join(result.stderr.split())
    for node in ("node-a", "node-b", "node-c"):
        assert f"{node}: no label gpu (needs gpu=h100)" in shown
    assert "the run waits for a node" in shown


def test_without_a_node_the_run_is_requested_and_a_warning_printed(cli: Cli, empty: Scene) -> None:
    asyncio.run(empty.fill())
    empty.backends.memory.reports.clear()
    result = cli("jobs", "run", "rebuild-cache")
    assert result.exit_code == 0
    assert "no nodes are up: the run waits for one; start one: cronflow node" in result.stderr


def test_servers_that_fail_while_waiting_exit_5_after_the_id_is_printed(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_seconds: float) -> None:
        raise BackendUnavailable("MongoDB", "db:27017", "connection refused")

    monkeypatch.setattr(times, "sleep", away)
    result = cli("jobs", "run", "rebuild-cache", "--wait")
    assert result.exit_code == 5
    assert "requested rebuild-cache@manual-" in result.stderr
    assert "MongoDB at db:27017 is unavailable" in result.stderr
    assert scene.opened == 1


def test_waiting_for_a_retry_prints_when_it_is_due(cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    later = NOON + timedelta(seconds=30)
    finish_while_waiting(scene, monkeypatch, RunState.RETRYING, RunState.FAILED, check_at=later, outcome=Outcome.ERROR)
    assert "↻ retrying, next try in 30s" in cli("jobs", "run", "rebuild-cache", "--wait").stderr.splitlines()

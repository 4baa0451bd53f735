"""`cronflow jobs why` and `jobs history`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from cronflow.domain.placement import Placement, Waiting
from cronflow.domain.run import Attempt, Outcome, Resolution, Run, RunState, Settled
from cronflow.domain.schedule.kinds import Every
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import FAILED, FENCE, NOON, RETRYING, SUCCEEDED, Scene, ago, job, run
from tests.contracts.builders import an_ended_run

PLACED = Placement("node-a#5f1c", 0.31, (("node-b#77aa", "draining"), ("node-c#0c44", 1.5)), 2)


def record(scene: Scene, name: str, **fields: Any) -> None:
    records: dict[str, Any] = scene.backends.documents.jobs
    records[name] = replace(records[name], **fields)


def change(scene: Scene, name: str, **fields: Any) -> None:
    runs: dict[str, Any] = scene.backends.documents.runs
    runs[name] = replace(runs[name], **fields)


def titles(text: str) -> list[str]:
    """The links, by glyph and title."""
    return [line[:14].strip() for line in text.splitlines()[2:] if line[:1].strip() and line[0] in "✓✗…↷▶⊘?"]


def test_a_failed_fire_is_explained_step_by_step(cli: Cli, scene: Scene) -> None:
    change(scene, FAILED, placement=PLACED)
    shown = cli("jobs", "why", "nightly-report").stdout
    assert shown.splitlines()[0] == "nightly-report  2026-11-21 01:00:00Z  11h ago"
    assert titles(shown) == [
        "✓ due", "✓ on time", "✓ overlap", "✓ placed", "✓ dispatched", "✓ started",
        "✗ attempt 1", "✗ attempt 2", "✗ attempt 3", "✗ attempt 4", "✗ failed",
    ]  # fmt: skip
    assert "at 02:00 every day (Europe/Berlin)" in shown
    assert "node-a#5f1c, rank 0.31 (lowest rank wins)" in shown
    assert "not node-b#77aa: draining" in shown
    assert "not node-c#0c44: rank 1.5" in shown
    assert "and 2 more nodes" in shown
    assert f"by term 7, fence {FENCE}" in shown
    assert "ValueError: no rows for 2026-11-20" in shown
    assert f"cronflow runs retry {FAILED}" in shown


@pytest.mark.usefixtures("scene")
def test_json_has_an_object_for_each_link(cli: Cli) -> None:
    answer = parsed(cli("jobs", "why", "nightly-report", "2026-11-21T02:00:00+01:00", "-o", "json"))
    assert (answer["job"], answer["at"], answer["run"]) == ("nightly-report", "2026-11-21T01:00:00Z", FAILED)
    steps = [link["step"] for link in answer["chain"]]
    assert steps == ["due", "lateness", "overlapping", "placed", "dispatched", "started", *["tried"] * 4, "ended"]
    by_step = {link["step"]: link for link in answer["chain"]}
    assert by_step["lateness"] == {
        "step": "lateness",
        "late_ms": 0,
        "late_after_ms": 60000,
        "missed": False,
        "policy": "fire_once",
        "covers": None,
        "skipped": False,
    }
    assert by_step["ended"]["dead"] is True
    assert by_step["tried"]["attempt"]["outcome"] == "error"
    yaml_answer = yaml.safe_load(cli("jobs", "why", "nightly-report", "-o", "yaml").stdout)
    assert yaml_answer == answer
    assert cli("jobs", "why", "nightly-report", "-o", "name").stdout == f"{FAILED}\n"


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("time", ["-10h", "now", "-11h"])
def test_a_time_ago_means_the_last_instant_until_then(cli: Cli, time: str) -> None:
    assert parsed(cli("jobs", "why", "nightly-report", time, "-o", "json"))["at"] == "2026-11-21T01:00:00Z"


@pytest.mark.usefixtures("scene")
def test_an_instant_outside_the_schedule_names_the_nearest_ones(cli: Cli) -> None:
    shown = cli("jobs", "why", "nightly-report", "2026-11-21T03:00:00Z").stdout
    assert titles(shown) == ["✗ not due"]
    assert "the schedule has no fire at this time (at 02:00 every day (Europe/Berlin))" in shown
    assert "previous: 2026-11-21 01:00:00Z" in shown
    assert "next: 2026-11-22 01:00:00Z" in shown


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-11-21T02:00:00", "has no time zone"),
        ("yesterday", "neither an instant nor a duration such as -2h"),
        ("-later", "neither an instant nor a duration such as -2h"),
        ("--job", "neither an instant nor a duration such as -2h"),
    ],
)
def test_an_ambiguous_time_is_refused(cli: Cli, time: str, expected: str) -> None:
    result = cli("jobs", "why", "nightly-report", time)
    assert (result.exit_code, expected in result.stderr) == (2, True)


@pytest.mark.usefixtures("scene")
def test_help_works_although_a_time_may_begin_with_minus(cli: Cli) -> None:
    result = cli("jobs", "why", "--help")
    assert (result.exit_code, "schedule to the outcome" in " ".join(result.stdout.split())) == (0, True)


@pytest.mark.usefixtures("scene")
def test_a_job_that_does_not_exist_exits_3_and_names_the_nearest(cli: Cli) -> None:
    result = cli("jobs", "why", "nightly-reprot")
    assert (result.exit_code, "did you mean nightly-report?" in result.stderr) == (3, True)


def test_a_retry_shows_when_it_is_due_and_what_it_waits_for(cli: Cli, scene: Scene) -> None:
    assert "attempt 4 in 1m 30s" in cli("jobs", "why", "send-invoices", instant(RETRYING)).stdout
    waiting = Waiting(
        fire=ago(hours=1),
        since=ago(minutes=5),
        reason="no node can run this job",
        nodes=(("node-b#77aa", "draining"),),
    )
    change(scene, RETRYING, waiting=waiting)
    shown = cli("jobs", "why", "send-invoices", instant(RETRYING)).stdout
    assert "attempt 4: no node can run this job, since 2026-11-21 11:55:00Z" in shown
    assert "not node-b#77aa: draining" in shown


def instant(run_id: str) -> str:
    return f"{datetime.strptime(run_id.partition('@')[2], '%Y%m%dT%H%M%SZ').isoformat()}Z"  # noqa: DTZ007


def test_a_waiting_fire_names_the_blocking_run_and_the_time(cli: Cli, scene: Scene) -> None:
    fire = ago(minutes=1)
    waiting = Waiting(fire=fire, since=ago(seconds=55), reason="another run of this job is open", blocked_by="x@1")
    record(scene, "health-ping", next_fire=fire, waiting=waiting)
    nothing_open(scene, "health-ping")
    shown = cli("jobs", "why", "health-ping", "2026-11-21T11:59:00Z").stdout
    assert titles(shown) == ["✓ due", "… waits"]
    assert "another run of this job is open, since 2026-11-21 11:59:05Z (55s ago)" in shown
    assert "cronflow runs show x@1" in shown


def test_a_skipped_overlap_names_the_blocking_run(cli: Cli, scene: Scene) -> None:
    change(scene, "sync-tokens@20261121T115830Z", blocked_by="sync-tokens@20261121T115800Z", attempt=0, node=None)
    shown = cli("jobs", "why", "sync-tokens", "2026-11-21T11:58:30Z").stdout
    assert "run sync-tokens@20261121T115800Z was open, and the job has overlap: forbid" in shown
    assert titles(shown)[2] == "↷ overlap"


def nothing_open(scene: Scene, name: str) -> None:
    """Start the dispatched run: an edit waits for it, and the clock stands still."""
    runs: dict[str, Any] = scene.backends.documents.runs
    for one in [one for one in runs.values() if one.job == name and one.is_open]:
        del runs[one.id]


def test_a_skipped_fire_of_a_paused_job_names_the_edit(cli: Cli, scene: Scene) -> None:
    nothing_open(scene, "health-ping")
    asyncio.run(scene.service.jobs.pause("health-ping", by="bob@desk"))
    scene.clock.step(timedelta(minutes=5))
    shown = cli("jobs", "why", "health-ping", "2026-11-21T12:03:00Z").stdout
    assert titles(shown) == ["✓ due", "↷ paused"]
    assert "by version 2, since 2026-11-21 12:00:00Z by bob@desk" in shown
    assert "it will be recorded as skipped when the job is resumed" in shown


def test_an_upcoming_fire_shows_when_it_is_due(cli: Cli, scene: Scene) -> None:
    scene.backends.documents.breakers.clear()
    shown = cli("jobs", "why", "black-friday").stdout
    assert titles(shown) == ["✓ due", "… upcoming"]
    assert "due in 5d 17h" in shown


def test_a_missed_range_is_explained_for_each_of_its_instants(cli: Cli, scene: Scene) -> None:
    # The id of a run contains the first instant of its range, which was the cursor.
    first = datetime(2026, 11, 1, 4, 30, tzinfo=UTC)
    change(scene, "clean-uploads@20261115T043000Z", fire_at=first, created_at=ago(days=6))
    shown = cli("jobs", "why", "clean-uploads", "2026-11-08T04:30:00Z").stdout
    assert "one run covers 3 instants, 2026-11-01 04:30:00Z to 2026-11-15 04:30:00Z" in shown
    assert "… missed" in shown


def test_a_resolved_run_names_the_author_and_offers_no_actions(cli: Cli, scene: Scene) -> None:
    change(scene, FAILED, resolution=Resolution(Settled.ACKNOWLEDGED, NOON, "ann@desk", "known \x1b[31mred"))
    shown = cli("jobs", "why", "nightly-report").stdout
    assert "acknowledged 2026-11-21 12:00:00Z by ann@desk: known red" in shown
    assert "runs retry" not in shown


def test_the_text_of_an_error_cannot_control_the_terminal(cli: Cli, scene: Scene) -> None:
    made = run(
        "sync-tokens", ago(seconds=300), RunState.FAILED, outcome=Outcome.ERROR, error="\x1b]0;title\x07 bad\nmore"
    )
    asyncio.run(scene.backends.runs.insert([made]))
    shown = cli("jobs", "why", "sync-tokens", "2026-11-21T11:55:00Z").stdout
    assert "\x1b" not in shown
    assert "more" not in shown.replace("nodes more", "")


def test_the_history_has_each_version_and_its_author(cli: Cli, scene: Scene) -> None:
    nothing_open(scene, "health-ping")

    async def edits() -> None:
        await scene.service.jobs.apply([job("health-ping", Every("2m"))], by="ann@desk")
        await scene.service.jobs.pause("health-ping", by="bob@desk")

    asyncio.run(edits())
    lines = cli("jobs", "history", "health-ping", columns=120).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]
    assert "bob@desk" in lines[1]
    assert "paused" in lines[1]
    assert "every 2 minutes" in lines[2]
    assert "every minute" in lines[3]
    answer = parsed(cli("jobs", "history", "health-ping", "-o", "json"))
    assert [(version["version"], version["state"], version["by"]) for version in answer] == [
        (1, "active", None),
        (2, "active", "ann@desk"),
        (3, "paused", "bob@desk"),
    ]
    assert answer[1]["job"]["schedule"] == {"every": "2m"} | answer[1]["job"]["schedule"]
    assert cli("jobs", "history", "missing").exit_code == 3


def test_a_deleted_job_is_still_explained(cli: Cli, scene: Scene) -> None:
    asyncio.run(scene.service.jobs.delete("nightly-report", by="bob@desk"))
    assert titles(cli("jobs", "why", "nightly-report").stdout)[-1] == "✗ failed"
    shown = cli("jobs", "history", "nightly-report", columns=120).stdout
    assert "deleted" in shown.splitlines()[1]
    assert SUCCEEDED not in shown


def test_a_run_is_explained_by_its_id_also_a_manual_one(cli: Cli, scene: Scene) -> None:
    run = asyncio.run(scene.service.jobs.trigger("rebuild-cache"))
    shown = cli("runs", "why", run).stdout
    assert "✓ requested" in shown
    assert "outside the schedule" in shown
    assert shown == cli("jobs", "why", "rebuild-cache").stdout
    assert cli("runs", "why", "nobody@1").exit_code == 3


def test_a_refusal_is_no_failed_attempt_and_a_waiting_run_shows_its_reasons_in_lists(cli: Cli, scene: Scene) -> None:
    asyncio.run(scene.service.jobs.amend("rebuild-cache", lambda job: replace(job, require={"gpu": "h100"})))
    run_id = asyncio.run(scene.service.jobs.trigger("rebuild-cache"))
    runs: dict[str, Run] = scene.backends.documents.runs
    declined = Attempt(1, 1, "node-a#5f1c", None, NOON, Outcome.DECLINED, "no shell here")
    nodes = (("node-a#5f1c", "no label gpu (needs gpu=h100)"),)
    waiting = Waiting(fire=NOON, since=NOON, reason="no node can run this job", nodes=nodes)
    runs[run_id] = replace(runs[run_id], attempts=(declined,), waiting=waiting)
    shown = cli("runs", "why", run_id).stdout
    assert "↷ given back" in shown
    for node in ("node-a", "node-b", "node-c"):
        assert f"not {node}#" in shown
    assert "no node can run this job" in cli("runs", "list", "--job", "rebuild-cache").stdout
    assert "no label gpu" in cli("runs", "show", run_id).stdout


@pytest.mark.usefixtures("scene")
def test_a_fire_of_a_job_whose_breaker_is_open_is_not_retried_if_it_fails(cli: Cli) -> None:
    shown = cli("jobs", "why", "black-friday").stdout
    assert titles(shown) == ["✓ due", "↷ no retries", "… upcoming"]
    assert "circuit breaker open: 14 of 20 attempts had failed by 2026-11-21 11:55:00Z" in shown
    assert "if it fails, it is not retried" in shown


def test_a_run_that_takes_longer_than_usual_shows_how_long_others_took(cli: Cli, scene: Scene) -> None:
    run_id = asyncio.run(scene.service.jobs.trigger("rebuild-cache"))
    change(scene, run_id, state=RunState.RUNNING, node="node-a#5f1c", attempt=1, started_at=ago(minutes=10))
    assert "longer than usual" not in cli("runs", "why", run_id).stdout
    for day in range(1, 13):
        fire = ago(days=day)
        ended = an_ended_run("rebuild-cache", fire, fire + timedelta(seconds=30), node="node-a#5f1c", fence=day)
        asyncio.run(scene.backends.runs.insert([ended]))
    assert "longer than usual: 95 % of the last 12 runs took at most 30" in cli("runs", "why", run_id).stdout
    [link] = [link for link in parsed(cli("runs", "why", run_id, "-o", "json"))["chain"] if link["step"] == "runs"]
    assert (link["usual_ms"], link["usual_of"], link["long"]) == (30_000, 12, True)

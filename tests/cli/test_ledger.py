"""`cronflow ledger`, directly and through the API: a cluster with every kind of instant, and files of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cronflow.cli import connect
from cronflow.domain.job import JobRecord, PendingRun
from cronflow.domain.run import Covers, Run, RunState, run_id
from cronflow.domain.schedule.calendar import Calendar, YearlyDay
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.domain.version import version_of
from cronflow.schemas import iso
from tests.cli.conftest import Cli
from tests.cli.scene import NOON, Scene, ago, job, run
from tests.cli.served import Served, serving

DAY = timedelta(days=1)
SIX_HOURS = ("--from", "2026-11-21T06:00:00Z", "--to", "2026-11-21T12:00:00Z")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture
def ledger(empty: Scene) -> Scene:
    """A cluster whose `hourly` has a run for each hour until now."""
    asyncio.run(filled(empty))
    return empty


@pytest.fixture(params=["direct", "api"])
def reached(
    request: pytest.FixtureRequest, ledger: Scene, server: Served, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    """The same, reached in both ways."""
    monkeypatch.setattr(connect, "author", lambda: "admin")
    if request.param == "api":
        server.serve(ledger)
        server.log_in(cli)
        monkeypatch.setattr(connect, "open_service", None)
    return ledger


async def filled(scene: Scene) -> None:
    scene.clock.step(-2 * DAY)
    jobs = [job("hourly", Cron("0 * * * *")), job("gone", Cron("30 * * * *")), job("by-hand")]
    jobs.append(job("chained", Every("1h", after_completion=True)))
    assert await scene.backends.calendars.put(Calendar(name="closed", days=(YearlyDay(11, 11),)), 0, "ada", NOON)
    jobs.append(job("month-end", Cron("0 9 * * *", business_day=(14,), calendars=("closed",))))
    await scene.service.jobs.apply(jobs)
    scene.clock.step(2 * DAY - timedelta(hours=4))
    late = [ago(hours=hour, minutes=30) for hour in (5, 4)]
    await scene.backends.runs.insert([run("gone", at, RunState.SUCCEEDED) for at in late])
    await planned(scene, "gone", late[-1])
    await scene.service.jobs.delete("gone", by="ada")
    scene.clock.step(timedelta(hours=4))
    await scene.backends.runs.insert([hourly(hour) for hour in range(1, 7)])
    await scene.backends.runs.insert([run("chained", ago(hours=2, seconds=7), RunState.SUCCEEDED)])
    await planned(scene, "hourly", ago(hours=1))
    await planned(scene, "month-end", ago(hours=27))
    await scene.backends.runs.insert([run("month-end", ago(hours=27), RunState.SUCCEEDED)])


def hourly(hours_ago: float, state: RunState = RunState.SUCCEEDED, **fields: Any) -> Run:
    return run("hourly", ago(hours=hours_ago), state, **fields)


async def planned(scene: Scene, name: str, fire: Any) -> None:
    """Let the planner have passed this instant."""
    [record] = await scene.backends.jobs.get([name])
    pending = PendingRun(fire=fire, state=RunState.DISPATCHED, fence=1, job_ver=record.ver, at=fire)
    cursor = fire + timedelta(hours=1)
    assert await scene.backends.jobs.replace(
        replace(record, next_fire=cursor, due_at=cursor, pending_run=pending), record.rev
    )


async def replaced(scene: Scene, *runs: Run) -> None:
    """Store these runs instead of those with their ids; a run without a state is removed."""
    for one in runs:
        scene.backends.documents.runs.pop(one.id, None)
    await scene.backends.runs.insert(runs)


def without(scene: Scene, hours_ago: int) -> None:
    scene.backends.documents.runs.pop(run_id("hourly", ago(hours=hours_ago)))


def check(cli: Cli, *words: str, code: int = 0) -> Any:
    result = cli("ledger", "check", *SIX_HOURS, *words, "-o", "json")
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    return {one["job"]: one for one in found["jobs"]} | {"": found}


def test_a_cluster_that_lost_nothing_passes(reached: Scene, cli: Cli) -> None:
    found = check(cli)
    assert found.keys() == {"", "hourly", "gone", "chained"}
    assert found["hourly"]["ran"] == {"succeeded": 6}
    assert found["hourly"]["due"] == 6
    # A deleted job counts until its deletion, and nobody can derive what follows the end of a run.
    assert (found["gone"]["due"], found["gone"]["ran"]) == (2, {"succeeded": 2})
    assert (found["chained"]["due"], found["chained"]["not_derivable"]) == (0, 1)
    shown = cli("ledger", "check", *SIX_HOURS)
    assert shown.exit_code == 0
    assert "✓ none of 8 instants is lost or doubled" in shown.stdout
    assert "chained: 1 run not derivable" in shown.stdout


def test_business_days_are_those_of_the_calendar_to_which_the_job_was_bound(reached: Scene, cli: Cli) -> None:
    words = ("--from", "2026-11-20T00:00:00Z", "--to", "2026-11-21T00:00:00Z", "--job", "month-end", "-o", "json")
    [found] = json.loads(cli("ledger", "check", *words).stdout)["jobs"]
    assert (found["due"], found["ran"], found["unexpected"]) == (1, {"succeeded": 1}, 0)


def test_an_instant_without_a_run_fails_the_check(ledger: Scene, cli: Cli) -> None:
    without(ledger, 4)
    found = check(cli, code=1)
    assert (found["hourly"]["lost"], found["hourly"]["ran"]) == (1, {"succeeded": 5})
    assert [one["instant"] for one in found[""]["violations"]] == ["2026-11-21T08:00:00Z"]
    shown = cli("ledger", "check", *SIX_HOURS)
    assert shown.exit_code == 1
    assert "lost: hourly at 2026-11-21 08:00:00Z" in shown.stdout
    assert cli("ledger", "check", *SIX_HOURS, "-o", "name").stdout == "hourly 2026-11-21T08:00:00Z\n"
    assert cli("ledger", "check", *SIX_HOURS, "--job", "gone").exit_code == 0


def test_two_runs_for_an_instant_fail_the_check(ledger: Scene, cli: Cli) -> None:
    wide = hourly(5, covers=Covers(ago(hours=5), ago(hours=4), 2))
    asyncio.run(replaced(ledger, wide))
    found = check(cli, code=1)
    assert (found["hourly"]["doubled"], found["hourly"]["covered"]) == (1, {"succeeded": 1})
    shown = cli("ledger", "check", *SIX_HOURS).stdout
    assert f"doubled: hourly at 2026-11-21 08:00:00Z: {wide.id}, hourly@20261121T080000Z" in shown


def test_a_run_that_began_before_the_span_may_cover_its_first_instants(ledger: Scene, cli: Cli) -> None:
    without(ledger, 6)
    without(ledger, 5)
    wide = hourly(9, RunState.SKIPPED, reason="misfire", covers=Covers(ago(hours=9), ago(hours=5), 5))
    asyncio.run(replaced(ledger, wide))
    assert check(cli)["hourly"]["missed"] == {"misfire": 2}


def test_a_run_without_a_document_yet_counts(ledger: Scene, cli: Cli) -> None:
    without(ledger, 1)
    found = check(cli)
    assert (found["hourly"]["open"], found["hourly"]["lost"]) == (1, 0)


def test_what_is_due_and_not_planned_yet_waits(ledger: Scene, cli: Cli) -> None:
    without(ledger, 1)
    without(ledger, 2)
    asyncio.run(planned(ledger, "hourly", ago(hours=3)))
    found = check(cli)
    assert (found["hourly"]["waiting"], found["hourly"]["ran"]) == (2, {"succeeded": 4})


def cleanup(started: float, **result: object) -> Run:
    """A run of the clean-up so many hours ago."""
    at = ago(hours=started)
    return replace(run("_sys:cleanup", at, RunState.SUCCEEDED), started_at=at, result=result or None)


@pytest.mark.parametrize(
    ("runs", "not_judged"),
    [
        ([cleanup(1, runs=5, before=iso(ago(hours=4)))], 2),
        ([cleanup(1, runs=5, before=iso(ago(hours=4))), cleanup(0.5, runs=0, before=iso(ago(hours=9)))], 2),
        # It did not say what it deleted: as long as runs were kept at least.
        ([cleanup(9, runs=5, before=iso(ago(hours=12))), cleanup(1)], 2),
        ([cleanup(1, runs=0)], 0),
        ([cleanup(1, runs=7)], 0),
    ],
)
def test_instants_older_than_the_runs_that_are_kept_are_not_judged(
    ledger: Scene, cli: Cli, runs: list[Run], not_judged: int
) -> None:
    for hours in (6, 5):
        without(ledger, hours)
    asyncio.run(replaced(ledger, *runs))
    found = check(cli, "--job", "hourly", code=0 if not_judged else 1)
    assert (found["hourly"]["not_judged"], found["hourly"]["lost"]) == (not_judged, 2 - not_judged)
    if not_judged:
        assert "not judged: no run" in cli("ledger", "check", *SIX_HOURS).stdout


def test_a_version_that_an_earlier_job_of_the_name_left_is_not_used(ledger: Scene, cli: Cli) -> None:
    [record] = asyncio.run(ledger.backends.jobs.get(["hourly"]))
    anew: JobRecord = replace(record, ver=2, created_at=ago(hours=3), updated_at=ago(hours=2), since=ago(hours=2))
    assert asyncio.run(ledger.backends.jobs.replace(anew, record.rev))
    old = replace(version_of(record), at=ago(hours=99), since=ago(hours=99))
    asyncio.run(ledger.backends.versions.keep([old]))
    found = check(cli)
    assert (found["hourly"]["due"], found["hourly"]["known_from"]) == (2, iso(ago(hours=2)))
    assert found["hourly"]["not_derivable"] == 4


def test_an_exported_file_is_whole_and_one_that_was_changed_is_not(reached: Scene, cli: Cli, tmp_path: Path) -> None:
    without(reached, 4)
    file = tmp_path / "ledger.jsonl"
    exported = cli("ledger", "export", str(file), *SIX_HOURS, "-o", "json")
    assert exported.exit_code == 0, exported.output
    done = json.loads(exported.stdout)
    assert (done["entries"], done["lost"], done["doubled"]) == (9, 1, 0)
    reached.opened = 0
    verified = cli("ledger", "verify", str(file), "--hash", done["sha256"])
    assert (verified.exit_code, reached.opened) == (0, 0), verified.output
    assert "✓ the file is whole: 9 entries" in verified.stdout
    assert "--hash" not in verified.stdout
    assert "compare the SHA-256" in cli("ledger", "verify", str(file)).stdout
    header, *rest = [json.loads(line) for line in file.read_text().splitlines()]
    assert {key: header[key] for key in ("namespace", "exported_by", "from", "to", "until", "exported_at", "jobs")} == {
        "namespace": "default",
        "exported_by": "admin",
        "from": "2026-11-21T06:00:00Z",
        "to": "2026-11-21T12:00:00Z",
        "until": "2026-11-21T12:00:00Z",
        "exported_at": "2026-11-21T12:00:00Z",
        "jobs": None,
    }
    assert [line["job"] for line in rest if line["type"] == "job"] == ["chained", "gone", "hourly", "month-end"]
    file.write_text(file.read_text().replace("succeeded", "failed", 1))
    changed = cli("ledger", "verify", str(file))
    assert changed.exit_code == 1
    assert "✗ line 3 changed: its hash is not the one that line 4 contains" in changed.stdout
    wrong = cli("ledger", "verify", str(file), "-o", "json")
    assert json.loads(wrong.stdout)["flaw"]["line"] == 3
    again = cli("ledger", "export", str(file), *SIX_HOURS)
    assert again.exit_code == 2
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("check", "--from", "1h", "--to", "2h"), "is not before"),
        (("check", "--from", "2027-01-01T00:00:00Z", "--to", "2027-01-02T00:00:00Z"), "is in the future"),
        (("check", "--from", "soon"), "--from: 'soon' is neither"),
        (("verify", "ledger.jsonl", "--hash", "12"), "--hash: is no SHA-256"),
        (("verify", "ledger.jsonl"), "cannot be read"),
    ],
)
def test_wrong_input_is_refused(cli: Cli, empty: Scene, words: tuple[str, ...], message: str) -> None:
    result = cli("ledger", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert empty.opened == 0


def test_a_job_that_never_was_is_refused(reached: Scene, cli: Cli) -> None:
    result = cli("ledger", "check", *SIX_HOURS, "--job", "hourlyy")
    assert result.exit_code == 3
    assert "did you mean hourly?" in result.stderr


def test_an_empty_span_has_nothing_due(ledger: Scene, cli: Cli) -> None:
    shown = cli("ledger", "check", "--from", "2026-11-21T11:10:00Z", "--to", "2026-11-21T11:20:00Z")
    assert shown.exit_code == 0
    assert "Nothing was due." in shown.stdout

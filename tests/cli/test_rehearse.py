"""`cronflow rehearse`: the flags, the output, a cluster and no cluster, and the proof that nothing is executed."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from datetime import date, datetime, timedelta
from importlib import resources
from pathlib import Path

import pytest

from cronflow.cli import connect
from cronflow.domain.job import CommandTarget, HttpTarget
from cronflow.domain.run import RunState
from cronflow.domain.schedule.calendar import Calendar, DaySpan
from cronflow.domain.schedule.kinds import Cron, Every, Once
from cronflow.executors.command import CommandExecutor
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import NOON, Scene, job, run

FILE = """
jobs:
  - name: nightly-report
    schedule: {cron: "30 2 * * *", tz: Europe/Berlin}
    run: {shell: "touch executed"}
  - name: sync
    schedule: {every: 10m}
    run: {shell: "touch executed"}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "jobs.yaml").write_text(FILE)
    return tmp_path / "jobs.yaml"


@pytest.fixture
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CRONFLOW_REDIS_URL", "CRONFLOW_MONGO_URL"):
        monkeypatch.delenv(name, raising=False)

    def refuse(*_: object) -> None:
        raise AssertionError("a server was asked")

    monkeypatch.setattr(connect, "open_service", refuse)


@pytest.mark.usefixtures("_no_servers")
def test_files_are_rehearsed_without_any_server(cli: Cli, file: Path) -> None:
    found = parsed(cli("rehearse", "-f", str(file), "--dst", "-o", "json"))
    # The jobs use Berlin's time, whose next clock change after 2026-11-21 is on 2027-03-28 at 01:00 UTC.
    assert (found["first"], found["until"]) == ("2027-03-27T19:00:00Z", "2027-03-28T07:00:00Z")
    assert [run["fire_at"] for run in found["runs"] if run["job"] == "nightly-report"] == ["2027-03-28T01:00:00Z"]
    [change] = found["clock_changes"]
    assert (change["what"], change["local_first"]) == ("moved", "2027-03-28T02:30:00")
    # 72 of `sync`, and one.
    assert (found["summary"]["fires_due"], found["summary"]["on_time"]) == (73, 73)
    assert found["comparison"] is None


@pytest.mark.usefixtures("_no_servers")
def test_nothing_of_a_job_is_executed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was executed")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", refuse)
    monkeypatch.setattr(CommandExecutor, "run", refuse)
    (tmp_path / "shop.py").write_text("from pathlib import Path\nPath('executed').touch()\ndef report(): ...\n")
    (tmp_path / "jobs.yaml").write_text(
        FILE
        + "  - {name: python, schedule: {every: 10m}, run: {python: 'shop:report'}}\n"
        + "  - {name: http, schedule: {every: 10m}, run: {http: {url: 'http://127.0.0.1:9/'}}}\n"
    )
    found = parsed(cli("rehearse", "-f", "jobs.yaml", "-o", "json"))
    assert {run["job"] for run in found["runs"] if run["state"] == "succeeded"} == {
        "nightly-report",
        "sync",
        "python",
        "http",
    }
    assert not (tmp_path / "executed").exists()


@pytest.mark.usefixtures("_no_servers")
def test_the_table_shows_what_is_notable_within_80_columns(cli: Cli, file: Path) -> None:
    result = cli("rehearse", "-f", str(file), "--outage", "6h", "--duration", "15m", columns=80)
    assert result.exit_code == 0
    assert "cluster was down" in " ".join(result.stdout.split())
    assert "sync skipped" in result.stdout
    assert "outage          Sat 21 Nov 13:00 UTC to Sat 21 Nov 19:00 UTC" in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "assumed 3 nodes with 16 slots each" in result.stderr


@pytest.mark.usefixtures("_no_servers")
def test_the_output_is_bounded_and_counts_what_is_left_out(cli: Cli, tmp_path: Path) -> None:
    lines = [f"  - {{name: job-{n:02}, schedule: {{every: 10m}}, run: {{shell: 'true'}}}}" for n in range(60)]
    (tmp_path / "jobs.yaml").write_text("\n".join(["jobs:", *lines]))
    result = cli("rehearse", "-f", "jobs.yaml", "--until", "1h", "--duration", "15m", "--slots", "100", columns=100)
    # One line for each job, whose second fire is skipped.
    assert "and 20 more (20 skipped); -o json has all" in result.stdout
    (tmp_path / "beat.yaml").write_text("{name: beat, schedule: {every: 1s}, run: {shell: 'true'}}")
    result = cli("rehearse", "-f", "beat.yaml", "--until", "12h", columns=100)
    assert "left out, because it fires too often: beat (43,200 fires)" in result.stderr


@pytest.mark.usefixtures("_no_servers")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--offline",), "there are no jobs without a cluster"),
        (("--dst", "--from", "1h"), "cannot be combined with --dst"),
        (("--at", "2027-01-01T00:00Z", "--until", "2d"), "cannot be combined with --at"),
        (("--zone", "Europe/Berlin"), "it only chooses the clock change of --dst"),
        (("--tzdata", "nowhere"), "is not a folder"),
        (("--until", "2026-11-20T00:00Z"), "not after the beginning"),
        (("--until", "90d"), "at most 35 are possible"),
        (("--kill-leader", "10m", "--nodes", "1"), "nobody could take over"),
        (("--job", "absent-*"), "no job matches"),
        (("-o", "yaml"), "use table or json"),
    ],
)
def test_bad_usage_exits_with_2(cli: Cli, file: Path, flags: tuple[str, ...], message: str) -> None:
    files = () if flags == ("--offline",) else ("-f", str(file))
    result = cli("rehearse", *files, *flags)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")


def test_the_jobs_of_a_cluster_are_rehearsed_and_left_as_they_are(cli: Cli, scene: Scene) -> None:
    before = dict(scene.backends.documents.jobs), dict(scene.backends.documents.runs)
    found = parsed(cli("rehearse", "--until", "1h", "-o", "json"))
    assert found["first"] == "2026-11-21T12:00:00Z"
    assert {"reindex-search", "sync-tokens"} <= {run["job"] for run in found["runs"]}
    assert {node["name"] for node in found["nodes"]} >= {"node-a"}
    assert (dict(scene.backends.documents.jobs), dict(scene.backends.documents.runs)) == before


def test_durations_come_from_history(cli: Cli, empty: Scene) -> None:
    async def fill() -> None:
        await empty.service.jobs.apply([job("report", Cron("0 * * * *")), job("new", Cron("0 * * * *"))])
        # 1, 2, … 10 minutes: the median is the fifth, the 95th percentile the tenth.
        for n in range(1, 11):
            fire = NOON - timedelta(hours=n)
            ended = fire + timedelta(minutes=n)
            one = replace(run("report", fire, RunState.SUCCEEDED), started_at=fire, ended_at=ended)
            empty.backends.documents.runs[one.id] = one

    asyncio.run(fill())

    def minutes(*flags: str) -> dict[str, int]:
        found = parsed(cli("rehearse", "-o", "json", "--duration", "2m", "--until", "2h", *flags))
        assert found["durations_from_history"] == 1
        return {
            one["job"]: round(found["summary"]["fires_due"] and _minutes(one["started_at"], one["ended_at"]))
            for one in found["runs"]
        }

    assert minutes() == {"report": 5, "new": 2}
    assert minutes("--durations", "p95") == {"report": 10, "new": 2}


def _minutes(started: str, ended: str) -> float:
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds() / 60


def test_a_file_shows_what_would_differ_after_applying_it(
    cli: Cli, empty: Scene, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a configured cluster only the file would be rehearsed.
    monkeypatch.setenv("CRONFLOW_REDIS_URL", "redis://127.0.0.1:1/0")
    jobs = [
        job("nightly-report", Cron("0 2 * * *", "Europe/Berlin"), target=CommandTarget("touch executed")),
        job("call", Every("1h"), target=HttpTarget("https://example.com/")),
    ]
    asyncio.run(empty.service.jobs.apply(jobs))
    found = parsed(cli("rehearse", "-f", str(file), "-o", "json"))
    report, sync = found["comparison"]["differences"]
    assert (report["job"], report["result"]) == ("nightly-report", "moved")
    assert (report["gone"], report["added"]) == (["2026-11-22T01:00:00Z"], ["2026-11-22T01:30:00Z"])
    # From 12:00 to 11:50 on the next day.
    assert (sync["job"], sync["result"], sync["after"]["runs"]) == ("sync", "created", 144)
    table = cli("rehearse", "-f", str(file), columns=100).stdout
    assert "-Sun 02:00 +Sun 02:30" in table
    assert "+ sync" in table


def test_other_zone_data_shows_which_fires_move(cli: Cli, empty: Scene, tmp_path: Path) -> None:
    (tmp_path / "zones" / "Europe").mkdir(parents=True)
    lagos = resources.files("tzdata") / "zoneinfo" / "Africa" / "Lagos"
    (tmp_path / "zones" / "Europe" / "Berlin").write_bytes(lagos.read_bytes())
    asyncio.run(empty.service.jobs.apply([job("report", Cron("0 6 * * *", "Europe/Berlin"))]))
    found = parsed(cli("rehearse", "--tzdata", "zones", "-o", "json"))
    # Without summer time, 06:00 stays 05:00 UTC on 2027-03-28.
    [one] = found["comparison"]["differences"]
    assert (one["gone"], one["added"]) == (["2027-03-28T04:00:00Z"], ["2027-03-28T05:00:00Z"])
    assert found["why"] == "the first difference between the two sets of zone data"


def test_a_killed_leader_and_labels(cli: Cli, empty: Scene) -> None:
    jobs = [job("a", Every("1m"), labels={"team": "billing"}), job("b", Every("1m"))]
    asyncio.run(empty.service.jobs.apply(jobs))
    found = parsed(
        cli("rehearse", "--label", "team=billing", "--kill-leader", "30m", "--at", "2026-11-21T13:00Z", "-o", "json")
    )
    assert {one["job"] for one in found["runs"]} == {"a"}
    assert found["killed_leader"] == "node-1"
    assert 5_000 < found["summary"]["leaderless_ms"] <= 31_000


def test_calendars_of_the_cluster_are_known(cli: Cli, empty: Scene) -> None:
    async def fill() -> None:
        fair = date(2026, 11, 22)
        await empty.service.calendars.define(Calendar(name="holidays", days=(DaySpan(fair, fair, "Fair"),)))
        await empty.service.jobs.apply([job("report", Cron("0 8 * * *", calendars=("holidays",)))])

    asyncio.run(fill())
    found = parsed(cli("rehearse", "--until", "2d", "-o", "json"))
    assert found["left_out"] == []
    # The fair is on Sunday. Its fire is due, whatever becomes of it.
    assert [one["fire_at"] for one in found["runs"]] == ["2026-11-22T08:00:00Z", "2026-11-23T08:00:00Z"]


def test_a_job_that_is_done_does_not_fire_again(cli: Cli, empty: Scene) -> None:
    async def fill() -> None:
        await empty.service.jobs.apply([job("once", Once(NOON)), job("report", Cron("0 * * * *"))])
        jobs = empty.backends.documents.jobs
        jobs["once"] = replace(jobs["once"], next_fire=None, due_at=None)

    asyncio.run(fill())
    found = parsed(cli("rehearse", "--until", "2h", "-o", "json"))
    assert {one["job"] for one in found["runs"]} == {"report"}
    assert [(one["job"], one["reason"]) for one in found["left_out"]] == [("once", "will not fire again")]


@pytest.mark.usefixtures("_no_servers")
def test_a_job_whose_calendar_is_unknown_is_left_out(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(
        FILE + "  - {name: closing, schedule: {cron: '0 18 * * *', calendars: [holidays]}, run: {shell: 'true'}}\n"
    )
    found = parsed(cli("rehearse", "-f", "jobs.yaml", "-o", "json"))
    [one] = found["left_out"]
    assert one["job"] == "closing"
    assert "holidays" in one["reason"]

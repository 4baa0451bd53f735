"""`cronflow jobs apply`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from cronflow.api.bodies import Deployment
from cronflow.cli import applying
from cronflow.cli.dev import inputs as dev_inputs
from cronflow.documents import complete_document, implicit_misfires, parse_job
from cronflow.domain.errors import BackendUnavailable, Conflict, InvalidInput
from cronflow.domain.job import Job, JobRecord, Misfire, PythonTarget, Retry
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.usecases.jobs import Comparison
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import Scene
from tests.cli.served import Served, serving
from tests.drawing import examples
from tests.test_documents import jobs as any_job

FILE = """
jobs:
  - name: nightly
    schedule: {cron: "0 2 * * *", tz: Europe/Berlin}
    run: {argv: [bin/report]}
  - name: tokens
    schedule: {every: 30s}
    run: {argv: [bin/tokens]}
"""

APP = """
from cronflow import App
shop = App("shop")
nothing = App("nothing")

@shop.job(every="1h")
def sweep(): ...
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with two jobs, in the working directory."""
    (tmp_path / "jobs.yaml").write_text(FILE)
    return "jobs.yaml"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with two apps, in the working directory."""
    (tmp_path / "shop_of_a_test.py").write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "shop_of_a_test"
    sys.modules.pop("shop_of_a_test", None)


@pytest.mark.usefixtures("empty")
def test_the_first_apply_creates_and_the_second_changes_nothing(cli: Cli, file: str) -> None:
    first = cli("jobs", "apply", "-f", file)
    assert first.exit_code == 0
    assert row(first, "nightly").startswith("+ created")
    assert row(first, "nightly").endswith("in 13h   2026-11-22 01:00:00Z")
    assert "2 jobs: 2 created, 0 changed, 0 unchanged" in first.stdout
    second = cli("jobs", "apply", "-f", file)
    assert row(second, "nightly").startswith("= unchanged")
    assert row(second, "tokens").startswith("= unchanged")
    assert "2 jobs: 0 created, 0 changed, 2 unchanged" in second.stdout


@pytest.mark.usefixtures("empty")
def test_a_change_is_applied_and_printed(cli: Cli, file: str, tmp_path: Path) -> None:
    cli("jobs", "apply", "-f", file)
    (tmp_path / file).write_text(FILE.replace("0 2 * * *", "0 3 * * *"))
    applied = parsed(cli("jobs", "apply", "-f", file, "-o", "json", "--days", "0"))
    assert applied == [
        {"name": "nightly", "result": "changed", "state": "active", "next_fire": "2026-11-22T02:00:00Z"},
        {"name": "tokens", "result": "unchanged", "state": "active", "next_fire": "2026-11-21T12:00:00Z"},
    ]


def test_a_dry_run_prints_each_difference_and_writes_nothing(cli: Cli, file: str, tmp_path: Path, empty: Scene) -> None:
    cli("jobs", "apply", "-f", file)
    changed = FILE.replace("0 2 * * *", "0 3 * * *").replace("[bin/tokens]}", "[bin/tokens]}\n    labels: {a: b}")
    (tmp_path / file).write_text(changed + "  - name: new\n    run: {argv: [x]}\n")
    before = asyncio.run(empty.service.backends.jobs.find())
    result = cli("jobs", "apply", "-f", file, "--dry-run")
    assert 'schedule.cron: "0 2 * * *" → "0 3 * * *"' in result.stdout
    assert 'labels.a: nothing → "b"' in result.stdout
    assert row(result, "new").split("  ")[0] == "+ created"
    assert "◇ by hand" in row(result, "new")
    assert asyncio.run(empty.service.backends.jobs.find()) == before


@pytest.mark.usefixtures("empty")
def test_a_dry_run_shows_the_runs_that_appear_and_vanish(cli: Cli, file: str, tmp_path: Path) -> None:
    cli("jobs", "apply", "-f", file)
    changed = FILE.replace("0 2 * * *", "0 2,3 * * SUN,MON").replace("30s", "45s")
    (tmp_path / file).write_text(changed + "  - {name: new, run: {argv: [x]}, schedule: {cron: 0 4 * * *}}\n")
    shown = cli("jobs", "apply", "-f", file, "--dry-run", columns=140).stdout
    assert "  + 2 runs appear: 2026-11-22T02:00:00Z, 2026-11-23T02:00:00Z\n" in shown
    fires = [f"2026-11-{day}T01:00:00Z" for day in range(24, 29)]
    assert f"  - 5 runs vanish: {', '.join(fires)}\n" in shown
    assert "  too many runs to compare: >10,000 before, >10,000 after" in shown
    assert "In the next 7 days, 9 runs would appear and 5 runs would vanish." in shown
    assert "The runs of 1 job are too many to compare, and not included." in shown
    assert (
        "In the next 1 day, 2 runs would appear and none would vanish."
        in cli("jobs", "apply", "-f", file, "--dry-run", "--days", "1").stdout
    )
    assert "appear" not in cli("jobs", "apply", "-f", file, "--dry-run", "--days", "0").stdout
    applied = cli("jobs", "apply", "-f", file)
    assert "In the next 7 days, 9 runs appear and 5 runs vanish." in applied.stdout
    assert "+2 -5" in row(applied, "nightly")
    assert cli("jobs", "apply", "-f", file, "--days", "93").exit_code == 2


@pytest.mark.usefixtures("empty")
def test_a_job_that_never_runs_again_is_called_out(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(
        "jobs:\n  - {name: over, run: {argv: [x]}, schedule: {every: 1h, end: 2026-01-01T00:00:00Z}}\n"
        "  - {name: past, run: {argv: [x]}, schedule: {at: 2026-01-01T00:00:00Z}, misfire: skip}\n"
    )
    for dry_run in (("--dry-run",), ()):
        shown = " ".join(cli("jobs", "apply", "-f", "jobs.yaml", *dry_run).stderr.split())
        assert "over: this job never runs again: its `end` has passed" in shown
        assert "past: its `at` has passed, so the run is recorded as skipped and the job never runs" in shown


@pytest.mark.usefixtures("scene")
def test_apply_warns_of_skipped_fires_and_of_jobs_that_no_live_node_can_run(cli: Cli, tmp_path: Path) -> None:
    jobs = "".join(f"\n  - {{name: gpu-{k}, run: {{argv: [x]}}, require: {{gpu: 'yes'}}}}" for k in range(7))
    (tmp_path / "jobs.yaml").write_text(f"{FILE}{jobs}")
    for dry_run in ((), ("--dry-run",)):
        result = cli("jobs", "apply", "-f", "jobs.yaml", *dry_run)
        assert result.exit_code == 0
        shown = " ".join(result.stderr.split())
        # One line for all of them.
        assert shown.count("no live node can run this job") == 1
        assert "gpu-0, gpu-1, gpu-2, gpu-3, gpu-4 and 2 more: no live node" in shown
        assert "node-a: no label gpu (needs gpu=yes)" in shown
    (tmp_path / "jobs.yaml").write_text(FILE.replace("30s", "45s"))
    for dry_run in (("--dry-run",), ()):
        result = cli("jobs", "apply", "-f", "jobs.yaml", *dry_run)
        assert "tokens: skips 1 fire due at 2026-11-21T12:00:00Z" in " ".join(result.stderr.split())


@pytest.mark.usefixtures("empty")
def test_a_dry_run_predicts_the_result_of_apply(cli: Cli, file: str, tmp_path: Path) -> None:
    cli("jobs", "apply", "-f", file)
    cli("jobs", "pause", "nightly")
    (tmp_path / file).write_text(FILE.replace("0 2 * * *", "30 12 * * *").replace("30s", "45s"))
    foretold = parsed(cli("jobs", "apply", "-f", file, "--dry-run", "-o", "json"))
    done = parsed(cli("jobs", "apply", "-f", file, "-o", "json"))
    assert [{key: job[key] for key in job if key != "changes"} for job in foretold] == done
    assert foretold[0]["changes"] == [{"field": "schedule.cron", "before": "0 2 * * *", "after": "30 12 * * *"}]


ONCE = """
jobs:
  - name: launch
    run: {argv: [bin/launch]}
    schedule:
      at: 2026-11-21T%s:00Z
"""
PASSED = (
    "once.yaml:6: jobs[0].schedule.at: 2026-11-21 11:58 UTC has passed, so the job would run at once"
    " (choose a later time, or add misfire: fire_once to run it now or misfire: skip to record it only)"
)


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_an_at_in_the_past_is_refused_at_its_line_unless_misfire_is_given(
    cli: Cli, tmp_path: Path, dry_run: Sequence[str], empty: Scene
) -> None:
    (tmp_path / "once.yaml").write_text(ONCE % "11:58")
    refused = cli("jobs", "apply", "-f", "once.yaml", *dry_run)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert PASSED in refused.stderr
    assert asyncio.run(empty.service.backends.jobs.find()) == []
    (tmp_path / "once.yaml").write_text((ONCE % "11:58") + "    misfire: fire_once\n")
    assert cli("jobs", "apply", "-f", "once.yaml", *dry_run).exit_code == 0


def test_an_app_is_refused_with_an_at_in_the_past_unless_misfire_is_given(
    cli: Cli, tmp_path: Path, module: str, empty: Scene
) -> None:
    later = "\n@shop.job(at='2026-11-21T11:58:00Z')\ndef launch(): ...\n"
    (tmp_path / f"{module}.py").write_text(APP + later)
    refused = cli("jobs", "apply", "--app", f"{module}:shop")
    assert refused.exit_code == 2
    assert f"{module}:launch: at: 2026-11-21 11:58 UTC has passed" in refused.stderr
    assert asyncio.run(empty.service.backends.jobs.find()) == []


@pytest.mark.usefixtures("empty")
def test_an_at_that_passes_after_the_job_was_applied_is_no_obstacle(cli: Cli, tmp_path: Path, empty: Scene) -> None:
    (tmp_path / "once.yaml").write_text(ONCE % "12:05")
    assert cli("jobs", "apply", "-f", "once.yaml").exit_code == 0
    asyncio.run(empty.clock.advance(3600))
    assert row(cli("jobs", "apply", "-f", "once.yaml"), "launch").startswith("= unchanged")
    (tmp_path / "once.yaml").write_text((ONCE % "12:05") + "    labels: {team: web}\n")
    assert row(cli("jobs", "apply", "-f", "once.yaml"), "launch").startswith("~ changed")
    (tmp_path / "once.yaml").write_text(ONCE % "12:06")
    assert cli("jobs", "apply", "-f", "once.yaml").exit_code == 2


@pytest.mark.usefixtures("empty")
def test_all_files_of_a_shell_pattern_are_applied(cli: Cli, file: str, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("name: third\nrun: {argv: [x]}\n")
    assert cli("jobs", "apply", "-f", file, "more.yaml", "-o", "name").stdout.split() == ["nightly", "tokens", "third"]


def test_files_and_apps_are_checked_before_a_server_is_contacted(
    cli: Cli, file: str, tmp_path: Path, empty: Scene
) -> None:
    (tmp_path / "bad.yaml").write_text("jobs:\n  - name: Bad Name\n    run: {argv: [x]}\n    timeot: 5m\n")
    result = cli("jobs", "apply", "-f", file, "-f", "bad.yaml", "-f", "gone.yaml", "--app", "nowhere_at_all:app")
    assert result.exit_code == 2
    assert result.stdout == ""
    problems = result.stderr.splitlines()
    assert sorted(line.partition(": ")[2].partition(":")[0] for line in problems) == [
        "bad.yaml",
        "bad.yaml",
        "gone.yaml",
        "nowhere_at_all",
    ]
    assert "did you mean timeout?" in result.stderr
    assert empty.opened == 0


@pytest.mark.usefixtures("empty")
def test_the_jobs_of_an_app_are_applied(cli: Cli, module: str) -> None:
    assert row(cli("jobs", "apply", "--app", f"{module}:shop"), "sweep").startswith("+ created")


def test_a_name_may_occur_once_in_files_and_apps_together(
    cli: Cli, module: str, file: str, tmp_path: Path, empty: Scene
) -> None:
    (tmp_path / file).write_text("name: sweep\nrun: {argv: [x]}\n")
    result = cli("jobs", "apply", "-f", file, "--app", f"{module}:shop", "--app", f"{module}:nothing")
    assert result.exit_code == 2
    assert f"{module}:shop: the name 'sweep' is used by the files" in result.stderr
    assert f"{module}:nothing: this App has no jobs" in result.stderr
    assert empty.opened == 0


@pytest.mark.usefixtures("empty")
def test_a_python_target_must_exist_unless_it_is_not_imported(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "py.yaml").write_text("name: there\nrun: {python: 'only_on_the_nodes:f'}\n")
    refused = cli("jobs", "apply", "-f", "py.yaml")
    assert refused.exit_code == 2
    assert "only_on_the_nodes does not import" in refused.stderr
    assert cli("jobs", "apply", "-f", "py.yaml", "--no-import").exit_code == 0


@pytest.mark.usefixtures("empty")
def test_jobs_without_a_retry_get_that_of_the_settings(cli: Cli, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_RETRY_MAX", "7")
    cli("jobs", "apply", "-f", file)
    assert parsed(cli("jobs", "show", "nightly", "-o", "json"))["retry"]["max"] == 7


ZONED = """
jobs:
  - {name: plain, run: {argv: [x]}, schedule: {cron: "0 2 * * *"}}
  - {name: own, run: {argv: [x]}, schedule: {cron: "0 2 * * *", tz: UTC}}
  - {name: daily, run: {argv: [x]}, schedule: {every: 1d, time: "02:00"}}
  - {name: often, run: {argv: [x]}, schedule: {every: 30s}}
"""


def zones_of(scene: Scene) -> dict[str, str]:
    found = asyncio.run(scene.service.backends.jobs.find())
    return {record.name: record.job.schedule.tz for record in found if isinstance(record.job.schedule, Cron | Every)}


def test_schedules_without_a_zone_get_that_of_the_settings_once(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs.yaml").write_text(ZONED)
    monkeypatch.setenv("CRONFLOW_TIMEZONE", "Europe/Berlin")
    assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 0
    zones = {"plain": "Europe/Berlin", "own": "UTC", "daily": "Europe/Berlin", "often": "UTC"}
    assert zones_of(empty) == zones
    # What is stored keeps its zone.
    monkeypatch.setenv("CRONFLOW_TIMEZONE", "Asia/Tokyo")
    assert cli("jobs", "pause", "plain").exit_code == 0
    assert zones_of(empty) == zones
    assert "cron" in parsed(cli("jobs", "show", "plain", "-o", "json"))["schedule"]


def test_through_an_api_schedules_get_its_zone_and_keep_their_own(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs.yaml").write_text(ZONED)
    monkeypatch.setenv("CRONFLOW_TIMEZONE", "Asia/Tokyo")
    with serving() as served:
        served.serve(empty, deployment=Deployment(timezone="Europe/Berlin"))
        served.log_in(cli)
        assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 0
    assert zones_of(empty) == {"plain": "Europe/Berlin", "own": "UTC", "daily": "Europe/Berlin", "often": "UTC"}


def test_python_jobs_without_a_zone_get_that_of_the_settings(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(
        """
from cronflow import App
from cronflow.domain.schedule.kinds import Cron
shop = App("shop")

@shop.job(cron="0 2 * * *")
def plain(): ...

@shop.job(cron="0 2 * * *", tz="UTC")
def own(): ...

@shop.job(schedule=Cron("0 2 * * *"))
def value(): ...

@shop.job(every="1h")
def often(): ...
"""
    )
    monkeypatch.setenv("CRONFLOW_TIMEZONE", "Europe/Berlin")
    assert cli("jobs", "apply", "--app", f"{module}:shop").exit_code == 0
    assert zones_of(empty) == {"plain": "Europe/Berlin", "own": "UTC", "value": "UTC", "often": "UTC"}
    from_dev = dev_inputs.read([tmp_path / f"{module}.py"], Retry(), "Asia/Tokyo")
    assert [getattr(job.schedule, "tz", "") for job in from_dev.jobs] == ["Asia/Tokyo", "UTC", "UTC", "UTC"]


def test_the_defaults_of_a_file_reach_the_cluster(cli: Cli, empty: Scene, tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(f"defaults: {{tz: Europe/Berlin, priority: 7}}{ZONED}")
    assert cli("jobs", "apply", "-f", "jobs.yaml").exit_code == 0
    assert zones_of(empty)["plain"] == "Europe/Berlin"
    assert {record.job.priority for record in asyncio.run(empty.service.backends.jobs.find())} == {7}
    assert {one["result"] for one in parsed(cli("jobs", "apply", "-f", "jobs.yaml", "-o", "json"))} == {"unchanged"}


@pytest.mark.usefixtures("empty")
def test_apply_without_files_shows_an_example(cli: Cli) -> None:
    result = cli("jobs", "apply")
    assert result.exit_code == 2
    assert "use -f jobs.yaml" in result.stderr


def test_a_conflict_notes_that_applying_again_is_safe(
    cli: Cli, file: str, empty: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(_jobs: object, **_: object) -> None:
        raise Conflict("job 'tokens' was keeps changing concurrently; try again")

    monkeypatch.setattr(empty.service.jobs, "applied", lose)
    result = cli("jobs", "apply", "-f", file)
    assert result.exit_code == 1
    assert "it is safe to apply all of them again" in result.stderr


def many(folder: Path, names: Sequence[str]) -> str:
    path = folder / "many.yaml"
    path.write_text("jobs:\n" + "".join(f"  - {{name: {name}, run: {{argv: ['true']}}}}\n" for name in names))
    return str(path)


@pytest.fixture
def served(cli: Cli, empty: Scene) -> Iterator[Served]:
    """The API of the empty cluster, which the commands use."""
    with serving() as served:
        served.serve(empty)
        served.log_in(cli)
        yield served


def failing_after(empty: Scene, calls: int, *, away: bool = False) -> Callable[[Sequence[JobRecord]], Any]:
    """`create_all` that writes one job at its n-th call and fails from then on; `away`: so do reads."""
    create_all, created = empty.backends.jobs.create_all, list[set[str]]()

    async def fail(records: Sequence[JobRecord]) -> set[str]:
        if len(created) < calls:
            created.append(await create_all(records[:1] if len(created) + 1 == calls else records))
        if len(created) == calls:
            empty.backends.faults.fail_before("jobs.get", 99 if away else 0)
            raise BackendUnavailable("MongoDB", "here", "timed out")
        return created[-1]

    return fail


def test_a_request_that_fails_between_others_says_exactly_what_was_applied(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, served: Served
) -> None:
    monkeypatch.setattr(applying, "MOST_JOBS", 2)
    # Do not repeat a request.
    monkeypatch.setattr("cronflow.client.aio.pause_s", lambda *_: None)
    path = many(tmp_path, [f"job-{n}" for n in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(empty.backends.jobs, "create_all", failing_after(empty, 2))
        failed = cli("jobs", "apply", "-f", path)
    assert failed.exit_code == 5
    assert (
        "3 of 6 jobs were applied, but not job-3, job-4, job-5; it is safe to apply all of them again" in failed.stderr
    )
    assert [record.name for record in asyncio.run(empty.backends.jobs.find())] == ["job-0", "job-1", "job-2"]
    served.requests.clear()
    assert cli("jobs", "apply", "-f", path, "-o", "name").exit_code == 0
    assert [path for method, path in served.requests if method == "POST"] == [
        *["/api/v1/jobs/plan"] * 3,
        *["/api/v1/jobs/apply"] * 3,
    ]
    assert len(asyncio.run(empty.backends.jobs.find())) == 6
    renamed = many(tmp_path, [f"new-{n}" for n in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(empty.backends.jobs, "create_all", failing_after(empty, 2, away=True))
        failed = cli("jobs", "apply", "-f", renamed)
    empty.backends.faults.heal()
    assert "2 of 6 jobs were applied; some of new-2 to new-3 may have been, and later ones were not" in failed.stderr


def test_a_large_file_that_fails_on_the_servers_says_exactly_what_was_applied(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "MOST_JOBS", 5)
    monkeypatch.setattr("cronflow.usecases.jobs.BATCH", 2)
    monkeypatch.setattr("cronflow.usecases.jobs.BATCHES_AT_ONCE", 1)
    path = many(tmp_path, [f"job-{n}" for n in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(empty.backends.jobs, "create_all", failing_after(empty, 2))
        failed = cli("jobs", "apply", "-f", path)
    assert failed.exit_code == 5
    assert (
        "3 of 6 jobs were applied, but not job-3, job-4, job-5; it is safe to apply all of them again" in failed.stderr
    )
    assert cli("jobs", "apply", "-f", path, "-o", "name").exit_code == 0
    assert len(asyncio.run(empty.backends.jobs.find())) == 6


def test_the_servers_get_all_jobs_at_once_and_check_them_before_they_write(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "MOST_JOBS", 2)
    monkeypatch.setattr("cronflow.usecases.jobs.BATCH", 2)
    path = tmp_path / "many.yaml"
    jobs = "".join(f"  - {{name: job-{n}, run: {{argv: ['true']}}}}\n" for n in range(6))
    late = "  - {name: late, run: {argv: [x]}, schedule: {at: '2026-11-21T11:58:00Z'}}\n"
    path.write_text(f"jobs:\n{jobs}{late}")
    refused = cli("jobs", "apply", "-f", str(path))
    assert refused.exit_code == 2
    assert f"{path}:8: jobs[6].schedule.at: 2026-11-21 11:58 UTC has passed" in refused.stderr
    assert asyncio.run(empty.backends.jobs.find()) == []


@pytest.mark.usefixtures("served")
def test_the_api_gets_what_the_user_wrote(cli: Cli, empty: Scene, tmp_path: Path) -> None:
    path = tmp_path / "once.yaml"
    path.write_text((ONCE % "11:58") + "    misfire: fire_once\n")
    assert cli("jobs", "apply", "-f", str(path)).exit_code == 0
    [record] = asyncio.run(empty.backends.jobs.find())
    assert record.job.misfire == Misfire()
    path.write_text((ONCE % "11:58").replace("launch", "other"))
    refused = cli("jobs", "apply", "-f", str(path))
    assert refused.exit_code == 2
    assert PASSED in refused.stderr


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_job)
def test_what_is_sent_means_the_same_with_any_settings(job: Job) -> None:
    document = complete_document(job)
    assert parse_job(document, retry=Retry(max=9, initial="7s")) == job
    assert implicit_misfires({"": document}) == {}


def test_the_arguments_of_an_app_are_compared_as_they_are_stored(
    cli: Cli, module: str, tmp_path: Path, empty: Scene
) -> None:
    """A tuple is stored as a list; applied again, the job is unchanged."""
    text = "from cronflow import App\nshop = App('shop')\n@shop.job(args={'days': (1, 2)})\ndef sweep(days): ...\n"
    (tmp_path / f"{module}.py").write_text(text)
    for result in ("created", "unchanged"):
        assert parsed(cli("jobs", "apply", "--app", f"{module}:shop", "-o", "json"))[0]["result"] == result
    [record] = asyncio.run(empty.backends.jobs.find())
    assert record.job.target == PythonTarget(f"{module}:sweep", {"days": [1, 2]})


def test_a_large_file_is_applied(cli: Cli, empty: Scene, tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    lines = (f"  - {{name: job-{n:04}, run: {{argv: ['true']}}, description: '{'x' * 900}'}}\n" for n in range(1300))
    path.write_text("jobs:\n" + "".join(lines))
    assert path.stat().st_size > 1_200_000
    assert len(cli("jobs", "apply", "-f", str(path), "-o", "name").stdout.split()) == 1300
    assert len(asyncio.run(empty.backends.jobs.find(limit=2000))) == 1300


@pytest.mark.usefixtures("served")
def test_if_one_of_several_requests_is_invalid_no_job_is_applied(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "MOST_JOBS", 2)
    names = [f"job-{n}" for n in range(5)]
    path = many(tmp_path, names)
    compare = empty.service.jobs.compare

    async def refuse_the_last(
        jobs: Sequence[Job], implicit_misfires: Mapping[str, str], **rest: Any
    ) -> list[Comparison]:
        if any(job.name == "job-4" for job in jobs):
            raise InvalidInput("this name is reserved")
        return await compare(jobs, implicit_misfires, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(empty.service.jobs, "compare", refuse_the_last)
        assert cli("jobs", "apply", "-f", str(path)).exit_code == 2
    assert asyncio.run(empty.service.backends.jobs.find()) == []
    assert cli("jobs", "apply", "-f", str(path), "-o", "name").stdout.split() == names
    assert [record.name for record in asyncio.run(empty.service.backends.jobs.find())] == names


PLAIN_AND_OWN = """
from cronflow import App, Retry
shop = App("shop")

@shop.job(every="1h")
def plain(): ...

@shop.job(every="1h", retry=Retry(max=5))
def own(): ...

@shop.job(every="1h", delivery="at_most_once")
def once(): ...
"""


def test_python_jobs_without_a_retry_get_that_of_the_settings(
    cli: Cli, empty: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(PLAIN_AND_OWN)
    for name, value in (("MAX", "7"), ("INITIAL", "2s"), ("MULTIPLIER", "3")):
        monkeypatch.setenv(f"CRONFLOW_RETRY_{name}", value)
    assert cli("jobs", "apply", "--app", f"{module}:shop").exit_code == 0
    assert {record.name: record.job.retry for record in asyncio.run(empty.service.backends.jobs.find())} == {
        "plain": Retry(max=7, initial="2s", multiplier=3),
        "own": Retry(max=5),
        "once": Retry(max=0),
    }
    assert parsed(cli("jobs", "apply", "--app", f"{module}:shop", "-o", "json"))[0]["result"] == "unchanged"
    from_dev = dev_inputs.read([tmp_path / f"{module}.py"], Retry(max=1))
    assert [job.retry.max for job in from_dev.jobs] == [1, 5, 0]

"""`cronflow jobs list, show, next, pause, resume, delete`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from cronflow.cli.terminal import output
from cronflow.cli.terminal.output import Format
from cronflow.documents import job_document, parse_job
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import JOBS, NOON, Scene


@pytest.mark.usefixtures("scene")
def test_the_list_shows_schedule_and_next_fire_of_each_job(cli: Cli) -> None:
    result = cli("jobs", "list", columns=140)
    assert result.exit_code == 0
    assert "at 02:00 every day (Europe/Berlin)" in row(result, "nightly-report")
    assert row(result, "nightly-report").endswith("in 13h      2026-11-22 01:00:00Z")
    assert row(result, "warehouse.import").endswith("at 03:15 on the 1st of the month")


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("sync-tokens", "● active"),
        ("warehouse.import", "‖ paused"),
        ("legacy-export", "○ disabled"),
        ("launch-2025", "✓ done"),
        ("rebuild-cache", "◇ by hand"),
    ],
)
def test_each_job_has_its_state(cli: Cli, name: str, state: str) -> None:
    assert row(cli("jobs", "list"), name).startswith(state)


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_the_list_fits_the_terminal_and_names_stay_whole(cli: Cli, columns: int) -> None:
    lines = cli("jobs", "list", columns=columns).stdout.splitlines()
    assert len(lines) == len(JOBS) + 1
    assert max(map(len, lines)) <= columns
    assert any("…" in line for line in lines)
    assert all(any(job.name in line.split() for line in lines) for job in JOBS)


@pytest.mark.usefixtures("scene")
def test_piped_output_is_not_cut(cli: Cli) -> None:
    listed = cli("jobs", "list").stdout
    assert "every hour from 09:00 to 17:00, Monday to Friday (America/New_York)" in listed
    assert "…" not in listed


@pytest.mark.usefixtures("scene")
def test_json_has_the_document_and_the_state_of_each(cli: Cli) -> None:
    listed = {job["name"]: job for job in parsed(cli("jobs", "list", "-o", "json"))}
    assert sorted(listed) == sorted(job.name for job in JOBS)
    paused = listed["warehouse.import"]
    assert (paused["state"], paused["paused"], paused["next_fire"]) == ("paused", True, "2026-12-01T03:15:00Z")
    assert listed["rebuild-cache"]["state"] == "by_hand"
    assert listed["nightly-report"]["schedule"]["tz"] == "Europe/Berlin"
    assert listed["nightly-report"]["pending_run"]["fire"] == "2026-11-21T01:00:00Z"


@pytest.mark.usefixtures("scene")
def test_names_are_printed_one_per_line(cli: Cli) -> None:
    assert cli("jobs", "list", "-o", "name").stdout.splitlines() == sorted(job.name for job in JOBS)


def test_the_list_reads_every_page(cli: Cli, empty: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cronflow.client.local_admin.PAGE", 5)
    asyncio.run(empty.fill())
    assert len(cli("jobs", "list", "-o", "name").stdout.splitlines()) == len(JOBS)
    assert empty.backends.faults.calls["jobs.find"] > 2


@pytest.mark.usefixtures("empty")
def test_an_empty_list_names_the_next_step(cli: Cli) -> None:
    assert cli("jobs", "list").stdout == "No jobs yet. Define some: cronflow jobs apply -f jobs.yaml\n"
    assert parsed(cli("jobs", "list", "-o", "json")) == []
    assert cli("jobs", "list", "-o", "name").stdout == ""


@pytest.mark.usefixtures("scene")
def test_a_job_is_shown_with_its_defaults_its_cursor_and_its_latest_runs(cli: Cli) -> None:
    shown = cli("jobs", "show", "nightly-report", columns=100).stdout
    assert "● active, failing  nightly-report" in shown
    assert "next fire     2026-11-22 01:00:00Z  in 13h" in shown
    assert "last planned  2026-11-21 01:00:00Z  11h ago, dispatched" in shown
    assert "✗ failed  nightly-report@20261121T010000Z" in shown
    document = shown.partition("Definition, with all defaults\n")[2]
    [job] = [job for job in JOBS if job.name == "nightly-report"]
    assert yaml.safe_load(document) == job_document(job)
    assert parse_job(yaml.safe_load(document)) == job


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize("name", [job.name for job in JOBS])
def test_a_job_that_is_shown_as_yaml_can_be_applied_again(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "shown.yaml").write_text(cli("jobs", "show", name, "-o", "yaml").stdout)
    again = cli("jobs", "apply", "-f", "shown.yaml", "--no-import")
    assert "1 job: 0 created, 0 changed, 1 unchanged" in again.stdout, again.output


@pytest.mark.usefixtures("scene")
def test_a_paused_job_shows_that_its_next_fire_is_not_planned(cli: Cli) -> None:
    shown = cli("jobs", "show", "warehouse.import").stdout
    assert "next fire  2026-12-01 03:15:00Z  not planned while the job is paused" in shown


@pytest.mark.usefixtures("scene")
def test_the_next_fires_are_listed_in_the_jobs_zone_and_in_utc(cli: Cli) -> None:
    result = cli("jobs", "next", "nightly-report", "-n", "2")
    assert result.stdout.splitlines() == [
        "#  Europe/Berlin                UTC                FROM NOW",
        "1  Sun 2026-11-22 02:00 +01:00  2026-11-22 01:00Z  in 13h",
        "2  Mon 2026-11-23 02:00 +01:00  2026-11-23 01:00Z  in 1d 13h",
    ]
    assert result.stderr == ""
    assert parsed(cli("jobs", "next", "sync-tokens", "-n", "2", "-o", "json")) == {
        "job": "sync-tokens",
        "state": "active",
        "fires": ["2026-11-21T12:00:30Z", "2026-11-21T12:01:00Z"],
        "tz": "UTC",
        "rows": [
            {"fire": "2026-11-21T12:00:30Z", "note": None, "times": {"UTC": "2026-11-21T12:00:30+00:00"}},
            {"fire": "2026-11-21T12:01:00Z", "note": None, "times": {"UTC": "2026-11-21T12:01:00+00:00"}},
        ],
    }


@pytest.mark.usefixtures("scene")
def test_the_fires_of_another_span_are_listed_in_the_zone_of_the_job(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    span = ("--from", "2027-03-27T02:00", "--until", "2027-03-29T02:00")
    # On the 28th, clocks skip 02:00.
    assert cli("jobs", "next", "nightly-report", *span, columns=80).stdout.splitlines() == [
        "#  Europe/Berlin                UTC                Asia/Tokyo",
        "1  Sat 2027-03-27 02:00 +01:00  2027-03-27 01:00Z  2027-03-27 10:00 +09:00",
        "2  Sun 2027-03-28 03:00 +02:00  2027-03-28 01:00Z  2027-03-28 10:00 +09:00",
    ]
    none = cli("jobs", "next", "nightly-report", "--from", "2027-03-27", "--until", "2027-03-27T02:00")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "nightly-report has no fires in this span of time" in none.stderr
    assert "--until: 'later' is not an instant" in cli("jobs", "next", "nightly-report", "--until", "later").stderr


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("warehouse.import", "cronflow jobs resume warehouse.import"),
        ("legacy-export", "enabled: true"),
        ("rebuild-cache", "cronflow jobs run rebuild-cache"),
        ("launch-2025", "has no further fires"),
    ],
)
def test_a_note_explains_why_a_job_will_not_run(cli: Cli, name: str, expected: str) -> None:
    result = cli("jobs", "next", name)
    assert result.exit_code == 0
    assert expected in result.stderr


def test_pause_and_resume_change_the_job_and_show_it(cli: Cli, scene: Scene) -> None:
    paused = cli("jobs", "pause", "sync-tokens", "rotate-keys")
    assert row(paused, "sync-tokens").startswith("‖ paused")
    assert row(paused, "rotate-keys").startswith("‖ paused")
    assert asyncio.run(scene.service.jobs.get("sync-tokens")).paused
    [shape] = parsed(cli("jobs", "resume", "sync-tokens", "-o", "json"))
    assert shape["state"] == "active"
    assert not asyncio.run(scene.service.jobs.get("sync-tokens")).paused
    assert asyncio.run(scene.service.jobs.get("rotate-keys")).paused


def test_no_job_is_paused_if_one_name_is_wrong(cli: Cli, scene: Scene) -> None:
    result = cli("jobs", "pause", "sync-tokens", "no-such-job")
    assert result.exit_code == 3
    assert not asyncio.run(scene.service.jobs.get("sync-tokens")).paused


def test_deleting_a_job_keeps_its_runs(cli: Cli, scene: Scene) -> None:
    result = cli("jobs", "delete", "nightly-report")
    assert result.stdout == "- nightly-report deleted; its history is kept\n"
    assert cli("jobs", "show", "nightly-report").exit_code == 3
    assert cli("runs", "show", "nightly-report@20261121T010000Z").exit_code == 0
    assert scene.clock.now() == NOON


@pytest.mark.parametrize("count", [0, 1, 4, 5])
def test_a_list_in_blocks_is_printed_like_one_at_once(
    count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items: list[dict[str, object]] = [{"name": f"n{n}", "more": {"n": [n, None]}} for n in range(count)]

    async def read() -> AsyncIterator[dict[str, object]]:
        for item in items:
            yield item

    monkeypatch.setattr(output, "BLOCK", 2)
    for form in (Format.JSON, Format.YAML, Format.NAME):
        asyncio.run(output.show_list(form, read(), lambda item: str(item["name"]), lambda _: None))
        in_blocks = capsys.readouterr().out
        output.show(form, items, [str(item["name"]) for item in items], "")
        assert in_blocks == capsys.readouterr().out
    blocks: list[int] = []
    asyncio.run(output.show_list(Format.TABLE, read(), str, lambda block: blocks.append(len(block))))
    assert blocks == {0: [0], 1: [1], 4: [2, 2], 5: [2, 2, 1]}[count]


@pytest.mark.usefixtures("scene")
def test_an_open_breaker_is_shown_with_its_rate_and_what_closes_it(cli: Cli) -> None:
    assert row(cli("jobs", "list"), "black-friday").startswith("● active, breaker open")
    shown = cli("jobs", "show", "black-friday").stdout
    assert "14 of 20 attempts had failed: failing runs are not retried" in shown
    assert "a run that starts in 5m or later and succeeds closes it" in shown
    assert "cronflow jobs close-breaker black-friday" in shown
    assert "breaker open" not in row(cli("jobs", "close-breaker", "black-friday"), "black-friday")
    assert "breaker open" not in cli("jobs", "list").stdout


@pytest.mark.usefixtures("scene")
def test_closing_the_breaker_of_a_job_without_one_says_how_to_get_one(cli: Cli) -> None:
    result = cli("jobs", "close-breaker", "sync-tokens")
    assert result.exit_code != 0
    assert "sync-tokens has no circuit breaker (add breaker: {} to its definition)" in result.stderr


def test_the_note_of_a_pause_is_shown(cli: Cli, scene: Scene) -> None:
    asyncio.run(scene.service.jobs.pause("sync-tokens", note="5 runs in a row failed"))
    assert "5 runs in a row failed" in cli("jobs", "show", "sync-tokens").stdout
    assert parsed(cli("jobs", "show", "sync-tokens", "-o", "json"))["pause"]["note"] == "5 runs in a row failed"


def test_a_backfill_of_more_than_100_runs_needs_a_confirmation_in_a_terminal(
    cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled() -> int:
        """Cancels what was started, so that the next one can start."""
        found = [one for one, _ in scene.backends.documents.backfills.values() if one.job == "sync-tokens"]
        for one in found:
            cli("backfills", "cancel", one.id)
        return len(found)

    # Every 30 seconds: 51 minutes have 102 instants, or one more.
    large = ("jobs", "backfill", "sync-tokens", "--from", "51m", "--only", "all")
    small = ("jobs", "backfill", "sync-tokens", "--from", "40m", "--only", "all")
    before = cancelled()
    # Without a terminal, nothing is asked.
    assert (cli(*large).exit_code, cancelled()) == (0, before + 1)
    monkeypatch.setattr(output, "interactive", lambda: True)
    declined = cli(*large, stdin="n\n")
    assert (declined.exit_code, cancelled()) == (1, before + 1)
    assert "runs to insert. Continue?" in declined.stderr
    accepted = cli(*large, stdin="y\n")
    assert (accepted.exit_code, "Continue?" in accepted.stderr, cancelled()) == (0, True, before + 2)
    for n, words in enumerate([(*large, "--yes"), (*large, "-o", "json"), small, (*large, "--dry-run")], 3):
        result = cli(*words, stdin="n\n")
        assert (result.exit_code, "Continue?" in result.stderr) == (0, False), words
        assert cancelled() == before + min(n, 5), "a dry run starts nothing"


@pytest.mark.usefixtures("scene")
def test_the_list_has_only_the_jobs_that_need_attention_with_the_reason(cli: Cli) -> None:
    failing = cli("jobs", "list", "--failing", columns=140).stdout
    assert re.search(r"active, failing +nightly-report +\S.* the last run failed: ", failing)
    assert "sync-tokens" not in failing
    both = cli("jobs", "list", "--failing", "--paused", "-o", "name").stdout.split()
    assert both == cli("jobs", "list", "--failing", "-o", "name").stdout.split()
    assert "warehouse.import" in both
    assert cli("jobs", "list", "--overdue").stdout == "No jobs match.\n"

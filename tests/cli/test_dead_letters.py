"""`cronflow runs list --dead, report, retry, ack`, and late outcomes in `runs show`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from cronflow.cli.terminal import output
from cronflow.client import local_admin
from cronflow.domain.run import AttemptResult, Outcome, RunState, Settled
from cronflow.ports import LateResult
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import FAILED, FENCE, NOON, RUNNING, SUCCEEDED, Scene, ago, run

LOST = "warehouse.import@20261101T120000Z"


@pytest.fixture(autouse=True)
def _somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    monkeypatch.setattr("socket.gethostname", lambda: "desk")


def fail_more(scene: Scene, count: int = 3) -> list[str]:
    runs = [
        run(
            "send-invoices",
            ago(days=1, minutes=k),
            RunState.FAILED,
            outcome=Outcome.ERROR,
            error=f"order {k} has no address\nTraceback …",
            ended_at=ago(days=1, minutes=k) + timedelta(seconds=9),
        )
        for k in range(count)
    ]
    asyncio.run(scene.backends.runs.insert(runs))
    return [made.id for made in runs]


def settled(scene: Scene, name: str) -> tuple[str, str, str] | None:
    found = asyncio.run(scene.service.runs.get(name)).resolution
    return None if found is None else (found.how, found.by, found.note)


@pytest.mark.usefixtures("scene")
def test_dead_letters_are_failed_and_lost_runs(cli: Cli) -> None:
    assert cli("runs", "list", "--dead", "-o", "name").stdout.split() == [FAILED, LOST]
    assert cli("runs", "list", "--dead", "--job", "nightly-report", "-o", "name").stdout.split() == [FAILED]


@pytest.mark.usefixtures("empty")
def test_without_dead_letters_the_list_is_empty(cli: Cli) -> None:
    assert "No dead letters" in cli("runs", "list", "--dead").stdout


@pytest.mark.usefixtures("scene")
def test_a_dead_letter_is_shown_with_what_can_be_done(cli: Cli) -> None:
    shown = cli("runs", "show", FAILED).stdout
    assert f"cronflow runs retry {FAILED}" in shown
    assert f"cronflow runs ack {FAILED}" in shown
    assert "cronflow runs why nightly-report@20261121T010000Z" in shown
    assert "runs retry" not in cli("runs", "show", SUCCEEDED).stdout


def test_a_retry_makes_a_new_run_and_links_both(cli: Cli, scene: Scene) -> None:
    result = cli("runs", "retry", FAILED, "--arg", "region=us", "--note", "fixed the feed")
    replay = f"{FAILED}~r1"
    assert result.stdout == f"↻ {replay}  replays {FAILED}\n"
    shown = cli("runs", "show", replay).stdout
    assert f"replay of  {FAILED}" in shown
    assert "region: us" in shown
    original = parsed(cli("runs", "show", FAILED, "-o", "json"))
    assert original["resolution"] == {
        "how": "replayed",
        "at": "2026-11-21T12:00:00Z",
        "by": "ann@desk",
        "note": "fixed the feed",
        "run": replay,
    }
    assert (original["state"], original["dead"]) == ("failed", False)
    assert f"by ann@desk as {replay}: fixed the feed" in cli("runs", "show", FAILED).stdout
    assert parsed(cli("runs", "show", replay, "-o", "json"))["kind"] == "replay"


@pytest.mark.usefixtures("scene")
def test_a_run_that_is_open_or_missing_cannot_be_retried(cli: Cli) -> None:
    result = cli("runs", "retry", RUNNING)
    assert (result.exit_code, "only a run that has ended can be replayed" in result.stderr) == (1, True)
    result = cli("runs", "retry", f"{FAILED}x")
    assert result.exit_code == 3
    assert f"did you mean {FAILED}?" in result.stderr


@pytest.mark.usefixtures("scene")
def test_arguments_are_for_python_jobs(cli: Cli) -> None:
    result = cli("runs", "retry", LOST, "--arg", "a=1")
    assert (result.exit_code, "is not a Python job" in result.stderr) == (2, True)
    assert cli("runs", "list", "--dead", "-o", "name").stdout.split() == [FAILED, LOST]


def test_acknowledging_stores_author_and_note_and_is_repeatable(cli: Cli, scene: Scene) -> None:
    assert cli("runs", "ack", FAILED, "--note", "known").stdout == f"✓ {FAILED} acknowledged\n"
    assert settled(scene, FAILED) == (Settled.ACKNOWLEDGED, "ann@desk", "known")
    again = cli("runs", "ack", FAILED)
    assert (again.exit_code, again.stdout) == (0, "")
    assert "was already acknowledged by ann@desk" in again.stderr
    assert cli("runs", "list", "--dead", "-o", "name").stdout.split() == [LOST]


@pytest.mark.usefixtures("scene")
def test_a_succeeded_run_cannot_be_acknowledged(cli: Cli) -> None:
    result = cli("runs", "ack", SUCCEEDED)
    assert (result.exit_code, "only failed or lost runs" in result.stderr) == (1, True)


@pytest.mark.parametrize("verb", ["retry", "ack"])
def test_many_at_once_need_confirmation_or_yes(cli: Cli, scene: Scene, verb: str) -> None:
    ids = fail_more(scene)
    result = cli("runs", verb, "--job", "send-invoices")
    assert result.exit_code == 2
    assert "3 runs to" in result.stderr
    assert "--yes" in result.stderr
    assert [settled(scene, name) for name in ids] == [None] * 3


@pytest.mark.parametrize(("verb", "how"), [("retry", Settled.REPLAYED), ("ack", Settled.ACKNOWLEDGED)])
def test_with_yes_exactly_the_matching_dead_letters_are_resolved(
    cli: Cli, scene: Scene, verb: str, how: Settled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_admin, "PAGE", 2)
    ids = fail_more(scene)
    cli("runs", "ack", ids[0], "--note", "before")
    result = cli("runs", verb, "--job", "send-invoices", "--since", "2d", "--yes", "-o", "name")
    assert len(result.stdout.split()) == 2
    assert "2 runs to" in result.stderr
    assert [settled(scene, name) for name in ids[1:]] == [(how, "ann@desk", "")] * 2
    assert settled(scene, ids[0]) == (Settled.ACKNOWLEDGED, "ann@desk", "before")
    assert settled(scene, FAILED) is None


def test_dead_letters_are_selected_by_search_label_kind_node_and_time(cli: Cli, scene: Scene) -> None:
    ids = fail_more(scene)
    for words in (
        ["--search", "invoices"],
        ["--search", "send-*"],
        ["--label", "team=billing"],
        ["--search", "invoices", "--kind", "cron", "--node", "node-a", "--until", "2h"],
    ):
        assert cli("runs", "list", "--dead", *words, "-o", "name").stdout.split() == ids
    assert cli("runs", "list", "--dead", "--kind", "manual", "-o", "name").stdout.split() == []
    oldest = cli("runs", "list", "--dead", "--search", "invoices", "--oldest-first", "--limit", "2", "-o", "name")
    assert oldest.stdout.split() == ids[:0:-1]
    assert "newer runs are not shown" in oldest.stderr
    assert cli("runs", "ack", "--label", "team", "--yes", "-o", "name").stdout.split() == ids
    assert settled(scene, FAILED) is None


def test_the_confirmation_can_be_declined(cli: Cli, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "interactive", lambda: True)
    result = cli("runs", "ack", "--state", "failed", stdin="n\n")
    assert (result.exit_code, settled(scene, FAILED)) == (1, None)
    assert "1 run to acknowledge. Continue?" in result.stderr
    assert cli("runs", "ack", "--state", "failed", stdin="y\n").exit_code == 0
    assert settled(scene, FAILED) == (Settled.ACKNOWLEDGED, "ann@desk", "")
    assert settled(scene, LOST) is None


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "no runs selected"),
        ([FAILED, "--job", "nightly-report"], "cannot be combined"),
        (["--state", "succeeded"], "succeeded runs are not dead letters"),
        (["--since", "soon"], "neither a duration nor an instant"),
    ],
)
@pytest.mark.parametrize("verb", ["retry", "ack"])
def test_a_contradictory_selection_is_a_usage_error(cli: Cli, verb: str, words: list[str], expected: str) -> None:
    result = cli("runs", verb, *words, "--yes")
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


@pytest.mark.usefixtures("scene")
def test_a_selection_without_dead_letters_does_nothing_and_does_not_ask(cli: Cli) -> None:
    assert cli("runs", "ack", "--job", "sync-tokens").stdout == "No dead letters match these filters.\n"
    assert cli("runs", "retry", "--job", "sync-tokes").exit_code == 3


def test_the_report_groups_by_reason(cli: Cli, scene: Scene) -> None:
    ids = fail_more(scene)
    cli("runs", "ack", ids[1])
    line = row(cli("runs", "report", columns=140), "order").split()
    assert line[:7] == ["3", "2", "order", "<n>", "has", "no", "address"]
    assert "4 dead letters open" in cli("runs", "report").stdout
    answer = parsed(cli("runs", "report", "-o", "json"))
    assert (answer["since"], answer["dead"], answer["more"]) == ("2026-11-14T12:00:00Z", 4, False)
    assert answer["failures"][0] == {
        "reason": "order <n> has no address",
        "message": "order 0 has no address",
        "count": 3,
        "open": 2,
        "first": "2026-11-20T11:58:09Z",
        "last": "2026-11-20T12:00:09Z",
        "jobs": {"send-invoices": 3},
        "example": ids[0],
    }
    assert [failure["reason"] for failure in answer["failures"][1:]] == ["ValueError: no rows for <time>"]


def test_the_report_covers_the_requested_time(cli: Cli, scene: Scene) -> None:
    fail_more(scene)
    reasons = parsed(cli("runs", "report", "--since", "30d", "-o", "json"))["failures"]
    assert [failure["count"] for failure in reasons] == [3, 1, 1]
    result = cli("runs", "report", "--since", "30d", "--limit", "1", "-o", "json")
    assert (len(parsed(result)["failures"]), parsed(result)["more"]) == (1, True)
    assert "2 more reasons" in result.stderr
    assert "have failed" in cli("runs", "report", "--since", "1m", "--job", "sync-tokens").stdout
    assert cli("runs", "report", "--job", "missing").exit_code == 3


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_report_fits_the_terminal(cli: Cli, scene: Scene, columns: int) -> None:
    fail_more(scene)
    lines = cli("runs", "report", columns=columns).stdout.splitlines()
    assert max(map(len, lines[:3])) <= columns


def test_late_outcomes_are_shown_with_their_run(cli: Cli, scene: Scene) -> None:
    attempt_result = AttemptResult(Outcome.ERROR, {"rows": 3}, "woke up \x1b[31mlate")
    late = LateResult(
        run=SUCCEEDED, fence=FENCE - 1, node="node-d#0", at=NOON, attempt_result=attempt_result, finish_id="f1"
    )
    asyncio.run(scene.backends.runs.keep_late([late]))
    shown = cli("runs", "show", SUCCEEDED, columns=140).stdout
    assert "Late results, rejected" in shown
    [line] = [line for line in shown.splitlines() if "woke up" in line]
    assert line.split()[:2] == ["✗", "error"]
    assert str(FENCE - 1) in line
    assert "\x1b" not in line
    assert parsed(cli("runs", "show", SUCCEEDED, "-o", "json"))["late"] == [
        {
            "at": "2026-11-21T12:00:00Z",
            "node": "node-d#0",
            "fence": FENCE - 1,
            "outcome": "error",
            "result": {"rows": 3},
            "result_size": None,
            "error": "woke up \x1b[31mlate",
        }
    ]
    assert "Late results, rejected" not in cli("runs", "show", FAILED).stdout

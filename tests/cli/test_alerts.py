"""`cronflow alerts`: define, show, test and delete alerts; errors in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cronflow.domain.access import AuditEntry
from cronflow.domain.alerts import Answer
from cronflow.ports import AuditQuery
from tests.cli.conftest import Cli, parsed, row
from tests.cli.scene import Scene

FILE = """
alerts:
  - name: cluster
    on: [no_leader]
    webhook: {url: "https://hooks.example.com/x"}
  - name: billing
    on: [failed, late]
    webhook: {url: "https://hooks.example.com/x", secret: "${secret:HOOKS}"}
"""


def audit(scene: Scene) -> list[AuditEntry]:
    """The oldest first."""
    return asyncio.run(scene.service.backends.audit.find(AuditQuery()))[::-1]


def test_alerts_are_listed(cli: Cli, scene: Scene) -> None:
    line = row(cli("alerts", "list"), "billing")
    assert "active" in line
    assert "failed recovered" in line
    assert "https://hooks.example.com/x" in line
    [listed] = parsed(cli("alerts", "list", "-o", "json"))
    assert listed["webhook"]["secret"] == "${secret:HOOKS}"
    assert scene.opened == 2


@pytest.mark.usefixtures("empty")
def test_without_alerts_the_list_shows_how_to_define_one() -> None:
    from typer.testing import CliRunner

    from cronflow.cli.main import app

    assert "cronflow alerts apply -f" in CliRunner().invoke(app, ["alerts", "list"]).stdout


@pytest.mark.usefixtures("scene")
def test_the_thresholds_of_an_alert_are_shown(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(
        """
alerts:
  - name: watch
    on: [dead_letters, retries, report]
    webhook: {url: "https://hooks.example.com/x"}
    dead_letters: {critical: 20}
    report: {day: friday, time: "17:30", tz: Europe/Berlin}
  - name: rate
    on: [retry_rate]
    webhook: {url: "https://hooks.example.com/x"}
"""
    )
    assert cli("alerts", "apply", "-f", str(file)).exit_code == 0
    shown = cli("alerts", "show", "watch", columns=160).stdout
    assert "warn from 5 dead letters on, critical from 20" in shown
    assert "retried more than 2 times" in shown
    assert "a report every Friday at 17:30 Europe/Berlin" in shown
    assert "late after" not in shown
    rate = cli("alerts", "show", "rate", columns=160).stdout
    assert "more than 20% of the attempts of the last hour are retries" in rate
    exported = parsed(cli("alerts", "show", "watch", "-o", "json"))
    assert exported["dead_letters"] == {"warn": 5, "critical": 20}


@pytest.mark.usefixtures("scene")
def test_an_alert_is_shown_with_its_notifications(cli: Cli) -> None:
    shown = cli("alerts", "show", "billing")
    assert "${secret:HOOKS}" in shown.stdout
    waiting = row(shown, "waiting")
    assert "3 times" in waiting
    assert "answered 500: oh no" in waiting
    assert "204" in row(shown, "delivered")
    answer = parsed(cli("alerts", "show", "billing", "-n", "1", "-o", "json"))
    assert [(one["state"], one["attempts"], one["status"]) for one in answer["notices"]] == [("waiting", 3, 500)]
    missing = cli("alerts", "show", "missing")
    assert (missing.exit_code, "cronflow alerts list" in missing.stderr) == (3, True)


def test_an_alert_that_is_shown_as_yaml_can_be_applied_again(cli: Cli, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "shown.yaml").write_text(cli("alerts", "show", "billing", "-o", "yaml").stdout)
    before = asyncio.run(scene.service.alerts.get("billing"))
    again = cli("alerts", "apply", "-f", "shown.yaml")
    assert again.exit_code == 0, again.output
    assert asyncio.run(scene.service.alerts.get("billing")) == before


def test_applying_a_file_twice_changes_nothing(cli: Cli, scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(FILE, "utf-8")
    first = cli("alerts", "apply", "-f", str(file))
    assert ("created" in row(first, "cluster"), "changed" in row(first, "billing")) == (True, True)
    second = parsed(cli("alerts", "apply", "-f", str(file), "-o", "json"))
    assert [one["result"] for one in second] == ["unchanged", "unchanged"]
    assert [entry.action for entry in audit(scene)][-2:] == ["alert.create", "alert.change"]
    changed = audit(scene)[-1]
    assert isinstance(changed.after, dict)
    assert changed.after["webhook"]["secret"] == "${secret:HOOKS}"


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alerts: [{name: a}]", ":1: alerts[0].on: missing"),
        ("name: a\non: [fail]\nwebhook: {url: 'http://x'}", ":2: on[0]: expected failed"),
        (
            "alerts:\n  - name: a\n    on: [late]\n    webhook:\n      url: x",
            ":5: alerts[0].webhook.url: not an http://",
        ),
        ("jobs: []", "has neither alerts nor the keys of an alert"),
        ("alerts: {}", "alerts: expected a list of alerts, got a mapping"),
        ("alerts: []\njobs: []", ":2: jobs: unknown key next to alerts"),
        ("[]", "expected a mapping with alerts, got a list"),
        ("alerts: []", "has no alerts"),
        ("", "has no alerts"),
        ("a: [", "not YAML"),
        (FILE + FILE.replace("\nalerts:", "").replace("billing", "other"), "the name 'cluster' is taken by"),
    ],
)
def test_errors_in_a_file_have_a_line_and_a_remedy(cli: Cli, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(text, "utf-8")
    refused = cli("alerts", "apply", "-f", str(file))
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_a_test_prints_the_receivers_answer(cli: Cli, scene: Scene) -> None:
    good = cli("alerts", "test", "billing")
    assert (good.exit_code, "the receiver answered 204 in 12 ms" in good.stdout) == (0, True)
    [(alert, notification)] = scene.notifier.posted
    assert alert.name == "billing"
    assert '"kind":"test"' in notification.body
    assert notification.id in notification.body
    scene.notifier.answer = Answer(500, "answered 500: oh no", 7)
    bad = cli("alerts", "test", "billing")
    assert (bad.exit_code, "answered 500: oh no" in bad.stdout) == (1, True)
    assert audit(scene)[-1].action == "alert.test"
    assert "test" not in cli("alerts", "show", "billing").stdout


def test_a_test_of_an_alert_for_people_sends_a_sample_of_each_kind(cli: Cli, scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(
        """
alerts:
  - name: night
    on: [failed, recovered, no_leader]
    email: {to: [ops@example.com, night@example.com]}
    group: {by: [job], wait: 1m}
    quiet: {from: "22:00", to: "07:00", tz: Europe/Berlin, days: [saturday], urgent: [recovered]}
  - name: chat
    on: [failed]
    webhook: {url: "${secret:SLACK}", format: slack}
"""
    )
    assert cli("alerts", "apply", "-f", str(file)).exit_code == 0
    scene.notifier.answer = Answer(250, "mail:587 refused night@example.com: 550 gone", 12, partly=True)
    tested = cli("alerts", "test", "night", columns=160)
    assert tested.exit_code == 0
    assert [line.split(":")[0] for line in tested.stdout.splitlines()] == [
        "✓ ok failed",
        "✓ ok recovered",
        "✓ ok no_leader",
    ]
    assert "but mail:587 refused night@example.com" in tested.stdout
    assert all('"test":true' in notification.body for _, notification in scene.notifier.posted)
    shown = cli("alerts", "show", "night", columns=160).stdout
    assert "ops@example.com, night@example.com" in shown
    assert "by job, after 1m, at most every 5m" in shown
    assert "22:00 to 07:00 Europe/Berlin, Saturday, except recovered" in shown
    assert "signed with" not in shown
    assert "slack: ${secret:SLACK}" in cli("alerts", "list", columns=160).stdout
    exported = tmp_path / "night.yaml"
    exported.write_text(cli("alerts", "show", "night", "-o", "yaml").stdout)
    again = parsed(cli("alerts", "apply", "-f", str(exported), "-o", "json"))
    assert [one["result"] for one in again] == ["unchanged"]
    scene.notifier.sends_mail = False
    refused = cli("alerts", "apply", "-f", str(file))
    assert refused.exit_code == 2
    assert "email: there is no mail server: SMTP_URL is not set" in refused.stderr


def test_an_alert_is_deleted(cli: Cli, scene: Scene) -> None:
    assert cli("alerts", "delete", "billing").exit_code == 0
    assert cli("alerts", "delete", "billing").exit_code == 3
    assert audit(scene)[-1].target == "alert:billing"

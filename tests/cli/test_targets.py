"""What a job runs, in one line."""

from __future__ import annotations

import pytest

from cronflow.cli.views.targets import target_text
from cronflow.documents import job_document, parse_job

RABBIT = {"url": "amqp://u:secret@broker/v", "routing_key": "reports"}


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ({"python": "jobs:tick"}, "jobs:tick"),
        ({"python": "jobs:tick", "process": True}, "jobs:tick, in a process of its own"),
        ({"shell": "a | b\n"}, "a | b"),
        ({"argv": ["tar", "my files"]}, "tar 'my files'"),
        ({"http": {"url": "http://u:secret@host/x"}}, "GET http://host/x"),
        ({"amqp": RABBIT}, "a message to queue reports at amqp://broker/v"),
        (
            {"amqp": {**RABBIT, "exchange": "cron", "reply": {}}},
            "a message to exchange cron with key reports at amqp://broker/v, and waits for the reply",
        ),
        ({"amqp": {"url": "${secret:rabbit}", "exchange": "cron"}}, "a message to exchange cron at ${secret:rabbit}"),
    ],
)
def test_a_target_in_one_line(run: dict[str, object], text: str) -> None:
    assert target_text(job_document(parse_job({"name": "a", "run": run}))["run"]) == text


def test_a_target_of_a_newer_version_has_no_line() -> None:
    assert target_text({"teleport": {}}) == ""

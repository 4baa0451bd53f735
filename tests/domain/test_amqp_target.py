"""The target that publishes a message: its document, what is refused, and what it needs of a node."""

from __future__ import annotations

import pytest

from cronflow.documents import job_document, parse_job
from cronflow.domain.amqp_target import AmqpReply, AmqpTarget, address_problem
from cronflow.domain.capabilities import needs_of
from cronflow.domain.job import target_problems


def document(**message: object) -> dict[str, object]:
    return {"name": "a", "run": {"amqp": {"url": "amqp://broker", **message}}}


def test_a_message_and_its_reply_need_little() -> None:
    written = document(url="${secret:rabbit}", routing_key="reports", reply={})
    job = parse_job(written)
    assert job.target == AmqpTarget("${secret:rabbit}", routing_key="reports", reply=AmqpReply())
    assert job_document(job, compact=True) == written


@pytest.mark.parametrize(
    ("url", "host"),
    [("${secret:rabbit}", ""), ("amqp://u:${secret:x}@Broker:1/v", "broker"), ("amqp://u:p@${secret:x}:1/v", "")],
)
def test_the_host_is_known_unless_a_secret_has_it(url: str, host: str) -> None:
    assert needs_of(parse_job(document(url=url))).host == host


def test_a_password_that_is_not_encoded_is_not_repeated() -> None:
    for url in ("amqp://svc:Sup3r/Secret@broker", "amqp://svc:Sup3r#Secret@broker", "amqp://svc:[Sup3r@broker"):
        problem = address_problem(url)
        assert problem is None or "Sup3r" not in problem, url
    assert address_problem("amqp://svc:Sup3r/Secret@broker") is not None


def test_an_address_with_options_is_refused_because_they_could_name_files() -> None:
    assert address_problem("amqp://u:p@broker:5672/vhost") is None
    for url in ("amqps://u:p@broker?certfile=/etc/x", "amqps://u:p@broker?no_verify_ssl=1", "amqp://broker#x"):
        assert address_problem(url) == "it has options; remove everything from '?' or '#' on"
    for url in ("amqp://broker:0", "amqp://broker:66666", "amqp://[", "amqp://:1", "amqp:///x", "broker"):
        assert address_problem(url) is not None


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ({}, "run.amqp: has neither an exchange nor a routing_key"),
        ({"routing_key": "a\nb"}, "run.amqp.routing_key: contains a control character"),
        ({"exchange": "x", "headers": {"CronFlow-Fence": "1"}}, "run.amqp.headers: 'CronFlow-Fence' is set by"),
        ({"exchange": "x", "headers": {"": "1"}}, "run.amqp.headers: '' is not the name of a header"),
        ({"exchange": "x", "headers": {"token": "***"}}, "run.amqp.headers.token: is ***, from a document that was"),
        ({"exchange": "x", "url": "amqp://***@broker"}, "run.amqp.url: is ***, from a document that was masked"),
    ],
)
def test_a_message_that_no_node_can_send_is_refused_when_it_is_defined(
    message: dict[str, object], problem: str
) -> None:
    [found] = target_problems(parse_job(document(**message)).target)
    assert str(found).startswith(problem)

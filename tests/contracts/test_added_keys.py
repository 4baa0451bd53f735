"""Keys of jobs and alerts that 0.9 does not have: nodes of that version can read what is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from cronflow.backends import codec
from cronflow.documents import parse_job
from cronflow.documents.alerts import parse_alert
from cronflow.domain.alert_kinds import AlertKind
from cronflow.domain.alert_receivers import Webhook
from cronflow.domain.alerts import Alert, AlertRecord
from cronflow.domain.amqp_target import AmqpTarget
from cronflow.domain.capabilities import Capabilities, needs_of
from cronflow.domain.chain import ChainLink, Join, On, Upstream, UpstreamRun
from cronflow.domain.cluster import Member
from cronflow.domain.job import CommandTarget, Job
from cronflow.domain.placement import unable
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.retry import Retry, RetryRule
from cronflow.domain.run import Kind, RunState
from cronflow.domain.shadow import JobMode, ReplacedLine
from cronflow.domain.version import version_of
from cronflow.ports import Assignment
from tests.contracts.builders import T0, a_job, a_record, a_report, a_run

PLAIN = a_job(priority=7)
RULED = replace(
    PLAIN, prefer={"zone": "a"}, spread=True, apart_from=("import",), resources=ResourceAmount(0.5, 1 << 28)
)
FOLLOWING = replace(
    PLAIN,
    after=(Upstream("import"), Upstream("export.daily", On.FAILED, timedelta(hours=6))),
    join=Join.ANY,
)
SHADOW = replace(PLAIN, mode=JobMode.SHADOW, replaces=ReplacedLine(command="true", user="root", host="web-1"))
PUBLISHING = replace(PLAIN, target=AmqpTarget("amqp://broker", routing_key="reports"))
RETRYING = replace(PLAIN, retry=Retry(rules=(RetryRule("OSError", retry=False),)), pause_after=3)
OF_0_9 = {
    *("name", "description", "schedule", "run", "retry", "timeout", "overlap", "misfire", "delivery", "start_guard"),
    *("priority", "require", "labels", "enabled"),
}


@pytest.mark.parametrize("job", [RULED, RETRYING, FOLLOWING], ids=["placement", "retries", "chains"])
def test_a_stored_definition_has_only_keys_that_0_9_reads_and_a_label_that_no_node_has(job: Job) -> None:
    for document in (codec.record_document(a_record(job=job)), codec.version_document(version_of(a_record(job=job)))):
        read = orjson.loads(document["definition"])
        assert read.keys() <= OF_0_9
        assert read["require"].keys() == {codec.NEWER_KEYS}
        assert read.get("retry", {}).keys() <= codec.RETRY_KEYS_OF_0_9


def test_a_job_in_shadow_mode_has_a_label_that_0_11_leaves_to_newer_leaders() -> None:
    read = orjson.loads(codec.definition(SHADOW))
    assert read.keys() <= OF_0_9
    assert read["require"].keys() == {codec.KEYS_SINCE_0_12}
    # A leader of 0.11 takes it for the label of a node, and finds none that has it.
    assert needs_of(parse_job(read)).labels == tuple(read["require"].items())
    both = replace(RULED, mode=JobMode.SHADOW, require={"gpu": "yes"})
    hidden = orjson.loads(codec.definition(both))["require"]
    assert hidden.keys() == {"gpu", codec.NEWER_KEYS, codec.KEYS_SINCE_0_12}
    assert codec.job_of_definition(codec.definition(both)) == both


@pytest.mark.parametrize("job", [RULED, RETRYING, FOLLOWING, SHADOW], ids=["placement", "retries", "chains", "shadow"])
def test_a_job_and_its_versions_come_back_whole(job: Job) -> None:
    record = a_record(job=job)
    assert codec.record(codec.record_document(record)) == record
    assert codec.version(codec.version_document(version_of(record))).job == job


def test_a_target_that_0_11_does_not_know_is_stored_in_a_label_that_no_node_has() -> None:
    """A leader of 0.11 would not plan anything if it could not read one job."""
    both = replace(PUBLISHING, pause_after=3, require={"gpu": "yes"})
    for job in (both, replace(PUBLISHING, target=AmqpTarget("amqp://broker", routing_key="b")), PUBLISHING):
        read = orjson.loads(codec.definition(job))
        assert read["run"] == codec.NO_TARGET
        assert codec.NEWER_TARGET in read["require"]
        assert codec.record(codec.record_document(a_record(job=job))).job == job
    # 0.11 leaves the label where it is, and finds no node for it.
    as_0_11 = replace(PUBLISHING, target=CommandTarget("true"), require=read["require"])
    reason = unable(Member(a_report(knows_newer_keys=True), timedelta(0), 0, 0), needs_of(as_0_11))
    assert reason is not None
    assert reason.startswith(f"no label {codec.NEWER_TARGET}")
    # A node of 0.11 announces what it can run, and not this.
    able = a_report(knows_newer_keys=True, capabilities=Capabilities())
    assert unable(Member(able, timedelta(0), 0, 0), needs_of(PUBLISHING)) is not None


def test_a_node_of_0_11_gets_no_command_with_a_condition_that_it_would_leave_out() -> None:
    job = replace(PLAIN, target=CommandTarget("true", when_present="/usr/bin/certbot"))
    read = orjson.loads(codec.definition(job))
    assert read["run"] == codec.NO_TARGET
    assert codec.job_of_definition(codec.definition(job)) == job
    older, newer = a_report(knows_newer_keys=True, version="0.11.0"), a_report(knows_keys_of_0_12=True)
    reason = unable(Member(older, timedelta(0), 0, 0), needs_of(job))
    assert reason == "does not support all keys of this job (runs 0.11.0); upgrade it"
    assert unable(Member(newer, timedelta(0), 0, 0), needs_of(job)) is None


def test_jobs_that_differ_only_in_newer_keys_are_not_mixed_up() -> None:
    for job in (
        PLAIN,
        RULED,
        RETRYING,
        FOLLOWING,
        replace(FOLLOWING, join=Join.ALL),
        replace(RULED, spread=False),
        PLAIN,
    ):
        assert codec.record(codec.record_document(a_record(job=job))).job == job


def test_a_node_of_0_9_gets_no_run_that_it_would_execute_in_another_way() -> None:
    assert needs_of(RETRYING).newer
    assert needs_of(FOLLOWING).newer
    assert not needs_of(RULED).newer


def test_the_capacity_of_a_node_comes_back_and_is_unknown_of_an_older_one() -> None:
    report = a_report(capacity=ResourceAmount(2.5, 1 << 30))
    assert codec.report_from_json(codec.report_json(report)) == report
    older = {key: value for key, value in orjson.loads(codec.report_json(report)).items() if key != "capacity"}
    assert codec.report_from_json(orjson.dumps(older)).capacity is None


def test_the_apps_of_a_node_come_back_and_are_none_of_an_older_one() -> None:
    report = a_report(apps={"billing": "0a1b2c3d4e5f"})
    assert codec.report_from_json(codec.report_json(report)) == report
    older = {key: value for key, value in orjson.loads(codec.report_json(report)).items() if key != "apps"}
    assert codec.report_from_json(orjson.dumps(older)).apps == {}


def test_an_alert_without_new_settings_is_stored_with_keys_of_0_9_only() -> None:
    alert = Alert(name="all", on=(AlertKind.FAILED,), webhook=Webhook("http://hooks"), late_after=timedelta(minutes=1))
    record = AlertRecord(alert=alert, since=T0, judged=T0, created_at=T0, updated_at=T0)
    document = codec.alert_record_document(record)
    assert document["alert"].keys() == {"name", "on", "webhook", "late_after"}
    assert parse_alert(document["alert"]) == alert
    assert codec.alert_record(document) == record


def test_a_record_has_the_names_that_it_follows_for_the_index() -> None:
    document = codec.record_document(a_record(job=FOLLOWING))
    assert document["follows"] == ["import", "export.daily"]
    assert "follows" not in codec.record_document(a_record(job=PLAIN))


LINK = ChainLink("import@1", 2, (UpstreamRun("import", "import@1", RunState.LOST),))


def test_a_run_that_follows_others_is_a_replay_to_0_9_and_comes_back_whole() -> None:
    run = replace(a_run("report", T0), kind=Kind.AFTER, chain=LINK, followed=True)
    document = codec.run_document(run)
    assert document["kind"] == "replay"
    assert codec.run(document) == run
    plain = codec.run_document(a_run("report", T0))
    assert plain.keys().isdisjoint({"after", "chain", "followed"})


@pytest.mark.parametrize("chain", [None, LINK, ChainLink("import@1", 0)])
def test_a_queued_item_keeps_its_place_in_the_chain(chain: ChainLink | None) -> None:
    assignment = Assignment(
        run="report@after-1", fence=5, term=3, attempt=1, fire_at=T0, job=FOLLOWING, args={"a": 1}, chain=chain
    )
    found = codec.assignment(codec.US.encode() + codec.item(assignment))
    assert found == assignment
    assert found.chain_id == ("report@after-1" if chain is None else "import@1")

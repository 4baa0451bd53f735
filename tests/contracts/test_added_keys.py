"""Keys of jobs and alerts that 0.9 does not have: nodes of that version can read what is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from cronflow.backends import codec
from cronflow.documents.alerts import parse_alert
from cronflow.domain.alerts import Alert, AlertKind, AlertRecord, Webhook
from cronflow.domain.capabilities import needs_of
from cronflow.domain.job import Job
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.retry import Retry, RetryRule
from cronflow.domain.version import version_of
from tests.contracts.builders import T0, a_job, a_record, a_report

PLAIN = a_job(priority=7)
RULED = replace(
    PLAIN, prefer={"zone": "a"}, spread=True, apart_from=("import",), resources=ResourceAmount(0.5, 1 << 28)
)
RETRYING = replace(PLAIN, retry=Retry(rules=(RetryRule("OSError", retry=False),)), pause_after=3)
OF_0_9 = {
    *("name", "description", "schedule", "run", "retry", "timeout", "overlap", "misfire", "delivery", "start_guard"),
    *("priority", "require", "labels", "enabled"),
}


@pytest.mark.parametrize("job", [RULED, RETRYING], ids=["placement", "retries"])
def test_a_stored_definition_has_only_keys_that_0_9_reads_and_a_label_that_no_node_has(job: Job) -> None:
    for document in (codec.record_document(a_record(job=job)), codec.version_document(version_of(a_record(job=job)))):
        read = orjson.loads(document["definition"])
        assert read.keys() <= OF_0_9
        assert read["require"].keys() == {codec.NEWER_KEYS}
        assert read.get("retry", {}).keys() <= codec.RETRY_KEYS_OF_0_9


@pytest.mark.parametrize("job", [RULED, RETRYING], ids=["placement", "retries"])
def test_a_job_and_its_versions_come_back_whole(job: Job) -> None:
    record = a_record(job=job)
    assert codec.record(codec.record_document(record)) == record
    assert codec.version(codec.version_document(version_of(record))).job == job


def test_jobs_that_differ_only_in_newer_keys_are_not_mixed_up() -> None:
    for job in (PLAIN, RULED, RETRYING, replace(RULED, spread=False), PLAIN):
        assert codec.record(codec.record_document(a_record(job=job))).job == job


def test_a_node_of_0_9_gets_no_run_that_it_would_execute_in_another_way() -> None:
    assert needs_of(RETRYING).newer
    assert not needs_of(RULED).newer


def test_the_capacity_of_a_node_comes_back_and_is_unknown_of_an_older_one() -> None:
    report = a_report(capacity=ResourceAmount(2.5, 1 << 30))
    assert codec.report_from_json(codec.report_json(report)) == report
    older = {key: value for key, value in orjson.loads(codec.report_json(report)).items() if key != "capacity"}
    assert codec.report_from_json(orjson.dumps(older)).capacity is None


def test_an_alert_without_new_settings_is_stored_with_keys_of_0_9_only() -> None:
    alert = Alert(name="all", on=(AlertKind.FAILED,), webhook=Webhook("http://hooks"), late_after=timedelta(minutes=1))
    record = AlertRecord(alert=alert, since=T0, judged=T0, created_at=T0, updated_at=T0)
    document = codec.alert_record_document(record)
    assert document["alert"].keys() == {"name", "on", "webhook", "late_after"}
    assert parse_alert(document["alert"]) == alert
    assert codec.alert_record(document) == record

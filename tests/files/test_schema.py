"""The published JSON Schema accepts what the parser accepts, and refuses unknown keys and wrong types."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from cronflow.documents import complete_document, job_document
from cronflow.domain.job import Job
from cronflow.files.schema import schema_text
from cronflow.files.yaml_values import values_of
from tests.drawing import examples
from tests.test_documents import jobs as any_job
from tests.test_documents_shown import LIVING, ROOT, blocks
from tools.docs.job_file_schema import text

GOOD = {"name": "job", "run": {"shell": "true"}}


@cache
def validator() -> Any:
    schema = json.loads(schema_text())
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def as_json(value: Any) -> Any:
    """What an editor sees: it knows no dates."""
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(as_json, value)]
    return value.isoformat() if isinstance(value, date) else value


def accepts(document: object) -> bool:
    return bool(validator().is_valid(as_json(document)))


def test_the_published_schema_is_the_one_of_the_tables() -> None:
    assert schema_text() == text(), "run: make docs"


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_job)
def test_every_job_is_accepted_in_each_of_its_forms(job: Job) -> None:
    for document in (job_document(job), job_document(job, compact=True), complete_document(job)):
        assert accepts(document), list(validator().iter_errors(as_json(document)))
        assert accepts({"jobs": [document]})


def test_every_job_file_of_the_documentation_is_accepted() -> None:
    shown = [block for page in LIVING for block in blocks(page.read_text("utf-8"), "yaml")]
    files = [path.read_text("utf-8") for path in (ROOT / "docs" / "examples").glob("**/*.yaml")]
    found = [
        one for text in [*shown, *files] for one in values_of(Path("shown.yaml"), text)[0] if isinstance(one, dict)
    ]
    wanted = [one for one in found if "jobs" in one and isinstance(one["jobs"], list)]
    assert len(wanted) > 20
    for document in wanted:
        assert accepts(document), (document, [error.message for error in validator().iter_errors(as_json(document))])


@pytest.mark.parametrize(
    "more",
    [
        {"misfire": "skip"},
        {"after": "other"},
        {"after": ["other", {"job": "third", "on": "failed"}]},
        {"concurrency": "database"},
        {"concurrency": {"key": "{job}", "limit": 2}},
        {"rate": "100/m"},
        {"timeout": 90},
        {"run": {"http": {"url": "https://host", "expect": 204}}},
        {"schedule": {"cron": "@daily", "business_day": "last", "calendars": "holidays", "blackout": "freeze"}},
        {"schedule": {"at": "2026-12-24T18:00:00Z"}},
        {"schedule": None},
    ],
)
def test_short_forms_are_accepted(more: dict[str, Any]) -> None:
    assert accepts({**GOOD, **more})
    assert accepts({"defaults": {"tz": "Europe/Berlin", "retry": {"max": 1}}, "jobs": [{**GOOD, **more}]})


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "job"},
        {**GOOD, "tiemout": "5s"},
        {**GOOD, "priority": "high"},
        {**GOOD, "run": {"shell": "true", "python": "a:b"}},
        {**GOOD, "schedule": {"cron": "@daily", "every": "5m"}},
        {**GOOD, "misfire": "sometimes"},
        {**GOOD, "run": {"system": "sweep"}},
        {"jobs": [GOOD], "default": {}},
        {"jobs": [GOOD], "defaults": {"name": "x"}},
        {"jobs": GOOD},
        [],
    ],
)
def test_mistakes_are_refused(wrong: object) -> None:
    assert not accepts(wrong)


def test_keys_are_described_for_the_editor() -> None:
    definitions = json.loads(schema_text())["definitions"]
    for name in ("JobInput", "CronInput", "RequestInput"):
        for key, described in definitions[name]["properties"].items():
            assert described.get("description"), (name, key)


def test_the_schema_is_part_of_the_package() -> None:
    assert (Path(ROOT) / "cronflow" / "files" / "job-file.schema.json").is_file()


def test_keys_have_the_defaults_of_the_format_but_not_those_of_a_cluster() -> None:
    definitions = json.loads(schema_text())["definitions"]
    job, cron, retry = (definitions[name]["properties"] for name in ("JobInput", "CronInput", "BackoffInput"))
    assert job["timeout"]["default"] == "1h"
    assert job["misfire"]["default"]["policy"] == "fire_once"
    assert cron["dst"]["default"] == {"gap": "next_valid", "overlap": "first"}
    # CRONFLOW_TIMEZONE and CRONFLOW_RETRY_… complete these.
    assert "default" not in cron["tz"]
    assert "default" not in job["retry"]
    assert not any("default" in key for key in retry.values())

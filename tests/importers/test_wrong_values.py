"""A value of another type, at any key of a valid file, is imported, noted or refused; it is never an exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from cronflow.domain.errors import InvalidInput
from cronflow.importers.celery_beat import read_celery
from cronflow.importers.dkron import read_dkron
from cronflow.importers.imported import ImportedFile
from cronflow.importers.kubernetes import read_kubernetes
from tests.importers.as_written import written

CRONJOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "a", "namespace": "b", "labels": {"c": "d"}, "annotations": {"e": "f"}},
    "spec": {
        "schedule": "0 0 * * *",
        "timeZone": "Europe/Berlin",
        "suspend": True,
        "concurrencyPolicy": "Allow",
        "startingDeadlineSeconds": 5,
        "jobTemplate": {
            "spec": {
                "backoffLimit": 1,
                "activeDeadlineSeconds": 5,
                "parallelism": 1,
                "template": {
                    "spec": {
                        "nodeSelector": {"a": "b"},
                        "initContainers": [],
                        "containers": [
                            {
                                "name": "a",
                                "image": "b",
                                "command": ["c"],
                                "args": ["d"],
                                "workingDir": "/e",
                                "env": [
                                    {"name": "F", "value": "g"},
                                    {"name": "H", "valueFrom": {"secretKeyRef": {"name": "i"}}},
                                ],
                                "envFrom": [{"secretRef": {"name": "j"}}],
                                "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                            }
                        ],
                    }
                },
            }
        },
    },
}
DKRON = [
    {
        "name": "a",
        "displayname": "b",
        "timezone": "Europe/Berlin",
        "schedule": "0 ~ 0 * * *",
        "owner": "c",
        "disabled": True,
        "tags": {"d": "e:1"},
        "metadata": {"f": "g"},
        "retries": 1,
        "parent_job": "",
        "processors": {"log": {}},
        "concurrency": "allow",
        "executor": "http",
        "executor_config": {"url": "http://a", "headers": '["a: b"]', "expectCode": "200", "timeout": "5"},
        "ephemeral": True,
        "starts_at": "2027-01-01T00:00:00Z",
        "expires_at": "2028-01-01T00:00:00Z",
    },
    {
        "name": "b",
        "schedule": "@every 5m",
        "executor": "shell",
        "executor_config": {"command": "a", "env": "B=c", "timeout": "5s", "mem_limit": "1GB", "su": "d"},
    },
]
TASK = {"name": "a", "task": "b.c", "args": "[]", "kwargs": '{"d": 1}', "enabled": True, "description": "e"}
DJANGO = [
    {
        "model": "django_celery_beat.crontabschedule",
        "pk": 1,
        "fields": {"minute": "0", "hour": "*", "day_of_week": "*", "timezone": "Europe/Berlin"},
    },
    {"model": "django_celery_beat.intervalschedule", "pk": 1, "fields": {"every": 5, "period": "hours"}},
    {"model": "django_celery_beat.periodictask", "pk": 1, "fields": {**TASK, "crontab": 1, "expire_seconds": 5}},
    {"model": "django_celery_beat.periodictask", "pk": 2, "fields": {**TASK, "interval": 1, "one_off": True}},
]
WRONG: tuple[object, ...] = (None, True, -1, 1e300, "", "x", "{{ x }}", "\x00", [], [None], ["x"], {}, {"x": None})


def changed(value: Any) -> Iterator[Any]:
    """The value with each of its parts replaced by each wrong value."""
    yield from WRONG
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for inner in changed(value[key]):
            other = copy.copy(value)
            other[key] = inner
            yield other


@pytest.mark.prove
@pytest.mark.parametrize(
    ("read", "write", "valid"),
    [
        (read_kubernetes, yaml.safe_dump, CRONJOB),
        (read_dkron, json.dumps, DKRON),
        (read_celery, json.dumps, DJANGO),
    ],
)
def test_a_value_of_another_type_is_no_exception(
    read: Callable[[str, str], ImportedFile], write: Callable[[Any], str], valid: Any
) -> None:
    for one in changed(valid):
        try:
            file = read(write(one), "file")
        except InvalidInput:
            continue
        yaml.compose(written(file), yaml.CSafeLoader)

"""CronJobs of Kubernetes. The first tests have facts of public manifests, which are named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from cronflow.domain.errors import InvalidInput
from cronflow.importers.imported import ImportedFile
from cronflow.importers.kubernetes import read_kubernetes
from tests.importers.as_written import jobs_of, notes_of, reasons, written


def read(*manifests: object) -> ImportedFile:
    return read_kubernetes(yaml.safe_dump_all(manifests), "jobs.yaml")


def cronjob(
    container: Mapping[str, object], pod: object = None, job: object = None, **spec: object
) -> dict[str, object]:
    name = spec.pop("name", "job")
    pod_spec = {"containers": [{"name": "main", "command": ["run"], **container}], **(pod or {})}  # type: ignore[dict-item]
    template = {"spec": {**(job or {}), "template": {"spec": pod_spec}}}  # type: ignore[dict-item]
    spec = {"schedule": "5 3 * * *", "timeZone": "Etc/UTC", **spec, "jobTemplate": template}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def test_the_cronjob_of_the_descheduler(tmp_path: Path) -> None:
    """kubernetes-sigs/descheduler, kubernetes/cronjob/cronjob.yaml"""
    container = {
        "image": "k8s.gcr.io/descheduler/descheduler:v0.23.0",
        "command": ["/bin/descheduler"],
        "args": ["--policy-config-file", "/policy-dir/policy.yaml"],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
        "volumeMounts": [{"mountPath": "/policy-dir", "name": "policy-volume"}],
        "livenessProbe": {},
    }
    manifest = cronjob(container, {"priorityClassName": "critical"}, schedule="*/2 * * * *", concurrencyPolicy="Forbid")
    del manifest["spec"]["timeZone"]  # type: ignore[attr-defined]
    file = read(manifest)
    assert jobs_of(file, tmp_path)["job"] == {
        "schedule": {"cron": "*/2 * * * *"},
        "run": {"argv": ["/bin/descheduler", "--policy-config-file", "/policy-dir/policy.yaml"]},
        "resources": {"cpu": 0.5, "memory": "256MiB"},
        "overlap": "forbid",
        "misfire": {"policy": "fire_once"},
        "retry": {"max": 6, "initial": "10s", "multiplier": 2, "cap": "6m"},
        "timeout": "1d",
    }
    notes = notes_of(file, "job")
    for text in ("containers.livenessProbe, containers.volumeMounts, priorityClassName", "descheduler:v0.23.0", "zone"):
        assert text in notes


def test_a_missed_run_is_skipped_after_the_starting_deadline_of_ct_monitor(tmp_path: Path) -> None:
    """Hsn723/ct-monitor, manifests/cronjob.yaml: hourly, 60 seconds; its image has the command, which is added here."""
    file = read(cronjob({"envFrom": [{"secretRef": {"name": "ct-monitor-secrets"}}]}, startingDeadlineSeconds=60))
    assert jobs_of(file, tmp_path)["job"]["misfire"] == {"policy": "fire_once", "late_after": "60s", "grace": "60s"}
    assert "secretRef ct-monitor-secrets" in notes_of(file, "job")


def test_a_container_without_a_command_is_refused_as_in_namespace_cleaner() -> None:
    """StatCan/namespace-cleaner, manifests/cronjob.yaml"""
    file = read(cronjob({"command": None, "image": "namespace-cleaner:d158"}))
    assert reasons(file) == {"CronJob job": "the container has no command, so its program is only known to its image"}
    assert "namespace-cleaner:d158" in written(file)


def test_the_keys_of_a_cronjob_become_keys_of_the_job(tmp_path: Path) -> None:
    env = [
        {"name": "LEVEL", "value": "3"},
        {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    container = {"args": ["$(LEVEL)", "$$(LEVEL)", "$(PGPASSWORD)"], "env": env, "workingDir": "/srv"}
    job = {"backoffLimit": 0, "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 5}
    spec = {"suspend": True, "concurrencyPolicy": "Replace", "successfulJobsHistoryLimit": 3, "newKey": 1}
    manifest = cronjob(container, {"nodeSelector": {"disk": "ssd"}}, job, timeZone="Europe/Berlin", **spec)
    manifest["metadata"] = {"name": "Job", "namespace": "shop", "labels": {"app": "x"}, "annotations": {"a/b": "c"}}
    file = read(manifest)
    found = jobs_of(file, tmp_path)["job"]
    assert found == {
        "schedule": {"cron": "5 3 * * *", "tz": "Europe/Berlin"},
        "run": {
            "argv": ["run", "3", "$(LEVEL)", "$(PGPASSWORD)"],
            "cwd": "/srv",
            "env": {"LEVEL": "3", "PGPASSWORD": "${secret:PGPASSWORD}"},
        },
        "require": {"disk": "ssd"},
        "overlap": "replace",
        "misfire": {"policy": "fire_once"},
        "retry": {"max": 0},
        "timeout": "600s",
        "labels": {"app": "x", "namespace": "shop"},
        "enabled": False,
    }
    notes = notes_of(file, "job")
    for text in ("POD", "$(PGPASSWORD)", "HistoryLimit, ttlSecondsAfterFinished", "a/b", "spec.newKey", "secrets set"):
        assert text in notes, text


def test_lists_and_other_kinds(tmp_path: Path) -> None:
    of_a_list = {"metadata": {"name": "two"}, "spec": cronjob({})["spec"]}
    lists = [{"kind": "CronJobList", "items": [of_a_list]}, {"kind": "List", "items": [cronjob({}, name="three")]}]
    file = read(cronjob({}, name="one"), *lists, {"kind": "ConfigMap"}, None)
    assert list(jobs_of(file, tmp_path)) == ["one", "two", "three"]
    assert "Left out: 1 ConfigMap." in written(file)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (cronjob({}, schedule="0 0 * * 7"), "does not accept '7' in the day-of-week field"),
        (cronjob({}, schedule="0 0 * *"), "has 4 fields"),
        (cronjob({}, schedule=None), "spec.schedule is missing"),
        (cronjob({}, schedule="{{ .Values.cron }}"), "a Helm template"),
        (cronjob({}, timeZone="Mars/Base"), "there is no time zone"),
        (cronjob({}, {"initContainers": [{}]}), "init containers"),
        (cronjob({}, {"containers": [{}, {}]}), "2 containers"),
        (cronjob({}, job={"completions": 3}), "completions is 3"),
        (cronjob({"resources": {"requests": {"cpu": "many"}}}), "'many' is not a quantity"),
        (cronjob({}, startingDeadlineSeconds="soon"), "startingDeadlineSeconds is 'soon'"),
        (cronjob({}, concurrencyPolicy="Queue"), "concurrencyPolicy is 'Queue'"),
        (cronjob({"env": [{"name": "A B", "value": "1"}]}), "not the name of an environment variable"),
    ],
)
def test_what_cannot_be_imported_is_refused_with_a_reason(manifest: object, reason: str) -> None:
    file = read(manifest)
    assert reason in reasons(file)["CronJob job"]
    assert "kind: CronJob" in written(file)


def test_a_helm_template_is_refused_with_the_command_that_renders_it() -> None:
    with pytest.raises(InvalidInput, match="helm template RELEASE CHART"):
        read_kubernetes("metadata:\n  labels: {{- include x . | nindent 4 }}\n", "cronjob.yaml")
    with pytest.raises(InvalidInput, match=r"cronjob\.yaml:2"):
        read_kubernetes("a: b\nc: [", "cronjob.yaml")

"""The Helm chart: linted and rendered by Helm, valid for Kubernetes, and the same as the manifests beside it.

Helm comes from a Python package in CI (see the Makefile); elsewhere these tests are skipped without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from cronflow.config import load_settings
from tests.deploy import files
from tests.deploy.test_deployment import NEWEST_KUBERNETES, OLDEST_KUBERNETES
from tests.test_documents_shown import parse

EVERYTHING = """
image: {repository: registry.example.com/cronflow, tag: 1.2.3}
imagePullSecrets: [{name: registry}]
settings: {TIMEZONE: Europe/Berlin}
nodes:
  replicas: 5
  apps: ["billing.jobs:app"]
  labels: {region: eu}
  settings: {SLOTS: 32, ALLOW_SHELL: true}
  drainTimeoutSeconds: 120
  spool: {size: 2Gi, storageClassName: fast}
  resources: {requests: {cpu: 500m}}
  nodeSelector: {disk: ssd}
  tolerations: [{key: batch, operator: Exists}]
  env: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  volumeMounts: [{name: data, mountPath: /data}]
api:
  settings: {TRUSTED_PROXIES: 10.0.0.0/8}
  service: {type: NodePort, port: 8080}
ingress: {enabled: true, className: nginx, host: cron.example.com, tlsSecret: cron-tls}
"""


@pytest.fixture(scope="module")
def helm() -> str:
    return files.tool("helm", package="Helm 3 or later")


def rendered(helm: str, *options: str, release: str = "cronflow") -> dict[tuple[str, str], Any]:
    """The resources by kind and name."""
    code, output = files.output_of(helm, "template", release, str(files.CHART), *options)
    assert code == 0, output
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(output) if one}


@pytest.fixture(scope="module")
def customized(helm: str, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    values = tmp_path_factory.mktemp("helm") / "values.yaml"
    values.write_text(EVERYTHING)
    return rendered(helm, "--values", str(values), release="acme")


def container(resource: Any) -> Any:
    [found] = resource["spec"]["template"]["spec"]["containers"]
    return found


def test_helm_finds_nothing_to_improve(helm: str) -> None:
    code, output = files.output_of(helm, "lint", "--strict", "--quiet", str(files.CHART))
    assert (code, output.strip()) == (0, ""), output


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{place}[{number}]")
    elif one != other:
        yield place


def test_the_default_values_give_the_manifests(helm: str) -> None:
    found = rendered(helm)
    expected = {
        (kind, one["metadata"]["name"]): one for role in files.MANIFESTS for kind, one in files.manifests(role).items()
    }
    assert found.keys() == expected.keys()
    for name, resource in found.items():
        if name[0] in ("StatefulSet", "Deployment"):
            made, pod = container(resource), container(expected[name])
            assert made.pop("image") == f"{pod.pop('image')}:{files.version()}"
            assert made.pop("imagePullPolicy") == "IfNotPresent"
            made["env"] = [one for one in made["env"] if one["name"] != "CRONFLOW_DRAIN_TIMEOUT"]
        # The chart's own labels: the version, and who manages the resource.
        labels = resource["metadata"]["labels"]
        resource["metadata"]["labels"] = {key: labels[key] for key in expected[name]["metadata"]["labels"]}
        assert not [*differences(resource, expected[name], "/".join(name))]


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
def test_the_kubernetes_schemas_accept_every_resource(customized: dict[tuple[str, str], Any], version: str) -> None:
    assert ("Ingress", "acme-cronflow-api") in customized
    for resource in customized.values():
        assert validate(resource, version, strict=True) == version


def test_values_reach_the_pods(customized: dict[tuple[str, str], Any], tmp_path: Path) -> None:
    stateful = customized["StatefulSet", "acme-cronflow-node"]
    node = container(stateful)
    assert node["image"] == "registry.example.com/cronflow:1.2.3"
    assert node["args"] == ["node", "--app", "billing.jobs:app", "--label", "region=eu"]
    parse(node["args"])
    pod = stateful["spec"]["template"]["spec"]
    assert (pod["terminationGracePeriodSeconds"], stateful["spec"]["replicas"]) == (150, 5)
    own = {one["name"]: one["value"] for one in node["env"] if one["name"].startswith("CRONFLOW_") and "value" in one}
    settings = load_settings({}, environ={**own, "CRONFLOW_SECRETS_DIR": str(tmp_path)}, folder=tmp_path)
    assert (settings.slots, settings.allow_shell, settings.timezone) == (32, True, "Europe/Berlin")
    assert settings.drain_timeout.total_seconds() == 120
    api = {one["name"]: one["value"] for one in container(customized["Deployment", "acme-cronflow-api"])["env"]}
    assert (api["CRONFLOW_TIMEZONE"], api["CRONFLOW_TRUSTED_PROXIES"]) == ("Europe/Berlin", "10.0.0.0/8")
    assert "CRONFLOW_SLOTS" not in api


def test_two_releases_select_only_their_own_pods(helm: str, customized: dict[tuple[str, str], Any]) -> None:
    ours = customized["Service", "acme-cronflow-api"]["spec"]["selector"]
    theirs = container_labels(rendered(helm, release="other")["Deployment", "other-cronflow-api"])
    assert ours.items() <= container_labels(customized["Deployment", "acme-cronflow-api"]).items()
    assert not ours.items() <= theirs.items()


def container_labels(resource: Any) -> dict[str, str]:
    labels: dict[str, str] = resource["spec"]["template"]["metadata"]["labels"]
    return labels


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("nodes.replicas=many", "/nodes/replicas"),
        ("node.replicas=3", "node"),
        ("settings.CRONFLOW_SLOTS=3", "CRONFLOW_SLOTS"),
        ("ingress.enabled=true", "ingress.host: give the host name"),
        ("nodes.apps={billing}", "/nodes/apps/0"),
    ],
)
def test_a_mistake_in_a_value_is_refused(helm: str, option: str, message: str) -> None:
    code, output = files.output_of(helm, "template", "cronflow", str(files.CHART), "--set", option)
    assert code != 0
    assert message in output

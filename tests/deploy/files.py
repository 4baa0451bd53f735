"""The deployment files as values, and the real tools that validate them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
UNITS = {role: ROOT / "deploy" / "systemd" / f"cronflow-{role}.service" for role in ("node", "api")}
DROP_IN = ROOT / "deploy" / "systemd" / "cronflow-node.service.d" / "billing.conf"
MANIFESTS = {role: ROOT / "deploy" / "kubernetes" / f"{role}.yaml" for role in ("node", "api")}
WATCHER_UNIT = ROOT / "deploy" / "systemd" / "cronflow-watcher.service"
WATCHER_MANIFEST = ROOT / "deploy" / "kubernetes" / "watcher.yaml"
PROMETHEUS = ROOT / "deploy" / "prometheus" / "prometheus.yml"
CHART = ROOT / "deploy" / "helm" / "cronflow"
KUSTOMIZATION = ROOT / "deploy" / "kubernetes" / "kustomization.yaml"
WATCHER = (WATCHER_UNIT, WATCHER_MANIFEST)
ALL = (
    CHART / "Chart.yaml",
    COMPOSE,
    DOCKERFILE,
    *UNITS.values(),
    *MANIFESTS.values(),
    *WATCHER,
    KUSTOMIZATION,
    PROMETHEUS,
)
INSTALLED = "/opt/cronflow/bin/cronflow"
"""The path of the command in the image and in the units."""


def tool(*names: str, package: str) -> str:
    """The first of these programs on the PATH. Without one, the test fails in CI and is skipped elsewhere."""
    path = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    missing = f"NOT CHECKED: {' or '.join(names)} not found; install {package}"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def output_of(*command: str) -> tuple[int, str]:
    """The exit code and the output."""
    found = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return found.returncode, found.stdout


def compose() -> dict[str, Any]:
    """The compose file with merge keys resolved."""
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))
    return read


def version() -> str:
    project: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return project


def unit(role: str) -> dict[str, list[str]]:
    """The directives of a unit's [Service], each with all its values."""
    found: dict[str, list[str]] = {}
    section = ""
    path = WATCHER_UNIT if role == "watcher" else UNITS[role]
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def manifests(role: str) -> dict[str, Any]:
    """The documents of a manifest, by kind."""
    path = WATCHER_MANIFEST if role == "watcher" else MANIFESTS[role]
    return {one["kind"]: one for one in yaml.safe_load_all(path.read_text("utf-8"))}


def pod(role: str) -> dict[str, Any]:
    """The pod specification in a manifest."""
    kind = "StatefulSet" if role == "node" else "Deployment"
    spec: dict[str, Any] = manifests(role)[kind]["spec"]["template"]["spec"]
    return spec


def environments() -> dict[str, Mapping[str, str | None]]:
    """The environment variables that each file sets; None where the cluster provides the value."""
    found: dict[str, Mapping[str, str | None]] = {}
    for name, service in compose()["services"].items():
        given = service.get("environment", {})
        found[f"docker-compose.yml: {name}"] = {key: str(value) for key, value in given.items()}
    for role in (*UNITS, "watcher"):
        pairs = [pair.partition("=") for pair in unit(role)["Environment"]]
        found[f"cronflow-{role}.service"] = {key: value for key, _, value in pairs}
        [container] = pod(role)["containers"]
        found[f"{role}.yaml"] = {one["name"]: one.get("value") for one in container["env"]}
    lines = DOCKERFILE.read_text("utf-8").replace("\\\n", " ").splitlines()
    words = [word for line in lines if line.startswith("ENV ") for word in line.split()[1:]]
    found["Dockerfile"] = {name: value for name, _, value in (word.partition("=") for word in words)}
    return found

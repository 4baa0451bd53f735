"""The files of deployment: the real tools accept them, CronFlow understands what they set, and they agree.

The rule it protects: what somebody copies from here starts. What a cluster of them does is seen by hand, see
docs/how-to/deploy.md.
"""

from __future__ import annotations

import os
import re
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from kubernetes_validate import ValidationError, validate

from cronflow.config import Settings, load_settings
from cronflow.config.settings import FIELDS
from cronflow.domain.durations import parse_duration
from cronflow.domain.errors import InvalidInput
from cronflow.monitoring.server import PATH
from tests.children import child_environment
from tests.deploy import files
from tests.test_documents_shown import LIVING, parse

OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.29", "1.37"
OF_NODES = {"REDIS_URL", "MONGO_URL", "SECRETS_KEY"}
OF_APIS = {*OF_NODES, "JWT_SECRET", "ADMIN_PASSWORD"}
METRICS_PORT = 9500
DEPLOY = files.ROOT / "docs" / "how-to" / "deploy.md"
MUCH_TIME = timedelta(seconds=20)
"""For what comes after the drain: ending what still runs takes ten seconds and more, then recording it."""


def settings(tmp_path: Path, environ: dict[str, str]) -> Settings:
    """As a process with this environment and nothing else would have them."""
    return load_settings({}, environ=environ, folder=tmp_path)


# ------------------------------------------------------------------------------------------------ the real tools agree


def test_compose_accepts_its_file() -> None:
    command = files.tool("docker-compose", package="docker-compose")
    code, said = files.said_by(command, "-f", str(files.COMPOSE), "config")
    assert code == 0, said
    assert set(yaml.safe_load(said)["services"]) == {"api", "node", "redis", "mongo"}


def test_compose_would_notice_a_mistake(tmp_path: Path) -> None:
    command = files.tool("docker-compose", package="docker-compose")
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(files.COMPOSE.read_text("utf-8").replace("stop_grace_period", "stop_grace_perod"), "utf-8")
    code, said = files.said_by(command, "-f", str(wrong), "config")
    assert code != 0
    assert "stop_grace_perod" in said


def verified(folder: Path, units: dict[str, str]) -> tuple[int, str]:
    """What systemd says of these units. The command is one that exists on this machine."""
    command = files.tool("systemd-analyze", package="systemd")
    for name, text in units.items():
        (folder / name).write_text(text.replace(files.INSTALLED, "/bin/true"), "utf-8")
    paths = [str(folder / name) for name in units]
    return files.said_by(command, "verify", "--man=no", "--generators=no", *paths)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = {path.name: path.read_text("utf-8") for path in files.UNITS.values()}
    # It returns 0 for what it only warns of, such as a directive that it does not know.
    assert verified(tmp_path, units) == (0, "")


def test_systemd_would_notice_a_mistake(tmp_path: Path) -> None:
    name, text = files.UNITS["node"].name, files.UNITS["node"].read_text("utf-8")
    _, said = verified(tmp_path, {name: text.replace("WatchdogSec", "WatchDogSec")})
    assert "WatchDogSec" in said


@pytest.mark.parametrize(("role", "most"), [("node", 25), ("api", 20)])
def test_systemd_finds_the_units_well_closed(role: str, most: int) -> None:
    command = files.tool("systemd-analyze", package="systemd")
    unit = str(files.UNITS[role])
    code, said = files.said_by(command, "security", "--offline=true", "--no-pager", f"--threshold={most}", unit)
    assert code == 0, said


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
@pytest.mark.parametrize("role", files.MANIFESTS)
def test_the_schemas_of_kubernetes_accept_the_manifests(role: str, version: str) -> None:
    for manifest in files.manifests(role).values():
        assert validate(manifest, version, strict=True) == version


def test_the_schemas_of_kubernetes_would_notice_a_mistake() -> None:
    manifest = files.manifests("node")["StatefulSet"]
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 90
    with pytest.raises(ValidationError, match="terminationGracePeriod"):
        validate(manifest, NEWEST_KUBERNETES, strict=True)


def test_the_kustomization_has_every_manifest() -> None:
    found = yaml.safe_load(files.KUSTOMIZATION.read_text("utf-8"))
    assert set(found["resources"]) == {path.name for path in files.MANIFESTS.values()}
    [image] = found["images"]
    assert all(files.pod(role)["containers"][0]["image"] == image["name"] for role in files.MANIFESTS)


def test_a_release_forgets_no_name_that_has_its_version_in_it() -> None:
    version = files.version()
    [image] = yaml.safe_load(files.KUSTOMIZATION.read_text("utf-8"))["images"]
    assert image["newTag"] == version
    services = files.compose()["services"]
    assert services["api"]["image"] == services["node"]["image"] == f"{image['name']}:{version}"
    # Images and wheels as the documents name them; the page on upgrades goes on to a version that is not there yet.
    documents = [path for path in LIVING if path.name != "upgrade.md"]
    named = re.compile(r"\bcronflow[:-](\d+\.\d+\.\d+)\b")
    found = {path: named.findall(path.read_text("utf-8")) for path in (*documents, *files.ALL)}
    assert len(found[DEPLOY]) >= 3
    assert not {str(path): names for path, names in found.items() if set(names) - {version}}


# ----------------------------------------------------------------------------------- CronFlow understands what they set


@pytest.mark.parametrize("place", files.environments())
def test_every_variable_is_a_setting_with_a_good_value(place: str, tmp_path: Path) -> None:
    # What only systemd or the cluster fills in, filled in.
    given = {
        name: (value or "host-0").replace("%l", "host").replace("%S", "/var/lib")
        for name, value in files.environments()[place].items()
    }
    if "CRONFLOW_SECRETS_DIR" in given:
        given["CRONFLOW_SECRETS_DIR"] = str(tmp_path)
    # Raises InvalidInput with whatever is not known or not understood; what has no effect is noted.
    assert settings(tmp_path, given).notes == ()


def test_the_places_that_are_written_to_are_those_that_may_be() -> None:
    image = files.environments()["Dockerfile"]
    spool, pulse = image["CRONFLOW_SPOOL_DIR"], image["CRONFLOW_PULSE_DIR"]
    services = files.compose()["services"]
    assert services["node"]["volumes"] == [f"spool:{spool}"]
    for role in files.MANIFESTS:
        assert f"{pulse}:mode=0700,uid=10001,gid=10001" in services[role]["tmpfs"]
        [container] = files.pod(role)["containers"]
        environ = {one["name"]: one.get("value") for one in container["env"]}
        mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        assert mounts[environ["CRONFLOW_PULSE_DIR"]] == "pulse"
        assert mounts[environ["CRONFLOW_SECRETS_DIR"]] == "secrets"
        assert pulse == environ["CRONFLOW_PULSE_DIR"]
        if role == "node":
            assert mounts[environ["CRONFLOW_SPOOL_DIR"]] == "spool"
            assert spool == environ["CRONFLOW_SPOOL_DIR"]
    assert files.unit("node")["StateDirectory"] == ["cronflow"]
    assert "CRONFLOW_SPOOL_DIR=%S/cronflow/spool" in files.unit("node")["Environment"]


def test_a_variable_of_a_service_of_kubernetes_would_be_refused_and_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown setting"):
        settings(tmp_path, {"CRONFLOW_API_PORT": "tcp://10.0.0.1:80"})
    assert all(files.pod(role)["enableServiceLinks"] is False for role in files.MANIFESTS)


# -------------------------------------------------------------------------------------------------- the files agree


@pytest.mark.parametrize("role", ["node", "api"])
def test_the_processes_are_started_with_options_that_exist(role: str) -> None:
    given = [
        files.compose()["services"][role]["command"],
        files.pod(role)["containers"][0]["args"],
        files.unit(role)["ExecStart"][0].removeprefix(files.INSTALLED).split(),
    ]
    for words in given:
        assert words[0] == role
        parse(words)


def test_a_node_of_compose_is_called_as_its_container(tmp_path: Path) -> None:
    node = files.compose()["services"]["node"]
    told = tmp_path / "cronflow"
    told.write_text('#!/bin/sh\necho "$@"\n')
    told.chmod(0o755)
    tini, dashes, *shell = node["entrypoint"]
    # As Compose reads it: two dollars are one.
    words = [word.replace("$$", "$") for word in [*shell, *node["command"], "--app", "shop:app"]]
    environment = child_environment(PATH=f"{tmp_path}:{os.environ['PATH']}", HOSTNAME="0c0ffee")
    said = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (tini, dashes, said.stdout) == ("tini", "--", "node --app shop:app --name 0c0ffee\n")
    parse(said.stdout.split())


def test_everybody_means_the_same_port() -> None:
    services = files.compose()["services"]
    assert services["api"]["ports"] == ["127.0.0.1:8500:8500"]
    assert "ports" not in services["node"]
    assert "http://127.0.0.1:8500/readyz" in services["api"]["healthcheck"]["test"][-1]
    [container] = files.pod("api")["containers"]
    assert {one["name"]: one["containerPort"] for one in container["ports"]}["http"] == 8500
    [port] = files.manifests("api")["Service"]["spec"]["ports"]
    assert port["targetPort"] == container["livenessProbe"]["httpGet"]["port"] == container["ports"][0]["name"]
    for words in (services["api"]["command"], container["args"], files.unit("api")["ExecStart"][0].split()):
        assert words[words.index("--port") + 1] == "8500"


def test_everybody_means_the_same_port_of_metrics_and_nobody_publishes_it(tmp_path: Path) -> None:
    services = files.compose()["services"]
    for role in files.MANIFESTS:
        [container] = files.pod(role)["containers"]
        pod = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        for environ in (services[role]["environment"], pod):
            given = {name: value for name, value in environ.items() if name.startswith("CRONFLOW_METRICS_")}
            read = settings(tmp_path, given)
            assert (read.metrics_host, read.metrics_port) == ("0.0.0.0", METRICS_PORT)
        assert {one["name"]: one["containerPort"] for one in container["ports"]}["metrics"] == METRICS_PORT
        kind = "StatefulSet" if role == "node" else "Deployment"
        annotations = files.manifests(role)[kind]["spec"]["template"]["metadata"]["annotations"]
        assert annotations == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(METRICS_PORT),
            "prometheus.io/path": PATH,
        }
        published = files.manifests(role)["Service"]["spec"].get("ports", [])
        assert "metrics" not in {one["targetPort"] for one in published}
        assert not [one for one in services[role].get("ports", []) if str(METRICS_PORT) in one]
    # Two processes of one machine; the units leave the port to the machine.
    lines = re.findall(r"^CRONFLOW_METRICS_PORT=(\d+)", DEPLOY.read_text("utf-8"), re.MULTILINE)
    assert len(lines) == len(set(lines)) == len(files.UNITS)


def test_prometheus_scrapes_every_service_that_has_metrics() -> None:
    read = yaml.safe_load(files.PROMETHEUS.read_text("utf-8"))
    services = files.compose()["services"]
    [job] = read["scrape_configs"]
    [found] = job["dns_sd_configs"]
    assert set(found["names"]) == {name for name in services if name in files.MANIFESTS}
    assert found["port"] == METRICS_PORT
    assert job.get("metrics_path", "/metrics") == PATH
    assert all((files.PROMETHEUS.parent / name).is_file() for name in read["rule_files"])
    # It is told to join this network; `stores` is for CronFlow alone.
    assert all("default" in services[name]["networks"] for name in found["names"])
    assert "--network cronflow_default" in DEPLOY.read_text("utf-8")


def grace(role: str, tmp_path: Path) -> dict[str, tuple[timedelta, timedelta]]:
    """By file: how long a node or an API has to end, and how long it may let its runs go on."""
    found = {}
    service = files.compose()["services"][role]
    given = {
        "compose": (service["stop_grace_period"], service["environment"]),
        "systemd": (f"{files.unit(role)['TimeoutStopSec'][0]}s", {}),
        "kubernetes": (f"{files.pod(role)['terminationGracePeriodSeconds']}s", {}),
    }
    for place, (text, environ) in given.items():
        drain = {key: value for key, value in environ.items() if key == "CRONFLOW_DRAIN_TIMEOUT"}
        found[place] = (parse_duration(text), settings(tmp_path, drain).drain_timeout)
    return found


def test_nobody_kills_a_node_that_still_drains(tmp_path: Path) -> None:
    for place, (stop, drain) in grace("node", tmp_path).items():
        assert stop >= drain + MUCH_TIME, place


def test_nobody_gives_a_node_up_that_still_waits_for_its_servers(tmp_path: Path) -> None:
    given = settings(tmp_path, {})
    needed = given.start_wait + given.node_ttl + MUCH_TIME
    assert timedelta(seconds=int(files.unit("node")["TimeoutStartSec"][0])) >= needed
    liveness = files.pod("node")["containers"][0]["livenessProbe"]
    # A node that waits is alive, so the probe is no limit; its patience with a blocked loop is.
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= int(files.unit("node")["WatchdogSec"][0])


def test_a_command_that_is_killed_for_its_memory_does_not_take_its_node_with_it() -> None:
    node = files.unit("node")
    assert (node["KillMode"], node["OOMPolicy"]) == (["mixed"], ["continue"])


def test_every_process_gets_the_secrets_that_it_needs_as_files_and_no_others() -> None:
    services = files.compose()["services"]
    urls = {"REDIS_URL", "MONGO_URL"}
    for role, names in (("node", OF_NODES), ("api", OF_APIS)):
        assert set(services[role]["secrets"]) == names - urls
        [volume] = [one for one in files.pod(role)["volumes"] if one["name"] == "secrets"]
        assert {one["key"] for one in volume["secret"]["items"]} == names
        assert all(one["key"] == one["path"] for one in volume["secret"]["items"])
        loaded = dict(one.split(":") for one in files.unit(role)["LoadCredential"])
        assert loaded == {name: f"/etc/cronflow/secrets/{name}" for name in names}
    assert set(files.compose()["secrets"]) == OF_APIS - urls
    assert {name.lower() for name in OF_APIS} <= set(FIELDS)


def test_nobody_is_root_and_nobody_writes_into_the_image() -> None:
    image = files.DOCKERFILE.read_text("utf-8")
    assert "\nUSER 10001:10001\n" in image
    for name, service in files.compose()["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert name in files.MANIFESTS or service["user"] == "999:999", name
    for role in files.MANIFESTS:
        pod = files.pod(role)
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
        unit = files.unit(role)
        assert (unit["User"], unit["NoNewPrivileges"], unit["ProtectSystem"]) == (["cronflow"], ["yes"], ["strict"])


def test_nodes_can_be_scaled() -> None:
    node = files.compose()["services"]["node"]
    assert not {"container_name", "hostname", "ports"} & set(node)
    assert node["deploy"]["replicas"] == 3


# --------------------------------------------------------------------------------------------------------- the secrets


def test_made_secrets_are_accepted_stay_and_are_not_for_git(tmp_path: Path) -> None:
    def make() -> str:
        command = ["make", "--no-print-directory", "-f", str(files.ROOT / "Makefile"), "secrets"]
        return subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout

    assert make().count(" made") == len(files.compose()["secrets"])
    made = {file.name: file.read_text("utf-8") for file in (tmp_path / "deploy" / "secrets").iterdir()}
    assert set(made) == set(files.compose()["secrets"])
    read = settings(tmp_path, {"CRONFLOW_SECRETS_DIR": "deploy/secrets"})
    assert read.secrets_key is not None
    assert (read.admin_password, read.jwt_secret) == (made["ADMIN_PASSWORD"].strip(), made["JWT_SECRET"].strip())
    assert make().count(" stays") == len(made)
    assert {file.name: file.read_text("utf-8") for file in (tmp_path / "deploy" / "secrets").iterdir()} == made
    assert "deploy/secrets/" in (files.ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_no_file_has_a_secret_in_it() -> None:
    hidden = {f"CRONFLOW_{name.upper()}" for name, one in FIELDS.items() if "hidden" in one.metadata}
    for place, environ in files.environments().items():
        assert not hidden & set(environ), place
    for path in files.ALL:
        text = path.read_text("utf-8")
        assert not re.search(r"://[^/\s\"']*:[^/\s\"']*@", text), f"{path} has a password in an address"
        assert not re.search(r"\b[A-Za-z0-9+/]{40,}={0,2}(?![\w/])", text), f"{path} has what looks like a key"
        assert "kind: Secret\n" not in text

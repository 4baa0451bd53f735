"""The deployment files: the real tools accept them, CronFlow accepts their settings, and they agree with each other.

The rule: a cluster copied from these files starts. Its behavior was tested by hand, see docs/how-to/deploy.md.
"""

from __future__ import annotations

import os
import re
import socket
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
from cronflow.domain.metrics import METRICS, MetricSource
from cronflow.monitoring.server import PATH
from cronflow.node.timings import Timings
from tests.children import child_environment
from tests.deploy import files
from tests.test_documents_shown import LIVING, parse

OLDEST_KUBERNETES, NEWEST_KUBERNETES = "1.29", "1.37"
OF_NODES = {"REDIS_URL", "MONGO_URL", "SECRETS_KEY"}
OF_APIS = {*OF_NODES, "JWT_SECRET", "ADMIN_PASSWORD"}
METRICS_PORT = 9500
DEPLOY = files.ROOT / "docs" / "how-to" / "deploy.md"
STOP_TIME = timedelta(seconds=20)
"""Time after the drain: stopping the remaining runs takes more than ten seconds, then they are recorded."""


def settings(tmp_path: Path, environ: dict[str, str]) -> Settings:
    """The settings of a process with only this environment."""
    return load_settings({}, environ=environ, folder=tmp_path)


# ---------------------------------------------------------------------------------------------------------- real tools


def test_docker_compose_accepts_the_compose_file() -> None:
    command = files.tool("docker-compose", package="docker-compose")
    code, output = files.output_of(command, "-f", str(files.COMPOSE), "config")
    assert code == 0, output
    assert set(yaml.safe_load(output)["services"]) == {"api", "node", "redis", "mongo", "watcher"}


def test_docker_compose_detects_a_mistake(tmp_path: Path) -> None:
    command = files.tool("docker-compose", package="docker-compose")
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text(files.COMPOSE.read_text("utf-8").replace("stop_grace_period", "stop_grace_perod"), "utf-8")
    code, output = files.output_of(command, "-f", str(wrong), "config")
    assert code != 0
    assert "stop_grace_perod" in output


def verified(folder: Path, units: dict[str, str]) -> tuple[int, str]:
    """The output of `systemd-analyze verify` for these units, with a command that exists on this machine."""
    command = files.tool("systemd-analyze", package="systemd")
    for name, text in units.items():
        (folder / name).write_text(text.replace(files.INSTALLED, "/bin/true"), "utf-8")
    paths = [str(folder / name) for name in units]
    return files.output_of(command, "verify", "--man=no", "--generators=no", *paths)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = {path.name: path.read_text("utf-8") for path in (*files.UNITS.values(), files.WATCHER_UNIT)}
    # It also returns 0 for warnings, such as an unknown directive.
    assert verified(tmp_path, units) == (0, "")


def test_systemd_accepts_the_drop_in_for_your_own_code(tmp_path: Path) -> None:
    node = files.UNITS["node"]
    drop_in = files.DROP_IN.read_text("utf-8")
    (tmp_path / f"{node.name}.d").mkdir()
    (tmp_path / f"{node.name}.d" / files.DROP_IN.name).write_text(drop_in, "utf-8")
    assert verified(tmp_path, {node.name: node.read_text("utf-8")}) == (0, "")
    lines = re.findall(r"^Environment=(CRONFLOW_\w+)=(.*)$", drop_in, re.MULTILINE)
    read = load_settings({}, environ=dict(lines), folder=tmp_path)
    assert (read.app, read.labels) == (("billing.jobs:app",), ("region=eu", "app=v2"))
    (tmp_path / f"{node.name}.d" / files.DROP_IN.name).write_text(drop_in.replace("WorkingDir", "WorkinDir"), "utf-8")
    assert "WorkinDirectory" in verified(tmp_path, {node.name: node.read_text("utf-8")})[1]


def test_systemd_detects_a_mistake(tmp_path: Path) -> None:
    name, text = files.UNITS["node"].name, files.UNITS["node"].read_text("utf-8")
    _, output = verified(tmp_path, {name: text.replace("WatchdogSec", "WatchDogSec")})
    assert "WatchDogSec" in output


@pytest.mark.parametrize(("role", "most"), [("node", 25), ("api", 20), ("watcher", 20)])
def test_the_units_are_well_sandboxed(role: str, most: int) -> None:
    command = files.tool("systemd-analyze", package="systemd")
    unit = str(files.WATCHER_UNIT if role == "watcher" else files.UNITS[role])
    code, output = files.output_of(command, "security", "--offline=true", "--no-pager", f"--threshold={most}", unit)
    assert code == 0, output


@pytest.mark.parametrize("version", [OLDEST_KUBERNETES, NEWEST_KUBERNETES])
@pytest.mark.parametrize("role", [*files.MANIFESTS, "watcher"])
def test_the_kubernetes_schemas_accept_the_manifests(role: str, version: str) -> None:
    for manifest in files.manifests(role).values():
        assert validate(manifest, version, strict=True) == version


def test_the_kubernetes_schemas_detect_a_mistake() -> None:
    manifest = files.manifests("node")["StatefulSet"]
    manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = 90
    with pytest.raises(ValidationError, match="terminationGracePeriod"):
        validate(manifest, NEWEST_KUBERNETES, strict=True)


def test_the_kustomization_has_every_manifest() -> None:
    found = yaml.safe_load(files.KUSTOMIZATION.read_text("utf-8"))
    assert set(found["resources"]) == {path.name for path in (*files.MANIFESTS.values(), files.WATCHER_MANIFEST)}
    [image] = found["images"]
    roles = (*files.MANIFESTS, "watcher")
    assert all(files.pod(role)["containers"][0]["image"] == image["name"] for role in roles)


def test_every_image_and_wheel_has_the_current_version() -> None:
    version = files.version()
    [image] = yaml.safe_load(files.KUSTOMIZATION.read_text("utf-8"))["images"]
    assert image["newTag"] == version
    services = files.compose()["services"]
    assert {services[name]["image"] for name in ("api", "node", "watcher")} == {f"{image['name']}:{version}"}
    # Images and wheels in the documentation; the page on upgrades names a future version.
    documents = [path for path in LIVING if path.name != "upgrade.md"]
    named = re.compile(r"\bcronflow[:-](\d+\.\d+\.\d+)\b")
    found = {path: named.findall(path.read_text("utf-8")) for path in (*documents, *files.ALL)}
    assert len(found[DEPLOY]) >= 3
    assert not {str(path): names for path, names in found.items() if set(names) - {version}}


# ------------------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize("place", files.environments())
def test_every_variable_is_a_setting_with_a_valid_value(place: str, tmp_path: Path) -> None:
    # Fill in what systemd or the cluster provides.
    given = {
        name: (value or "host-0").replace("%l", "host").replace("%S", "/var/lib")
        for name, value in files.environments()[place].items()
    }
    if "CRONFLOW_SECRETS_DIR" in given:
        given["CRONFLOW_SECRETS_DIR"] = str(tmp_path)
    # Raises InvalidInput for unknown or invalid settings; settings without effect are in the notes.
    assert settings(tmp_path, given).notes == ()


def test_the_directories_that_processes_write_to_are_writable() -> None:
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


def test_service_variables_of_kubernetes_are_invalid_settings_and_are_disabled(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="unknown setting"):
        settings(tmp_path, {"CRONFLOW_API_PORT": "tcp://10.0.0.1:80"})
    assert all(files.pod(role)["enableServiceLinks"] is False for role in files.MANIFESTS)


# --------------------------------------------------------------------------------------------------------- consistency


@pytest.mark.parametrize("role", ["node", "api", "watcher"])
def test_the_processes_are_started_with_options_that_exist(role: str) -> None:
    given = [
        files.compose()["services"][role]["command"],
        files.pod(role)["containers"][0]["args"],
        files.unit(role)["ExecStart"][0].removeprefix(files.INSTALLED).split(),
    ]
    for words in given:
        assert words[0] == role
        parse(words)


@pytest.mark.parametrize(("known", "name"), [("yes", "cronflow-node-2"), ("no", "0c0ffee")])
def test_a_compose_node_is_named_after_its_container(tmp_path: Path, known: str, name: str) -> None:
    """As `docker compose ps` prints it, if Docker's DNS knows the container, and otherwise after its host name."""
    node = files.compose()["services"]["node"]
    resolver = (
        'case "$*" in "hosts 0c0ffee") printf "172.18.0.5 0c0ffee\\n172.19.0.7 0c0ffee\\n" ;;'
        f' "-s dns hosts 172.18.0.5") [ {known} = yes ] && echo "172.18.0.5  cronflow-node-2.cronflow_default" ;;'
        " *) exit 2 ;; esac"
    )
    for program, does in (("cronflow", 'echo "$@"'), ("getent", resolver)):
        (tmp_path / program).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / program).chmod(0o755)
    tini, dashes, *shell = node["entrypoint"]
    # Compose replaces $$ with $.
    words = [word.replace("$$", "$") for word in [*shell, *node["command"], "--app", "shop:app"]]
    environment = child_environment(PATH=f"{tmp_path}:{os.environ['PATH']}", HOSTNAME="0c0ffee")
    output = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert (tini, dashes, output.stdout) == ("tini", "--", f"node --app shop:app --name {name}\n")
    parse(output.stdout.split())


def test_all_files_use_the_same_port() -> None:
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


def test_all_files_use_the_same_metrics_port_and_do_not_publish_it(tmp_path: Path) -> None:
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
    # The two processes of a machine need different ports; the units do not set them.
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
    # Prometheus joins this network; `stores` is only for CronFlow.
    assert all("default" in services[name]["networks"] for name in found["names"])
    assert "--network cronflow_default" in DEPLOY.read_text("utf-8")


def grace(role: str, tmp_path: Path) -> dict[str, tuple[timedelta, timedelta]]:
    """By file: the time a node or an API has to stop, and its drain timeout."""
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


def test_stop_timeouts_exceed_the_drain_timeout(tmp_path: Path) -> None:
    for place, (stop, drain) in grace("node", tmp_path).items():
        assert stop >= drain + STOP_TIME, place


def test_start_timeouts_allow_for_waiting_for_the_servers(tmp_path: Path) -> None:
    given = settings(tmp_path, {})
    needed = given.start_wait + given.node_ttl + STOP_TIME
    assert timedelta(seconds=int(files.unit("node")["TimeoutStartSec"][0])) >= needed
    liveness = files.pod("node")["containers"][0]["livenessProbe"]
    # A waiting node is alive, so the probe must only tolerate a blocked event loop for long enough.
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= int(files.unit("node")["WatchdogSec"][0])


def test_a_command_that_runs_out_of_memory_does_not_kill_its_node() -> None:
    node = files.unit("node")
    assert (node["KillMode"], node["OOMPolicy"]) == (["mixed"], ["continue"])


def test_every_process_gets_only_the_secrets_it_needs_as_files() -> None:
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


def test_no_process_runs_as_root_or_writes_into_the_image() -> None:
    image = files.DOCKERFILE.read_text("utf-8")
    assert "\nUSER 10001:10001\n" in image
    for name, service in files.compose()["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert name in (*files.MANIFESTS, "watcher") or service["user"] == "999:999", name
    for role in (*files.MANIFESTS, "watcher"):
        pod = files.pod(role)
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
        unit = files.unit(role)
        assert (unit["User"], unit["NoNewPrivileges"], unit["ProtectSystem"]) == (["cronflow"], ["yes"], ["strict"])


def test_the_watcher_needs_no_server_to_start_and_no_secret_of_the_cluster() -> None:
    service, unit, pod = files.compose()["services"]["watcher"], files.unit("watcher"), files.pod("watcher")
    assert (service["profiles"], service["depends_on"], service.get("secrets")) == (["watcher"], [], None)
    [volume] = [one for one in pod["volumes"] if one["name"] == "secrets"]
    assert {one["key"] for one in volume["secret"]["items"]} == {"REDIS_URL", "MONGO_URL"}
    loaded = {one.partition(":")[0] for one in unit["LoadCredential"]}
    assert loaded == {"REDIS_URL", "MONGO_URL", "watcher.yaml"}


def test_the_watcher_keeps_its_snapshot_where_it_may_write() -> None:
    service, [container] = files.compose()["services"]["watcher"], files.pod("watcher")["containers"]
    folder = "/var/lib/cronflow/watcher"
    assert service["volumes"] == [f"watcher:{folder}"]
    assert folder in files.DOCKERFILE.read_text("utf-8").split()
    assert folder in {one["mountPath"] for one in container["volumeMounts"]}
    for words in (service["command"], container["args"]):
        assert words[words.index("--snapshot") + 1] == f"{folder}/snapshot"
    unit = files.unit("watcher")
    assert (unit["StateDirectory"], unit["StateDirectoryMode"]) == (["cronflow-watcher"], ["0700"])
    assert "--snapshot %S/cronflow-watcher/snapshot" in unit["ExecStart"][0]


def test_mongosh_runs_only_until_the_replica_set_has_a_primary(tmp_path: Path) -> None:
    check = files.compose()["services"]["mongo"]["healthcheck"]["test"]
    calls, mongosh = tmp_path / "calls", tmp_path / "mongosh"
    environment = child_environment(PATH=f"{tmp_path}:{os.environ['PATH']}")

    def healthy(port: int, status: int = 0) -> bool:
        mongosh.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexit {status}\n')
        mongosh.chmod(0o755)
        here = [word.replace("/tmp/", f"{tmp_path}/").replace("/27017", f"/{port}") for word in check[1:]]
        return subprocess.run(here, env=environment, capture_output=True).returncode == 0

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not healthy(port, status=1)
        assert healthy(port)
        shells = calls.read_text().count("rs.initiate")
        assert shells == 2
        assert healthy(port)
    assert not healthy(port), "nothing accepts connections"
    assert calls.read_text().count("rs.initiate") == shells


def test_the_logs_and_the_files_in_memory_of_every_container_are_bounded() -> None:
    for name, service in files.compose()["services"].items():
        options = service["logging"]["options"]
        assert options.keys() == {"max-size", "max-file"}, name
        assert re.search(r"^/tmp:size=\d+[mg]$", service["tmpfs"][0]), name


def test_every_service_has_commented_limits_that_compose_accepts(tmp_path: Path) -> None:
    text = re.sub(
        r"^    # (?=(mem_limit|cpus|pids_limit): )", "    ", files.COMPOSE.read_text("utf-8"), flags=re.MULTILINE
    )
    for name, service in yaml.safe_load(text)["services"].items():
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service), name
    (tmp_path / "docker-compose.yml").write_text(text)
    command = files.tool("docker-compose", package="docker-compose")
    code, output = files.output_of(command, "-f", str(tmp_path / "docker-compose.yml"), "config", "--quiet")
    assert (code, output) == (0, "")


def test_a_killed_container_is_started_without_undoing_the_scale() -> None:
    [advice] = [line for line in DEPLOY.read_text("utf-8").split("\n* ") if "After `docker kill`" in line]
    assert "`docker compose start`" in advice
    assert "--detach" not in advice


def test_nodes_can_be_scaled() -> None:
    node = files.compose()["services"]["node"]
    assert not {"container_name", "hostname", "ports"} & set(node)
    assert node["deploy"]["replicas"] == 3


# --------------------------------------------------------------------------------------------------------- the secrets


def test_generated_secrets_are_valid_are_kept_and_are_ignored_by_git(tmp_path: Path) -> None:
    def make() -> str:
        command = ["make", "--no-print-directory", "-f", str(files.ROOT / "Makefile"), "secrets"]
        return subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True).stdout

    assert make().count("created ") == len(files.compose()["secrets"])
    made = {file.name: file.read_text("utf-8") for file in (tmp_path / "deploy" / "secrets").iterdir()}
    assert set(made) == set(files.compose()["secrets"])
    read = settings(tmp_path, {"CRONFLOW_SECRETS_DIR": "deploy/secrets"})
    assert read.secrets_key is not None
    assert (read.admin_password, read.jwt_secret) == (made["ADMIN_PASSWORD"].strip(), made["JWT_SECRET"].strip())
    assert make().count("kept ") == len(made)
    assert {file.name: file.read_text("utf-8") for file in (tmp_path / "deploy" / "secrets").iterdir()} == made
    assert "deploy/secrets/" in (files.ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_no_file_contains_a_secret() -> None:
    hidden = {f"CRONFLOW_{name.upper()}" for name, one in FIELDS.items() if "hidden" in one.metadata}
    for place, environ in files.environments().items():
        assert not hidden & set(environ), place
    for path in files.ALL:
        text = path.read_text("utf-8")
        assert not re.search(r"://[^/\s\"']*:[^/\s\"']*@", text), f"{path} has a password in a URL"
        assert not re.search(r"\b[A-Za-z0-9+/]{40,}={0,2}(?![\w/])", text), f"{path} contains what looks like a key"
        assert "kind: Secret\n" not in text


def test_a_supervisor_waits_longer_than_a_node_takes_to_stop() -> None:
    """Otherwise it kills a node that would have recorded its outcomes."""
    node = files.compose()["services"]["node"]
    drain = 60.0
    assert node["environment"]["CRONFLOW_DRAIN_TIMEOUT"] == "60s"
    limit = Timings(drain=drain).exit
    assert limit == drain + 25
    assert float(node["stop_grace_period"].removesuffix("s")) >= limit
    assert float(files.unit("node")["TimeoutStopSec"][0]) >= limit
    assert float(files.pod("node")["terminationGracePeriodSeconds"]) >= limit


def test_an_override_of_the_compose_file_is_not_committed() -> None:
    assert "docker-compose.override.yml" in (files.ROOT / ".gitignore").read_text("utf-8").splitlines()


def test_the_autoscaler_of_the_guide_asks_for_metrics_that_every_leader_has() -> None:
    [found] = [
        one
        for text in re.findall(r"```yaml\n(.*?)```", DEPLOY.read_text("utf-8"), re.DOTALL)
        if (one := yaml.safe_load(text)).get("kind") == "ScaledObject"
    ]
    [trigger] = found["spec"]["triggers"]
    named = set(re.findall(r"\bcronflow_[a-z_]+", trigger["metadata"]["query"]))
    known = {name for name, metric in METRICS.items() if MetricSource.LEADER in metric.tellers}
    assert len(named) == 2
    assert named <= known
    assert found["spec"]["scaleTargetRef"] == {
        "kind": "StatefulSet",
        "name": files.manifests("node")["StatefulSet"]["metadata"]["name"],
    }

"""The alert rules and the Grafana dashboard: validated and tested with promtool, and using only metrics that exist.

promtool is in the Debian package `prometheus`. Without it, these tests fail in CI and are skipped elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from cronflow.domain import metrics
from cronflow.domain.metrics import METRICS, MetricKind, MetricSource
from cronflow.monitoring.prometheus import PrometheusMeter
from tests.test_documents_shown import parse, shown

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "cronflow.rules.yml"
CONFIGURATION = ROOT / "deploy" / "prometheus" / "prometheus.yml"
CASES = ROOT / "deploy" / "prometheus" / "cronflow.rules.test.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "cronflow.json"
CLIENT_METRICS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


@pytest.fixture(scope="module")
def promtool() -> str:
    # In CI, `make test` installs it next to Python.
    found = shutil.which("promtool", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if found is None:
        missing = "promtool not found; install the Debian package prometheus"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


def run(*command: str, given: bytes = b"") -> tuple[int, str]:
    """The exit code and the output."""
    done = subprocess.run(command, input=given, capture_output=True, timeout=120, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def panels() -> Iterator[dict[str, Any]]:
    for panel in orjson.loads(DASHBOARD.read_bytes())["panels"]:
        if panel["type"] != "row":
            yield panel


def expressions() -> Iterator[tuple[str, str]]:
    """The title and expression of every rule and panel."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def series() -> dict[str, set[str]]:
    """The labels of every sample, by name."""
    found: dict[str, set[str]] = {name: set() for name in CLIENT_METRICS}
    for metric in METRICS.values():
        labels = {label.name for label in metric.labels}
        if metric.kind is MetricKind.HISTOGRAM:
            found |= {f"{metric.name}_bucket": labels | {"le"}, f"{metric.name}_sum": labels}
            found[f"{metric.name}_count"] = labels
        else:
            found[metric.name] = labels
    return found


def test_promtool_accepts_the_rules(promtool: str) -> None:
    code, output = run(promtool, "check", "rules", str(RULES))
    assert code == 0, output


def test_promtool_accepts_the_configuration(promtool: str, tmp_path: Path) -> None:
    code, output = run(promtool, "check", "config", str(CONFIGURATION))
    assert code == 0, output
    assert "1 rule files found" in output
    # It detects a mistake.
    wrong = tmp_path / CONFIGURATION.name
    wrong.write_text(CONFIGURATION.read_text("utf-8").replace("refresh_interval", "refresh_intervall"), "utf-8")
    code, output = run(promtool, "check", "config", str(wrong))
    assert code != 0
    assert "refresh_intervall" in output


def test_every_alert_passes_its_test_cases(promtool: str) -> None:
    code, output = run(promtool, "test", "rules", str(CASES))
    assert code == 0, output


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = {True: set[str](), False: set[str]()}
    for case in yaml.safe_load(CASES.read_text("utf-8"))["tests"]:
        for test in case["alert_rule_test"]:
            cases[bool(test["exp_alerts"])].add(test["alertname"])
    alerts = [rule["alert"] for rule in rules()]
    assert len(set(alerts)) == len(alerts) > 20
    assert cases == {True: set(alerts), False: set(alerts)}


@pytest.mark.parametrize(
    ("where", "expression"), list(expressions()), ids=lambda value: None if "(" in value else value
)
def test_rules_and_panels_use_existing_metrics(where: str, expression: str) -> None:
    known = series()
    names = re.findall(r"\b(?:cronflow|process)_[a-z_]+\b", expression)
    assert names, where
    assert not [name for name in names if name not in known]
    for name, chosen in re.findall(r"\b((?:cronflow|process)_[a-z_]+)\{([^}]*)\}", expression):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen))
        assert labels <= known[name] | {"job", "instance"}, where
    grouped = {word.strip() for found in re.findall(r"by \(([^)]*)\)", expression) for word in found.split(",")}
    assert grouped <= set().union(*(known[name] for name in names)) | {"job", "instance"}, where


def test_label_values_in_expressions_exist() -> None:
    for _, expression in expressions():
        for name, label, value in re.findall(r"\b(cronflow_[a-z_]+)\{[^}]*?(\w+)!?=\"([a-z_]+)\"", expression):
            [declared] = [one for one in METRICS[name.removesuffix("_bucket")].labels if one.name == label]
            assert value in declared.known or f"`{value}`" in declared.values, expression


def test_every_rule_has_a_severity_and_a_remedy() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "remedy"}
        for words in shown(rule["annotations"]["remedy"], "cronflow"):
            parse([*words, "--help"])


def test_panels_do_not_overlap_and_use_the_data_source_variable() -> None:
    places = [panel["gridPos"] for panel in panels()]
    for n, one in enumerate(places):
        for other in places[n + 1 :]:
            apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    for panel in panels():
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}


def test_promtool_accepts_the_metrics_of_a_process(promtool: str) -> None:
    for teller in (MetricSource.NODE, MetricSource.API):
        meter = PrometheusMeter([teller, MetricSource.LEADER])
        for metric in METRICS.values():
            if metric.kind is MetricKind.GAUGE and teller in metric.tellers:
                labels = tuple("x" for _ in metric.labels)
                meter.read(metric, lambda labels=labels: {labels: 1.0} if labels else 1.0)  # type: ignore[misc]
        meter.add(metrics.EVENTS, "node_lost")
        code, output = run(promtool, "check", "metrics", given=meter.text())
        assert code == 0, output

"""`cronflow chaos` on real servers: a cluster under random faults keeps every promise."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cronflow.chaos.faults import FAULTS
from tests.children import child_environment, python

pytestmark = pytest.mark.chaos

LIMIT_S = 600
"""A bound for a machine that hangs; not a measurement."""


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = python("-m", "cronflow", "chaos", *arguments)
    return subprocess.run(
        command, env=child_environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@pytest.mark.longest
@pytest.mark.parametrize(
    ("look_ahead", "length", "least"), [("2s", "10s", 60), pytest.param("0s", "120s", 100, marks=pytest.mark.prove)]
)
def test_a_cluster_under_random_faults_keeps_every_promise(
    look_ahead: str, length: str, least: int, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    result = chaos(
        *("--random", "--for", length, "--leader-ttl", "3s", "--look-ahead", look_ahead),
        *("--data", str(data), "--burst", "20", "-o", "json"),
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert found["holds"]
    assert (found["lost"], found["committed_twice"], found["limits_exceeded"]) == (0, 0, 0)
    assert found["violations"] == []
    assert all(one["fault"] for one in found["double_starts"])
    assert found["fires_due"] > least
    assert {one["fault"] for one in found["faults"]} <= set(FAULTS)
    assert len((data / "sink").read_text().splitlines()) > 200
    assert f"data and logs are in {data}" in result.stderr

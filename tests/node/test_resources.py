"""CPU and memory of a node, from the files of a cgroup of either version."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from cronflow.domain.resources import ResourceAmount
from cronflow.node.resources import Resources

MIB = 1024 * 1024
V2 = {
    "memory.max": f"{256 * MIB}\n",
    "memory.current": f"{200 * MIB}\n",
    "memory.stat": f"anon 5\ninactive_file {8 * MIB}\n",
    "cpu.max": "50000 100000\n",
    "cpu.stat": "usage_usec 7000000\nuser_usec 1\n",
}
V1 = {
    "memory/memory.usage_in_bytes": f"{200 * MIB}\n",
    "memory/memory.limit_in_bytes": f"{256 * MIB}\n",
    "memory/memory.stat": f"cache 9\nhierarchical_memory_limit {256 * MIB}\ntotal_inactive_file {8 * MIB}\n",
    "cpu/cpu.cfs_quota_us": "50000\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "cpuacct/cpuacct.usage": "7000000000\n",
}
UNLIMITED = {
    "v2": V2 | {"memory.max": "max\n", "cpu.max": "max 100000\n"},
    "v1": V1
    | {
        "memory/memory.stat": "hierarchical_memory_limit 9223372036854771712\ntotal_inactive_file 0\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
    },
}


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 4 GB that is at 5 % of its memory and 10 % of its CPU."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=4096 * MIB, percent=5.0))
    monkeypatch.setattr(psutil, "cpu_percent", lambda _interval: 10.0)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("files", [V2, V1], ids=["v2", "v1"])
def test_the_capacity_is_the_limit_of_the_cgroup(tmp_path: Path, files: dict[str, str]) -> None:
    assert Resources(written(tmp_path, files)).capacity() == ResourceAmount(cpu=0.5, memory=256 * MIB)


@pytest.mark.parametrize("files", UNLIMITED.values(), ids=UNLIMITED)
def test_without_limits_the_capacity_is_that_of_the_machine(
    tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda: 6)
    assert Resources(written(tmp_path, files)).capacity() == ResourceAmount(cpu=6, memory=4096 * MIB)


@pytest.mark.parametrize("files", [V2, V1], ids=["v2", "v1"])
def test_memory_is_a_fraction_of_the_limit_of_the_cgroup(tmp_path: Path, files: dict[str, str]) -> None:
    assert Resources(written(tmp_path, files)).memory() == 192 / 256


@pytest.mark.parametrize(
    ("files", "spent"),
    [(V2, {"cpu.stat": "usage_usec 8000000\n"}), (V1, {"cpuacct/cpuacct.usage": "8000000000\n"})],
    ids=["v2", "v1"],
)
def test_cpu_is_a_fraction_of_the_quota_of_the_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], spent: dict[str, str]
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    resources = Resources(written(tmp_path, files))
    written(tmp_path, spent)
    # One second of CPU in four seconds, of half a CPU.
    monkeypatch.setattr(time, "monotonic", lambda: 104.0)
    assert resources.cpu() == 0.5


@pytest.mark.parametrize("version", ["v1", "v2", "none"])
def test_without_limits_the_host_counts(tmp_path: Path, version: str) -> None:
    resources = Resources(written(tmp_path, UNLIMITED.get(version, {})))
    assert (resources.cpu(), resources.memory()) == (0.1, 0.05)

"""Which time zone data a machine has."""

from __future__ import annotations

import zoneinfo
from importlib import metadata
from pathlib import Path

import pytest

from cronflow.node.resources import zone_data


def test_the_system_s_data_count_before_the_package_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", (str(tmp_path / "none"), str(tmp_path)))
    (tmp_path / "UTC").touch()
    assert zone_data() == ""
    (tmp_path / "tzdata.zi").write_text("# version 2025b\n# more\n")
    assert zone_data() == "2025b"


def test_without_them_the_package_s_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setattr(metadata, "version", lambda _: "2026.3")
    assert zone_data() == "2026c"


def test_without_any_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setattr(metadata, "version", missing)
    assert zone_data() == ""

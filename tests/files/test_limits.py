"""Limit files: short and long forms, and every problem with its line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.domain.concurrency import Rate
from cronflow.domain.errors import InvalidInput
from cronflow.domain.permits import NamedLimit
from cronflow.files.limits import read_limit_files

MINUTE = timedelta(minutes=1)


def read(folder: Path, *texts: str) -> list[NamedLimit]:
    paths = [folder / f"{k}.yaml" for k in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return read_limit_files(paths)


def test_a_limit_is_a_number_a_rate_or_a_mapping(tmp_path: Path) -> None:
    text = "limits:\n  db: 4\n  mail: 100/m\n  geo: {limit: 2, rate: 10/m, burst: 5, description: Free}\n"
    assert read(tmp_path, text) == [
        NamedLimit(name="db", limit=4),
        NamedLimit(name="mail", rate=Rate(100, MINUTE)),
        NamedLimit(name="geo", limit=2, rate=Rate(10, MINUTE, burst=5), description="Free"),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("limits: [db]", "0.yaml:1: limits: expected a mapping of names, got a list"),
        ("jobs: []", "0.yaml:1: has no limits (write limits: and the limits by name below it)"),
        ("limits:\n  db: 4\nmore: 1", "0.yaml:3: more: unknown key next to limits (remove it)"),
        ("limits:\n  db: 4\n  A b: 4", "0.yaml:3: limits.A b.name: 'A b' is not a limit name"),
        ("limits:\n  db: 0", "0.yaml:2: limits.db.limit: limit is 0; it must be 1 to 100000"),
        ("limits:\n  db: {}", "0.yaml:2: limits.db: has neither limit nor rate (add one of them"),
        ("limits:\n  db: soon", "0.yaml:2: limits.db.rate: 'soon' is not a rate (write 100/m"),
        ("limits:\n  db: {limt: 4}", "0.yaml:2: limits.db.limt: unknown key (did you mean limit?)"),
        ("limits:\n  db: true", "0.yaml:2: limits.db: expected a mapping, got true"),
    ],
)
def test_a_problem_has_its_file_line_and_remedy(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(tmp_path, text)
    assert str(caught.value.problems[0]).startswith(f"{tmp_path}/{problem}")


def test_a_limit_is_defined_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"1\.yaml:1: limits\.db: the limit 'db' is defined twice"):
        read(tmp_path, "limits: {db: 4}", "limits: {db: 2}")

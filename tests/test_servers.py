"""Folders in memory for servers: deleted with their tests, and after tests that were killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import servers
from tests.servers import fast_folder


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for the memory; it has room enough."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(servers, "IN_MEMORY", folder)
    monkeypatch.setattr(servers, "NEEDED_BYTES", 0)
    return folder


def test_a_folder_is_deleted_with_what_is_in_it(memory: Path, tmp_path: Path) -> None:
    with fast_folder(tmp_path) as folder:
        assert folder.parent == memory
        (folder / "data").mkdir()
        (folder / "data" / "file").touch()
    assert not list(memory.iterdir())


def test_a_folder_that_was_left_behind_is_deleted_and_no_other(memory: Path, tmp_path: Path) -> None:
    for name in ("cronflow-tests-left", "of-somebody-else"):
        (memory / name).mkdir()
        (memory / f"{name}.lock").touch()
    with fast_folder(tmp_path) as first, fast_folder(tmp_path) as second:
        there = {path.name for path in memory.iterdir() if path.suffix != ".lock"}
        assert there == {first.name, second.name, "of-somebody-else"}
    assert {path.name for path in memory.iterdir()} == {"of-somebody-else", "of-somebody-else.lock"}


@pytest.mark.parametrize("there", [True, False])
def test_without_room_in_memory_it_is_the_other_folder(
    memory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setattr(servers, "NEEDED_BYTES", 1 << 60 if there else 1)
    if not there:
        monkeypatch.setattr(servers, "IN_MEMORY", memory / "nowhere")
    with fast_folder(tmp_path) as folder:
        assert folder == tmp_path

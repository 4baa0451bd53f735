"""A ledger file that was tampered with: the first wrong line is found, and named for what was done to it."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.run import RunState
from cronflow.ledger.export import LedgerWriter, canonical
from cronflow.ledger.verification import verify_ledger
from tests.ledger.forging import Change, a_file, all_ran, lines, ran, rewrite, write

OLD = "2026-11-21T15:00:00Z"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Header, the job, six entries and the footer: nine lines."""
    path = tmp_path / "ledger.jsonl"
    a_file(path)
    return path


def flaw(path: Path, expected: str | None = None) -> tuple[int | None, str]:
    found = verify_ledger(path, expected)
    assert found["flaw"] is not None
    assert not found["whole"]
    return found["flaw"]["line"], found["flaw"]["how"]


def what(path: Path) -> str:
    found = verify_ledger(path)["flaw"]
    assert found is not None
    return found["what"]


def test_a_file_as_it_was_written_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    runs = [ran(0), ran(1, to=2), ran(3), ran(3, id="report@x", fire_at=ran(3).fire_at), ran(5)]
    sha256 = a_file(path, runs)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    found = verify_ledger(path, sha256.upper())
    assert (found["whole"], found["flaw"], found["entries"]) == (True, None, 6)
    assert (found["lost"], found["doubled"]) == (1, 1)
    assert found["header"]["exported_by"] == "ada"


def test_each_line_contains_the_hash_of_the_one_before_it(file: Path) -> None:
    raw = file.read_bytes().splitlines()
    assert json.loads(raw[0])["previous"] is None
    for before, after in pairwise(raw):
        assert json.loads(after)["previous"] == hashlib.sha256(before).hexdigest()
    assert [json.loads(line)["type"] for line in raw] == ["header", "job", *["entry"] * 6, "footer"]


def changed(**fields: Any) -> Change:
    def change(found: list[dict[str, Any]]) -> None:
        found[5] |= fields

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda found: found[0].update(exported_by="eve"), (1, "changed")),
        (lambda found: found[5].update(state="failed"), (6, "changed")),
        (lambda found: found[5].update(previous="0" * 64), (6, "changed")),
        (lambda found: found[8].update(entries=7), (9, "changed")),
        (lambda found: found.pop(0), (1, "removed")),
        (lambda found: found.pop(5), (6, "removed")),
        (lambda found: found.pop(7), (8, "removed")),
        (lambda found: found.insert(5, dict(found[3])), (6, "inserted")),
        (lambda found: found.insert(5, dict(found[4])), (6, "inserted")),
        (lambda found: found.insert(5, found[5] | {"state": "failed"}), (6, "inserted")),
        (lambda found: found.append(dict(found[8])), (10, "inserted")),
        (lambda found: found.insert(4, found.pop(5)), (5, "reordered")),
        (lambda found: found.insert(3, found.pop(6)), (4, "reordered")),
        (lambda found: found.pop(), (9, "truncated")),
        (lambda found: found.__delitem__(slice(4, 9)), (5, "truncated")),
    ],
)
def test_tampering_that_breaks_the_chain_is_found(file: Path, change: Change, expected: tuple[int, str]) -> None:
    found = lines(file)
    change(found)
    write(file, found)
    assert flaw(file) == expected


@pytest.mark.parametrize(
    ("change", "expected", "words"),
    [
        (lambda found: found.pop(5), (6, "removed"), f"due at {OLD}"),
        (lambda found: found.pop(7), (8, "removed"), "due at 2026-11-21T17:00:00Z"),
        (lambda found: found.insert(6, dict(found[5])), (7, "inserted"), "second entry"),
        (changed(instant="2026-11-21T14:30:00Z"), (6, "inserted"), "was not due"),
        (lambda found: found.insert(4, found.pop(5)), (5, "removed"), "due at 2026-11-21T14:00:00Z"),
        (changed(job="other"), (6, "reordered"), "among those of report"),
        (changed(run="report@20261121T000000Z"), (6, "changed"), "its run is report@20261121T000000Z"),
        (changed(verdict="lost"), (6, "changed"), "is lost, and its run is"),
        (changed(verdict="unexpected"), (6, "changed"), "the verdict is unexpected"),
        (changed(version=2), (6, "changed"), "due under version 1"),
        (changed(schedule="daily"), (6, "changed"), "due under version 1"),
        (lambda found: found[5].pop("covers"), (6, "changed"), "a field is missing"),
        (lambda found: found[1]["versions"][0]["schedule"].update(cron="99 * * * *"), (2, "changed"), "cannot be read"),
        (
            lambda found: found[1]["versions"][0]["schedule"].update(cron="*/30 * * * *"),
            (4, "removed"),
            "due at 2026-11-21T12:30:00Z",
        ),
        (lambda found: found.insert(5, dict(found[0])), (6, "inserted"), "a header can only be"),
    ],
)
def test_tampering_with_a_chain_that_was_made_right_again_is_found(
    file: Path, change: Change, expected: tuple[int, str], words: str
) -> None:
    rewrite(file, change)
    assert flaw(file) == expected
    assert words in what(file)


def test_a_file_that_was_rewritten_as_a_whole_is_found_by_the_hash_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    noted = a_file(path)
    path.unlink()
    a_file(path, [ran(0, RunState.FAILED), *all_ran()[1:]])
    assert verify_ledger(path)["whole"]
    assert flaw(path, noted) == (None, "replaced")


def test_a_job_that_comes_twice_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    a_file(path, jobs=("report", "report"))
    assert flaw(path) == (9, "reordered")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda raw: raw[:-1], (9, "truncated")),
        (lambda raw: raw[:-40], (9, "truncated")),
        (lambda raw: raw.replace(b'"attempts":[]', b'"attempts": []', 1), (3, "changed")),
        (lambda raw: raw.replace(b'"fence":103', b'"fence":103.0', 1), (6, "changed")),
        (lambda raw: raw.replace(b"succeeded", b"\xff\xfe", 1), (3, "changed")),
        (lambda raw: b"\n" + raw, (1, "unreadable")),
        (lambda raw: b"", (1, "truncated")),
        (lambda raw: raw + b"\n", (10, "inserted")),
    ],
)
def test_bytes_that_no_export_writes_are_found(file: Path, change: Any, expected: tuple[int, str]) -> None:
    file.write_bytes(change(file.read_bytes()))
    assert flaw(file) == expected


def test_a_format_of_the_future_is_refused(file: Path) -> None:
    rewrite(file, lambda found: found[0].update(format="cronflow-ledger/9"))
    with pytest.raises(InvalidInput, match="this CronFlow reads cronflow-ledger/1"):
        verify_ledger(file)


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        verify_ledger(tmp_path / "missing")


def test_an_export_replaces_no_file_and_leaves_nothing_by_halves(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with LedgerWriter(path, {}) as writer:
        writer.job({"job": "report", "known_from": None, "versions": []})
    assert list(tmp_path.iterdir()) == []
    path.write_text("kept")
    with pytest.raises(InvalidInput, match="exists already"):
        a_file(path)
    assert [one.name for one in tmp_path.iterdir()] == ["ledger.jsonl"]
    assert path.read_text() == "kept"
    with pytest.raises(InvalidInput, match="cannot be written"):
        a_file(tmp_path / "missing" / "ledger.jsonl")


def test_the_canonical_form_is_that_of_rfc_8785_for_what_a_file_may_contain() -> None:
    value = {"b": [1, -(2**53) + 1, True, None], "a": {"text": "".join(map(chr, range(0x250)))}, "": 1}
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert canonical(value) == expected


@pytest.mark.parametrize("value", [1.5, 2**53, {"ä": 1}, [object()]])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        canonical(value)

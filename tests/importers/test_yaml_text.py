"""What is printed reads as what was meant, whatever it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronflow.files.jobs import read_jobs
from cronflow.files.yaml_source import yaml_documents
from cronflow.importers.imported import ImportedFile, ImportedJob, ImportNote, ImportRefusal, completed
from cronflow.importers.yaml_text import WIDTH, write_yaml

HOSTILE = ["12:30", "1e3", "0x1f", "on", "null", "~", "a: b", "# x", " x ", "*", "&a", "!t", "'", '"', "a\nb", "a\n",
           "\n", " a\nb", "a \nb", "\ta\nb", "", "\x07", "é\u2028x", "- x", "%", "2026-01-01", "-0"]  # fmt: skip
texts = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def a_file(document: dict[str, Any], *notes: ImportNote, original: str = "") -> ImportedFile:
    return ImportedFile("test", (ImportedJob("a", document, notes, "line 1", original),))


def read_back(file: ImportedFile) -> list[Any]:
    [document] = yaml_documents(Path("x.yaml"), write_yaml([file]), "jobs")
    assert isinstance(document.value, dict)
    found = document.value["jobs"]
    assert isinstance(found, list)
    return found


@given(env=st.dictionaries(texts, texts, max_size=3), words=st.lists(texts, max_size=3), note=texts)
def test_every_text_reads_as_it_was(env: dict[str, str], words: list[str], note: str) -> None:
    document = {"name": "a", "run": {"argv": words, "env": env}, "labels": env, "retry": {"max": 0}}
    notes = [ImportNote(path, note) for path in ((), ("name",), ("run",), ("run", "env"), ("retry", "max"))]
    assert read_back(a_file(document, *notes, original=note)) == [document]


def test_notes_are_above_their_keys_and_fit() -> None:
    document = {"name": "a", "schedule": {"any": [{"cron": "1 1 * * *"}, {"every": "1h"}]}, "run": {"shell": "x"}}
    long = "Word " * 60
    notes = (ImportNote(("schedule", "any", "1"), "second"), ImportNote(("run",), long), ImportNote((), "whole"))
    printed = write_yaml([a_file(document, *notes, original="one\ntwo")])
    assert "  # line 1:\n  #   one\n  #   two\n  # whole\n  - name: a\n" in printed
    assert "        # second\n        - every: 1h\n" in printed
    assert printed.count("Word") == 60
    assert max(map(len, printed.splitlines())) <= WIDTH


def test_a_job_that_cronflow_refuses_becomes_a_refusal_and_the_rest_can_be_applied(tmp_path: Path) -> None:
    good = ImportedJob("good", {"schedule": {"cron": "1 1 * * *"}, "run": {"shell": "true"}})
    bad = ImportedJob(
        "bad", {"schedule": {"cron": "99 * * * *"}, "run": {"shell": "true"}}, (), "line 7", "99 * * * * x"
    )
    [file] = completed([ImportedFile("test", (bad, good))], {"team": "12"}, "web-1")
    assert [(one.place, one.text) for one in file.refusals] == [("line 7", "99 * * * * x")]
    assert file.refusals[0].reason.startswith("schedule.cron: '99' is not allowed")
    path = tmp_path / "jobs.yaml"
    path.write_text(write_yaml([file]))
    [job] = read_jobs([path]).jobs
    assert (job.name, job.require, job.labels) == ("good", {"host": "web-1"}, {"team": "12", "host": "web-1"})
    assert "# Not imported, line 7" in path.read_text()


def test_several_files_are_several_documents_with_unique_names(tmp_path: Path) -> None:
    one = ImportedFile("a", (ImportedJob("x", {"run": {"shell": "1"}}, original="1"),))
    two = ImportedFile(
        "b", (ImportedJob("x", {"run": {"shell": "2"}}, original="2"),), (ImportRefusal("p", "t", "r", "m"),)
    )
    path = tmp_path / "jobs.yaml"
    path.write_text(write_yaml(completed([one, two, ImportedFile("c")])))
    names = [job.name for job in read_jobs([path]).jobs]
    assert len(set(names)) == 2
    assert all(name.startswith("x-") for name in names)


@pytest.mark.parametrize("count", [0, 1])
def test_a_file_without_jobs_is_still_a_job_file(count: int, tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(write_yaml([ImportedFile("a", refusals=(ImportRefusal("p", "t\x00", "r", "m"),) * count)]))
    assert read_jobs([path]).jobs == []

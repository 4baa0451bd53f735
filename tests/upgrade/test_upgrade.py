"""The pure parts of `make upgrade-test`: versions, edits of a tree, attribution of starts, and the verdict's table."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow.documents import parse_job
from cronflow.testing.history.checker import RULES, Violation
from cronflow.testing.history.history import END, START, Noted
from tests.children import ROOT
from tests.upgrade import releases
from tests.upgrade.__main__ import parsed
from tests.upgrade.cluster import Stage
from tests.upgrade.releases import CannotBuild, commit_of, next_minor, next_patch, substituted, version_of
from tests.upgrade.verdict import Verdict, table
from tests.upgrade.workload import Started, first_jobs, needs_newer, new_jobs, starts_by_node, starts_by_version

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def line(word: str, node: str, seconds: int) -> Noted:
    return Noted(word, "tick@1", 1, node, NOON + seconds * SECOND)


def test_without_words_every_part_runs() -> None:
    assert parsed([]).parts == ("across", "within", "newer")
    assert parsed(["within"]).parts == ("within",)
    with pytest.raises(SystemExit):
        parsed(["without"])


def test_the_next_versions() -> None:
    assert next_patch("0.13.0") == "0.13.1"
    assert next_minor("0.13.4") == "0.14.0"
    present = version_of(ROOT)
    assert next_patch(present).rpartition(".")[0] == present.rpartition(".")[0]


def test_an_edit_applies_to_one_place() -> None:
    assert substituted("a = 1\nb = 2", "a = 1", "a = 3") == "a = 3\nb = 2"
    for source in ("", "a = 1\na = 1"):
        with pytest.raises(ValueError, match=r"'a = 1' occurs \d times"):
            substituted(source, "a = 1", "a = 3")


def test_the_commit_of_a_version_is_the_first_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"]

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    commits = []
    for text in ('version = "1.0.0"\n', 'version = "1.1.0"\n', 'version = "1.1.0"\nother = 1\n', 'version = "1.2.0"\n'):
        (tmp_path / "pyproject.toml").write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", "Change the version")
        commits.append(git("rev-parse", "HEAD"))
    monkeypatch.setattr(releases, "ROOT", tmp_path)
    monkeypatch.setattr(releases, "OUTSIDE", None)
    assert commit_of("1.1.0") == commits[1]
    with pytest.raises(CannotBuild, match=r"no commit has the version 9\.0\.0; fetch the whole history"):
        commit_of("9.0.0")


def test_a_start_counts_for_the_version_that_its_node_had_then() -> None:
    started = [
        Started("a", "0.6.0", NOON),
        Started("b", "0.6.0", NOON),
        Started("a", "0.13.0", NOON + 10 * SECOND),
    ]
    sink = [line(START, "a", 1), line(END, "a", 2), line(START, "a", 9), line(START, "a", 11), line(START, "b", 12)]
    assert starts_by_version(sink, started, NOON + 2 * SECOND) == {"0.6.0": 2, "0.13.0": 1}
    assert starts_by_node(sink, NOON + 2 * SECOND) == {"a": 2, "b": 1}
    with pytest.raises(ValueError, match="c ran nothing at 12:00:05"):
        starts_by_version([line(START, "c", 5)], started, NOON)


def test_the_jobs_are_documents_that_this_version_reads() -> None:
    sink = Path("sink")
    jobs = [parse_job(document) for document in [*first_jobs(sink), *needs_newer(sink), *new_jobs(sink)]]
    assert len({job.name for job in jobs}) == len(jobs)
    newer = {job.name for job in jobs if job.concurrency or job.after}
    assert newer == {"needs-newer", "limited", "follower"}


def test_a_verdict_holds_only_without_a_lost_or_doubled_instant_and_without_violations() -> None:
    good = Verdict(due=10, lost=0, doubled=0, runs=10, starts=11, violations=[])
    twice = Violation("H2", "tick@1", "it ended 2 times")
    assert good.holds
    assert not replace(good, due=0).holds
    assert not replace(good, lost=1).holds
    assert not replace(good, doubled=1).holds
    bad = replace(good, violations=[twice, Violation("H3", "tick@1", "its fence fell from 2 to 1")])
    assert (bad.holds, bad.committed_twice) == (False, 1)


def test_the_table_has_each_stage_the_counts_and_the_violations() -> None:
    stage = Stage("one follower replaced", "0.6.0", {"0.6.0": 2, "0.13.0": 1}, {"0.6.0": 41, "0.13.0": 12})
    twice = Violation("H2", "tick@1", "it ended 2 times")
    _, one, counts, shown = table([stage], Verdict(1200, 0, 0, 1100, 1150, [twice]))
    assert " ".join(one.split()) == "one follower replaced 0.6.0 1 of 0.13.0, 2 of 0.6.0 12 on 0.13.0, 41 on 0.6.0"
    assert counts == (
        "1,200 instants due, 1,100 runs, 1,150 starts: lost 0, doubled 0, committed twice 1, "
        f"violations of {len(RULES)} rules 1"
    )
    assert shown == "  H2 tick@1: it ended 2 times"

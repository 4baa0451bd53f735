"""References to upstream runs: what they may name, where they may be, and what they are replaced by."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cronflow.domain.chain import Upstream
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, HttpTarget, Job, PythonTarget, Target
from cronflow.domain.run import Run, RunState
from cronflow.domain.upstream_values import refers_to_upstream, upstream_problems, with_upstream_values
from tests.contracts.builders import a_run as run_of_job

FIRE = datetime(2026, 11, 21, 2, tzinfo=UTC)
RESULT = {"rows": 7, "files": [{"name": "a.csv"}, {"name": "b.csv"}], "ok": True, "none": None, "text": "x"}


def a_job(target: Target, *after: str) -> Job:
    return Job(name="report", target=target, after=tuple(map(Upstream, after or ("import",))))


def a_run(job: str = "import", result: object = RESULT) -> Run:
    base = run_of_job(job, FIRE)
    return replace(base, id=f"{job}@1", state=RunState.SUCCEEDED, result=result, error="broken")


def value_of(text: object) -> Any:
    job = a_job(PythonTarget("jobs:work", args={"value": text}))
    target = with_upstream_values(job, (), {"import": a_run()})
    assert isinstance(target, PythonTarget)
    return target.args["value"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${upstream:import.result}", RESULT),
        ("${upstream:import.result.rows}", 7),
        ("${upstream:import.result.files.1.name}", "b.csv"),
        ("${upstream:import.result.files.-1.name}", "b.csv"),
        ("${upstream:import.result.none}", None),
        ("${upstream:import.error}", "broken"),
        ("${upstream:import.state}", "succeeded"),
        ("${upstream:import.run}", "import@1"),
        ("${upstream:import.fire_at}", "2026-11-21T02:00:00Z"),
        ("${upstream:import.result.rows} rows", "7 rows"),
        ("${upstream:import.result.ok}, ${upstream:import.result.text}", "true, x"),
        ("[${upstream:import.result.none}]", "[]"),
        ("in ${upstream:import.result.files.0}", 'in {"name":"a.csv"}'),
        ("plain", "plain"),
        ({"deep": ["${upstream:import.result.rows}", 5]}, {"deep": [7, 5]}),
    ],
)
def test_a_reference_stands_for_the_value_and_within_a_text_for_its_json(text: object, expected: object) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("${upstream:import.result.lines}", "the result of import@1 has no 'lines'"),
        ("${upstream:import.result.files.2}", "the result.files of import@1 has no '2'"),
        ("${upstream:import.result.files.first}", "has no 'first'"),
        ("${upstream:import.result.rows.0}", "the result.rows of import@1 has no '0'"),
        ("${upstream:import.result.text.0}", "the result.text of import@1 has no '0'"),
        ("${upstream:import.result.none.0}", "has no '0'"),
    ],
)
def test_a_missing_part_is_named(text: str, word: str) -> None:
    with pytest.raises(InvalidInput, match=r"has no value") as caught:
        value_of(text)
    assert word in str(caught.value)


def test_a_run_that_follows_none_has_no_value() -> None:
    job = a_job(PythonTarget("jobs:work", args={"value": "${upstream:import.result}"}))
    with pytest.raises(InvalidInput, match="this run follows no run of import"):
        with_upstream_values(job, (), {})


def test_arguments_of_the_run_replace_references_and_are_not_searched() -> None:
    args = {"rows": "${upstream:import.result.rows}", "own": "${upstream:import.result.lines}"}
    target = with_upstream_values(a_job(PythonTarget("jobs:work", args=args)), ["own"], {"import": a_run()})
    assert isinstance(target, PythonTarget)
    assert target.args == {"rows": 7, "own": args["own"]}


def test_values_are_not_searched_for_references() -> None:
    evil = a_run(result={"a": "${secret:TOKEN} ${upstream:import.run}"})
    for text in ("${upstream:import.result.a}", "x ${upstream:import.result.a}"):
        target = with_upstream_values(a_job(CommandTarget("true", env={"A": text})), (), {"import": evil})
        assert isinstance(target, CommandTarget)
        assert target.env["A"].endswith("${secret:TOKEN} ${upstream:import.run}")


def test_the_environment_headers_and_the_body_get_text() -> None:
    runs = {"import": a_run()}
    command = with_upstream_values(a_job(CommandTarget("true", env={"A": "${upstream:import.result.rows}"})), (), runs)
    assert isinstance(command, CommandTarget)
    assert command.env == {"A": "7"}
    http = HttpTarget("https://example.com", headers={"X": "${upstream:import.run}"}, body="${upstream:import.result}")
    sent = with_upstream_values(a_job(replace(http, method="POST")), (), runs)
    assert isinstance(sent, HttpTarget)
    assert (sent.headers["X"], sent.body) == (
        "import@1",
        '{"rows":7,"files":[{"name":"a.csv"},{"name":"b.csv"}],"ok":true,"none":null,"text":"x"}',
    )


def test_the_longest_name_of_a_job_counts() -> None:
    job = a_job(PythonTarget("jobs:work", args={"a": "${upstream:a.result.run}"}), "a", "a.result")
    target = with_upstream_values(job, (), {"a.result": a_run("a.result"), "a": a_run("a", {"run": 1})})
    assert isinstance(target, PythonTarget)
    assert target.args["a"] == "a.result@1"


@pytest.mark.parametrize(
    ("target", "place", "word"),
    [
        (PythonTarget("jobs:work", args={"a": "${upstream:other.result}"}), "run.args", "a job that is not in after"),
        (PythonTarget("jobs:work", args={"a": ["${upstream:import.rows}"]}), "run.args", "is not a reference"),
        (PythonTarget("jobs:work", args={"a": "${upstream:import.state.x}"}), "run.args", "is not a reference"),
        (PythonTarget("jobs:work", args={"a": "${upstream:import.result"}), "run.args", "is not a reference"),
        (CommandTarget("echo ${upstream:import.result}"), "run.shell", "cannot refer to upstream runs"),
        (CommandTarget(("echo", "${upstream:import.result}")), "run.shell", "cannot refer to upstream runs"),
        (HttpTarget("https://example.com/${upstream:import.run}"), "run.http.url", "cannot refer to upstream runs"),
        (HttpTarget("https://example.com", headers={"X": "${upstream:x.run}"}), "run.http.headers", "not in after"),
    ],
)
def test_wrong_references_are_refused_with_their_place(target: Target, place: str, word: str) -> None:
    [problem] = upstream_problems(a_job(target))
    assert problem.place == place
    assert word in problem.what
    assert problem.remedy


def test_only_targets_with_references_need_the_runs() -> None:
    assert refers_to_upstream(PythonTarget("jobs:work", args={"a": {"b": ["${upstream:import.run}"]}}))
    assert not refers_to_upstream(PythonTarget("jobs:work", args={"a": "${secret:A}"}))
    assert upstream_problems(a_job(CommandTarget("true", env={"A": "${upstream:import.run}"}))) == []

"""Chains on the command line."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.cli.views.chains import dot_lines, mermaid_lines, tree_lines
from cronflow.domain.chain import ChainLink, Join, On, RunEnd, Upstream
from cronflow.domain.following import JoinRecord
from cronflow.domain.run import RunState
from cronflow.schemas.job_graph import JobGraphSchema
from tests.cli import chained
from tests.cli.chained import FIRST, FOLLOWING
from tests.cli.conftest import Cli, parsed
from tests.cli.scene import FAILED, NOON, Scene, job

LEFT, RIGHT, REPORT = FOLLOWING


@pytest.fixture
def chain(scene: Scene) -> Scene:
    asyncio.run(chained.fill(scene))
    return scene


@pytest.mark.usefixtures("chain")
def test_the_graph_is_a_tree_in_which_a_joined_job_expands_once(cli: Cli) -> None:
    assert cli("jobs", "graph").stdout.splitlines() == [
        "import",
        "├─ alarm  (on failed)",
        "├─ left",
        "│  └─ report  (all of left, right)",
        "└─ right  (on ended)",
        "   └─ report  (all of left, right)",
    ]
    assert cli("jobs", "graph", "alarm").stdout.splitlines() == ["import", "└─ alarm  (on failed)"]


@pytest.mark.usefixtures("chain")
def test_the_graph_is_printed_for_programs(cli: Cli) -> None:
    dot = cli("jobs", "graph", "left", "-o", "dot").stdout
    assert dot.splitlines() == [
        "digraph jobs {",
        "  rankdir=LR;",
        "  node [shape=box];",
        '  "import";',
        '  "left";',
        '  "report";',
        '  "import" -> "left";',
        '  "left" -> "report";',
        "}",
    ]
    mermaid = cli("jobs", "graph", "alarm", "-o", "mermaid").stdout
    assert mermaid.splitlines() == ["flowchart LR", '  j0["alarm"]', '  j1["import"]', "  j1 -->|failed| j0"]
    assert parsed(cli("jobs", "graph", "alarm", "-o", "json"))["edges"] == [
        {"upstream": "import", "job": "alarm", "on": "failed", "join": "all"}
    ]


@pytest.mark.usefixtures("scene")
def test_without_followers_the_graph_is_empty(cli: Cli) -> None:
    result = cli("jobs", "graph")
    assert (result.stdout, "Add after: NAME" in result.stderr) == ("", True)
    assert "follows no job" in cli("jobs", "graph", "rebuild-cache").stderr
    wrong = cli("jobs", "graph", "rebuild-cach")
    assert (wrong.exit_code, "rebuild-cache" in wrong.stderr) == (3, True)


def a_graph(*edges: tuple[str, str], join: Join = Join.ANY) -> JobGraphSchema:
    jobs = sorted({name for edge in edges for name in edge})
    made = [{"upstream": one, "job": two, "on": On.SUCCEEDED, "join": join} for one, two in edges]
    return {"jobs": jobs, "edges": made}  # type: ignore[typeddict-item]


def test_names_are_escaped_in_drawings() -> None:
    graph = a_graph(('a"b\\c', "end"))
    assert '  "a\\"b\\\\c" -> "end";' in dot_lines(graph)
    assert '  j0["a#quot;b\\c"]' in mermaid_lines(graph)
    assert "  j0 --> j1" in mermaid_lines(graph)


def test_a_cycle_is_drawn_once_and_a_long_chain_without_recursion() -> None:
    assert tree_lines(a_graph(("a", "b"), ("b", "a"))) == ["a", "└─ b", "   └─ a …"]
    long = [(f"n{n:04}", f"n{n + 1:04}") for n in range(2000)]
    assert len(tree_lines(a_graph(*long))) == 2001


def test_edges_of_any_are_labelled() -> None:
    graph = a_graph(("a", "c"), ("b", "c"))
    assert '  "a" -> "c" [label="any"];' in dot_lines(graph)
    assert tree_lines(graph)[1] == "└─ c  (any of a, b)"


@pytest.mark.usefixtures("chain")
def test_the_runs_of_a_chain_are_listed_from_any_of_them(cli: Cli) -> None:
    for name in (FIRST, REPORT):
        assert cli("runs", "chain", name, "-o", "name").stdout.split() == [FIRST, LEFT, RIGHT, REPORT]
        listed = cli("runs", "list", "--chain", name, "-o", "name").stdout.split()
        assert sorted(listed) == sorted([FIRST, *FOLLOWING])
    lines = cli("runs", "chain", LEFT, columns=160).stdout.splitlines()
    starts = [line.index(name) for line, name in zip(lines[1:], (FIRST, LEFT, RIGHT, REPORT), strict=True)]
    assert [start - starts[0] for start in starts] == [0, 2, 2, 4]
    assert "left failed, right succeeded" in lines[4]
    assert cli("runs", "chain", "left@after-2").exit_code == 3
    assert cli("runs", "chain", FAILED, "-o", "name").stdout.split() == [FAILED]


@pytest.mark.usefixtures("chain")
def test_a_run_shows_its_neighbours_in_the_chain(cli: Cli) -> None:
    page = cli("runs", "show", LEFT).stdout
    assert f"{FIRST} (succeeded)" in page
    shown = page.partition("what follows it")[2]
    assert [name in shown for name in (FIRST, LEFT, RIGHT, REPORT)] == [True, True, False, True]
    assert "follows it" not in cli("runs", "show", FAILED).stdout


@pytest.mark.usefixtures("chain")
def test_a_job_shows_what_it_follows_and_its_followers(cli: Cli) -> None:
    report, first = cli("jobs", "show", "report").stdout, cli("jobs", "show", "import").stdout
    assert "all of left succeeded, right succeeded" in report
    assert "alarm, left, right" in first
    assert "no schedule" not in report
    assert "no schedule" in first
    assert "runs after the jobs that it follows" in cli("jobs", "next", "report").stderr


def test_a_replay_has_followers_if_asked_for(cli: Cli, chain: Scene) -> None:
    [with_them] = cli("runs", "retry", LEFT, "--followers", "-o", "name").stdout.split()
    assert asyncio.run(chain.service.runs.get(with_them)).followed
    [without] = cli("runs", "retry", RIGHT, "-o", "name").stdout.split()
    assert not asyncio.run(chain.service.runs.get(without)).followed


@pytest.mark.usefixtures("chain")
def test_why_explains_what_a_run_follows_and_what_held_it_back(cli: Cli) -> None:
    steps = parsed(cli("runs", "why", REPORT, "-o", "json"))["chain"]
    assert [step["step"] for step in steps] == ["follows", "placed", "dispatched", "ended"]
    assert steps[0] == {
        "step": "follows",
        "at": "2026-11-21T11:12:00Z",
        "chain": FIRST,
        "depth": 2,
        "of": [
            {"job": "left", "run": LEFT, "state": "failed"},
            {"job": "right", "run": RIGHT, "state": "succeeded"},
        ],
    }
    page = cli("runs", "why", REPORT).stdout
    assert f"{LEFT} failed" in page
    assert "report only follows left when it succeeds" in page


@pytest.mark.usefixtures("chain")
def test_why_of_a_failed_run_names_what_it_holds_back(cli: Cli) -> None:
    steps = parsed(cli("runs", "why", LEFT, "-o", "json"))["chain"]
    assert steps[-1] == {
        "step": "held_back",
        "run": REPORT,
        "reason": f"{LEFT} failed, but report only follows left when it succeeds",
    }
    page = cli("runs", "why", LEFT).stdout
    assert ("held back" in page, f"replay it: cronflow runs retry {LEFT}" in page) == (True, True)
    # Only the run that follows it.
    assert parsed(cli("runs", "why", FIRST, "-o", "json"))["chain"][-1]["step"] == "ended"


def test_why_of_a_job_names_the_last_ends_and_what_its_joins_lack(cli: Cli, chain: Scene) -> None:
    end = RunEnd(RIGHT, "right", RunState.SUCCEEDED, NOON, NOON, ChainLink(FIRST, 1))
    until = NOON + timedelta(hours=1)
    join = JoinRecord(id="x", job="report", chain=FIRST, arrived=(end,), expires_at=until, waits=True)
    asyncio.run(chain.backends.chains.write_join(join))
    steps = parsed(cli("jobs", "why", "report", "-o", "json"))["chain"]
    assert [step["step"] for step in steps[:4]] == ["upstream", "upstream", "awaits", "follows"]
    assert (steps[0]["job"], steps[0]["run"], steps[0]["state"]) == ("left", LEFT, "failed")
    assert steps[2] == {
        "step": "awaits",
        "chain": FIRST,
        "arrived": [{"job": "right", "run": RIGHT, "state": "succeeded"}],
        "missing": ["left"],
        "until": "2026-11-21T13:00:00Z",
    }
    assert f"for left to end in the chain {FIRST}, until" in cli("jobs", "why", "report").stdout


def test_why_of_a_job_that_has_not_run_names_an_upstream_that_never_ran(cli: Cli, scene: Scene) -> None:
    jobs = [job("rebuild-nothing"), job("mail", after=(Upstream("rebuild-nothing"),))]
    asyncio.run(scene.service.jobs.apply(jobs))
    found = cli("jobs", "why", "mail")
    assert "rebuild-nothing (on succeeded): none of its runs has ended" in found.stdout
    assert "no schedule" not in found.stdout


JOBS = """
jobs:
  - {name: import, run: {shell: "true"}, after: report}
  - {name: report, run: {shell: "true"}, after: import}
  - {name: mail, run: {shell: "true"}, after: reprt}
"""


@pytest.mark.usefixtures("empty")
def test_a_dry_run_names_absent_upstreams_and_cycles(cli: Cli) -> None:
    file = Path("jobs.yaml")
    file.write_text(JOBS)
    absent = cli("jobs", "apply", "--dry-run", "-f", "jobs.yaml")
    assert absent.exit_code == 2
    assert "there is no job 'reprt' (did you mean report?)" in absent.stderr
    file.write_text(JOBS.replace("reprt", "report"))
    cycle = cli("jobs", "apply", "--dry-run", "-f", "jobs.yaml")
    assert "jobs follow each other: import -> report -> import (remove one of the links)" in cycle.stderr

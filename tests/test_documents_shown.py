"""What the documents show is true: their examples are accepted, their commands exist, their links lead somewhere.

The rule it protects: nobody is sent to something that is not there. It checks names with the parser that a person would
meet, also within sentences; what blocks do is run by `tests.docs`. Whether outputs and figures are of this version is
beyond it.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main

from cronflow import App, Context
from cronflow.cli.dev.inputs import Given, read
from cronflow.cli.main import app as commands
from cronflow.config.settings import FIELDS
from cronflow.config.sources import _NO_SETTINGS
from cronflow.domain.job import Retry
from cronflow.domain.run import OPEN, RunState
from cronflow.domain.transitions import TRANSITIONS, Transition

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RECORDS = ROOT / "docs" / "decisions"
INDEX = RECORDS / "README.md"
CONCEPTS = ROOT / "docs" / "concepts"
LIVING = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LIVING += [*sorted(CONCEPTS.glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
"""The documents that follow the code. A decision record does not: it stays as it was written."""

Command = tuple[str, ...]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shown(text: str, program: str) -> list[Command]:
    """The calls of a program, without its name: lines of shell blocks, and code within sentences."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    code = [*lines, *re.findall(r"`([^`\n]+)`", prose)]
    # What follows a redirection or a pipe is the shell's.
    called = [shlex.split(re.split(" [<|] ", line)[0], comments=True) for line in code if program in line]
    return [tuple(words[1:]) for words in called if words and words[0] == program]


def parse(words: Sequence[str]) -> None:
    """Read a command line as `cronflow` would, down to its values, without running it; raises as it would."""
    command: Any = typer.main.get_command(commands)
    context, rest = command.context_class(command, info_name="cronflow"), [word for word in words if word != "--help"]
    while hasattr(command, "resolve_command"):
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        context = command.context_class(command, info_name=name, parent=context)
    if rest or "--help" not in words:
        command.make_context(context.info_name, list(rest), parent=context.parent)


def given_by(text: str, folder: Path) -> Given:
    """The Python example as `cronflow dev` reads it, under the name that the text gives it."""
    example, *_ = blocks(text, "python")
    [name] = re.findall(r"[Ss]ave this as `([\w.]+)`", text)
    (folder / name).write_text(example, "utf-8")
    return read([folder / name], Retry())


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The README's Python example; its module is forgotten again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield given_by(README.read_text("utf-8"), tmp_path)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


# ------------------------------------------------------------------------------------------------------- the examples


def test_the_python_example_has_the_jobs_that_the_text_names(given: Given) -> None:
    [sentence] = re.findall(r"Its jobs are ([^.]+)\.", README.read_text("utf-8"))
    assert [job.name for job in given.jobs] == re.findall(r"`([^`]+)`", sentence)
    assert given.apps == ("billing:app",)


async def test_the_functions_of_the_python_example_run_with_a_context(given: Given) -> None:
    app = sys.modules["billing"].app
    assert isinstance(app, App)
    assert len(app.functions) == len(given.jobs) == 2
    for function in app.functions.values():
        lines: list[str] = []
        context = Context(
            run_id="job@20261122T010000Z",
            job="job",
            fire_at=datetime(2026, 11, 22, 1, tzinfo=UTC),
            attempt=1,
            fence=1,
            node="node",
            args={},
            sink=lambda level, text, lines=lines: lines.append(text),
        )
        result = function(context)
        assert (await result if inspect.isawaitable(result) else result) in ({"days": 7}, None)
        assert lines


# ------------------------------------------------------------------------------------------------- commands and names


@pytest.mark.parametrize("document", LIVING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_a_document_shows_can_be_given(document: Path) -> None:
    refused = {}
    for words in shown(document.read_text("utf-8"), "cronflow"):
        try:
            parse(words)
        except Exception as error:  # usage errors of several kinds; each belongs in the list
            refused[" ".join(words)] = f"{type(error).__name__}: {error}"
    assert refused == {}


def test_the_page_of_everyday_commands_shows_every_group_of_them() -> None:
    page = ROOT / "docs" / "how-to" / "everyday-commands.md"
    first_words = {words[0] for words in shown(page.read_text("utf-8"), "cronflow") if words}
    assert first_words >= {"dev", "node", "api", "jobs", "runs", "nodes", "cluster", "cron", "config", "doctor"}


@pytest.mark.parametrize(
    "words",
    [
        "job list",
        "jobs lst",
        "jobs list --everything",
        "runs list --state bad",
        "dev --for",
        "jobs show",
        "dev --port many",
    ],
)
def test_a_command_that_cannot_be_given_would_be_noticed(words: str) -> None:
    [command] = shown(f"```sh\ncronflow {words}  # and why\n```\n", "cronflow")
    with pytest.raises(Exception, match=r"(?i)no such|not one of|requires|missing|integer"):
        parse(command)


@pytest.mark.parametrize("document", LIVING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_make_target_that_a_document_shows_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert targets >= {"demo", "test"}
    asked = {words[0] for words in shown(document.read_text("utf-8"), "make") if words}
    assert asked - targets == set()


def test_every_variable_that_the_documents_name_exists() -> None:
    known = {name.upper() for name in FIELDS} | _NO_SETTINGS
    named = {name for path in LIVING for name in re.findall(r"\bCRONFLOW_([A-Z_]+)", path.read_text("utf-8"))}
    assert len(named) >= 5
    assert named - known == set()


# ---------------------------------------------------------------------------------------------------- links and paths


@pytest.mark.parametrize(
    "document", [*LIVING, *sorted(RECORDS.glob("*.md"))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in inside if link and not (document.parent / link).exists()] == []


def test_every_path_in_the_contributors_page_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = re.findall(r"`((?:[\w*.-]+/)+[\w*.-]*)`", text)
    assert len(paths) >= 20
    found = [path for path in paths if any(any(base.glob(path.rstrip("/"))) for base in (ROOT, ROOT / "cronflow"))]
    assert sorted(set(paths) - set(found)) == []


def test_every_decision_record_is_in_the_index_and_has_its_parts() -> None:
    records = sorted(path for path in RECORDS.glob("*.md") if path != INDEX)
    linked = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\)", INDEX.read_text("utf-8"), re.MULTILINE)
    assert [name for _, name in linked] == [path.name for path in records]
    assert [number for number, _ in linked] == [f"{n:04}" for n in range(1, len(records) + 1)]
    for record in records:
        text = record.read_text("utf-8")
        assert text.startswith(f"# {record.name[:4]} "), record.name
        assert re.search(r"^Date: \d{4}-\d\d-\d\d\b", text, re.MULTILINE), record.name
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences", "What was rejected"], record.name


NAMED = r"`(tests/[\w/]+\.py)(?:::(\w+))?`"


def told_by(path: Path) -> dict[str, str]:
    """The tests of a file, and what their docstrings say."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {one.name: ast.get_docstring(one) or "" for one in functions if one.name.startswith("test_")}


@pytest.mark.parametrize("page", ["guarantees.md", "lessons.md", "protocol.md"])
def test_every_test_that_a_concept_names_exists(page: str) -> None:
    named = re.findall(NAMED, (CONCEPTS / page).read_text("utf-8"))
    assert len(named) > 20
    for path, name in named:
        code = (ROOT / path).read_text("utf-8")
        assert not name or re.search(rf"^(?:async )?def {name}\(", code, re.MULTILINE), f"{path}::{name}"


def lessons() -> list[tuple[str, list[tuple[str, str]]]]:
    """The threads of each lesson, and its tests."""
    rows = [line.split(" | ") for line in (CONCEPTS / "lessons.md").read_text("utf-8").splitlines() if "::" in line]
    return [(cells[0], re.findall(NAMED, cells[-1])) for cells in rows]


def test_every_test_of_a_lesson_is_named_after_its_thread_and_tells_of_all_of_them() -> None:
    for threads, tests in lessons():
        numbers = set(re.findall(r"#(\d+)", threads))
        told = " ".join(told_by(ROOT / path)[name] for path, name in tests)
        assert all(f"#{number}" in told for number in numbers), threads
        for path, name in tests:
            assert told_by(ROOT / path)[name], f"{name} does not say what failed"
            project, number = name.split("_")[1:3]
            assert number in numbers if numbers else project in threads.lower() or number in threads, name


def test_every_thread_of_the_protocol_has_its_lesson_and_every_such_test_stands_there() -> None:
    protocol = (CONCEPTS / "protocol.md").read_text("utf-8")
    section = protocol[protocol.index("\n## 1.") : protocol.index("\n## 2.")]
    threads = set(re.findall(r"#(\d+)", section))
    assert len(threads) > 50
    assert threads - {number for row, _ in lessons() for number in re.findall(r"#(\d+)", row)} == set()
    listed = {(path, name) for _, tests in lessons() for path, name in tests}
    projects = {name.split("_")[1] for _, name in listed}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in told_by(path):
            found = re.match(r"test_([a-z0-9]+)_\d+_", name)
            if found and found[1] in projects:
                assert (str(path.relative_to(ROOT)), name) in listed


def test_the_protocol_shows_the_table_of_transitions_as_it_is() -> None:
    text = (CONCEPTS / "protocol.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]+) -> ([^|]+) \|", text, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == sorted(TRANSITIONS)
    for name, before, after in rows:
        rule = TRANSITIONS[Transition(name)]
        words = set(re.findall(r"\w+", f"{before} {after}")) - {"none", "the", "same"}
        states = {state.value for state in rule.sources | rule.targets}
        assert {state for word in words for state in (OPEN if word == "open" else [RunState(word)])} == states, name


def test_every_fault_of_the_protocol_names_its_tests() -> None:
    section = (CONCEPTS / "protocol.md").read_text("utf-8").split("\n## 9. ")[1].split("\n## ")[0]
    faults = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)[1:]
    tested = re.findall(r"^\* ([^`]+): `tests/", section, re.MULTILINE)
    assert len(faults) == 10
    assert tested == faults

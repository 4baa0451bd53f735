"""The documentation is true: its examples are valid, its commands exist, its links resolve.

Commands and names are checked with the parser of the command line, in blocks and in sentences. `tests.docs` runs the
blocks. Whether shown outputs and figures belong to this version is not checked.
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
import yaml

from cronflow import App, Context
from cronflow.cli.dev.inputs import Given, read
from cronflow.cli.main import app as commands
from cronflow.config.settings import FIELDS
from cronflow.config.sources import _NO_SETTINGS
from cronflow.documents.jobs import JOB, MISFIRE, TABLES
from cronflow.documents.retry import BACKOFF
from cronflow.domain.access import Role
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
"""The pages that follow the code. A decision record does not: its facts stay as they were."""

Command = tuple[str, ...]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def shown(text: str, program: str) -> list[Command]:
    """The calls of a program, without its name, in shell blocks and in code within sentences."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    code = [*lines, *re.findall(r"`([^`\n]+)`", prose)]
    # A redirection, a pipe or another command ends the command.
    called = [shlex.split(re.split(r" (?:[<>|]|\|\||&&) ", line)[0], comments=True) for line in code if program in line]
    return [tuple(words[1:]) for words in called if words and words[0] == program]


def parse(words: Sequence[str]) -> None:
    """Parse a command line as `cronflow` would, including values, without running it; raises its errors."""
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
    """The Python example, read as `cronflow dev` does, under the file name in the text."""
    example, *_ = blocks(text, "python")
    [name] = re.findall(r"[Ss]ave this as `([\w.]+)`", text)
    (folder / name).write_text(example, "utf-8")
    return read([folder / name], Retry())


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The README's Python example; its module is removed afterwards."""
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
def test_every_command_in_a_document_is_valid(document: Path) -> None:
    refused = {}
    for words in shown(document.read_text("utf-8"), "cronflow"):
        try:
            parse(words)
        except Exception as error:  # usage errors of several kinds; each belongs in the list
            refused[" ".join(words)] = f"{type(error).__name__}: {error}"
    assert refused == {}


def test_the_page_of_everyday_commands_shows_every_group() -> None:
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
def test_an_invalid_command_is_detected(words: str) -> None:
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
def test_every_link_of_a_document_resolves(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8"))
    inside = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in inside if link and not (document.parent / link).exists()] == []


def test_every_path_in_the_contributors_page_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = re.findall(r"`((?:[\w*.-]+/)+[\w*.-]*)`", text)
    assert len(paths) >= 20
    found = [path for path in paths if any(any(base.glob(path.rstrip("/"))) for base in (ROOT, ROOT / "cronflow"))]
    assert sorted(set(paths) - set(found)) == []


def test_the_list_of_all_keys_of_a_job_has_every_key() -> None:
    page = (ROOT / "docs" / "how-to" / "http-and-shell-jobs.md").read_text("utf-8")
    text = page.partition("## All keys of a job")[2].partition("\n## ")[0]
    keys = {key for table in TABLES for key in table.keys}
    assert {key for key in keys if not re.search(rf"\b{key}[:`]|\bor {key}\b|, {key}\b", text)} == set()
    [job] = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])["jobs"]
    assert JOB.keys.keys() == job.keys()
    assert BACKOFF.keys.keys() == job["retry"].keys()
    assert MISFIRE.keys.keys() == job["misfire"].keys()


def test_the_documents_agree_on_the_servers_they_need() -> None:
    pages = [(ROOT / name).read_text("utf-8") for name in ("README.md", "docs/how-to/deploy.md")]
    for server in ("Redis", "MongoDB"):
        assert len({tuple(set(re.findall(rf"{server} (\d+\.\d+) or later", page))) for page in pages}) == 1


def test_the_key_of_the_clients_example_may_do_what_the_example_does() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    [role] = re.findall(r"cronflow keys create deploy(?: --role (\w+))?", readme)
    assert "cronflow.jobs.run(" in readme
    assert role == Role.OPERATOR


def test_every_decision_record_is_in_the_index_and_has_its_parts() -> None:
    records = sorted(path for path in RECORDS.glob("*.md") if path != INDEX)
    linked = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\) \| ([^|]+) \|", INDEX.read_text("utf-8"), re.MULTILINE)
    assert [name for _, name, _ in linked] == [path.name for path in records]
    assert [number for number, _, _ in linked] == [f"{n:04}" for n in range(1, len(records) + 1)]
    headings = [path.read_text("utf-8").partition("\n")[0] for path in records]
    assert headings == [f"# {number} {title}" for number, _, title in linked]
    for record in records:
        text = record.read_text("utf-8")
        assert text.startswith(f"# {record.name[:4]} "), record.name
        assert re.search(r"^Date: \d{4}-\d\d-\d\d\b", text, re.MULTILINE), record.name
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequences", "What was rejected"], record.name


def test_the_path_of_a_run_names_at_most_twenty_functions_and_each_is_in_its_file() -> None:
    page = ROOT / "docs" / "architecture.md"
    text = page.read_text("utf-8")
    path = text[text.index("\n## The path of one run") : text.index("\n## Seven invariants")]
    steps = re.findall(r"^\d+\. (.+)", path, re.MULTILINE)
    assert 10 <= len(steps) <= 20
    assert [step for step in steps if not step.startswith("[`")] == []
    linked = re.findall(r"\[`(?:(\w+)\.)?(\w+)`\]\(([^)]+\.py)\)", path)
    for owner, name, link in linked:
        tree = ast.parse((page.parent / link).read_text("utf-8"))
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
        body = [node for one in classes for node in one.body] if owner else tree.body
        functions = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{owner}.{name} in {link}"


NAMED = r"`(tests/[\w/]+\.py)(?:::(\w+))?`"


def docstrings_of_tests(path: Path) -> dict[str, str]:
    """The docstring of each test in a file, by name."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {one.name: ast.get_docstring(one) or "" for one in functions if one.name.startswith("test_")}


@pytest.mark.parametrize("page", ["guarantees.md", "how-others-failed.md", "protocol.md"])
def test_every_test_that_a_concept_names_exists(page: str) -> None:
    named = re.findall(NAMED, (CONCEPTS / page).read_text("utf-8"))
    assert len(named) > 20
    for path, name in named:
        code = (ROOT / path).read_text("utf-8")
        assert not name or re.search(rf"^(?:async )?def {name}\(", code, re.MULTILINE), f"{path}::{name}"


def issues_with_tests() -> list[tuple[str, list[tuple[str, str]]]]:
    """The issues of each row of the table of tests, and its tests."""
    text = (CONCEPTS / "how-others-failed.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if "::" in line]
    return [(cells[0], re.findall(NAMED, cells[-1])) for cells in rows]


def test_a_regression_test_is_named_after_an_issue_and_its_docstring_names_all_of_them() -> None:
    for issues, tests in issues_with_tests():
        numbers = set(re.findall(r"#(\d+)", issues))
        docstrings = " ".join(docstrings_of_tests(ROOT / path)[name] for path, name in tests)
        assert all(f"#{number}" in docstrings for number in numbers), issues
        for path, name in tests:
            assert docstrings_of_tests(ROOT / path)[name], f"{name} does not describe the failure"
            project, number = name.split("_")[1:3]
            assert number in numbers if numbers else project in issues.lower() or number in issues, name


def test_every_public_issue_has_a_regression_test_and_every_such_test_is_listed() -> None:
    text = (CONCEPTS / "how-others-failed.md").read_text("utf-8")
    systems = text[text.index("\n## The systems") : text.index("\n## The tests")]
    issues = set(re.findall(r"#(\d+)", systems))
    assert len(issues) > 50
    assert issues - {number for row, _ in issues_with_tests() for number in re.findall(r"#(\d+)", row)} == set()
    listed = {(path, name) for _, tests in issues_with_tests() for path, name in tests}
    projects = {name.split("_")[1] for _, name in listed}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in docstrings_of_tests(path):
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

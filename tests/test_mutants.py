"""The list of mutants matches the source and omits no condition, and its runner detects killed and surviving mutants.

The whole list takes long and runs separately: `make mutants`.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lupa.lua51 import LuaRuntime

from tests.mutants.catalogue import MEMORY, MUTANTS, PACKAGE, Mutant
from tests.mutants.changed import base_commit, changed_files, touched
from tests.mutants.running import ROOT, CannotRun, copy_package, suites_of, survives

HOME = ROOT / PACKAGE
WRITES = {"Update", "UpdateOne", "update_one", "update_many", "replace_one", "find_one_and_update"}
WRITES |= {"delete_one", "delete_many"}
ROLES = ("leader", "worker", "usecases", "node")
ANSWERING = {"acquire", "advance", "apply", "close", "cross", "replace", "rotate", "write_join"}
"""Methods of ports that return whether a compare-and-set was applied."""
WITHOUT_EFFECT = {
    # A completed join whose write was refused has a wrong revision, so nothing later applies.
    ("leader/chain_follower.py", "not await self._chains.write_join(join)"),
    # Only a log line depends on it.
    (
        "usecases/people.py",
        "(changed := _with(user, rights)) != user and await self._users.replace(changed, user.stamp)",
    ),
}


def covered(file: str) -> set[int]:
    """The lines of a file that some mutant changes."""
    source = (HOME / file).read_text("utf-8")
    return {line for mutant in MUTANTS if mutant.file == file for line in mutant.lines(source)}


# ------------------------------------------------------------------------------------------------------------ the list


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_fits_the_source_and_can_be_loaded(mutant: Mutant) -> None:
    mutated = mutant.apply((HOME / mutant.file).read_text("utf-8"))
    if mutant.file.endswith(".lua"):
        # Use the Lua version of Redis and fakeredis: two versions in one process have crashed it.
        LuaRuntime().compile(mutated)
    else:
        compile(mutated, mutant.file, "exec")


def test_no_mutant_is_listed_twice_and_each_changes_something() -> None:
    assert len({(m.file, m.text, m.replacement) for m in MUTANTS}) == len(MUTANTS)
    assert all(m.text != m.replacement for m in MUTANTS)


def test_a_text_that_does_not_occur_exactly_once_is_an_error_with_its_file() -> None:
    for source in ("", "x = 1; x = 1"):
        with pytest.raises(ValueError, match=r"cronflow/a\.py: 'x = 1' occurs \d times"):
            Mutant("a.py", "x = 1", "").apply(source)


# ---------------------------------------------------------------------------------------------------------- the runner

QUICK = ("run.state in change.sources", "record.rev == rev", "present.rev == rev")


@pytest.mark.prove  # CI runs mutants of changed files
def test_a_mutant_is_killed_an_equivalent_change_survives_and_the_copy_is_restored(tmp_path: Path) -> None:
    copy_package(tmp_path)
    history = tmp_path / PACKAGE / "testing" / "memory" / "stores.py"
    before = history.read_text("utf-8")
    suites = [("tests/contracts/test_stores.py", "-k", "memory")]
    for words in QUICK:
        mutant = next(m for m in MEMORY if words in m.text)
        assert not survives(mutant, tmp_path, {}, suites), mutant
    assert survives(
        Mutant("testing/memory/stores.py", "finds its own fence, which", "finds its fence, which"), tmp_path, {}, suites
    )
    assert history.read_text("utf-8") == before
    with pytest.raises(CannotRun):
        survives(Mutant("testing/memory/stores.py", "class MemoryJobStore(", "class ("), tmp_path, {}, suites)


# ------------------------------------------------------------------------------------------------ those of a change


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, file: str) -> str:
    """Change a file, and commit it."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as changed:
        changed.write("changed\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", f"Change {file}")
    return git(folder, "rev-parse", "HEAD")


def test_the_mutants_of_a_change_are_those_of_its_files_committed_or_not(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    first = commit(tmp_path, f"{PACKAGE}/testing/memory/stores.py")
    second = commit(tmp_path, f"{PACKAGE}/backends/mongo/jobs.py")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", first)
    commit(tmp_path, "README.md")
    assert base_commit(tmp_path) == first
    (tmp_path / PACKAGE / "testing" / "memory" / "stores.py").write_text("changed again\n")
    files = changed_files(tmp_path, first)
    assert files == {f"{PACKAGE}/backends/mongo/jobs.py", f"{PACKAGE}/testing/memory/stores.py", "README.md"}
    mutants = [
        Mutant(name, "a", "b")
        for name in ("backends/mongo/jobs.py", "testing/memory/stores.py", "backends/redis/lua/lead.lua")
    ]
    assert touched(mutants, files) == mutants[:2]
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert base_commit(tmp_path) == second


def test_a_clone_without_history_has_no_base(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert base_commit(tmp_path) is None
    only = commit(tmp_path, "README.md")
    assert base_commit(tmp_path) is None
    git(tmp_path, "update-ref", "refs/remotes/origin/main", only)
    assert base_commit(tmp_path) is None


# ------------------------------------------------------------------------------------------------ no condition without


@pytest.mark.parametrize("script", sorted(path.name for path in (HOME / "backends" / "redis" / "lua").glob("*.lua")))
def test_every_comparison_of_a_script_has_a_mutant(script: str) -> None:
    file = f"backends/redis/lua/{script}"
    lines = (HOME / file).read_text("utf-8").splitlines()
    code = {number: line.partition("--")[0] for number, line in enumerate(lines, 1)}
    asks = {number for number, line in code.items() if any(word in line.split() for word in ("if", "elseif"))}
    assert asks - covered(file) == set()


@pytest.mark.parametrize("module", sorted(path.name for path in (HOME / "backends" / "mongo").glob("*.py")))
def test_every_condition_of_a_write_to_mongodb_has_a_mutant(module: str) -> None:
    file = f"backends/mongo/{module}"
    tree = ast.parse((HOME / file).read_text("utf-8"))
    conditions = {line: key for line, key in filter_keys(tree) if key != "_id"}
    missing = {f"{file}:{line} {key}" for line, key in conditions.items() if line not in covered(file)}
    assert missing == set()


@pytest.mark.parametrize(
    "module", sorted(str(path.relative_to(HOME)) for role in ROLES for path in (HOME / role).glob("*.py"))
)
def test_every_test_of_whether_a_write_was_applied_has_a_mutant(module: str) -> None:
    asked = dict(answers_of_writes(ast.parse((HOME / module).read_text("utf-8"))))
    missing = {(module, text) for line, text in asked.items() if line not in covered(module)}
    assert missing == {one for one in WITHOUT_EFFECT if one[0] == module}


def answers_of_writes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, condition) of the conditions that await the answer of a compare-and-set."""
    for branch in ast.walk(tree):
        if not isinstance(branch, ast.If):
            continue
        for node in ast.walk(branch.test):
            if isinstance(node, ast.Await) and isinstance(node.value, ast.Call) and _called(node.value) in ANSWERING:
                yield node.lineno, ast.unparse(branch.test)


def test_every_mutant_has_tests_that_exist() -> None:
    words = {word for mutant in MUTANTS for tests in suites_of(mutant) for word in tests}
    assert [word for word in words if word.endswith(".py") and not (ROOT / word).exists()] == []


def filter_keys(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, field) of the filters passed to writes: literals, or variables that the function assigns."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and call.args and _called(call) in WRITES:
                yield from _keys(call.args[0], function)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _keys(node: ast.expr, function: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield key.lineno, str(key.value)
                else:
                    yield from _keys(value, function)
        case ast.IfExp():
            yield from _keys(node.body, function)
            yield from _keys(node.orelse, function)
        case ast.Name():
            for found in ast.walk(function):
                yield from _filled(found, node.id, function)


def _filled(found: ast.AST, name: str, function: ast.AST) -> Iterator[tuple[int, str]]:
    match found:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            yield from _keys(value, function)
        case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
            yield from _keys(value, function)
        case ast.Subscript(value=ast.Name(id=target), slice=ast.Constant(value=key), ctx=ast.Store()) if target == name:
            yield found.lineno, str(key)

"""Job files for the command line: YAML or JSON files become jobs, or one list of everything that is wrong in them.

The rule it protects: no file can harm its reader (size, nesting, aliases and tags are limited before anything is made
of the text), and an error says where it is: `jobs.yaml:12: jobs[0].schedule.cron: …`. What a job may contain is the
business of `documents`; this knows files, lines, names that occur twice, and whether a Python target can be imported.

YAML is read without the surprises of its version 1.1: 12:30 and 2026-01-01 stay text, 1e3 is a number as in JSON.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.reader import Reader as YamlReader

from cronflow.documents import joined, nearest, parse_job
from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import SYSTEM_PREFIX, Job, PythonTarget, Retry

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML was built without libyaml; ten times slower, and its errors have other words
    from yaml import SafeLoader  # type: ignore[assignment]

LARGEST = 1024 * 1024
DEEPEST = 100
MOST_REPEATED = 100_000
_PLAIN_RETRY = Retry()
_MERGE = "tag:yaml.org,2002:merge"
_KEYS_OF_A_JOB = {"name", "schedule", "run"}
_SURROGATES = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def read_job_files(paths: Sequence[Path | str], *, check_python: bool = True, retry: Retry = _PLAIN_RETRY) -> list[Job]:
    """The jobs of all files, in order.

    A file has a list under `jobs`, or is itself one job; several YAML documents in a file are allowed. `retry` stands
    in for what a job leaves out (see `parse_job`). With `check_python` the module of each Python target is imported,
    with the working directory and the folder of the file on the path. Raises InvalidInput with every problem of every
    file.
    """
    jobs: list[Job] = []
    problems: list[Problem] = []
    seen: dict[str, _Entry] = {}
    targets = _Targets()
    for path in map(Path, paths):
        try:
            for document in _documents(path, _text_of(path)):
                problems += document.problems
                for entry in _entries(document, problems):
                    found = [*_name_problems(entry, seen), *(targets.problems(entry) if check_python else ())]
                    try:
                        jobs.append(parse_job(entry.job, entry.place, retry=retry))
                    except InvalidInput as error:
                        found += error.problems
                    found.sort(key=lambda problem: document.line(problem.place))
                    problems += map(document.located, found)
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return jobs


# ------------------------------------------------------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True)
class _Entry:
    """One job of a document, as it was written."""

    document: _Document
    place: str
    job: object

    def part(self, *keys: str) -> object:
        value = self.job
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def _entries(document: _Document, problems: list[Problem]) -> list[_Entry]:
    def refuse(place: str, what: str, remedy: str = "") -> list[_Entry]:
        problems.append(document.located(Problem(place, what, remedy)))
        return []

    value = document.value
    if not isinstance(value, Mapping):
        return refuse("", f"expected a mapping with jobs, got {got(value)}", "write jobs: and indent the list below it")
    if "jobs" not in value:
        if value.keys() & _KEYS_OF_A_JOB:
            return [_Entry(document, "", value)]
        return refuse("", "has neither jobs nor the keys of a job", "write jobs: and a list of jobs below it")
    for key in value:
        if key != "jobs":
            refuse(str(key), "unknown key beside jobs", "move it into the jobs, or remove it")
    jobs = value["jobs"]
    if not isinstance(jobs, list):
        return refuse("jobs", f"expected a list of jobs, got {got(jobs)}", "begin each job with a dash")
    return [_Entry(document, f"jobs[{n}]", job) for n, job in enumerate(jobs)]


def _name_problems(entry: _Entry, seen: dict[str, _Entry]) -> Iterator[Problem]:
    name, place = entry.part("name"), joined(entry.place, "name")
    if not isinstance(name, str):
        return
    if name.startswith(SYSTEM_PREFIX):
        yield Problem(place, f"names that begin with {SYSTEM_PREFIX} are the system's own", "choose another name")
    first = seen.setdefault(name, entry)
    if first is not entry:
        there = first.document.located(Problem(joined(first.place, "name"), "")).place
        yield Problem(place, f"the name {name!r} is taken by {there}", "a name occurs once in all files; rename one")


class _Targets:
    """Imports Python targets, each once, and says what is wrong with them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, str], tuple[str, str] | None] = {}

    def problems(self, entry: _Entry) -> Iterator[Problem]:
        ref = entry.part("run", "python")
        try:
            PythonTarget(ref if isinstance(ref, str) else "")
        except InvalidInput:
            return  # reading the job tells it
        assert isinstance(ref, str)
        folder = entry.document.path.resolve().parent
        if (folder, ref) not in self._known:
            with _importing_from(Path.cwd(), folder):
                self._known[folder, ref] = _why_not_callable(ref, folder)
        wrong = self._known[folder, ref]
        if wrong:
            yield Problem(joined(entry.place, "run.python"), *wrong)


@contextmanager
def _importing_from(*folders: Path) -> Iterator[None]:
    """The folders in front of the path; what a module prints while it is imported is no output of the command."""
    added = [str(folder) for folder in folders]
    sys.path[:0] = added
    importlib.invalidate_caches()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        for folder in added:
            if folder in sys.path:
                sys.path.remove(folder)


def _why_not_callable(ref: str, folder: Path) -> tuple[str, str] | None:
    """What is wrong with a Python target and what to do about it, or None. It runs the code of the module."""
    name, _, path = ref.partition(":")
    try:
        found: object = importlib.import_module(name)
    except ModuleNotFoundError as error:
        what = f"{name} does not import: ModuleNotFoundError: {error}"
        return what, f"looked in {Path.cwd()}, {folder} and the installed packages"
    except (Exception, SystemExit) as error:  # whatever the user's module does at import
        return f"{name} does not import: {type(error).__name__}: {error}", f'try python -c "import {name}"'
    for part in path.split("."):
        if not hasattr(found, part):
            near = nearest(part, dir(found))
            return f"{name} has no {path}", f"did you mean {near}?" if near else "name a function of the module"
        found = getattr(found, part)
    return None if callable(found) else (f"{ref} is not a function but {got(found)}", "name a function of the module")


# ------------------------------------------------------------------------------------------------------------- text


def _text_of(path: Path) -> str:
    """The file's text; it reads no more than the limit."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        remedy = "" if path.is_absolute() else f"paths count from {Path.cwd()}"
        raise InvalidInput(Problem(str(path), "no such file", remedy)) from None
    except IsADirectoryError:
        raise InvalidInput(Problem(str(path), "is a directory", f"name files, such as {path}/*.yaml")) from None
    except OSError as error:
        raise InvalidInput(Problem(str(path), f"cannot be read: {error.strerror}")) from None
    if len(content) > LARGEST:
        raise InvalidInput(Problem(str(path), "is larger than 1 MiB, the limit of a job file", "split it into several"))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8: the byte 0x{content[error.start]:02x}"
        raise InvalidInput(Problem(f"{path}:{line}", what, "save the file as UTF-8")) from None
    unprintable = YamlReader.NON_PRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + 1
        what = f"the control character U+{ord(unprintable.group()):04X}"
        raise InvalidInput(Problem(f"{path}:{line}", what, "remove it, or write it as an escape in double quotes"))
    return text


# ------------------------------------------------------------------------------------------------------------- YAML


class _Loader(SafeLoader):
    """Resolves plain scalars to null, booleans and numbers, and leaves everything else text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in known if tag.rpartition(":")[2] in ("null", "bool", "merge")]
        for first, known in SafeLoader.yaml_implicit_resolvers.items()
    }
    repeated = 0  # values that aliases have repeated in this file


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:[0-9]*\.[0-9]+|[0-9]+\.|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.(?:nan|NaN))$"
    ),
    list("-+0123456789."),
)


class _Document:
    """A YAML document as plain values, and the line of every path in it.

    `problems` are what is wrong with the YAML itself, beside which its values can still be looked at. Raises
    InvalidInput when they cannot.
    """

    def __init__(self, path: Path, loader: _Loader, root: yaml.Node) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self._loader = loader
        self._lines: dict[str, int] = {"": _line(root)}
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self.value = self._made(root, "")

    def line(self, place: str) -> int:
        """The line (from 1) of the longest beginning of a path that the document has."""
        while place not in self._lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return self._lines[place]

    def located(self, problem: Problem) -> Problem:
        """The problem with the file and the line in front of its path."""
        place = f"{self.path}:{self.line(problem.place)}"
        return Problem(f"{place}: {problem.place}" if problem.place else place, problem.what, problem.remedy)

    def _made(self, node: yaml.Node, place: str) -> object:
        if id(node) in self._open:
            raise _refusal(self.path, node, "an alias stands inside of what it repeats", "write the values out")
        if id(node) in self._seen:
            self._loader.repeated += 1
            if self._loader.repeated > MOST_REPEATED:
                what = f"the aliases repeat more than {MOST_REPEATED:,} values"
                raise _refusal(self.path, node, what, "write the values out, or use fewer aliases")
        self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._open.add(id(node))
        made = self._list(node, place) if isinstance(node, yaml.SequenceNode) else self._mapping(node, place)
        self._open.discard(id(node))
        return made

    def _list(self, node: yaml.SequenceNode, place: str) -> list[object]:
        made = []
        for n, item in enumerate(node.value):
            inner = f"{place}[{n}]"
            self._lines[inner] = _line(item)
            made.append(self._made(item, inner))
        return made

    def _scalar(self, node: yaml.ScalarNode) -> object:
        try:
            return self._loader.construct_object(node)
        except ValueError:  # a number of more digits than Python converts
            raise _refusal(self.path, node, "a number that is too large", "put it in quotes") from None

    def _mapping(self, node: yaml.Node, place: str) -> dict[object, object]:
        made: dict[object, object] = {}
        own: dict[object, int] = {}
        for key_node, value_node in sorted(node.value, key=lambda pair: pair[0].tag != _MERGE):
            if key_node.tag == _MERGE:
                for source in reversed(value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]):
                    made.update(self._merged(source, place))
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refusal(self.path, key_node, "a key that is not text", "write the key as text")
            key = self._scalar(key_node)
            inner = joined(place, str(key))
            line = self._lines[inner] = _line(key_node)
            if key in own:
                what = f"the key {key} occurs twice, first in line {own[key]}"
                self.problems.append(self.located(Problem(inner, what, "remove one of the two")))
            own[key] = line
            made[key] = self._made(value_node, inner)
        return made

    def _merged(self, source: yaml.Node, place: str) -> dict[object, object]:
        made = self._made(source, place)
        if not isinstance(made, dict):
            raise _refusal(self.path, source, f"<< expects a mapping, got {got(made)}", "name the alias of a mapping")
        return made


def _documents(path: Path, text: str) -> Iterator[_Document]:
    """The documents of a file, without empty ones. Raises InvalidInput when there are none, or it is not YAML."""
    if text.lstrip()[:1] in ("{", "["):
        # JSON writes what lies beyond 16 bits as two escapes; in YAML each alone would be an error.
        text = _SURROGATES.sub(_one_character, text)
    empty = True
    try:
        _check_events(path, text)
        loader = _Loader(text)
        try:
            while loader.check_node():
                root = loader.get_node()
                assert root is not None
                document = _Document(path, loader, root)
                if document.value is not None:
                    empty = False
                    yield document
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line + 1, len(text.splitlines())) if mark else 1
        what = f"not YAML: {': '.join(part for part in (error.context, error.problem) if part)}"
        if error.context_mark and error.context_mark.line + 1 < line:
            what += f", begun in line {error.context_mark.line + 1}"
        raise InvalidInput(Problem(f"{path}:{line}", what, "look at quotes, brackets and indentation")) from None
    if empty:
        raise InvalidInput(Problem(str(path), "has no jobs", "write jobs: and a list of jobs below it"))


def _one_character(match: re.Match[str]) -> str:
    escaped_backslash, high, low = match.groups()
    if escaped_backslash:
        return str(escaped_backslash)
    return chr(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)


def _check_events(path: Path, text: str) -> None:
    """Refuse deep nesting and tags while the text is still a stream, before anything recursive sees it."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _refusal(path, event, f"nested more than {DEEPEST} levels deep", "write it flatter")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if getattr(event, "tag", None):
            raise _refusal(path, event, "YAML tags are not used in job files", "remove the word that begins with !")


def _refusal(path: Path, at: yaml.Node | yaml.Event, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem(f"{path}:{_line(at)}", what, remedy))


def _line(at: yaml.Node | yaml.Event) -> int:
    assert at.start_mark is not None  # what was read from text has a mark
    return at.start_mark.line + 1

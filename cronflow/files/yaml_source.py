"""Reads YAML and JSON files into plain values, and finds the line of each place in them.

The size of a file is not limited: the files are local, and a large cluster has large ones. `yaml_values` builds the
values; lines are looked up in a second pass, which only a file with problems needs. Every problem has a file, a line
and a path, such as `jobs.yaml:12: jobs[0].schedule.cron`. The caller interprets the values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

import yaml
from yaml.reader import Reader as YamlReader

from cronflow.documents import joined, nearest
from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.files.file_problems import FileProblem, in_file
from cronflow.files.yaml_values import DEEPEST, MERGE, Loader, key, line_of, values_of

_SURROGATES = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


# ------------------------------------------------------------------------------------------------------------- text


def text_of(path: Path) -> str:
    """The text of the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        remedy = "" if path.is_absolute() else f"relative to {Path.cwd()}"
        raise InvalidInput(in_file(path, None, "no such file", remedy)) from None
    except IsADirectoryError:
        raise InvalidInput(in_file(path, None, "is a directory", f"name files, such as {path}/*.yaml")) from None
    except OSError as error:
        raise InvalidInput(in_file(path, None, f"cannot be read: {error.strerror}")) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"not UTF-8: the byte 0x{content[error.start]:02x}"
        raise InvalidInput(in_file(path, line, what, "save the file as UTF-8")) from None
    unprintable = YamlReader.NON_PRINTABLE.search(text)
    if unprintable:
        line = text.count("\n", 0, unprintable.start()) + 1
        what = f"the control character U+{ord(unprintable.group()):04X}"
        raise InvalidInput(in_file(path, line, what, "remove it, or write it as an escape in double quotes"))
    return text


# ------------------------------------------------------------------------------------------------------------- YAML


class YamlDocument:
    """A YAML document as plain values. `problems` are keys that occur twice, which leave the values readable."""

    def __init__(
        self, path: Path, number: int, value: object, roots: Callable[[], Sequence[yaml.Node]], *, has_duplicates: bool
    ) -> None:
        self.path = path
        self.value = value
        self._number = number
        self._roots = roots
        self._has_duplicates = has_duplicates

    @cached_property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.path.resolve().parent

    @cached_property
    def problems(self) -> list[FileProblem]:
        return [self.located(problem) for problem in self._places.duplicates] if self._has_duplicates else []

    def line(self, place: str) -> int:
        """The line, from 1, of the longest prefix of the path that exists in the document."""
        lines = self._places.lines
        while place not in lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return lines[place]

    def located(self, problem: Problem) -> FileProblem:
        """Add file and line to the place of a problem."""
        return in_file(self.path, self.line(problem.place), problem.what, problem.remedy, key=problem.place)

    @cached_property
    def _places(self) -> _Places:
        return _Places(self._roots()[self._number])


class _Places:
    """The line of every path in a document, and the keys that occur twice."""

    def __init__(self, root: yaml.Node) -> None:
        self.lines: dict[str, int] = {"": line_of(root)}
        self.duplicates: list[Problem] = []
        self._add(root, "", 0)

    def _add(self, node: yaml.Node, place: str, depth: int) -> None:
        # Aliases can make it deeper than the text.
        if depth == DEEPEST:
            return
        if isinstance(node, yaml.SequenceNode):
            for n, item in enumerate(node.value):
                inner = f"{place}[{n}]"
                self.lines[inner] = line_of(item)
                self._add(item, inner, depth + 1)
        elif isinstance(node, yaml.MappingNode):
            self._add_mapping(node, place, depth)

    def _add_mapping(self, node: yaml.MappingNode, place: str, depth: int) -> None:
        own: dict[object, int] = {}
        for key_node, value_node in sorted(node.value, key=lambda pair: pair[0].tag != MERGE):
            if key_node.tag == MERGE:
                for source in reversed(value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]):
                    self._add(source, place, depth + 1)
                continue
            name = key(key_node.tag, key_node.value)
            inner = joined(place, str(name))
            line = self.lines[inner] = line_of(key_node)
            if name in own:
                what = f"the key {name} occurs twice, first in line {own[name]}"
                self.duplicates.append(Problem(inner, what, "remove one of the two"))
            own[name] = line
            self._add(value_node, inner, depth + 1)


def yaml_documents(path: Path, text: str, what: str) -> Iterator[YamlDocument]:
    """The documents of a file of `what`, except empty ones. Raises InvalidInput if there are none or it is not YAML."""
    if text.lstrip()[:1] in ("{", "["):
        # JSON escapes characters beyond 16 bits as two surrogates, which YAML rejects.
        text = _SURROGATES.sub(_one_character, text)
    try:
        values, has_duplicates = values_of(path, text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line + 1, len(text.splitlines())) if mark else 1
        what = f"not YAML: {': '.join(part for part in (error.context, error.problem) if part)}"
        if error.context_mark and error.context_mark.line + 1 < line:
            what += f", started in line {error.context_mark.line + 1}"
        raise InvalidInput(in_file(path, line, what, "look at quotes, brackets and indentation")) from None
    roots = cache(lambda: _roots(text))
    if all(value is None for value in values):
        raise InvalidInput(in_file(path, None, f"has no {what}", f"write {what}: and a list of {what} below it"))
    for n, value in enumerate(values):
        if value is not None:
            yield YamlDocument(path, n, value, roots, has_duplicates=has_duplicates)


def entries_of(
    document: YamlDocument,
    plural: str,
    one: str,
    keys_of_one: Collection[str],
    problems: list[Problem],
    beside: Collection[str] = (),
) -> list[tuple[str, object]]:
    """The place and the value of each entry of the list under `plural` (`jobs`), or of the document if it is `one` (`a
    job`). Keys of `beside` may stand beside that list. Adds what is wrong to `problems`.
    """

    def refuse(place: str, what: str, remedy: str) -> list[tuple[str, object]]:
        problems.append(document.located(Problem(place, what, remedy)))
        return []

    value = document.value
    if not isinstance(value, Mapping):
        what = f"expected a mapping with {plural}, got {got(value)}"
        return refuse("", what, f"write {plural}: and indent the list below it")
    if plural not in value:
        if any(name in value for name in keys_of_one):
            return [("", value)]
        return refuse(
            "", f"has neither {plural} nor the keys of {one}", f"write {plural}: and a list of {plural} below it"
        )
    for other in value:
        if other != plural and other not in beside:
            near = nearest(str(other), (plural, *beside))
            remedy = f"did you mean {near}?" if near else f"move it into the {plural}, or remove it"
            refuse(str(other), f"unknown key next to {plural}", remedy)
    entries = value[plural]
    if not isinstance(entries, list):
        what = f"expected a list of {plural}, got {got(entries)}"
        return refuse(plural, what, f"begin each {one.partition(' ')[2]} with a dash")
    return [(f"{plural}[{n}]", entry) for n, entry in enumerate(entries)]


def _roots(text: str) -> Sequence[yaml.Node]:
    loader, roots = Loader(text), list[yaml.Node]()
    try:
        while loader.check_node():
            root = loader.get_node()
            assert root is not None
            roots.append(root)
    finally:
        loader.dispose()
    return roots


def _one_character(match: re.Match[str]) -> str:
    escaped_backslash, high, low = match.groups()
    if escaped_backslash:
        return str(escaped_backslash)
    return chr(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)

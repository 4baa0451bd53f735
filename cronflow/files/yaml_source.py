"""Reads YAML and JSON files into plain values with their line numbers.

A small file cannot harm the reader: nesting, aliases and tags are limited before values are built. The size is not: the
files are local, and a large cluster has large ones. Every problem has a file, a line and a path, such as
`jobs.yaml:12: jobs[0].schedule.cron`. The caller interprets the values.

The surprises of YAML 1.1 are removed: 12:30, 2026-01-01 and the key `on` stay text, and 1e3 is a number, as in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from yaml.reader import Reader as YamlReader

from cronflow.documents import joined
from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML was built without libyaml; ten times slower, with other error texts
    from yaml import SafeLoader  # type: ignore[assignment]

DEEPEST = 100
MOST_REPEATED = 100_000
_MERGE, _BOOL = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:bool"
_SURROGATES = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


# ------------------------------------------------------------------------------------------------------------- text


def text_of(path: Path) -> str:
    """The text of the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        remedy = "" if path.is_absolute() else f"relative to {Path.cwd()}"
        raise InvalidInput(Problem(str(path), "no such file", remedy)) from None
    except IsADirectoryError:
        raise InvalidInput(Problem(str(path), "is a directory", f"name files, such as {path}/*.yaml")) from None
    except OSError as error:
        raise InvalidInput(Problem(str(path), f"cannot be read: {error.strerror}")) from None
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
    """Resolves plain scalars to null, booleans and numbers; everything else stays text."""

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


class YamlDocument:
    """A YAML document as plain values, and the line of every path in it.

    `problems` are errors in the YAML that leave the values readable. Raises InvalidInput for all other errors.
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
        """The line, from 1, of the longest prefix of the path that exists in the document."""
        while place not in self._lines:
            place = place[: max(place.rfind("."), place.rfind("["), 0)]
        return self._lines[place]

    def located(self, problem: Problem) -> Problem:
        """Add file and line to the place of a problem."""
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
            # YAML 1.1 reads `on` as true; as a key it stays text.
            key = key_node.value if key_node.tag == _BOOL else self._scalar(key_node)
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


def yaml_documents(path: Path, text: str, what: str) -> Iterator[YamlDocument]:
    """The documents of a file of `what`, except empty ones. Raises InvalidInput if there are none or it is not YAML."""
    if text.lstrip()[:1] in ("{", "["):
        # JSON escapes characters beyond 16 bits as two surrogates, which YAML rejects.
        text = _SURROGATES.sub(_one_character, text)
    empty = True
    try:
        _check_events(path, text)
        loader = _Loader(text)
        try:
            while loader.check_node():
                root = loader.get_node()
                assert root is not None
                document = YamlDocument(path, loader, root)
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
        raise InvalidInput(Problem(str(path), f"has no {what}", f"write {what}: and a list of {what} below it"))


def _one_character(match: re.Match[str]) -> str:
    escaped_backslash, high, low = match.groups()
    if escaped_backslash:
        return str(escaped_backslash)
    return chr(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)


def _check_events(path: Path, text: str) -> None:
    """Refuse deep nesting and tags on the event stream, before any recursive code runs."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise _refusal(path, event, f"nested more than {DEEPEST} levels deep", "write it flatter")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if getattr(event, "tag", None):
            raise _refusal(path, event, "YAML tags are not used here", "remove the word that begins with !")


def _refusal(path: Path, at: yaml.Node | yaml.Event, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem(f"{path}:{_line(at)}", what, remedy))


def _line(at: yaml.Node | yaml.Event) -> int:
    assert at.start_mark is not None  # what was read from text has a mark
    return at.start_mark.line + 1

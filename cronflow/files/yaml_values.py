"""Builds plain values from the events of a YAML parser, in one pass.

A small text cannot harm the reader: nesting, aliases and tags are limited while values are built. The surprises of YAML
1.1 are removed: 12:30, 2026-01-01 and the key `on` stay text, and 1e3 is a number, as in JSON. Only refusals have lines
here; `yaml_source` finds the line of a place when a problem needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from yaml.composer import ComposerError

from cronflow.documents.values import got
from cronflow.domain.errors import InvalidInput, Problem

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:  # PyYAML was built without libyaml; ten times slower, with other error texts
    from yaml import SafeLoader  # type: ignore[assignment]

DEEPEST = 100
MOST_REPEATED = 100_000
SCALARS_REMEMBERED = 4096
STR, BOOL, MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "bool", "merge"))


class Loader(SafeLoader):
    """Resolves plain scalars to null, booleans and numbers; everything else stays text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as PyYAML declares it
        first: [(tag, pattern) for tag, pattern in known if tag.rpartition(":")[2] in ("null", "bool", "merge")]
        for first, known in SafeLoader.yaml_implicit_resolvers.items()
    }


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^(?:[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+)$"), list("-+0123456789")
)
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:[0-9]*\.[0-9]+|[0-9]+\.|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf)|\.(?:nan|NaN))$"
    ),
    list("-+0123456789."),
)
_RESOLVER = Loader("")
_MAY_RESOLVE = frozenset(first for first, known in Loader.yaml_implicit_resolvers.items() if known)


class _Anchored(NamedTuple):
    """A value that aliases may repeat. `size` is the number of values in it; 0 while it is being built."""

    event: Any
    value: object
    size: int


def values_of(path: Path, text: str) -> tuple[list[object], bool]:
    """The value of each document, and whether a mapping has a key twice. Raises InvalidInput for what is refused, and
    MarkedYAMLError for what is not YAML.
    """
    loader = Loader(text)
    try:
        builder = _Builder(path, loader)
        return builder.documents(), builder.has_duplicates
    finally:
        loader.dispose()


def refusal(path: Path, at: yaml.Node | yaml.Event, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(Problem(f"{path}:{line_of(at)}", what, remedy))


def line_of(at: yaml.Node | yaml.Event) -> int:
    """The line, from 1."""
    assert at.start_mark is not None  # what was read from text has a mark
    return at.start_mark.line + 1


def scalar(tag: str, text: str) -> object:
    """The value of a scalar with this tag. Raises ValueError for a number of more digits than Python converts."""
    if tag in (STR, MERGE):
        return text
    return Loader.yaml_constructors[tag](_RESOLVER, yaml.ScalarNode(tag, text))


def scalar_of(text: str) -> object:
    """The value of text that is written without quotes."""
    return scalar(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)), text)  # type: ignore[no-untyped-call]


def key(tag: str, text: str) -> object:
    """The same for a key. YAML 1.1 reads `on` as true; as a key it stays text."""
    return text if tag == BOOL else scalar(tag, text)


class _Builder:
    has_duplicates = False

    def __init__(self, path: Path, loader: Loader) -> None:
        self._path = path
        self._next: Callable[[], Any] = loader.get_event
        self._anchored: dict[str, _Anchored] = {}
        self._built = 0
        self._repeated = 0

    def documents(self) -> list[object]:
        found = []
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchored.clear()
                found.append(self._value(self._next(), 0))
        return found

    def _value(self, event: Any, depth: int) -> object:
        """The value that begins with this event."""
        if type(event) is yaml.ScalarEvent and event.anchor is None and event.tag is None:
            self._built += 1
            return self._read(event, scalar)
        if isinstance(event, yaml.AliasEvent):
            return self._repeat(event)
        if isinstance(event, yaml.CollectionStartEvent) and depth == DEEPEST:
            raise refusal(self._path, event, f"nested more than {DEEPEST} levels deep", "reduce the nesting")
        if event.tag is not None:
            raise refusal(self._path, event, "YAML tags are not used here", "remove the word that begins with !")
        if event.anchor is not None:
            self._open(event)
        built = self._built
        self._built += 1
        value: object
        if isinstance(event, yaml.ScalarEvent):
            value = self._read(event, scalar)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._list(depth + 1)
        else:
            value = self._mapping(depth + 1)
        if event.anchor is not None:
            self._anchored[event.anchor] = _Anchored(event, value, self._built - built)
        return value

    def _open(self, event: Any) -> None:
        if (first := self._anchored.get(event.anchor)) is not None:
            what = "found duplicate anchor; first occurrence"
            raise ComposerError(what, first.event.start_mark, "second occurrence", event.start_mark)
        self._anchored[event.anchor] = _Anchored(event, None, 0)

    def _repeat(self, alias: Any) -> object:
        found = self._target(alias)
        if not found.size:
            what = "an alias is inside the value that it repeats"
            raise refusal(self._path, alias, what, "write the values out")
        self._built += found.size
        self._repeated += found.size
        if self._repeated > MOST_REPEATED:
            what = f"the aliases repeat more than {MOST_REPEATED:,} values"
            raise refusal(self._path, alias, what, "write the values out, or use fewer aliases")
        return found.value

    def _target(self, alias: Any) -> _Anchored:
        found = self._anchored.get(alias.anchor)
        if found is None:
            raise ComposerError(None, None, "found undefined alias", alias.start_mark)
        return found

    def _list(self, depth: int) -> list[object]:
        made = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            made.append(self._value(event, depth))
        return made

    def _mapping(self, depth: int) -> dict[object, object]:
        made: dict[object, object] = {}
        merged: list[dict[object, object]] = []
        while type(event := self._next()) is not yaml.MappingEndEvent:
            if _is_merge(event):
                merged += self._merged(self._next(), depth)
                continue
            name = self._key(event, depth)
            if name in made:
                self.has_duplicates = True
            made[name] = self._value(self._next(), depth)
        if not merged:
            return made
        below: dict[object, object] = {}
        for one in merged:
            below.update(one)
        return below | made

    def _key(self, event: yaml.Event, depth: int) -> object:
        if isinstance(event, yaml.AliasEvent):
            event = self._target(event).event
        elif isinstance(event, yaml.ScalarEvent) and (event.anchor is not None or event.tag is not None):
            self._value(event, depth)
        if not isinstance(event, yaml.ScalarEvent):
            raise refusal(self._path, event, "a key that is not text", "write the key as text")
        return self._read(event, key)

    def _merged(self, event: yaml.Event, depth: int) -> list[dict[object, object]]:
        """What `<<` merges, the strongest last: a mapping, or a list of them, of which the first wins."""
        value = self._value(event, depth)
        sources: list[object] = value if isinstance(value, list) else [value]
        for source in sources:
            if not isinstance(source, dict):
                what = f"<< expects a mapping, got {got(source)}"
                raise refusal(self._path, event, what, "name the alias of a mapping")
        return [source for source in reversed(sources) if isinstance(source, dict)]

    def _read(self, event: yaml.ScalarEvent, read: Callable[[str, str], object]) -> object:
        text: str = event.value
        if not event.implicit[0] or text[:1] not in _MAY_RESOLVE:
            return text
        try:
            return _remembered(text, read)
        except ValueError:
            raise refusal(self._path, event, "a number that is too large", "put it in quotes") from None


def _is_merge(event: yaml.Event) -> bool:
    return type(event) is yaml.ScalarEvent and event.value == "<<" and event.implicit[0]


@lru_cache(maxsize=SCALARS_REMEMBERED)
def _remembered(text: str, read: Callable[[str, str], object]) -> object:
    """A plain scalar, read after its tag is found: many jobs share their numbers and flags."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return read(tag, text)

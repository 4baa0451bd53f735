"""One table per mapping of a document: from it follow parsing, writing, and what the OpenAPI document says of it.

A TypedDict declares the keys; `Annotated[…, Key(…)]` says how each is read and written. A mapping is taken whole or
refused with everything that is wrong in it; no key is ignored. The domain checks the limits of values; this module
finds the key that each of its errors belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_type_hints

from cronflow.documents.values import Reader, got, nearest, shown_key, under
from cronflow.domain.errors import MOST_PROBLEMS, InvalidInput, Problem

Made = TypeVar("Made")
_NOTHING: Mapping[str, Any] = {}


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Key:
    """How the value of a key is read and written. `attribute` is its name in the domain, where that differs.

    A required key has a `sample`: a valid value of the domain, in place of the real one while other keys are checked.
    `missing` is the remedy when the key is missing. `shorten` writes the short form, where that differs. `also` is the
    type of other values that `read` accepts in files, which are never written: the JSON Schema has them too.
    """

    read: Reader
    write: Callable[[Any], Any] = _same
    attribute: str = ""
    sample: object = None
    missing: str = ""
    shorten: Callable[[Any], Any] | None = None
    also: Any = None


class Refusal(NamedTuple):
    """Why a known key is not allowed here, and what to do about it."""

    what: str
    remedy: str = "remove it"


@dataclass(frozen=True)
class DocumentTable(Generic[Made]):
    """The mapping `form`, from which `make` makes a value of the domain.

    `companions` are the samples that suit only one argument.
    """

    form: Any
    make: Callable[..., Made]
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    companions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def keys(self) -> dict[str, Key]:
        hints = get_type_hints(self.form, include_extras=True)
        return {name: next(arg for arg in get_args(hint) if isinstance(arg, Key)) for name, hint in hints.items()}

    @cached_property
    def required(self) -> list[str]:
        return [name for name, key in self.keys.items() if key.sample is not None]

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The attributes of the keys that have another name in the domain."""
        return {name: key.attribute for name, key in self.keys.items() if key.attribute not in ("", name)}

    @cached_property
    def samples(self) -> dict[str, Any]:
        """The arguments that `make` requires."""
        return {self.keys[name].attribute or name: self.keys[name].sample for name in self.required}

    @property
    def defaults(self) -> dict[str, Any]:
        """The document of a value with nothing but what is required, without the required keys."""
        written = self.write(self.make(**self.samples))
        return {name: value for name, value in written.items() if name not in self.required}

    def read(self, document: object) -> Made:
        """Raises InvalidInput with everything that is wrong."""
        return self.build(*self.fields(document), document)

    def fields(
        self, document: object, refused: Mapping[str, Refusal] | None = None
    ) -> tuple[dict[str, Any], list[Problem]]:
        """The arguments in a document, and the problems so far. Raises InvalidInput when it is not a mapping."""
        keys = self.keys
        found, problems = read_fields(document, keys, self.refused if refused is None else refused)
        assert isinstance(document, Mapping)
        for name in self.required:
            if name not in document and (remedy := keys[name].missing):
                problems.append(Problem(name, "missing", remedy))
        for name, attribute in self.renamed.items():
            if name in found:
                found[attribute] = found.pop(name)
        return found, problems

    def build(self, found: Mapping[str, Any], problems: list[Problem], document: Any, **samples: Any) -> Made:
        """Make the value, or raise InvalidInput with the problems so far and those of the domain, each at its key.

        The domain stops at its first problem and has no keys. So when it refuses, each argument is tried alone, with
        samples of those that are required. A problem of several arguments together has the place of the whole, and is
        reported when nothing is missing. The problems are in the order of the document.
        """
        samples = {**self.samples, **samples} if samples else self.samples
        missing = not samples.keys() <= found.keys()
        try:
            made = self.make(**({**samples, **found} if missing else found))
            if not problems:
                return made
        except InvalidInput as error:
            names = {key.attribute: name for name, key in self.keys.items()}
            alone = [
                problem
                for name, value in found.items()
                for problem in under(
                    names.get(name, name),
                    _problems_of(self.make, {**samples, **self.companions.get(name, _NOTHING), name: value}),
                )
            ]
            problems = problems + (alone or ([] if missing else list(error.problems)))
        order = {shown_key(key): position for position, key in enumerate(document)}
        raise InvalidInput(sorted(problems, key=lambda one: order.get(_first(one.place), len(order))))

    def write(self, value: Any) -> dict[str, Any]:
        return {name: write(getattr(value, attribute)) for name, attribute, write in self._writers}

    def shorten(self, value: Any) -> dict[str, Any]:
        """`write` without the keys whose attribute has its default, which are most of them."""
        return {
            name: write(found)
            for name, attribute, write, default in self._shorteners
            if (found := getattr(value, attribute)) != default
        }

    @cached_property
    def _writers(self) -> list[tuple[str, str, Callable[[Any], Any]]]:
        return [(name, key.attribute or name, key.write) for name, key in self.keys.items()]

    @cached_property
    def _shorteners(self) -> list[tuple[str, str, Callable[[Any], Any], Any]]:
        value = self.make(**self.samples)
        return [
            (name, attribute, self.keys[name].shorten or write, _NO_DEFAULT)
            if attribute in self.samples
            else (name, attribute, self.keys[name].shorten or write, getattr(value, attribute))
            for name, attribute, write in self._writers
        ]


def read_fields(
    document: object, keys: Mapping[str, Key], refused: Mapping[str, Refusal] = _NOTHING
) -> tuple[dict[str, Any], list[Problem]]:
    """The values of the known keys, and the first problems. Raises InvalidInput when it is not a mapping."""
    if not isinstance(document, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(document)}")
    found, problems = {}, list[Problem]()
    for name, value in document.items():
        if len(problems) > MOST_PROBLEMS:
            break
        key = keys.get(name) if isinstance(name, str) else None
        if key is None:
            problems.append(_not_allowed(name, keys, refused))
            continue
        try:
            found[name] = key.read(value)
        except InvalidInput as error:
            problems += under(name, error.problems)
    return found, problems


def _not_allowed(key: object, known: Collection[str], refused: Mapping[str, Refusal]) -> Problem:
    if not isinstance(key, str):
        return Problem(shown_key(key), f"expected text as a key, got {got(key)}", "put the key in quotes")
    if key in refused:
        return Problem(key, refused[key].what, refused[key].remedy)
    near = nearest(key, known)
    return Problem(key, "unknown key", f"did you mean {near}?" if near else f"known keys: {', '.join(known)}")


def read_variant(
    document: object, variants: Mapping[str, DocumentTable[Any]], refused: Mapping[str, Refusal], if_none: str
) -> Any:
    """The value of a mapping that must have exactly one of the variants' first keys."""
    if not isinstance(document, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(document)}")
    present = [first for first in variants if first in document]
    if len(present) != 1:
        everything = {name: Key(_same) for variant in variants.values() for name in variant.keys}
        _, problems = read_fields(document, everything, refused)
        if not (refused.keys() & document.keys() and not present):
            problems.insert(0, _not_one(present, list(variants), if_none))
        raise InvalidInput(problems)
    [first] = present
    variant = variants[first]
    if document.keys() - variant.keys.keys():
        refused = {**_elsewhere(first, variants), **refused}
    return variant.build(*variant.fields(document, refused), document)


def _elsewhere(first: str, variants: Mapping[str, DocumentTable[Any]]) -> dict[str, Refusal]:
    """The keys of the other variants."""
    owners: dict[str, list[str]] = {}
    for owner, variant in variants.items():
        for key in variant.keys:
            owners.setdefault(key, []).append(owner)
    return {
        key: Refusal(f"has no effect with {first}", f"remove it; it belongs to {_listed(names)}")
        for key, names in owners.items()
    }


def _not_one(present: Sequence[str], names: Sequence[str], if_none: str) -> Problem:
    choices = _listed(names)
    if not present:
        return Problem("", f"has none of {choices}; exactly one of them is required", if_none)
    return Problem("", f"has {_listed(present)}; exactly one of {choices} is allowed", "remove the others")


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def without_defaults(document: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    """The document without null and without what equals its default, at every level that has defaults."""
    short: dict[str, object] = {}
    for key, value in document.items():
        default = defaults.get(key, _NO_DEFAULT)
        if value is None or value == default:
            continue
        if isinstance(value, Mapping) and isinstance(default, Mapping) and default:
            value = without_defaults(value, default)
        short[key] = value
    return short


_NO_DEFAULT = object()


def _problems_of(make: Callable[..., object], arguments: Mapping[str, object]) -> Iterable[Problem]:
    try:
        make(**arguments)
    except InvalidInput as error:
        return error.problems
    return ()


def _first(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]

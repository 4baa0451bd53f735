"""Mappings of a plain document: a table of readers by key, and the making of a value from what was read.

The rule it protects: a mapping is taken whole or refused with all that is wrong in it, and no key is passed over. The
limits of the values are the domain's; this finds the key that each of the domain's refusals is about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from cronflow.documents.values import Reader, got, nearest, shown_key, under
from cronflow.domain.errors import InvalidInput, Problem

Made = TypeVar("Made")
_NOTHING: Mapping[str, Any] = {}


class Refusal(NamedTuple):
    """Why a key that is known is not taken here, and what to do about it."""

    what: str
    remedy: str = "remove it"


NOT_YET = Refusal("not supported by this version")


def read_fields(
    document: object, table: Mapping[str, Reader], refused: Mapping[str, Refusal] = _NOTHING
) -> tuple[dict[str, Any], list[Problem]]:
    """What the mapping has of the table, and what is wrong with the rest.

    Raises InvalidInput when it is no mapping at all.
    """
    if not isinstance(document, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(document)}")
    found, problems = {}, list[Problem]()
    for key, value in document.items():
        reader = table.get(key) if isinstance(key, str) else None
        if reader is None:
            problems.append(_not_taken(key, table, refused))
            continue
        try:
            found[key] = reader(value)
        except InvalidInput as error:
            problems += under(key, error.problems)
    return found, problems


def _not_taken(key: object, table: Collection[str], refused: Mapping[str, Refusal]) -> Problem:
    if not isinstance(key, str):
        return Problem(shown_key(key), f"expected text as a key, got {got(key)}", "put the key in quotes")
    if key in refused:
        return Problem(key, refused[key].what, refused[key].remedy)
    near = nearest(key, table)
    return Problem(key, "unknown key", f"did you mean {near}?" if near else f"known are {', '.join(table)}")


def build(
    make: Callable[..., Made],
    found: Mapping[str, Any],
    problems: list[Problem],
    document: Iterable[object],
    *,
    keys: Mapping[str, str] = _NOTHING,
    samples: Mapping[str, Any] = _NOTHING,
    companions: Mapping[str, Mapping[str, Any]] = _NOTHING,
) -> Made:
    """Make the value, or raise InvalidInput with the problems so far and all that the domain finds, each at its key.

    The domain stops at its first finding and knows no keys. So when it refuses, each argument is tried alone, with
    sound `samples` of those that it cannot do without (`companions` has the samples that only suit one argument).
    What only the whole shows has the place of the whole, and is told when nothing of the whole is missing. `keys` are
    the arguments whose key has another name. The problems come in the order of the document.
    """
    missing = samples.keys() - found.keys()
    try:
        made = make(**({**samples, **found} if missing else found))
        if not problems:
            return made
    except InvalidInput as error:
        alone = [
            problem
            for name, value in found.items()
            for problem in under(
                keys.get(name, name), _problems_of(make, {**samples, **companions.get(name, _NOTHING), name: value})
            )
        ]
        problems = problems + (alone or ([] if missing else list(error.problems)))
    order = {shown_key(key): position for position, key in enumerate(document)}
    raise InvalidInput(sorted(problems, key=lambda one: order.get(_first(one.place), len(order))))


class Variant(NamedTuple):
    """One of several forms of a mapping, known by its first key: what it makes and what else it may have.

    `names` are the arguments of `make` whose key has another name.
    """

    make: Callable[..., Any]
    table: Mapping[str, Reader]
    names: Mapping[str, str] = _NOTHING
    samples: Mapping[str, Any] = _NOTHING
    companions: Mapping[str, Mapping[str, Any]] = _NOTHING


def read_variant(
    document: object, variants: Mapping[str, Variant], refused: Mapping[str, Refusal], if_none: str
) -> Any:
    """What the mapping makes, which must have exactly one of the variants' first keys."""
    if not isinstance(document, Mapping):
        raise InvalidInput(f"expected a mapping, got {got(document)}")
    present = [first for first in variants if first in document]
    if len(present) != 1:
        everything = {key: _untouched for variant in variants.values() for key in variant.table}
        _, problems = read_fields(document, everything, refused)
        if not (refused.keys() & document.keys() and not present):
            problems.insert(0, _not_one(present, list(variants), if_none))
        raise InvalidInput(problems)
    [first] = present
    variant = variants[first]
    if document.keys() - variant.table.keys():
        refused = {**_elsewhere(first, variants), **refused}
    read, problems = read_fields(document, variant.table, refused)
    found = {variant.names.get(key, key): value for key, value in read.items()}
    keys = {name: key for key, name in variant.names.items()}
    return build(
        variant.make, found, problems, document, keys=keys, samples=variant.samples, companions=variant.companions
    )


def _elsewhere(first: str, variants: Mapping[str, Variant]) -> dict[str, Refusal]:
    """The keys of the other variants, refused beside this one."""
    owners: dict[str, list[str]] = {}
    for owner, variant in variants.items():
        for key in variant.table:
            owners.setdefault(key, []).append(owner)
    return {
        key: Refusal(f"has no effect beside {first}", f"remove it; it belongs to {' and '.join(names)}")
        for key, names in owners.items()
    }


def _not_one(present: Sequence[str], names: Sequence[str], if_none: str) -> Problem:
    choices = f"{', '.join(names[:-1])} and {names[-1]}"
    if not present:
        return Problem("", f"has none of {choices}; exactly one of them is needed", if_none)
    several = f"{', '.join(present[:-1])} and {present[-1]}"
    return Problem("", f"has {several}; exactly one of {choices} is allowed", "remove the others")


def _untouched(value: object) -> object:
    return value


def _problems_of(make: Callable[..., object], arguments: Mapping[str, object]) -> Sequence[Problem]:
    try:
        make(**arguments)
    except InvalidInput as error:
        return error.problems
    return ()


def _first(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]

"""A named limit's document, declared once: one form for files, JSON and REST, as strict as that of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, cast

from typing_extensions import TypedDict

from cronflow.documents.keys import OPTIONAL_TEXT, TEXT
from cronflow.documents.tables import DocumentTable, Key
from cronflow.documents.values import got, optional, text, under, whole
from cronflow.domain.concurrency import parse_rate
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.permits import NamedLimit


class LimitForm(TypedDict):
    """A limit that jobs share by its name, with every default. At least one of `limit` and `rate` is given."""

    name: Annotated[str, Key(text, sample="limit", missing="give the limit a name")]
    """1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit."""
    limit: Annotated[int | None, Key(optional(whole))]
    """The maximum number of runs of its jobs that execute at the same time; null: any number."""
    rate: Annotated[str | None, OPTIONAL_TEXT]
    """How many start per `s`, `m`, `h` or `d`, such as `100/m`; the starts are spaced evenly; null: any number."""
    burst: Annotated[int, Key(whole)]
    """How many may start at once after a pause; for a limit with a rate."""
    description: Annotated[str, TEXT]
    """Free text."""


def _named_limit(
    name: str, limit: int | None = None, rate: str | None = None, burst: int = 1, description: str = ""
) -> NamedLimit:
    made = None if rate is None else parse_rate(rate, burst)
    return NamedLimit(name=name, limit=limit, rate=made, description=description)


LIMIT = DocumentTable(
    LimitForm,
    _named_limit,
    companions={name: {"limit": 1} for name in ("name", "rate", "burst", "description")},
)
TABLES = (LIMIT,)


def parse_limit(document: object, place: str = "limit") -> NamedLimit:
    """The limit that a document describes. Raises InvalidInput with every problem; each place begins with `place`."""
    try:
        return LIMIT.build(*LIMIT.fields(document), document)
    except InvalidInput as error:
        raise InvalidInput(under(place, error.problems)) from None


def parse_limits(document: object, place: str = "limits") -> list[NamedLimit]:
    """The limits of a file, by name: a number, a rate such as 100/m, or a mapping. Raises InvalidInput."""
    if not isinstance(document, Mapping):
        raise InvalidInput(under(place, InvalidInput(f"expected a mapping of names, got {got(document)}").problems))
    limits, problems = list[NamedLimit](), list[Problem]()
    for name, value in document.items():
        own: object = value
        if isinstance(value, int) and not isinstance(value, bool):
            own = {"limit": value}
        elif isinstance(value, str):
            own = {"rate": value}
        try:
            limits.append(parse_limit({"name": name, **own} if isinstance(own, Mapping) else own, f"{place}.{name}"))
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput(problems)
    return limits


def limit_document(limit: NamedLimit) -> LimitForm:
    """The limit as plain values, with every default."""
    rate = limit.rate
    return cast(
        "LimitForm",
        {
            "name": limit.name,
            "limit": limit.limit,
            "rate": None if rate is None else str(rate),
            "burst": 1 if rate is None else rate.burst,
            "description": limit.description,
        },
    )

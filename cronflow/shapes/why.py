"""A chain as plain values, for scripts and for the API: an object for each link, `step` says which.

Instants are ISO 8601 in UTC, lengths are milliseconds and say so in their name; nothing is put into words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum

from cronflow.domain.why import Link, Why
from cronflow.shapes.plain import iso, milliseconds


def why_document(why: Why) -> dict[str, object]:
    """The whole chain."""
    links = [link_document(link) for link in why.links]
    return {"job": why.job, "at": _plain(why.instant), "run": why.run, "chain": links}


def link_document(link: Link) -> dict[str, object]:
    """One link; its step is the name of its kind, in small letters: `due`, `not_due`, `lateness` …"""
    step = re.sub(r"(?<!^)(?=[A-Z])", "_", type(link).__name__).lower()
    return {"step": step, **_fields(link)}


def _fields(value: object) -> dict[str, object]:
    assert is_dataclass(value)
    found: dict[str, object] = {}
    for field in fields(value):
        content = getattr(value, field.name)
        name = f"{field.name}_ms" if "timedelta" in str(field.type) else field.name
        found[name] = _plain(content)
    return found


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case datetime():
            return iso(value)
        case timedelta():
            return milliseconds(value)
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case tuple() | list():
            return [_plain(item) for item in value]
    return _fields(value) if is_dataclass(value) else value

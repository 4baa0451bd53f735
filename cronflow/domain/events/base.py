"""What all kinds of events share, and their registry."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar, TypeVar, dataclass_transform

MOST_CHARACTERS = 500
"""How long a field of a stored event is, unless its class allows more."""


class Severity(StrEnum):
    """How urgent an event is."""

    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """The base class. `message` is a template filled in with the fields; `{count:run|runs}` is the number
    with the word for one or for many, `{count:=was|were}` that word alone.
    """

    severity: ClassVar[Severity] = Severity.INFO
    message: ClassVar[str] = ""
    longest: ClassVar[int] = MOST_CHARACTERS

    @property
    def kind(self) -> str:
        """The name of its class in snake case."""
        return kind_of(type(self))

    @property
    def text(self) -> str:
        """What happened, as a sentence without a full stop."""
        return self.message.format(**{name: _counted(value) for name, value in asdict(self).items()})


class _Count(int):
    """A number that is formatted with the words `one|many` of its field; after `=` the words stand alone."""

    def __format__(self, words: str) -> str:
        one, _, many = words.removeprefix("=").partition("|")
        word = one if self == 1 else many
        return word if words.startswith("=") else f"{int(self)} {word}".rstrip()


def _counted(value: object) -> object:
    return _Count(value) if type(value) is int else value


KINDS: dict[str, type[Event]] = {}
OLD_KINDS: Mapping[str, str] = {
    "clock_went_wrong": "clock_out_of_sync",
    "clock_went_right": "clock_in_sync",
    "plan_settled": "plan_recovered",
    "redis_amnesia_healed": "redis_state_restored",
    "service_found": "service_recovered",
    "spool_begun": "spool_started",
    "stepdown_asked": "stepdown_requested",
}
"""The names that kinds had in 0.6, and their names now. Stored events and filters may have either."""
EventClass = TypeVar("EventClass", bound=Event)


def kind_of(event: type[Event]) -> str:
    """`LeaderElected` is `leader_elected`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()


def current_kind(kind: str) -> str:
    """The present name of a kind that may have been renamed."""
    return OLD_KINDS.get(kind, kind)


def stored_kinds(kinds: Collection[str]) -> list[str]:
    """Every name under which events of these kinds are stored; a name of no kind is left out."""
    wanted = {current_kind(kind) for kind in kinds} & KINDS.keys()
    return sorted(wanted | {old for old, new in OLD_KINDS.items() if new in wanted})


@dataclass_transform(frozen_default=True)
def event(kind: type[EventClass]) -> type[EventClass]:
    """Declare a kind of event: a frozen dataclass, registered in KINDS."""
    made = dataclass(frozen=True, slots=True)(kind)
    KINDS[kind_of(made)] = made
    return made

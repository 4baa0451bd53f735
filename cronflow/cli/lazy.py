"""The root of the commands: it loads each of them when it is called, and catches what they raise.

The rule it protects: `cronflow --help` pays for no command, and a command for no other one. The root knows the name,
the help and the place of each; what stands at the place is a function, or a `typer.Typer` with commands of its own.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from cronflow.cli.quick import quicken

CONTEXT = {"help_option_names": ["-h", "--help"]}


class Place(NamedTuple):
    """Where a command stands, `module:attribute`, and what the root's help says of it."""

    address: str
    help: str
    panel: str

    @property
    def exists(self) -> bool:
        """Whether there is such a module; it is not imported."""
        return find_spec(self.address.partition(":")[0]) is not None


class Root(TyperGroup):
    """The group that loads. Subclassed with the `places` that it knows."""

    places: dict[str, Place] = {}  # noqa: RUF012  the subclass replaces it

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._quick = False

    def make_context(self, *args: Any, **rest: Any) -> Any:
        """Begin to read the arguments. Only now has typer given the root all of its own options."""
        if not self._quick:
            self._quick = True
            quicken(self)
        return super().make_context(*args, **rest)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first argument names; put the real one where its entry stood."""
        if args and args[0] in self.commands and args[0] in self.places:
            self.commands[args[0]] = _load(args[0], self.places[args[0]])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run it. Errors that are expected become a message and an exit code; all others go on as they are."""
        from cronflow.cli import errors

        try:
            return super().invoke(ctx)
        except Exception as error:
            told = errors.expected(error)
            if told is None:
                raise
            raise typer.Exit(errors.report(told)) from None


def root(places: dict[str, Place], text: str) -> typer.Typer:
    """The root with an entry for each place that exists."""
    known = {name: place for name, place in places.items() if place.exists}
    made = new_group(text, cls=type("Root", (Root,), {"places": known}), add_completion=True)
    for name, place in known.items():
        made.command(name, help=place.help, rich_help_panel=place.panel)(_entry)
    return made


def new_group(text: str, *, cls: type[TyperGroup] = TyperGroup, add_completion: bool = False) -> typer.Typer:
    """A group of commands in the style of all of them."""
    made = typer.Typer(
        cls=cls,
        help=text,
        no_args_is_help=True,
        add_completion=add_completion,
        context_settings=CONTEXT,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )

    # A group with a callback stays a group, also while it has a single command.
    made.callback()(_entry)
    return made


def _entry() -> None:
    """Stands in the root's help for a command that has not been loaded."""


def _load(name: str, place: Place) -> Any:
    module, _, attribute = place.address.partition(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown", context_settings=CONTEXT
        )
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    quicken(command)
    return command

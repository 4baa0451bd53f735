"""The root of the commands: it loads a command when it is called, and reports the errors that it raises.

The rule it protects: `cronflow --help` loads no command, and a command loads no other one. The root has the name, the
help and the address of each; at the address is a function, or a `typer.Typer` with commands of its own.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

CONTEXT = {"help_option_names": ["-h", "--help"]}


class Place(NamedTuple):
    """The address of a command, `module:attribute`, and its entry in the root's help."""

    address: str
    help: str
    panel: str

    @property
    def exists(self) -> bool:
        """Whether the module exists; it is not imported."""
        return find_spec(self.address.partition(":")[0]) is not None


class Root(TyperGroup):
    """The group that loads commands. Subclassed with its `places`."""

    places: dict[str, Place] = {}  # noqa: RUF012  the subclass replaces it

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of the first argument, and replace its entry with the real one."""
        if args and args[0] in self.commands and args[0] in self.places:
            self.commands[args[0]] = _load(args[0], self.places[args[0]])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run it. Expected errors become a message and an exit code; all others propagate."""
        from cronflow.cli import errors

        try:
            return super().invoke(ctx)
        except Exception as error:
            found = errors.expected(error)
            if found is None:
                raise
            raise typer.Exit(errors.report(found)) from None


def root(places: dict[str, Place], text: str) -> typer.Typer:
    """The root with an entry for each place that exists."""
    known = {name: place for name, place in places.items() if place.exists}
    made = new_group(text, cls=type("Root", (Root,), {"places": known}), add_completion=True)
    for name, place in known.items():
        made.command(name, help=place.help, rich_help_panel=place.panel)(_entry)
    return made


def new_group(text: str, *, cls: type[TyperGroup] = TyperGroup, add_completion: bool = False) -> typer.Typer:
    """A group of commands, in the common style."""
    made = typer.Typer(
        cls=cls,
        help=text,
        no_args_is_help=True,
        add_completion=add_completion,
        context_settings=CONTEXT,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
    )

    # A group with a callback stays a group even with a single command.
    made.callback()(_entry)
    return made


def _entry() -> None:
    """The entry in the root's help of a command that has not been loaded."""


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
    return command

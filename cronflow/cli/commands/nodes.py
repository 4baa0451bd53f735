"""`cronflow nodes …`: the nodes that are up, and draining one.

The rule: draining applies to a name and survives restarts, until it is undone. A node counts as drained once it has
confirmed the request itself, and neither runs nor spools anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli.connect import call, collect
from cronflow.cli.lazy import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, console, note, show
from cronflow.cli.views.cluster import node_page, node_table
from cronflow.domain.errors import NotFound

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.cluster import DrainSchema

POLL_S = 0.5

nodes = new_group("List nodes that are up, and drain them.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The node.", show_default=False)]


@nodes.command("list")
def list_nodes(output: Output = Format.TABLE) -> None:
    """The nodes that are up, by name, with their load."""

    found = call(lambda cluster: collect(cluster.nodes.list()))
    show(output, found, [node["name"] for node in found], lambda: node_table(found))


@nodes.command("show")
def show_node(name: Name, output: Output = Format.TABLE) -> None:
    """A node: its state, its load, its labels, and its runs."""

    found = call(lambda cluster: cluster.nodes.get(name))
    show(output, found, [name], lambda: node_page(found))


@nodes.command()
def drain(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it runs nothing.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Let a node finish its runs and accept no new ones, also after a restart, until it is undrained."""

    async def act(cluster: Cluster) -> DrainSchema:
        found = await cluster.nodes.drain(name)
        while wait and not found["drained"]:
            await times.sleep(POLL_S)
            try:
                found["drained"] = (await cluster.nodes.get(name))["drained"]
            except NotFound:
                # It has stopped, so it runs nothing.
                found["drained"] = True
        return found

    found = call(act)

    def view() -> None:
        text = "drained" if found["drained"] else "accepts no new runs"
        console().print(Text.assemble(formatting.word("draining"), f"  {formatting.clean(name)}: {text}"))

    show(output, found, [name], view)
    if not found["drained"]:
        note(f"running jobs continue; wait for them with --wait, undo with cronflow nodes undrain {name}")


@nodes.command()
def undrain(name: Name, output: Output = Format.TABLE) -> None:
    """Let a node accept runs again."""

    found = call(lambda cluster: cluster.nodes.undrain(name))

    def view() -> None:
        console().print(Text.assemble(formatting.word("up"), f"  {formatting.clean(name)}: accepts runs again"))

    show(output, found, [name], view)
    if not found["up"]:
        note(f"node {name} is not up now; it accepts runs when it starts")

"""`cronflow nodes show`, `drain` and `undrain`: one node, and taking it out of the work for a while.

The rule: draining is asked of a name and lasts over restarts, until it is taken back. A node counts as drained once it
has said itself that it knows, and neither runs nor keeps anything.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bulk import who
from cronflow.cli.connect import call, deployed
from cronflow.cli.output import Format, Output, console, note, show
from cronflow.cli.tables import facts
from cronflow.domain.errors import NotFound
from cronflow.schemas.cluster import drain_schema, node_detail_schema, node_state, undrain_schema

if TYPE_CHECKING:
    from datetime import timedelta

    from cronflow.domain.cluster import Backlog, Member
    from cronflow.remote.usecases import UseCases

LOOK_EVERY_S = 0.5

Name = Annotated[str, typer.Argument(metavar="NAME", help="The node.", show_default=False)]


def show_node(name: Name, output: Output = Format.TABLE) -> None:
    """A node: its state, its load, its labels, and what it runs."""

    async def read(service: UseCases) -> tuple[Member, Collection[str], str | None, timedelta]:
        return *await service.node(name), (await service.status()).leader, (await deployed(service)).heartbeat

    member, holds, leader, heartbeat = call(read)
    shape = node_detail_schema(member, holds, leader, heartbeat)
    show(output, shape, [name], lambda: _page(member, sorted(holds), leader, node_state(member, heartbeat)))


def drain(
    name: Name,
    wait: Annotated[bool, typer.Option("--wait", help="Until it runs nothing any more.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Have a node end what it runs and take no more, also after a restart, until it is undrained."""

    async def act(service: UseCases) -> Member | None:
        member: Member | None = await service.drain(name, by=who())
        while wait and member is not None and not member.drained:
            await times.sleep(LOOK_EVERY_S)
            try:
                member = (await service.node(name))[0]
            except NotFound:
                # It has stopped meanwhile; then it runs nothing either.
                member = None
        return member

    member = call(act)
    drained = member is None or member.drained

    def view() -> None:
        text = "is drained" if drained else "takes no more work"
        console().print(Text.assemble(words.word("draining"), f"  {words.clean(name)} {text}"))

    show(output, drain_schema(name, member), [name], view)
    if not drained:
        note(f"what it runs goes on; wait for it with --wait, take it back with cronflow nodes undrain {name}")


def undrain(name: Name, output: Output = Format.TABLE) -> None:
    """Let a node take work again."""
    member = call(lambda service: service.undrain(name, by=who()))

    def view() -> None:
        console().print(Text.assemble(words.word("up"), f"  {words.clean(name)} takes work again"))

    show(output, undrain_schema(name, member), [name], view)
    if member is None:
        note(f"no node called {name} is up now; it takes work when it is")


def _spool(spool: Backlog) -> str | None:
    if not spool.outcomes:
        return None
    since = "" if spool.since is None else f" since {times.absolute(spool.since)}"
    return f"{words.plural(spool.outcomes, 'outcome')}, {spool.bytes:,} bytes, waiting for MongoDB{since}"


def _page(member: Member, runs: list[str], leader: str | None, state: str) -> None:
    report = member.report
    out = console()
    out.print(Text.assemble(words.word(state), "  ", (words.clean(report.name), "bold")))
    out.print()
    labels = " ".join(f"{key}={value}" for key, value in sorted(report.labels.items()))
    since = None if report.started_at is None else times.absolute(report.started_at)
    facts(
        [
            ("role", "♛ leader" if report.name == leader else "worker"),
            ("id", words.clean(report.id)),
            ("busy", f"{report.in_flight} of {report.slots} slots, {member.queued} queued"),
            ("cpu", f"{report.cpu:.0%}"),
            ("memory", f"{report.memory:.0%}"),
            ("heartbeat", f"{times.span(member.age)} ago"),
            ("started", since),
            ("labels", words.one_line(labels) or None),
            ("host", words.clean(report.host) or None),
            ("pid", str(report.pid) if report.pid else None),
            ("version", words.clean(report.version) or None),
            ("zone data", words.clean(report.zones) or None),
            ("breakers", ", ".join(f"{words.clean(name)} {state}" for name, state in report.breakers.items()) or None),
            ("spool", _spool(report.spool)),
            ("drained", ("yes" if member.drained else "not yet") if member.draining else None),
            ("runs", "\n".join(runs) or None),
        ]
    )

"""`cronflow limits …`: limits that jobs share, the runs that hold their permits, and those that wait."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cronflow.cli.connect import call, change, collect
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, console, show, show_deleted
from cronflow.cli.terminal.tables import Column, facts, table, table_of
from cronflow.domain.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.documents.limits import LimitForm
    from cronflow.schemas.limits import LimitSchema

SHOWN = 20

limits = new_group("Limit how many runs of several jobs execute at the same time, or start per period.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the limit.")]


@limits.command("list")
def list_limits(output: Output = Format.TABLE) -> None:
    """List all limits, with how many runs hold a permit and how many wait."""
    found = call(lambda cluster: collect(cluster.limits.list()))

    def view() -> None:
        table_of(
            found,
            [
                (Column("LIMIT"), lambda limit: limit["name"]),
                (Column("RUNNING"), _running),
                (Column("WAITING"), lambda limit: str(len(limit["waiting"]))),
                (Column("RATE"), lambda limit: limit["rate"] or "-"),
                (Column("DESCRIPTION", drop=2, least=10), lambda limit: formatting.one_line(limit["description"])),
            ],
            empty="No limits yet. Define some: cronflow limits apply -f limits.yaml",
        )

    show(output, found, [limit["name"] for limit in found], view)


@limits.command("show")
def show_limit(name: Name, output: Output = Format.TABLE) -> None:
    """Show a limit, the runs that hold its permits, and those that wait."""
    limit = call(lambda cluster: cluster.limits.get(name))
    show(output, limit, [name], lambda: _page(limit, times.now()))


@limits.command()
def apply(
    file: Annotated[list[Path], typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.")],
    output: Output = Format.TABLE,
) -> None:
    """Create and change limits to match the files. Other limits are left alone."""
    from cronflow.documents.limits import limit_document
    from cronflow.files.limits import read_limit_files

    wanted = read_limit_files([Path("/dev/stdin") if str(path) == "-" else path for path in file])
    if not wanted:
        raise InvalidInput(Problem(str(file[0]), "has no limits", "write limits: and the limits by name below it"))
    documents = [limit_document(limit) for limit in wanted]

    async def act(cluster: Cluster) -> list[tuple[LimitSchema, str]]:
        return [await _apply(cluster, document) for document in documents]

    applied = change(act)

    def view() -> None:
        columns = [Column("RESULT"), Column("LIMIT")]
        table(columns, [[formatting.word(result), limit["name"]] for limit, result in applied])

    answer = [{**limit, "result": result} for limit, result in applied]
    show(output, answer, [limit["name"] for limit, _ in applied], view)


async def _apply(cluster: Cluster, document: LimitForm) -> tuple[LimitSchema, str]:
    try:
        before: LimitSchema | None = await cluster.limits.get(document["name"])
    except NotFound:
        before = None
    after = await cluster.limits.put(dict(document))
    if before is None:
        return after, "created"
    return after, "unchanged" if all(before.get(name) == value for name, value in document.items()) else "changed"


@limits.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete a limit. It must not be named by any job."""
    change(lambda cluster: cluster.limits.delete(name))
    show_deleted("limit", name, output)


def _running(limit: LimitSchema) -> str:
    count = len(limit["permits"])
    return str(count) if limit["limit"] is None else f"{count} of {limit['limit']}"


def _page(limit: LimitSchema, now: datetime) -> None:
    by = formatting.clean(limit["updated_by"] or "")
    burst = f", burst {limit['burst']}" if limit["burst"] > 1 else ""
    facts(
        [
            ("limit", limit["name"]),
            ("description", formatting.clean(limit["description"]) or "-"),
            ("running", _running(limit)),
            ("waiting", str(len(limit["waiting"]))),
            ("rate", f"{limit['rate']}{burst}" if limit["rate"] else "-"),
            ("changed", f"{times.absolute(limit['updated_at'])} {by}".rstrip() if limit["updated_at"] else "-"),
        ]
    )
    console().print()
    rows = [("holds", one["run"], one["since"], one["node"]) for one in limit["permits"][:SHOWN]]
    rows += [("waits", one["run"], one["since"], "") for one in limit["waiting"][:SHOWN]]
    table_of(
        rows,
        [
            (Column("STATE"), lambda row: row[0]),
            (Column("RUN"), lambda row: row[1]),
            (Column("SINCE"), lambda row: times.relative(row[2], now)),
            (Column("NODE", drop=2), lambda row: row[3]),
        ],
        empty="No run holds a permit, and none waits.",
    )
    more = len(limit["permits"]) + len(limit["waiting"]) - len(rows)
    if more:
        console().print(f"{more} more: cronflow limits show {limit['name']} -o json")

"""`cronflow audit …`: who changed what. Entries are never changed; passwords and secrets in them are masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, cast

import orjson
import typer

from cronflow.cli.connect import call, collect
from cronflow.cli.main import new_group
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import Format, Output, note, show
from cronflow.cli.terminal.tables import Column, table_of

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.access import AuditSchema

LOGINS = ("session.", "login.")

audit = new_group("Show who changed what.")


@audit.command("list")
def list_audit(
    who: Annotated[str | None, typer.Option(metavar="NAME", help="Only changes by this user or key.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, such as job.change.")] = None,
    target: Annotated[str | None, typer.Option(help="Only changes of this, such as job:nightly-report.")] = None,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Only changes of this job and its runs.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="1h|INSTANT", help="Only changes within this time or since this instant.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="1h|INSTANT", help="Only changes before this time ago or this instant.")
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="COUNT", min=1, max=10_000, help="At most this many.")] = 100,
    output: Output = Format.TABLE,
) -> None:
    """List the latest changes and logins, newest first."""
    begin = None if since is None else times.instant_or_ago(since, "--since")
    end = None if until is None else times.instant_or_ago(until, "--until")

    async def read(cluster: Cluster) -> list[AuditSchema]:
        entries = cluster.audit.list(by=who, action=action, target=target, job=job, since=begin, until=end, limit=count)
        return await collect(entries)

    found = call(read)
    show(
        output,
        found,
        [entry["id"] for entry in found],
        lambda: table_of(
            found,
            [
                (Column("TIME"), lambda entry: times.absolute(entry["at"])),
                (Column("WHO"), lambda entry: entry["by"] or ""),
                (Column("ACTION"), lambda entry: entry["action"]),
                (Column("TARGET"), lambda entry: entry["target"]),
                (Column("CHANGED", drop=1), _changed),
                (Column("FROM", drop=2), lambda entry: entry["address"] or "command line"),
            ],
            empty="No changes match.",
        ),
    )
    if len(found) == count:
        note(f"only the newest {count} are shown; older ones: --until {found[-1]['at']}, or more at once: -n")


def _changed(entry: AuditSchema) -> str:
    """`key: old → new` for every key that differs, and what is known of a login."""
    before, after = entry["before"], entry["after"]
    if entry["action"].startswith(LOGINS):
        facts = after if isinstance(after, Mapping) else before
        return (
            ", ".join(f"{key}: {_short(value)}" for key, value in facts.items()) if isinstance(facts, Mapping) else ""
        )
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return ""
    old, new = cast("Mapping[str, object]", before), cast("Mapping[str, object]", after)
    return ", ".join(
        f"{key}: {_short(old.get(key))} → {_short(new.get(key))}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    )


def _short(value: object) -> str:
    text = "nothing" if value is None else orjson.dumps(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"

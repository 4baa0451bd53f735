"""`cronflow alerts …`: who is notified when something goes wrong, and the state of each notification.

The rule: an alert is shown with the name of its secret, never with the value; a receiver's answer is shown unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli.connect import call, collect
from cronflow.cli.errors import FAILED
from cronflow.cli.lazy import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, console, show, show_deleted
from cronflow.cli.terminal.tables import Column, facts, table
from cronflow.domain.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.documents.alerts import AlertForm
    from cronflow.schemas.alerts import AlertSchema, NotificationSchema

alerts = new_group("Notify webhooks when something goes wrong.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The alert.", show_default=False)]


@alerts.command("list")
def list_alerts(output: Output = Format.TABLE) -> None:
    """All alerts, by name."""

    found = call(lambda cluster: collect(cluster.alerts.list()))

    def view() -> None:
        if not found:
            console().print("No alerts yet. Define some: cronflow alerts apply -f alerts.yaml")
            return
        table(
            [Column("STATE"), Column("ALERT"), Column("ON"), Column("JOBS", drop=2), Column("TO", least=18)],
            [
                [
                    _state(alert),
                    alert["name"],
                    " ".join(alert["on"]),
                    " ".join(alert["jobs"]) or "all",
                    formatting.clean(alert["webhook"]["url"]),
                ]
                for alert in found
            ],
        )

    show(output, found, [alert["name"] for alert in found], view)


@alerts.command("show")
def show_alert(
    name: Name,
    count: Annotated[
        int, typer.Option("-n", metavar="COUNT", min=1, max=500, help="The number of notifications.")
    ] = 10,
    output: Output = Format.TABLE,
) -> None:
    """An alert and its latest notifications: their state, attempts and errors."""

    async def read(cluster: Cluster) -> tuple[AlertSchema, list[NotificationSchema]]:
        alert = await cluster.alerts.get(name)
        return alert, [notification async for notification in cluster.alerts.notifications(name, limit=count)]

    alert, notifications = call(read)
    show(output, {**alert, "notices": notifications}, [name], lambda: _page(alert, notifications, times.now()))


@alerts.command()
def apply(
    file: Annotated[list[Path], typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.")],
    output: Output = Format.TABLE,
) -> None:
    """Create and change alerts to match the files. Other alerts stay as they are."""
    from cronflow.documents.alerts import alert_document
    from cronflow.files.alerts import read_alert_files

    wanted = read_alert_files([Path("/dev/stdin") if str(path) == "-" else path for path in file])
    if not wanted:
        raise InvalidInput(Problem(str(file[0]), "has no alerts", "write alerts: and a list of alerts below it"))
    documents = [alert_document(alert) for alert in wanted]

    async def act(cluster: Cluster) -> list[tuple[AlertSchema, str]]:
        return [await _apply(cluster, document) for document in documents]

    applied = call(act)

    def view() -> None:
        columns = [Column("RESULT"), Column("ALERT")]
        table(columns, [[formatting.word(result), alert["name"]] for alert, result in applied])

    answer = [{**alert, "result": result} for alert, result in applied]
    show(output, answer, [alert["name"] for alert, _ in applied], view)


async def _apply(cluster: Cluster, document: AlertForm) -> tuple[AlertSchema, str]:
    try:
        before: AlertSchema | None = await cluster.alerts.get(document["name"])
    except NotFound:
        before = None
    after = await cluster.alerts.put(dict(document))
    if before is None:
        return after, "created"
    return after, "unchanged" if all(before.get(name) == value for name, value in document.items()) else "changed"


@alerts.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete an alert with its notifications; those that are waiting are not sent."""

    call(lambda cluster: cluster.alerts.delete(name))
    show_deleted("alert", name, output)


@alerts.command("test")
def try_out(name: Name, output: Output = Format.TABLE) -> None:
    """Send a test notification now, and print the receiver's answer; exit code 1 if it was not accepted."""

    answer = call(lambda cluster: cluster.alerts.test(name))

    def view() -> None:
        if answer["taken"]:
            text = f": the receiver answered {answer['status']} in {answer['ms']} ms"
            console().print(Text.assemble(formatting.word("ok"), text))
        else:
            text = formatting.one_line(answer["error"] or "")
            console().print(Text.assemble(formatting.word("failed"), f": {text}"))

    show(output, answer, [answer["id"]], view)
    if not answer["taken"]:
        raise typer.Exit(FAILED)


def _state(alert: AlertSchema) -> Text:
    return formatting.word("active" if alert["enabled"] else "disabled")


def _page(alert: AlertSchema, notifications: Sequence[NotificationSchema], now: datetime) -> None:
    by = formatting.clean(alert["updated_by"] or "")
    facts(
        [
            ("alert", alert["name"]),
            ("state", _state(alert)),
            ("on", " ".join(alert["on"])),
            ("jobs", " ".join(alert["jobs"]) or "all"),
            ("to", formatting.clean(alert["webhook"]["url"])),
            ("signed with", alert["webhook"]["secret"] or "nothing"),
            ("changed", f"{times.absolute(alert['updated_at'])} {by}".rstrip()),
        ]
    )
    console().print()
    if not notifications:
        console().print("No notifications sent yet.")
        return
    table(
        [
            Column("STATE"),
            Column("KIND"),
            Column("SUBJECT"),
            Column("CREATED", drop=3),
            Column("TRIED", drop=2),
            Column("ANSWER", least=10),
        ],
        [
            [
                formatting.word(notification["state"].replace("_", " ")),
                notification["kind"],
                notification["subject"],
                times.relative(notification["created_at"], now),
                formatting.plural(notification["attempts"], "time"),
                formatting.one_line(notification["error"] or str(notification["status"] or "")),
            ]
            for notification in notifications
        ],
    )

"""`cronflow alerts …`: who is notified when something goes wrong, and the state of each notification.

The rule: an alert is shown with the name of its secret, never with the value; a receiver's answer is shown unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.text import Text

from cronflow.cli.connect import call, change, collect
from cronflow.cli.errors import FAILED
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, console, note, show, show_deleted
from cronflow.cli.terminal.tables import Column, facts, table, table_of
from cronflow.documents.differences import Difference, differences
from cronflow.domain.errors import InvalidInput, NotFound, Problem

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.documents.alerts import AlertForm
    from cronflow.schemas.alerts import AlertSchema, NotificationSchema, SampleAnswerSchema

alerts = new_group("Notify people and webhooks when something goes wrong.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the alert.")]


@alerts.command("list")
def list_alerts(output: Output = Format.TABLE) -> None:
    """List all alerts."""
    found = call(lambda cluster: collect(cluster.alerts.list()))

    def view() -> None:
        table_of(
            found,
            [
                (Column("STATE"), _state),
                (Column("ALERT"), lambda alert: alert["name"]),
                (Column("ON"), lambda alert: " ".join(alert["on"])),
                (Column("JOBS", drop=2), lambda alert: " ".join(alert["jobs"]) or "all"),
                (Column("TO", least=18), _receiver),
            ],
            empty="No alerts yet. Define some: cronflow alerts apply -f alerts.yaml",
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
    """Show an alert and its latest notifications with their state, attempts and errors. `-o yaml` prints the definition
    alone, which can be applied.
    """

    async def read(cluster: Cluster) -> tuple[AlertSchema, list[NotificationSchema]]:
        alert = await cluster.alerts.get(name)
        return alert, [notification async for notification in cluster.alerts.notifications(name, limit=count)]

    alert, notifications = call(read)
    shown: object = {**alert, "notices": notifications}
    if output is Format.YAML:
        from cronflow.documents.alerts import ALERT

        shown = {key: value for key, value in alert.items() if key in ALERT.keys}
    show(output, shown, [name], lambda: _page(alert, notifications, times.now()))


@alerts.command()
def apply(
    file: Annotated[list[Path], typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without applying them.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Create and change alerts to match the files. Other alerts are left alone."""
    from cronflow.documents.alerts import alert_document
    from cronflow.files.alerts import read_alert_files

    wanted = read_alert_files([Path("/dev/stdin") if str(path) == "-" else path for path in file])
    if not wanted:
        raise InvalidInput(Problem(str(file[0]), "has no alerts", "write alerts: and a list of alerts below it"))
    documents = [alert_document(alert) for alert in wanted]

    if dry_run:
        _show_plan(call(lambda cluster: _plan(cluster, documents)), output)
        return

    async def act(cluster: Cluster) -> list[tuple[AlertSchema, str]]:
        return [await _apply(cluster, document) for document in documents]

    applied = change(act)

    def view() -> None:
        columns = [Column("RESULT"), Column("ALERT")]
        table(columns, [[formatting.word(result), alert["name"]] for alert, result in applied])

    answer = [{**alert, "result": result} for alert, result in applied]
    show(output, answer, [alert["name"] for alert, _ in applied], view)


async def _stored(cluster: Cluster, name: str) -> AlertSchema | None:
    try:
        return await cluster.alerts.get(name)
    except NotFound:
        return None


class AlertPlan(NamedTuple):
    """What would become of an alert."""

    name: str
    result: str
    changes: Sequence[Difference]


async def _plan(cluster: Cluster, documents: Sequence[AlertForm]) -> list[AlertPlan]:
    planned = []
    for document in documents:
        before = await _stored(cluster, document["name"])
        if before is None:
            new = differences(None, {key: value for key, value in document.items() if key != "name"})
            planned.append(AlertPlan(document["name"], "created", new))
            continue
        changes = differences({key: before.get(key) for key in document}, document)
        planned.append(AlertPlan(document["name"], "changed" if changes else "unchanged", changes))
    return planned


def _show_plan(planned: Sequence[AlertPlan], output: Format) -> None:
    from cronflow.cli.views.diff import print_difference

    def view() -> None:
        for one in planned:
            print_difference(one.name, one.result, one.changes)
        note("Nothing was changed. Run the command without --dry-run to apply the changes.")

    answer = [
        {
            "name": one.name,
            "result": one.result,
            "changes": [{"field": path, "before": old, "after": new} for path, old, new in one.changes],
        }
        for one in planned
    ]
    show(output, answer, [one.name for one in planned], view)


async def _apply(cluster: Cluster, document: AlertForm) -> tuple[AlertSchema, str]:
    before = await _stored(cluster, document["name"])
    after = await cluster.alerts.put(dict(document))
    if before is None:
        return after, "created"
    return after, "unchanged" if all(before.get(name) == value for name, value in document.items()) else "changed"


@alerts.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete an alert and its notifications. Notifications that are waiting are not sent."""
    change(lambda cluster: cluster.alerts.delete(name))
    show_deleted("alert", name, output)


@alerts.command("test")
def try_out(name: Name, output: Output = Format.TABLE) -> None:
    """Send a sample of each kind of the alert and print the receiver's answers; exit code 1 if one was rejected. A
    webhook in JSON gets a single notification of the kind `test`.
    """
    answer = change(lambda cluster: cluster.alerts.test(name))
    view = Text("\n").join(map(_tested, answer["samples"]))
    show(output, answer, [one["id"] for one in answer["samples"]], view)
    if not answer["taken"]:
        raise typer.Exit(FAILED)


def _tested(one: SampleAnswerSchema) -> Text:
    error = formatting.one_line(one["error"] or "")
    if not one["taken"]:
        return Text.assemble(formatting.word("failed"), f" {one['kind']}: {error}")
    partly = f", but {error}" if error else ""
    return Text.assemble(
        formatting.word("ok"), f" {one['kind']}: the receiver answered {one['status']} in {one['ms']} ms{partly}"
    )


def _receiver(alert: AlertSchema) -> str:
    webhook, email = alert["webhook"], alert["email"]
    if email is not None:
        return formatting.clean(", ".join(email["to"]))
    assert webhook is not None
    url = formatting.clean(webhook["url"])
    return url if webhook["format"] == "json" else f"{webhook['format']}: {url}"


def _signed(alert: AlertSchema) -> str | None:
    webhook = alert["webhook"]
    if webhook is None or webhook["format"] != "json":
        return None
    return webhook["secret"] or "nothing"


def _grouped(alert: AlertSchema) -> str | None:
    group = alert["group"]
    if group is None:
        return None
    by = f"by {', '.join(group['by'])}" if group["by"] else "all in one"
    return f"{by}, after {group['wait']}, at most every {group['interval']}"


def _quiet(alert: AlertSchema) -> str | None:
    quiet = alert["quiet"]
    if quiet is None:
        return None
    days = ", ".join(day.capitalize() for day in quiet["days"]) or "every day"
    urgent = f", except {', '.join(quiet['urgent'])}" if quiet["urgent"] else ""
    return f"{quiet['from']} to {quiet['to']} {quiet['tz']}, {days}{urgent}"


def _state(alert: AlertSchema) -> Text:
    return formatting.word("active" if alert["enabled"] else "disabled")


def _thresholds(alert: AlertSchema) -> str:
    """The settings of those of its conditions that have any, one a line."""
    dead, report = alert["dead_letters"], alert["report"]
    shown = {
        "late": f"late after {alert['late_after']}",
        "no_leader": f"no leader for {alert['no_leader_after']}",
        "retries": f"retried more than {formatting.plural(alert['retries'], 'time')}",
        "dead_letters": f"warn from {dead['warn']} dead letters on, critical from {dead['critical']}",
        "retry_rate": f"more than {alert['retry_rate']:.0%} of the attempts of the last hour are retries",
        "limit_wait": f"waited for a limit for {alert['limit_wait_after']}",
        "heartbeat": f"a heartbeat every {alert['heartbeat_every']}",
        "report": f"a report every {report['day'].capitalize()} at {report['time']} {report['tz']}",
    }
    return "\n".join(text for kind, text in shown.items() if kind in alert["on"])


def _page(alert: AlertSchema, notifications: Sequence[NotificationSchema], now: datetime) -> None:
    by = formatting.clean(alert["updated_by"] or "")
    facts(
        [
            ("alert", alert["name"]),
            ("state", _state(alert)),
            ("on", " ".join(alert["on"])),
            ("jobs", " ".join(alert["jobs"]) or "all"),
            ("thresholds", _thresholds(alert) or None),
            ("to", _receiver(alert)),
            ("signed with", _signed(alert)),
            ("grouped", _grouped(alert)),
            ("quiet", _quiet(alert)),
            ("changed", f"{times.absolute(alert['updated_at'])} {by}".rstrip()),
        ]
    )
    console().print()
    table_of(
        notifications,
        [
            (Column("STATE"), lambda notification: formatting.word(notification["state"].replace("_", " "))),
            (Column("KIND"), lambda notification: notification["kind"]),
            (Column("SUBJECT"), lambda notification: notification["subject"]),
            (Column("CREATED", drop=3), lambda notification: times.relative(notification["created_at"], now)),
            (Column("TRIED", drop=2), lambda notification: formatting.plural(notification["attempts"], "time")),
            (
                Column("ANSWER", least=10),
                lambda notification: formatting.one_line(notification["error"] or str(notification["status"] or "")),
            ),
        ],
        empty="No notifications sent yet.",
    )

"""`cronflow alerts …`: who is told when something goes wrong, and what became of it.

The rule: an alert is shown with the name of its secret, never with more; what a receiver said is shown as it said it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli import times, words
from cronflow.cli.bulk import who
from cronflow.cli.connect import call, every
from cronflow.cli.errors import FAILED
from cronflow.cli.lazy import new_group
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.tables import Column, facts, table
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.schemas.alerts import alert_schema, answer_schema, notification_schema

if TYPE_CHECKING:
    from cronflow.domain.alerts import Alert, AlertRecord, Answer, Notification
    from cronflow.remote.usecases import UseCases
    from cronflow.usecases.alerts import Result

alerts = new_group("Who is told when something goes wrong, and how that went.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The alert.", show_default=False)]


@alerts.command("list")
def list_alerts(output: Output = Format.TABLE) -> None:
    """All alerts, by name."""

    async def read(service: UseCases) -> list[AlertRecord]:
        return await every(service.alerts.find)

    found = call(read)

    def view() -> None:
        if not found:
            console().print("There are no alerts. Define some: cronflow alerts apply -f alerts.yaml")
            return
        table(
            [Column("STATE"), Column("ALERT"), Column("ON"), Column("JOBS", drop=2), Column("TO", least=18)],
            [
                [
                    words.word("active" if one.alert.enabled else "disabled"),
                    one.name,
                    " ".join(one.alert.on),
                    " ".join(one.alert.jobs) or "all",
                    words.clean(one.alert.webhook.url),
                ]
                for one in found
            ],
        )

    show(output, [alert_schema(one) for one in found], [one.name for one in found], view)


@alerts.command("show")
def show_alert(
    name: Name,
    count: Annotated[int, typer.Option("-n", metavar="COUNT", min=1, max=500, help="How many notices.")] = 10,
    output: Output = Format.TABLE,
) -> None:
    """An alert, and the latest of what it had to tell: whether it was taken, after how many attempts, and why not."""

    async def read(service: UseCases) -> tuple[AlertRecord, list[Notification]]:
        return await service.alerts.get(name), await service.alerts.notifications(name, limit=count)

    record, notifications = call(read)
    answer = {**alert_schema(record), "notices": [notification_schema(notification) for notification in notifications]}
    show(output, answer, [name], lambda: _page(record, notifications, times.now()))


@alerts.command()
def apply(
    file: Annotated[list[Path], typer.Option("-f", "--file", metavar="FILE", help="A YAML or JSON file; - is stdin.")],
    output: Output = Format.TABLE,
) -> None:
    """Create and change alerts, so that the cluster has those of the files. Others stay as they are."""
    from cronflow.files.alerts import read_alert_files

    wanted = read_alert_files([Path("/dev/stdin") if str(path) == "-" else path for path in file])
    if not wanted:
        raise InvalidInput(Problem(str(file[0]), "has no alerts", "write alerts: and a list of alerts below it"))
    applied = call(lambda service: _apply(service, wanted))

    def view() -> None:
        table([Column("RESULT"), Column("ALERT")], [[words.word(result), one.name] for one, result in applied])

    answer = [{**alert_schema(one), "result": result} for one, result in applied]
    show(output, answer, [one.name for one, _ in applied], view)


@alerts.command()
def delete(name: Name, output: Output = Format.TABLE) -> None:
    """Delete an alert with its notices; those that wait are not sent."""
    call(lambda service: service.alerts.delete(name, by=who()))

    def view() -> None:
        console().print(Text.assemble(("- ", "bright_black"), f"alert {words.clean(name)} is deleted"))

    show(output, {"name": name, "deleted": True}, [name], view)


@alerts.command("test")
def try_out(name: Name, output: Output = Format.TABLE) -> None:
    """Send a notice now, and tell what the receiver said; exit code 1 when it did not take it."""
    notification, answer = call(lambda service: service.alerts.test(name, by=who()))
    show(output, answer_schema(notification, answer), [notification], lambda: _answer(answer))
    if not answer.taken:
        raise typer.Exit(FAILED)


async def _apply(service: UseCases, wanted: Sequence[Alert]) -> list[tuple[AlertRecord, Result]]:
    return [await service.alerts.define(alert, by=who()) for alert in wanted]


def _answer(answer: Answer) -> None:
    if answer.taken:
        console().print(Text.assemble(words.word("ok"), f": it answered {answer.status} in {answer.ms} ms"))
    else:
        console().print(Text.assemble(words.word("failed"), f": {words.one_line(answer.error or '')}"))


def _page(record: AlertRecord, notifications: Sequence[Notification], now: datetime) -> None:
    alert = record.alert
    facts(
        [
            ("alert", record.name),
            ("state", words.word("active" if alert.enabled else "disabled")),
            ("on", " ".join(alert.on)),
            ("jobs", " ".join(alert.jobs) or "all"),
            ("to", words.clean(alert.webhook.url)),
            ("signed with", alert.webhook.secret or "nothing"),
            ("changed", f"{times.absolute(record.updated_at)} {words.clean(record.updated_by)}".rstrip()),
        ]
    )
    console().print()
    if not notifications:
        console().print("It has had nothing to tell.")
        return
    table(
        [
            Column("STATE"),
            Column("KIND"),
            Column("OF"),
            Column("FOUND", drop=3),
            Column("TRIED", drop=2),
            Column("ANSWER", least=10),
        ],
        [
            [
                words.word(one.state.replace("_", " ")),
                one.kind.value,
                one.subject,
                times.relative(one.created_at, now),
                words.plural(one.attempts, "time"),
                words.one_line(one.error or str(one.status or "")),
            ]
            for one in notifications
        ],
    )

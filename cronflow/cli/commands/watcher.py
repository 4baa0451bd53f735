"""`cronflow watcher`: watches a cluster from outside, and reports when due runs do not exist.

The rule: it writes to no server, and needs neither leader nor nodes. What it prints with `--once` is made for cron,
systemd and Nagios: the exit code has the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from cronflow.cli.commands.node import Form, Level
from cronflow.cli.errors import FAILED
from cronflow.cli.process_log import LogFormat, log_of
from cronflow.cli.target import settings
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import Format, Output, console, show
from cronflow.cli.terminal.tables import Column, table_of
from cronflow.config.values import duration
from cronflow.documents.values import instant_text
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.bootstrap.watcher import WatchOptions
    from cronflow.domain.alerts import Alert
    from cronflow.domain.watch import WatchFinding
    from cronflow.watcher.watcher import WatchRound

LONGEST_SECRET = 10_000


def watcher(
    grace: Annotated[
        str, typer.Option(metavar="90s", help="How long a run may take to appear, and a server to come back.")
    ] = "90s",
    every: Annotated[str, typer.Option(metavar="30s", help="The time between two rounds.")] = "30s",
    repeat: Annotated[str, typer.Option(metavar="1h", help="The time between two messages about a finding.")] = "1h",
    snapshot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the schedules and findings are kept; else only in memory."),
    ] = None,
    alerts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file with the receivers of messages."),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="The file with the value of ${secret:NAME} of a receiver; repeatable."),
    ] = None,
    ping: Annotated[
        str | None,
        typer.Option(metavar="URL", help="An address to request in each round in which nothing is wrong."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Look once: exit code 0 if all is well, 1 if not, 2 if that is unknown.")
    ] = False,
    output: Output = Format.TABLE,
    log_level: Level = None,
    log_format: Form = None,
) -> None:
    """Watch a cluster from outside until SIGTERM or Ctrl-C. It reports jobs that were due and have no run, a missing
    leader, runs that no node starts, servers that are away, jobs that vanished, and clocks that disagree.

    It needs no leader and no node, and only the right to read from MongoDB. Receivers are its own, so that they work
    while MongoDB is away.
    """
    given: dict[str, object] = {"log_level": log_level, "log_format": log_format}
    read = settings(given)
    options = _options(grace, every, repeat, snapshot, alerts, secret or (), ping)
    if not once and output is not Format.TABLE:
        raise InvalidInput(Problem("--output", "has no effect without --once", "add --once"))
    log_of(read, otherwise=LogFormat.TEXT if once else None, level=_level(log_level, once=once), role="watcher")
    import asyncio

    from cronflow.bootstrap import watcher as process

    if not once:
        asyncio.run(process.watch(read, options))
        return
    done, findings = asyncio.run(process.watch_once(read, options))
    _show(done, findings, output)
    if done.observed:
        raise typer.Exit(FAILED)


def _level(given: str | None, *, once: bool) -> str | None:
    """A single round prints what it found, so its log has only what went wrong with the watcher itself."""
    return given or ("error" if once else None)


def _options(
    grace: str,
    every: str,
    repeat: str,
    snapshot: Path | None,
    alerts: Path | None,
    secrets: Sequence[str],
    ping: str | None,
) -> WatchOptions:
    """Raises InvalidInput with every problem of the options."""
    from cronflow.bootstrap.watcher import WatchOptions

    problems: list[Problem] = []

    def length(place: str, value: str, least: str, most: str) -> timedelta:
        try:
            found: timedelta = duration(least, most)(value)
        except InvalidInput as error:
            problems.extend(Problem(f"--{place}", one.what, one.remedy) for one in error.problems)
            return timedelta(0)
        return found

    lengths = {
        "grace": length("grace", grace, "5s", "1d"),
        "every": length("every", every, "1s", "1h"),
        "repeat": length("repeat", repeat, "1m", "7d"),
    }
    receivers = _receivers(alerts, ping, problems)
    values = _secrets(secrets, problems)
    if missing := sorted(_referenced(receivers) - values.keys()):
        remedy = f"give its file: --secret {missing[0]}=FILE; a watcher reads no secrets from MongoDB"
        problems.append(Problem("--secret", f"the receivers need {', '.join(missing)}", remedy))
    if problems:
        raise InvalidInput(problems)
    return WatchOptions(**lengths, snapshot=snapshot, receivers=receivers, secrets=values)


def _receivers(file: Path | None, ping: str | None, problems: list[Problem]) -> list[Alert]:
    from cronflow.domain.alert_kinds import AlertKind
    from cronflow.domain.alert_receivers import Webhook, WebhookFormat
    from cronflow.domain.alerts import Alert
    from cronflow.files.alerts import read_receiver_file

    found: list[Alert] = []
    try:
        found += [] if file is None else read_receiver_file(file)
    except InvalidInput as error:
        problems += error.problems
    if ping is not None:
        try:
            webhook = Webhook(ping, format=WebhookFormat.PING)
            found.append(Alert(name="ping-option", on=(AlertKind.HEARTBEAT,), webhook=webhook))
        except InvalidInput as error:
            problems += [Problem("--ping", one.what, one.remedy) for one in error.problems]
    return found


def _secrets(given: Sequence[str], problems: list[Problem]) -> dict[str, str]:
    found = {}
    for pair in given:
        name, separator, file = pair.partition("=")
        if not name or not separator or not file:
            problems.append(
                Problem("--secret", f"{pair!r} is not NAME=FILE", "write --secret HOOKS=/run/secrets/HOOKS")
            )
            continue
        try:
            with Path(file).open(encoding="utf-8") as opened:
                found[name] = opened.read(LONGEST_SECRET).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            problems.append(Problem(f"--secret {name}", f"{file} cannot be read: {reason}", "correct the path"))
    return found


def _referenced(receivers: Sequence[Alert]) -> set[str]:
    """The secrets that the receivers refer to."""
    from cronflow.domain.secret import referenced

    webhooks = [alert.webhook for alert in receivers if alert.webhook is not None]
    return {name for webhook in webhooks for text in (webhook.url, webhook.secret or "") for name in referenced(text)}


def _show(done: WatchRound, findings: Sequence[WatchFinding], output: Format) -> None:
    opened = {one.kind: one.opened_at for one in findings}
    since = {one.kind: one.since for one in findings}
    answer = {
        "ok": not done.observed,
        "at": instant_text(done.at),
        "jobs": done.jobs,
        "judged": done.judged,
        "late": done.late,
        "maintenance": done.maintenance,
        "unknown": sorted(kind.value for kind in done.unknown),
        "findings": [
            {
                "kind": one.kind.value,
                "since": instant_text(since.get(one.kind, one.since)),
                "opened_at": None if (at := opened.get(one.kind)) is None else instant_text(at),
                "text": one.text,
            }
            for one in done.observed
        ],
    }

    def view() -> None:
        if not done.observed:
            late = f", {done.late:,} late" if done.late else ""
            console().print(Text.assemble(formatting.word("ok"), f" {formatting.plural(done.jobs, 'job')}{late}"))
            return
        table_of(
            done.observed,
            [
                (Column("FINDING"), lambda one: one.kind.value),
                (Column("SINCE"), lambda one: times.relative(since.get(one.kind, one.since), done.at)),
                (Column("TEXT", least=20), lambda one: formatting.one_line(one.text)),
            ],
            empty="",
        )

    show(output, answer, [one.kind.value for one in done.observed], view)

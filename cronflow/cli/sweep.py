"""`cronflow cluster sweep`: check every record now, and tell what was found.

It asks for a run of the system's own job and waits for it, as `jobs run --wait` does. The exit code says whether the
cluster is sound: 0 nothing was found, 1 something was, 4 the sweep itself failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from cronflow.cli import connect, times, words
from cronflow.cli.bulk import who
from cronflow.cli.errors import FAILED, RUN_FAILED
from cronflow.cli.output import Format, Output, console, show, warn
from cronflow.cli.tables import Column, facts, table
from cronflow.cli.trigger import until_ended, well
from cronflow.domain.errors import CronFlowError, NotFound
from cronflow.schemas.cluster import sweep_schema

if TYPE_CHECKING:
    from cronflow.domain.run import Run
    from cronflow.domain.sweep import SweepReport
    from cronflow.remote.usecases import UseCases


def sweep(output: Output = Format.TABLE) -> None:
    """Check every record against the invariants now, repair what can be, and tell. Exit code 1 when it found any."""
    run, report = connect.call(_sweep)
    if not well(run):
        warn(f"the sweep itself failed: {words.one_line(run.error or run.state)}")
        raise typer.Exit(RUN_FAILED)
    if report is None or report.run != run.id:
        raise CronFlowError(f"another sweep has ended since; cronflow runs show {run.id} tells the outcome of this one")
    show(output, sweep_schema(report), [finding.where for finding in report.findings], lambda: _page(report))
    if report.found:
        raise typer.Exit(FAILED)


async def _sweep(service: UseCases) -> tuple[Run, SweepReport | None]:
    try:
        run = await service.run(await service.sweep(by=who()))
    except NotFound as error:
        raise NotFound("leader", "that has ever led this cluster") from error
    if not await service.members():
        warn("no node is up; the sweep waits until one is: cronflow node")
    return await until_ended(service, run), await service.last_sweep()


def sweep_words(report: SweepReport) -> Text:
    """When it was and what it found, in a few words."""
    found = Text("found nothing", style=words.GREEN)
    if report.found:
        repaired = sum(finding.repaired for finding in report.findings)
        found = Text(f"{words.plural(report.found, 'finding')}, {repaired} repaired", style=words.RED)
    return Text.assemble(f"{times.absolute(report.at)}, {times.relative(report.at, times.now())}  ", found)


def _page(report: SweepReport) -> None:
    checked = "  ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in report.checked.items())
    facts([("sweep", sweep_words(report)), ("checked", checked), ("took", f"{report.took_ms:,} ms")])
    if not report.findings:
        return
    console().print()
    table(
        [Column("REPAIRED"), Column("FINDING"), Column("WHERE"), Column("WHAT", least=20)],
        [
            [
                Text("yes", style=words.GREEN) if finding.repaired else Text("no", style=words.RED),
                finding.kind.value,
                words.clean(finding.where),
                finding.what,
            ]
            for finding in report.findings
        ],
    )
    if report.found > len(report.findings):
        console().print(f"and {report.found - len(report.findings):,} more; the nodes have logged each of them")

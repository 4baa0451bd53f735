"""`cronflow doctor`: checks this machine, its settings and its servers, and prints a remedy for each problem.

The rule: it changes nothing, every problem has a remedy, and a check that cannot run is reported as unchecked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict

import typer
from rich.text import Text

from cronflow.cli import connect
from cronflow.cli.doctor.api import api
from cronflow.cli.doctor.machine import Finding, folder, packages, programs, python
from cronflow.cli.doctor.servers import servers
from cronflow.cli.errors import FAILED
from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import Format, Output, console, show
from cronflow.cli.terminal.tables import hanging
from cronflow.domain.errors import InvalidInput

STATE_WIDTH = 13


def doctor(output: Output = Format.TABLE) -> None:
    """Check Python, packages, settings, the servers and what `cronflow dev` needs; exit code 1 if a check fails."""
    findings = list(_examine())
    failed = [finding for finding in findings if finding.state == "failed"]
    answer = {"ok": not failed, "findings": [asdict(finding) for finding in findings]}
    show(output, answer, [finding.check for finding in failed], lambda: _view(findings, len(failed)))
    if failed:
        raise typer.Exit(FAILED)


def _examine() -> Iterator[Finding]:
    yield python()
    yield from packages()
    given = False
    try:
        read = connect.settings()
    except InvalidInput as error:
        for problem in error.problems:
            where = f"{problem.place}: " if problem.place else ""
            yield Finding("settings", "failed", f"{where}{problem.what}", problem.remedy or "correct it")
    else:
        yield Finding("settings", "ok", "valid and consistent")
        for note in read.notes:
            yield Finding("settings", "warning", note, "remove it")
        given = bool(read.redis_url and read.mongo_url)
        yield from asyncio.run(servers(read))
        yield folder(read.spool_dir)
        yield from asyncio.run(api())
    yield from programs(needed=not given)


def _view(findings: list[Finding], failed: int) -> None:
    width = max(len(one.check) for one in findings)
    for one in findings:
        begin = Text.assemble(_padded(formatting.word(one.state)), one.check.ljust(width), "  ")
        text = formatting.one_line(one.found) + (f"\n→ {formatting.one_line(one.remedy)}" if one.remedy else "")
        hanging(begin, text)
    console().print(
        Text("\n" + (f"{formatting.plural(failed, 'check')} failed" if failed else "all checks passed"), style="dim")
    )


def _padded(state: Text) -> Text:
    state.pad_right(STATE_WIDTH - state.cell_len)
    return state

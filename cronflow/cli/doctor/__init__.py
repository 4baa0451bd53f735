"""`cronflow doctor`: looks at this machine, its settings and its servers, and says what to do about each finding.

The rule: it changes nothing, and a finding without a remedy is not a finding. What it cannot look at, it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict

import typer
from rich.text import Text

from cronflow.cli import connect, words
from cronflow.cli.doctor.api import api
from cronflow.cli.doctor.finding import Finding
from cronflow.cli.doctor.machine import folder, packages, programs, python
from cronflow.cli.doctor.servers import servers
from cronflow.cli.errors import FAILED
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.tables import hanging
from cronflow.domain.errors import InvalidInput

STATE_WIDTH = 13


def doctor(output: Output = Format.TABLE) -> None:
    """Check Python, packages, settings, the servers and what `cronflow dev` needs; exit code 1 when something fails."""
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
            yield Finding("settings", "failed", f"{where}{problem.what}", problem.remedy or "correct it there")
    else:
        yield Finding("settings", "ok", "understood, and they fit together")
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
        begin = Text.assemble(_padded(words.word(one.state)), one.check.ljust(width), "  ")
        text = words.one_line(one.found) + (f"\n→ {words.one_line(one.remedy)}" if one.remedy else "")
        hanging(begin, text)
    console().print(
        Text("\n" + (f"{words.plural(failed, 'check')} failed" if failed else "nothing failed"), style="dim")
    )


def _padded(state: Text) -> Text:
    state.pad_right(STATE_WIDTH - state.cell_len)
    return state

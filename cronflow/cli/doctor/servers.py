"""Redis and MongoDB: availability, persistence, replica set, clocks; and the nodes' time zone data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from cronflow.cli import connect
from cronflow.cli.doctor.machine import Finding
from cronflow.cli.terminal import formatting
from cronflow.config import Settings
from cronflow.config.values import masked
from cronflow.domain.cluster import NO_EVICTION, Member, eviction_problem
from cronflow.domain.cluster_time import AGREE_WITHIN_S
from cronflow.domain.errors import BackendUnavailable, CronFlowError
from cronflow.ports import RedisConfig, ReplicaSet

LOOPBACK = ("localhost", "[::1]")
SAFE_MEMBERS = 3


async def servers(read: Settings) -> list[Finding]:
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
        both = "both must be set before either is checked"
        return unset + [Finding(service, "unchecked", both) for service, (_, url) in urls.items() if url]
    try:
        async with connect.open_service(read) as service:
            health = await service.cluster.health()
            kept = [
                *_keeping(await service.backends.coordination_admin.redis_config()),
                *_replica_set(await service.backends.store_admin.replica_set()),
                *_clocks(await service.cluster.offsets()),
                *_zones(await service.cluster.members()),
            ]
    except BackendUnavailable as error:
        return [_unavailable(name, urls[name], error) for name in urls]
    except CronFlowError as error:
        return [Finding("servers", "failed", str(error), "correct the URLs; see their sources: cronflow config show")]
    return [
        Finding(name, "ok", f"{masked(url or '')} answers in {health[name] * 1000:.1f} ms")
        if isinstance(health[name], float)
        else Finding(name, "failed", str(health[name]), f"start it, or correct CRONFLOW_{setting}")
        for name, (setting, url) in urls.items()
    ] + [*_without_password(urls), *kept]


def _without_password(urls: Mapping[str, tuple[str, str | None]]) -> Iterator[Finding]:
    """Servers on other machines that accept connections without a password."""
    for service, (setting, url) in urls.items():
        # There may be several hosts, which the parser does not take as a port.
        place = urlsplit(url or "").netloc
        hosts = [one.rpartition(":")[0] if ":" in one else one for one in place.rpartition("@")[2].split(",")]
        if "@" not in place and not all(host.startswith("127.") or host in LOOPBACK for host in hosts):
            found = f"{', '.join(hosts)} accepts connections without a password"
            remedy = f"set a password there, and put it into CRONFLOW_{setting}"
            yield Finding(f"{service} login", "warning", found, remedy)


def _keeping(kept: RedisConfig) -> Iterator[Finding]:
    """Eviction and persistence of Redis. A node refuses to start with eviction; persistence is optional."""
    if kept.eviction is None:
        found = "Redis does not report its maxmemory-policy"
        yield Finding("redis memory", "warning", found, f"make sure that it is {NO_EVICTION}, or allow INFO")
    elif kept.eviction != NO_EVICTION:
        problem = eviction_problem(kept.eviction)
        yield Finding("redis memory", "failed", problem.what, problem.remedy)
    else:
        versions = f", version {' and '.join(sorted(kept.versions))}" if kept.versions else ""
        yield Finding("redis memory", "ok", f"maxmemory-policy is {NO_EVICTION}{versions}")
    match kept.durable:
        case True:
            yield Finding("redis persistence", "ok", "enabled")
        case False:
            found = "disabled: after a restart no run is lost, but queued runs wait for ten seconds"
            yield Finding("redis persistence", "warning", found, "set appendonly yes")
        case None:
            yield Finding("redis persistence", "unchecked", "Redis does not report it")


def _replica_set(kept: ReplicaSet) -> Iterator[Finding]:
    """Whether acknowledged writes survive the loss of a machine. A majority acknowledges each write."""
    found = f"{kept.name} of {formatting.plural(kept.members, 'member')}, MongoDB {kept.version}"
    if kept.away:
        remedy = "start them: writes stop when half of the members are down"
        yield Finding("mongodb replica set", "failed", f"{found}; down: {', '.join(kept.away)}", remedy)
    elif kept.members < SAFE_MEMBERS:
        found += ": the data is as safe as one disk" if kept.members == 1 else ": writes need both members"
        yield Finding("mongodb replica set", "warning", found, f"use {SAFE_MEMBERS} members, each on its own machine")
    else:
        yield Finding("mongodb replica set", "ok", found)


def _clocks(offsets: Mapping[str, float]) -> Iterator[Finding]:
    """Whether this machine and the servers agree on the time. A node with a wrong clock does not become the leader."""
    differences = ", ".join(f"{name} {offset:+.3f} s" for name, offset in sorted(offsets.items()))
    found = f"compared with this machine: {differences}"
    clocks = [0.0, *offsets.values()]
    if max(clocks) - min(clocks) > AGREE_WITHIN_S:
        yield Finding("clocks", "failed", found, "synchronize the clocks with chrony or another NTP client")
    else:
        yield Finding("clocks", "ok", found)


def _zones(members: Sequence[Member]) -> Iterator[Finding]:
    """Whether the nodes that are up have the same time zone data."""
    nodes: dict[str, list[str]] = {}
    for member in members:
        nodes.setdefault(member.report.zones or "unknown", []).append(formatting.clean(member.report.name))
    found = "; ".join(f"{version} on {', '.join(names)}" for version, names in sorted(nodes.items()))
    if len(nodes) > 1:
        yield Finding("time zone data", "warning", found, "install the same tzdata everywhere: the leader uses its own")
    elif nodes:
        yield Finding("time zone data", "ok", found)


def _unavailable(name: str, place: tuple[str, str | None], error: BackendUnavailable) -> Finding:
    if error.service.lower() == name:
        return Finding(name, "failed", str(error), f"start it, or correct CRONFLOW_{place[0]}")
    return Finding(name, "unchecked", f"not checked, because {error.service} does not answer")

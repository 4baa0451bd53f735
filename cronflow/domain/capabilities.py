"""What a node can run, as its heartbeat announces it, and what a job needs of a node.

Rule: an obstacle is certain. Where only the node can decide (a function that is missing in an allowed module, a host
that must be resolved first), it counts as able, and may still decline the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from cronflow.domain.amqp_target import AmqpTarget
from cronflow.domain.identity_cache import IdentityCache
from cronflow.domain.job import CommandTarget, HttpTarget, Job, PythonTarget, Target
from cronflow.domain.secret import referenced

MOST_ANNOUNCED = 100
"""Modules or hosts in a heartbeat. A node with more announces none of them, and declines what it cannot run."""
TARGETS_REMEMBERED = 20_000
MISSING = "this node does not have "
NO_MODULE = "does not have module "
"""How the reasons of nodes without the code of a job begin: those that decline it, and those that announce it."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a job needs: labels; by its target a shell, a module, a host, secrets or a client for AMQP; and whether it
    has keys that nodes of 0.9 do not know.
    """

    labels: tuple[tuple[str, str], ...] = ()
    shell: bool = False
    module: str = ""
    host: str = ""
    secrets: bool = False
    amqp: bool = False
    newer: bool = False
    since_0_12: bool = False
    """Whether a node of 0.11 would execute it in another way than it says."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Whether a node runs commands, the modules whose functions it calls (with their submodules), the hosts it calls,
    and whether it can open secrets and publish to brokers, which nodes before 0.12 never do. None: all, or too many to
    announce.
    """

    shell: bool = True
    modules: tuple[str, ...] | None = None
    hosts: tuple[str, ...] | None = None
    secrets: bool = True
    amqp: bool = False

    def obstacle(self, needs: Needs) -> str | None:
        """Why the node cannot run a job with these needs, or None. Labels are checked elsewhere."""
        if needs.shell and not self.shell:
            return "does not run commands (ALLOW_SHELL)"
        if needs.module and self.modules is not None and not _allows(self.modules, needs.module):
            return f"{NO_MODULE}{needs.module} (--app, ALLOW_PYTHON)"
        if needs.host and self.hosts is not None and not _may_call(self.hosts, needs.host):
            return f"may not call {needs.host} (ALLOW_HTTP_HOSTS)"
        if needs.secrets and not self.secrets:
            return "cannot open secrets (SECRETS_KEY)"
        if needs.amqp and not self.amqp:
            return "cannot publish to a broker (install cronflow[amqp])"
        return None


def missing_function(job: Job, reasons: Iterable[str]) -> str:
    """The function of the job, if these are the reasons of all nodes and none of them has it; else empty."""
    if isinstance(job.target, PythonTarget) and all(reason.startswith((MISSING, NO_MODULE)) for reason in reasons):
        return job.target.ref
    return ""


def announced(names: Iterable[str]) -> tuple[str, ...] | None:
    """The names in order and without duplicates; None if they are too many for a heartbeat."""
    found = tuple(sorted(set(names)))
    return found if len(found) <= MOST_ANNOUNCED else None


_known: IdentityCache[Target, Needs] = IdentityCache(TARGETS_REMEMBERED)


def needs_of(job: Job) -> Needs:
    """What the job needs. Cached by target: the stores return the same object for the same document."""
    needs = _known.get(job.target) or _known.put(job.target, _needs_of(job.target))
    if job.require or job.needs_newer_nodes:
        return replace(needs, labels=tuple(sorted(job.require.items())), newer=job.needs_newer_nodes)
    return needs


def _needs_of(target: Target) -> Needs:
    return Needs(
        shell=isinstance(target, CommandTarget),
        module=target.ref.partition(":")[0] if isinstance(target, PythonTarget) else "",
        host=_host_of(target),
        secrets=bool(referenced(target)),
        amqp=isinstance(target, AmqpTarget),
        since_0_12=isinstance(target, CommandTarget) and target.when_present is not None,
    )


def _host_of(target: Target) -> str:
    match target:
        case HttpTarget():
            return urlsplit(target.url).hostname or ""
        case AmqpTarget():
            return target.host
    return ""


def _allows(modules: Iterable[str], module: str) -> bool:
    return any(f"{module}.".startswith(f"{allowed}.") for allowed in modules)


def _may_call(hosts: Iterable[str], host: str) -> bool:
    """A name may resolve to an address in an allowed network, which only the node can find out."""
    if any(fnmatchcase(host, entry.lower()) for entry in hosts):
        return True
    networks = []
    for entry in hosts:
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            continue  # It is a name.
    try:
        address = ip_address(host)
    except ValueError:
        return bool(networks)
    return any(address in network for network in networks)

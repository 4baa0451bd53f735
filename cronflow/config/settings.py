"""What can be set: every setting of this version with its default and the reader of its values.

The rule it protects: a default passes the same reader as a value that somebody wrote. It knows no environment and no
files, see `sources`.
"""

# ruff: noqa: RUF009  fields are declared with `_setting`, which is `dataclasses.field` and no default value

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import time, timedelta
from pathlib import Path
from typing import Any

from cronflow.config import values
from cronflow.domain.durations import format_duration
from cronflow.domain.job import Retry


def _setting(default: object, read: values.Reader, *, shown: bool = True) -> Any:
    return field(default=None if default is None else read(default), metadata={"read": read}, repr=shown)


def _hidden(read: values.Reader) -> Any:
    """A setting without a default whose value nobody is shown, and nobody is told in an error."""
    return field(default=None, metadata={"read": read, "hidden": True}, repr=False)


def _default_node_name() -> str:
    host = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().lower()).lstrip("._-")[:95]
    return f"{host or 'node'}-{secrets.token_hex(2)}"


def _default_spool_dir() -> Path:
    """The place of the XDG base directories for what a program keeps between its starts."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if Path(state).is_absolute():
        return Path(state) / "cronflow" / "spool"
    try:
        return Path.home() / ".local" / "state" / "cronflow" / "spool"
    except RuntimeError:
        return Path("/var/lib/cronflow/spool")  # A user that the system does not know has no home.


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting of this version, in the interface's order; `load_settings` reads them. The texts below them are
    what `docs/reference/settings.md` says of them.

    `sources` says per name where the value came from, `notes` what was found and has no effect.
    """

    redis_url: str | None = _setting(
        None,
        values.url("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", example="redis://host:6379/0"),
        shown=False,
    )
    """Where Redis is; also Sentinel, `redis+sentinel://host:26379,host:26379/master-name`, and a cluster,
    `redis+cluster://host:6379,host:6379`.
    """
    mongo_url: str | None = _setting(
        None, values.url("mongodb", "mongodb+srv", example="mongodb://host:27017/?replicaSet=rs0"), shown=False
    )
    """Where MongoDB is, a replica set."""
    api_url: str | None = _setting(None, values.url("http", "https", example="https://cron.example.com"))
    """The API that commands go through, with `API_KEY`; without it, and without a login, they ask the servers."""
    api_key: str | None = _hidden(values.key)
    """The API key that commands log in with."""
    api_key_file: Path | None = _setting(None, values.folder)
    """A file that has the API key."""
    api_insecure: bool = _setting(False, values.flag)
    """Whether commands may use plain http to another machine."""
    namespace: str = _setting("default", values.name("namespace"))
    """The cluster's name: clusters with different ones share Redis and MongoDB and do not see each other."""
    node_name: str = field(default_factory=_default_node_name, metadata={"read": values.name("node")})
    """What this node is called; a second node of that name is refused while the first one lives."""
    leader_ttl: timedelta = _setting("30s", values.duration("1s"))
    """How long the lead lasts when it is not renewed: the longest time without a leader follows from it."""
    leader_renew: timedelta = _setting("15s", values.duration("10ms"))
    """How often the leader renews it; at most half of `LEADER_TTL`."""
    failover_check: timedelta = _setting("45s", values.duration("10ms"))
    """At the latest after this time a follower looks whether somebody leads; it looks earlier when the lead is due to
    end.
    """
    heartbeat: timedelta = _setting("5s", values.duration("10ms"))
    """How often a node says that it lives, and how loaded it is; less than half of `NODE_TTL`."""
    node_ttl: timedelta = _setting("15s", values.duration("1s"))
    """How long after its last heartbeat a node is taken for dead."""
    run_lease: timedelta = _setting("45s", values.duration("1s"))
    """How long a run stays with its worker when it is not renewed; after it the run goes to another node, or is lost.
    """
    lock_buffer: timedelta = _setting("5s", values.duration("0s"))
    """How much longer than `LEADER_TTL` the lock of a job lasts when it is not renewed."""
    slots: int = _setting(16, values.number(int, 1, 10_000))
    """How many runs a node has at the same time."""
    sweep_at: time = _setting("00:00", values.time_of_day)
    """When the daily sweep checks all records, in UTC."""
    cleanup_at: time = _setting("03:00", values.time_of_day)
    """When the daily clean-up deletes what is old, in UTC."""
    run_retention: timedelta = _setting("30d", values.duration("24h"))
    """How long runs, and entries of the audit log, are kept after their end; each job keeps its last run."""
    log_retention: timedelta = _setting("7d", values.duration("1h"))
    """How long log lines and events are kept."""
    log_lines_per_run: int = _setting("10000", values.number(int, 1, 1_000_000))
    """How many log lines of an attempt are kept."""
    retry_max: int = _setting(3, values.number(int, 0, 100))
    """How often a failed run is tried again, where its job does not say."""
    retry_initial: timedelta = _setting("30s", values.duration("0s"))
    """The delay before the first of these retries."""
    retry_multiplier: float = _setting(2.0, values.number(float, 1, 100))
    """Each further delay is that many times the one before."""
    allow_shell: bool = _setting(False, values.flag)
    """Whether this node runs `shell` and `argv`."""
    allow_python: tuple[str, ...] = _setting((), values.modules)
    """Modules whose functions this node may call, beside those of its `--app`."""
    allow_http_hosts: tuple[str, ...] | None = _setting(None, values.hosts)
    """The hosts that jobs and alerts may call: names with `*`, addresses, networks. Unset: all but link-local and
    metadata addresses, which are never called.
    """
    admin_user: str = _setting("admin", values.name("user"))
    """The name of the first admin."""
    admin_password: str | None = _hidden(values.password)
    """The admin's password, at least 8 characters. The API does not start without one of these three."""
    admin_password_file: Path | None = _setting(None, values.folder)
    """A file that has the password."""
    admin_password_hash: str | None = _hidden(values.password_hash)
    """Its argon2id hash."""
    jwt_secret: str | None = _hidden(values.signing_secret)
    """What the API signs access tokens with, at least 32 bytes; the same for every API. It does not start without."""
    secrets_key: tuple[bytes, ...] | None = _hidden(values.sealing_keys)
    """What seals secrets: 32 bytes in base64, the same for the API and all nodes; several with commas, the first one
    seals.
    """
    trusted_proxies: tuple[str, ...] = _setting((), values.networks)
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` the API believes."""
    allow_origins: tuple[str, ...] = _setting((), values.origins)
    """Other origins whose pages may use the API, such as `https://ops.example.com`."""
    spool_dir: Path = field(default_factory=_default_spool_dir, metadata={"read": values.folder})
    """Where a node keeps outcomes that MongoDB did not take; it must outlive the process."""
    pulse_dir: Path | None = _setting(None, values.folder)
    """A folder in which this process says that it is alive and ready, for a container's engine; of its own alone."""
    start_wait: timedelta = _setting("60s", values.duration("0s"))
    """How long a node waits at its start for Redis and MongoDB."""
    drain_timeout: timedelta = _setting("60s", values.duration("0s"))
    """How long what runs may take to end when a node is stopped."""
    log_level: str = _setting("info", values.level)
    """What a process says on its log: `debug`, `info`, `warn` or `error`."""
    log_format: str | None = _setting(None, values.log_format)
    """`text` for people or `json`; unset: text on a terminal, JSON elsewhere."""
    metrics_port: int | None = _setting(None, values.number(int, 0, 65_535))
    """Where nodes serve `/metrics` for Prometheus, and the API in place of its own port; 0 takes a free one."""
    metrics_host: str = _setting("127.0.0.1", values.address)
    """The address that `METRICS_PORT` listens on."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def retry(self) -> Retry:
        """What stands in for a `retry`, or for parts of it, that a person's job leaves out."""
        return Retry(max=self.retry_max, initial=self.retry_initial, multiplier=self.retry_multiplier)


FIELDS: Mapping[str, Field[Any]] = {one.name: one for one in fields(Settings) if "read" in one.metadata}


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Name, value as text and source of every setting, in order; passwords are masked."""
    return [(name.upper(), _value(settings, name), settings.sources.get(name, "default")) for name in FIELDS]


def _value(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    return "***" if value is not None and "hidden" in FIELDS[name].metadata else shown(value)


def shown(value: object) -> str:
    """A value as people read it."""
    match value:
        case None:
            return "unset"
        case bool():
            return "true" if value else "false"
        case timedelta():
            return format_duration(value)
        case time():
            return f"{value:%H:%M}"
        case tuple():
            return ", ".join(value) or "none"
        case str() if "://" in value:
            return values.masked(value)
    return str(value)

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
    """Every setting of this version, in the interface's order; `load_settings` reads them.

    `sources` says per name where the value came from, `notes` what was found and has no effect.
    """

    redis_url: str | None = _setting(
        None,
        values.url("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", example="redis://host:6379/0"),
        shown=False,
    )
    mongo_url: str | None = _setting(
        None, values.url("mongodb", "mongodb+srv", example="mongodb://host:27017/?replicaSet=rs0"), shown=False
    )
    api_url: str | None = _setting(None, values.url("http", "https", example="https://cron.example.com"))
    api_key: str | None = _hidden(values.key)
    api_key_file: Path | None = _setting(None, values.folder)
    api_insecure: bool = _setting(False, values.flag)
    namespace: str = _setting("default", values.name("namespace"))
    node_name: str = field(default_factory=_default_node_name, metadata={"read": values.name("node")})
    leader_ttl: timedelta = _setting("30s", values.duration("1s"))
    leader_renew: timedelta = _setting("15s", values.duration("10ms"))
    failover_check: timedelta = _setting("45s", values.duration("10ms"))
    heartbeat: timedelta = _setting("5s", values.duration("10ms"))
    node_ttl: timedelta = _setting("15s", values.duration("1s"))
    run_lease: timedelta = _setting("45s", values.duration("1s"))
    lock_buffer: timedelta = _setting("5s", values.duration("0s"))
    slots: int = _setting(16, values.number(int, 1, 10_000))
    sweep_at: time = _setting("00:00", values.time_of_day)
    cleanup_at: time = _setting("03:00", values.time_of_day)
    run_retention: timedelta = _setting("30d", values.duration("24h"))
    log_retention: timedelta = _setting("7d", values.duration("1h"))
    log_lines_per_run: int = _setting("10000", values.number(int, 1, 1_000_000))
    retry_max: int = _setting(3, values.number(int, 0, 100))
    retry_initial: timedelta = _setting("30s", values.duration("0s"))
    retry_multiplier: float = _setting(2.0, values.number(float, 1, 100))
    allow_shell: bool = _setting(False, values.flag)
    allow_python: tuple[str, ...] = _setting((), values.modules)
    allow_http_hosts: tuple[str, ...] | None = _setting(None, values.hosts)
    admin_user: str = _setting("admin", values.name("user"))
    admin_password: str | None = _hidden(values.password)
    admin_password_file: Path | None = _setting(None, values.folder)
    admin_password_hash: str | None = _hidden(values.password_hash)
    jwt_secret: str | None = _hidden(values.signing_secret)
    secrets_key: tuple[bytes, ...] | None = _hidden(values.sealing_keys)
    trusted_proxies: tuple[str, ...] = _setting((), values.networks)
    allow_origins: tuple[str, ...] = _setting((), values.origins)
    spool_dir: Path = field(default_factory=_default_spool_dir, metadata={"read": values.folder})
    pulse_dir: Path | None = _setting(None, values.folder)
    start_wait: timedelta = _setting("60s", values.duration("0s"))
    drain_timeout: timedelta = _setting("60s", values.duration("0s"))
    log_level: str = _setting("info", values.level)
    log_format: str | None = _setting(None, values.log_format)
    metrics_port: int | None = _setting(None, values.number(int, 0, 65_535))
    metrics_host: str = _setting("127.0.0.1", values.address)
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
    return "***" if value is not None and "hidden" in FIELDS[name].metadata else _shown(value)


def _shown(value: object) -> str:
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

"""Every setting of this version with its default and reader, and the credentials that the API needs.

Defaults pass the same reader as written values. `sources` reads the environment and files. There is no default password
and no default secret: an API without them reports both at once, before it contacts a server.
"""

# ruff: noqa: RUF009  fields are declared with `_setting`, which is `dataclasses.field` and no default value

from __future__ import annotations

import base64
import os
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import time, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cronflow.config import values
from cronflow.domain.backfill import BackfillRate
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import Retry
from cronflow.domain.single_sign_on import GroupRole

LEADER_RENEW = timedelta(seconds=15)
HEARTBEAT = timedelta(seconds=5)
"""Defaults, where the TTL that they must fit into is long enough."""


def _setting(default: object, read: values.Reader, *, shown: bool = True) -> Any:
    return field(default=None if default is None else read(default), metadata={"read": read}, repr=shown)


def _hidden(read: values.Reader) -> Any:
    """A setting without a default whose value is never shown, not even in errors."""
    return field(default=None, metadata={"read": read, "hidden": True}, repr=False)


def _default_node_name() -> str:
    host = re.sub(r"[^a-z0-9._-]+", "-", socket.gethostname().lower()).lstrip("._-")[:95]
    return f"{host or 'node'}-{secrets.token_hex(2)}"


def _default_spool_dir() -> Path:
    """The XDG state directory of CronFlow."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if Path(state).is_absolute():
        return Path(state) / "cronflow" / "spool"
    try:
        return Path.home() / ".local" / "state" / "cronflow" / "spool"
    except RuntimeError:
        return Path("/var/lib/cronflow/spool")  # A user without a passwd entry has no home directory.


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every setting of this version, read by `load_settings`. The text below a setting is its description in
    `docs/reference/settings.md`.

    `sources` has the source of each value by name; `notes` lists settings that were found but have no effect.
    """

    redis_url: str | None = _setting(
        None,
        values.url("redis", "rediss", "unix", "redis+sentinel", "redis+cluster", example="redis://host:6379/0"),
        shown=False,
    )
    """Redis URL. For Sentinel: `redis+sentinel://host:26379,host:26379/master-name`; for a cluster:
    `redis+cluster://host:6379,host:6379`.
    """
    mongo_url: str | None = _setting(
        None, values.url("mongodb", "mongodb+srv", example="mongodb://host:27017/?replicaSet=rs0"), shown=False
    )
    """MongoDB URL of a replica set."""
    api_url: str | None = _setting(None, values.url("http", "https", example="https://cron.example.com"))
    """API that commands use, with `API_KEY`. Without it and without a login, they use Redis and MongoDB directly."""
    context: str | None = _setting(None, values.name("context"))
    """Saved login that commands use, as `--context`; it comes before `API_URL` and the addresses of the servers."""
    api_key: str | None = _hidden(values.key)
    """API key that commands use."""
    api_key_file: Path | None = _setting(None, values.folder)
    """File with the API key."""
    api_insecure: bool = _setting(False, values.flag)
    """Allow commands to use plain http to another machine."""
    namespace: str = _setting("default", values.name("namespace"))
    """Name of the cluster. Clusters with different namespaces can share Redis and MongoDB."""
    node_name: str = field(default_factory=_default_node_name, metadata={"read": values.name("node")})
    """Name of this node. A second node with the same name is refused while the first one is up."""
    app: tuple[str, ...] = _setting((), values.apps)
    """Apps whose functions this node can run, such as `billing.jobs:app`, as `--app`."""
    labels: tuple[str, ...] = _setting((), values.labels)
    """Labels of this node that jobs can require, such as `region=eu`, as `--label`."""
    leader_ttl: timedelta = _setting("30s", values.duration("1s"))
    """Duration of the leader's lease if it is not renewed; it bounds the time without a leader."""
    leader_renew: timedelta = _setting(None, values.duration("10ms"))
    """Interval at which the leader renews its lease; at most half of `LEADER_TTL`."""
    failover_check: timedelta = _setting("45s", values.duration("10ms"))
    """Longest interval at which a follower checks for a leader; it checks earlier when the lease is about to expire."""
    heartbeat: timedelta = _setting(None, values.duration("10ms"))
    """Interval between two heartbeats of a node; less than half of `NODE_TTL`."""
    node_ttl: timedelta = _setting("15s", values.duration("1s"))
    """Time after the last heartbeat until a node counts as dead."""
    run_lease: timedelta = _setting("45s", values.duration("1s"))
    """Duration of a worker's lease on a run. If it expires, the run moves to another node or is lost."""
    lock_buffer: timedelta = _setting("5s", values.duration("0s"))
    """How much longer than `LEADER_TTL` a job lock lasts if it is not renewed."""
    look_ahead: timedelta = _setting("0s", values.duration("0s", "2s"))
    """How long before its instant a run may be sent to a node, at most `2s`. The node holds it until then, so that it
    starts within milliseconds. Set it on all nodes: the leader's value counts.
    """
    min_nodes: int = _setting(1, values.number(int, 1, 1000))
    """How many nodes must be up before a new cluster gets its first leader. Afterwards fewer keep running, and an event
    reports that nodes are missing. Set it on all nodes.
    """
    slots: int = _setting(16, values.number(int, 1, 10_000))
    """How many runs a node executes concurrently."""
    node_cpu: float | None = _setting(None, values.number(float, 0, 10_000))
    """How many CPUs jobs may reserve on this node with `resources`. Unset: the limit of its cgroup, or those of its
    machine. Set it where several nodes share a machine.
    """
    node_memory: int | None = _setting(None, values.size)
    """How much memory jobs may reserve on this node with `resources`, such as `4GiB`. Unset: as for `NODE_CPU`."""
    processes: int = _setting(1, values.number(int, 1, 256))
    """How many processes of a node run Python functions. 1: the node itself. More: as many handler processes besides
    the node, so that no function can block it, and functions use several CPUs.
    """
    catch_up_rate: BackfillRate | None = _setting(None, values.rate)
    """How fast runs that were missed in an outage start in the whole cluster, such as `100/s` or `600/m`. Unset: as
    fast as slots are free. Set it on all nodes: the leader's value counts.
    """
    recovery_limit: int = _setting(1000, values.number(int, 0, 10_000_000))
    """With more runs missed in an outage than this, they wait for `cronflow cluster recovery approve`; what falls due
    afterwards runs. 0: never wait. Set it on all nodes: the leader's value counts.
    """
    sweep_at: time = _setting("00:00", values.time_of_day)
    """Time of the daily sweep, which checks all records, in UTC."""
    cleanup_at: time = _setting("03:00", values.time_of_day)
    """Time of the daily clean-up, which deletes old records, in UTC."""
    run_retention: timedelta = _setting("30d", values.duration("24h"))
    """How long finished runs and audit entries are kept; the last run of each job is always kept."""
    log_retention: timedelta = _setting("7d", values.duration("1h"))
    """How long log lines and events are kept."""
    log_lines_per_run: int = _setting("10000", values.number(int, 1, 1_000_000))
    """How many log lines are kept per attempt: a fifth for the first ones, the rest for the last ones."""
    timezone: str = _setting("UTC", values.zone)
    """Time zone of schedules that name none, such as `Europe/Berlin`. It is filled in when a job is defined, so
    existing jobs do not change with it.
    """
    retry_max: int = _setting(3, values.number(int, 0, 100))
    """Default number of retries of a failed run."""
    retry_initial: timedelta = _setting("30s", values.duration("0s"))
    """Default delay before the first retry."""
    retry_multiplier: float = _setting(2.0, values.number(float, 1, 100))
    """Default factor by which each further delay grows."""
    allow_shell: bool = _setting(False, values.flag)
    """Allow this node to run `shell` and `argv` jobs. A command runs as the user of the node. So it can read the files
    of this user, including mounted secrets, and connect to Redis and MongoDB: anyone who may change jobs controls the
    cluster, unless commands run as another user, see `ALLOW_RUN_AS`.
    """
    allow_run_as: tuple[str, ...] | None = _setting(None, values.users)
    """Users that commands may run as, on a node that runs as root. If it is set, the node takes no command without
    `run_as`, unless its own user is listed too.
    """
    allow_python: tuple[str, ...] = _setting((), values.modules)
    """Modules whose functions this node may call, in addition to those of its `--app`."""
    simulate_failure: bool = _setting(False, values.flag)
    """For tests: every attempt on this node fails before its handler is called, except those of system jobs. Retries,
    dead letters and alerts follow as after a real failure.
    """
    allow_http_hosts: tuple[str, ...] | None = _setting(None, values.hosts)
    """Hosts that jobs and alerts may call, brokers included: names with `*`, addresses, networks. Unset: all.
    Link-local and metadata addresses are never called.
    """
    http_breaker_failures: int = _setting(5, values.number(int, 1, 1000))
    """Failures in a row of one host after which HTTP jobs do not call it for a while."""
    http_breaker_reset: timedelta = _setting("30s", values.duration("1s", "1d"))
    """How long HTTP jobs do not call it. Their runs wait, without using an attempt; then one request tries the host."""
    admin_user: str = _setting("admin", values.name("user"))
    """User name of the first admin."""
    admin_password: str | None = _hidden(values.password)
    """Password of the admin, at least 8 characters. The API requires exactly one of the three password settings."""
    admin_password_file: Path | None = _setting(None, values.folder)
    """File with the password."""
    admin_password_hash: str | None = _hidden(values.password_hash)
    """Argon2id hash of the password."""
    jwt_secret: str | None = _hidden(values.signing_secret)
    """Secret that signs access tokens, at least 32 bytes, the same for every API. The API requires it."""
    password_login: bool = _setting(True, values.flag)
    """Whether users may log in with passwords. `false`: only the admin from the settings may, and all others log in
    through the identity provider.
    """
    oidc_issuer: str | None = _setting(None, values.issuer)
    """Address of the identity provider for single sign-on, exactly as it names itself, such as
    `https://id.example.com/realms/work`. It requires `OIDC_CLIENT_ID`, `OIDC_ROLES` and `PUBLIC_URL`.
    """
    oidc_client_id: str | None = _setting(None, values.line)
    """The id of CronFlow at the identity provider."""
    oidc_client_secret: str | None = _hidden(values.secret_line)
    """The secret of CronFlow there. Unset, also without the file: CronFlow is a public client."""
    oidc_client_secret_file: Path | None = _setting(None, values.folder, shown=False)
    """File with the secret."""
    oidc_scopes: tuple[str, ...] = _setting("openid, profile, email", values.scopes)
    """Scopes that CronFlow requests from the identity provider. Many providers need `offline_access` for logins that
    last longer than an hour, and some need `groups`.
    """
    oidc_groups_claim: str = _setting("groups", values.line)
    """The claim with the groups of a person, such as `roles` or `realm_access.roles`."""
    oidc_roles: tuple[GroupRole, ...] = _setting((), values.group_roles)
    """The role of each group, such as `cronflow-admins=admin, payroll=editor:payroll-*`. The highest role counts, and
    people in no such group are refused. Editors may have patterns of jobs, separated by spaces, and rights:
    `ops=editor+shell+secrets`.
    """
    oidc_name: str = _setting("single sign-on", values.line)
    """The name on the login button: Sign in with …."""
    secrets_key: tuple[bytes, ...] | None = _hidden(values.sealing_keys)
    """Key that seals secrets: 32 bytes in base64, the same for the API and all nodes. With several keys, separated by
    commas, the first one seals.
    """
    trusted_proxies: tuple[str, ...] = _setting((), values.networks)
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` the API trusts."""
    allow_origins: tuple[str, ...] = _setting((), values.origins)
    """Other origins that may use the API from a browser, such as `https://ops.example.com`."""
    public_url: str | None = _setting(None, values.url("http", "https", example="https://cron.example.com"))
    """The address under which people reach the API and the page."""
    smtp_url: str | None = _setting(
        None, values.url("smtp", "smtps", "smtp+plain", example="smtp://user@mail.example.com:587"), shown=False
    )
    """Mail server for alerts: `smtp://` uses STARTTLS, `smtps://` TLS from the beginning, and `smtp+plain://` neither.
    The server of `smtp://` must offer STARTTLS, unless it is on this machine. Set it on all nodes and APIs.
    """
    smtp_password: str | None = _hidden(values.mail_password)
    """Password of the user in `SMTP_URL`."""
    smtp_password_file: Path | None = _setting(None, values.folder)
    """File with this password."""
    smtp_from: str | None = _setting(None, values.mail_address)
    """Address that e-mail is sent from."""
    spool_dir: Path = field(default_factory=_default_spool_dir, metadata={"read": values.folder})
    """Directory for results that could not be written to MongoDB; it must survive restarts."""
    pulse_dir: Path | None = _setting(None, values.folder)
    """Directory for liveness and readiness files, for container health checks; one per process."""
    start_wait: timedelta = _setting("60s", values.duration("0s"))
    """How long a starting node waits for Redis and MongoDB."""
    drain_timeout: timedelta = _setting("60s", values.duration("0s"))
    """How long running jobs may take to finish when a node stops; it ends at the latest 25 s later."""
    log_level: str = _setting("info", values.level)
    """Log level: `debug`, `info`, `warn` or `error`."""
    log_format: str | None = _setting(None, values.log_format)
    """Log format: `text` or `json`. Unset: text on a terminal, JSON elsewhere."""
    metrics_port: int | None = _setting(None, values.number(int, 0, 65_535))
    """Port on which nodes serve `/metrics` for Prometheus, and the API instead of its own port; 0 picks a free port."""
    metrics_host: str = _setting("127.0.0.1", values.address)
    """Address that `METRICS_PORT` listens on."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        intervals = {
            "leader_renew": min(LEADER_RENEW, self.leader_ttl / 2),
            "heartbeat": min(HEARTBEAT, self.node_ttl / 3),
        }
        for name, interval in intervals.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, interval)

    @property
    def retry(self) -> Retry:
        """Defaults for the retry fields that a job leaves out."""
        return Retry(max=self.retry_max, initial=self.retry_initial, multiplier=self.retry_multiplier)


FIELDS: Mapping[str, Field[Any]] = {one.name: one for one in fields(Settings) if "read" in one.metadata}


def describe(settings: Settings) -> list[tuple[str, str, str]]:
    """Name, value as text and source of every setting, in order; passwords are masked."""
    return [(name.upper(), _value(settings, name), settings.sources.get(name, "default")) for name in FIELDS]


def _value(settings: Settings, name: str) -> str:
    value = getattr(settings, name)
    return "***" if value is not None and "hidden" in FIELDS[name].metadata else shown(value)


def shown(value: object) -> str:
    """The display text of a value."""
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
            return ", ".join(map(str, value)) or "none"
        case str() if "://" in value:
            return values.masked(value)
    return str(value)


_WAYS = ("admin_password", "admin_password_file", "admin_password_hash")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The admin's name and either the password or its hash, and the secret of the access tokens."""

    admin: str
    password: str | None = field(repr=False)
    password_hash: str | None = field(repr=False)
    jwt_secret: str = field(repr=False)


def credentials(settings: Settings) -> Credentials:
    """Raises InvalidInput with everything that is missing or set twice."""
    problems: list[Problem] = []
    ways = [name for name in _WAYS if getattr(settings, name) is not None]
    password = settings.admin_password
    if not ways:
        what = "is not set, and there is no default password"
        remedy = "set it, or CRONFLOW_ADMIN_PASSWORD_FILE, or CRONFLOW_ADMIN_PASSWORD_HASH"
        problems.append(Problem("CRONFLOW_ADMIN_PASSWORD", what, remedy))
    elif len(ways) > 1:
        named = " and ".join(name.upper() for name in ways)
        problems.append(Problem(f"CRONFLOW_{ways[1].upper()}", f"{named} are both set", "remove one of the two"))
    elif settings.admin_password_file is not None:
        try:
            password = _password_in(settings.admin_password_file)
        except InvalidInput as error:
            problems += (Problem("CRONFLOW_ADMIN_PASSWORD_FILE", one.what, one.remedy) for one in error.problems)
    if settings.jwt_secret is None:
        remedy = "make one with `openssl rand -base64 48`; every API needs the same one"
        problems.append(Problem("CRONFLOW_JWT_SECRET", "is not set", remedy))
    if problems or settings.jwt_secret is None:
        raise InvalidInput(problems)
    return Credentials(settings.admin_user, password, settings.admin_password_hash, settings.jwt_secret)


def secrets_of(settings: Settings) -> frozenset[str]:
    """Values that must never be shown: hidden settings, contents of secret files, and passwords in URLs."""
    found: set[str] = set()
    for name, field_ in FIELDS.items():
        value = getattr(settings, name)
        if value is not None and "hidden" in field_.metadata:
            found |= {value} if isinstance(value, str) else {base64.b64encode(key).decode() for key in value}
    files = (
        settings.admin_password_file,
        settings.api_key_file,
        settings.oidc_client_secret_file,
        settings.smtp_password_file,
    )
    for file in files:
        try:
            found.add("" if file is None else file.read_text("utf-8").strip())
        except (OSError, UnicodeDecodeError):
            # An unreadable file cannot leak, and its user reports the problem.
            continue
    for url in filter(None, (settings.redis_url, settings.mongo_url, settings.smtp_url)):
        user = url.partition("://")[2].rpartition("@")[0]
        password = user.partition(":")[2]
        found |= {password, unquote(password)}
    return frozenset(found - {""})


def _password_in(file: Path) -> str:
    return values.password(text_in(file))


def text_in(file: Path) -> str:
    """The text of a file with a secret, without the white space around it. Raises InvalidInput."""
    try:
        return file.read_text("utf-8").strip()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not UTF-8") from None

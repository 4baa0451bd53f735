"""Settings: which source counts, what is understood, and that every problem is told at once where it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import time, timedelta
from pathlib import Path

import pytest

from cronflow.bootstrap.parts import timings
from cronflow.config import (
    Credentials,
    Settings,
    credentials,
    describe,
    load_settings,
    oidc_config,
    remove_settings,
    weaknesses,
)
from cronflow.config.settings import secrets_of
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Retry

NO_FLAGS: Mapping[str, object] = {}
REDIS, MONGO = "redis://host:6379/0", "mongodb://host:27017/?replicaSet=rs0"


def load(folder: Path, flags: Mapping[str, object] = NO_FLAGS, /, **environ: str) -> Settings:
    return load_settings(flags, environ=environ, folder=folder)


def problems_of(folder: Path, flags: Mapping[str, object] = NO_FLAGS, /, **environ: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        load(folder, flags, **environ)
    return [str(problem) for problem in caught.value.problems]


def source(settings: Settings, name: str) -> tuple[str, str]:
    """The value and the source of a setting, as they are shown."""
    return {row[0]: row[1:] for row in describe(settings)}[name]


# ------------------------------------------------------------------------------------------------------------ sources


def test_without_any_source_the_defaults_of_the_interface_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    rows = {name: value for name, value, _ in describe(load(tmp_path))}
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*-[0-9a-f]{4}", rows.pop("NODE_NAME"))
    assert rows == {
        "REDIS_URL": "unset",
        "MONGO_URL": "unset",
        "API_URL": "unset",
        "CONTEXT": "unset",
        "API_KEY": "unset",
        "API_KEY_FILE": "unset",
        "API_INSECURE": "false",
        "NAMESPACE": "default",
        "APP": "none",
        "LABELS": "none",
        "LEADER_TTL": "30s",
        "LEADER_RENEW": "15s",
        "FAILOVER_CHECK": "45s",
        "HEARTBEAT": "5s",
        "NODE_TTL": "15s",
        "RUN_LEASE": "45s",
        "LOCK_BUFFER": "5s",
        "LOOK_AHEAD": "0s",
        "SLOTS": "16",
        "NODE_CPU": "unset",
        "NODE_MEMORY": "unset",
        "PROCESSES": "1",
        "CATCH_UP_RATE": "unset",
        "RECOVERY_LIMIT": "1000",
        "MIN_NODES": "1",
        "SWEEP_AT": "00:00",
        "CLEANUP_AT": "03:00",
        "TIMEZONE": "UTC",
        "RETRY_MAX": "3",
        "RETRY_INITIAL": "30s",
        "RETRY_MULTIPLIER": "2.0",
        "ALLOW_SHELL": "false",
        "ALLOW_RUN_AS": "unset",
        "ALLOW_PYTHON": "none",
        "SIMULATE_FAILURE": "false",
        "ALLOW_HTTP_HOSTS": "unset",
        "HTTP_BREAKER_FAILURES": "5",
        "HTTP_BREAKER_RESET": "30s",
        "ADMIN_USER": "admin",
        "ADMIN_PASSWORD": "unset",
        "ADMIN_PASSWORD_FILE": "unset",
        "ADMIN_PASSWORD_HASH": "unset",
        "JWT_SECRET": "unset",
        "PASSWORD_LOGIN": "true",
        "OIDC_ISSUER": "unset",
        "OIDC_CLIENT_ID": "unset",
        "OIDC_CLIENT_SECRET": "unset",
        "OIDC_CLIENT_SECRET_FILE": "unset",
        "OIDC_SCOPES": "openid, profile, email",
        "OIDC_GROUPS_CLAIM": "groups",
        "OIDC_ROLES": "none",
        "OIDC_NAME": "single sign-on",
        "SECRETS_KEY": "unset",
        "TRUSTED_PROXIES": "none",
        "ALLOW_ORIGINS": "none",
        "PUBLIC_URL": "unset",
        "SMTP_URL": "unset",
        "SMTP_PASSWORD": "unset",
        "SMTP_PASSWORD_FILE": "unset",
        "SMTP_FROM": "unset",
        "SPOOL_DIR": str(tmp_path / "cronflow" / "spool"),
        "PULSE_DIR": "unset",
        "START_WAIT": "1m",
        "DRAIN_TIMEOUT": "1m",
        "RUN_RETENTION": "30d",
        "LOG_RETENTION": "7d",
        "LOG_LINES_PER_RUN": "10000",
        "LOG_LEVEL": "info",
        "LOG_FORMAT": "unset",
        "METRICS_PORT": "unset",
        "METRICS_HOST": "127.0.0.1",
    }


def test_a_nearer_source_wins_over_a_farther_one(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    toml, secret = tmp_path / "cronflow.toml", secrets / "SLOTS"
    layers = [("16", "default")]
    toml.write_text("slots = 1\n")
    layers.append(source(load(tmp_path), "SLOTS"))
    secret.write_text("2\n")
    environ = {"CRONFLOW_SECRETS_DIR": "secrets"}
    layers.append(source(load(tmp_path, **environ), "SLOTS"))
    environ["CRONFLOW_SLOTS"] = "3"
    layers.append(source(load(tmp_path, **environ), "SLOTS"))
    layers.append(source(load(tmp_path, {"slots": 4}, **environ), "SLOTS"))
    assert layers == [
        ("16", "default"),
        ("1", "cronflow.toml"),
        ("2", f"secrets file {secret}"),
        ("3", "environment CRONFLOW_SLOTS"),
        ("4", "flag"),
    ]


def test_a_flag_that_was_not_given_and_an_empty_variable_count_as_unset(tmp_path: Path) -> None:
    assert load(tmp_path, {"slots": None}, CRONFLOW_SLOTS=" ").slots == 16


def test_every_kind_of_value_is_read_from_text(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        CRONFLOW_REDIS_URL=" rediss://:secret@[::1]:6380/1 ",
        CRONFLOW_MONGO_URL="mongodb://user:p%2Fw@one:27017,two/?replicaSet=rs0",
        CRONFLOW_NODE_NAME="node-1",
        CRONFLOW_LEADER_TTL="60",
        CRONFLOW_LEADER_RENEW="2500ms",
        CRONFLOW_RETRY_MULTIPLIER="1.5",
        CRONFLOW_ALLOW_SHELL="Yes",
        CRONFLOW_ALLOW_PYTHON="billing.jobs, reports,",
        CRONFLOW_ALLOW_HTTP_HOSTS="*.example.com,10.0.0.0/8",
        CRONFLOW_LOG_LEVEL="DEBUG",
    )
    assert settings.redis_url == "rediss://:secret@[::1]:6380/1"
    assert settings.mongo_url == "mongodb://user:p%2Fw@one:27017,two/?replicaSet=rs0"
    assert (settings.node_name, settings.log_level) == ("node-1", "debug")
    assert (settings.leader_ttl, settings.leader_renew) == (timedelta(seconds=60), timedelta(seconds=2.5))
    assert (settings.allow_shell, settings.retry_multiplier) == (True, 1.5)
    assert source(settings, "ALLOW_SHELL") == ("true", "environment CRONFLOW_ALLOW_SHELL")
    assert settings.allow_python == ("billing.jobs", "reports")
    assert settings.allow_http_hosts == ("*.example.com", "10.0.0.0/8")


def test_every_kind_of_value_is_read_from_toml(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text(
        'REDIS_URL = "unix:///run/redis.sock"\nleader_renew = 2.5\nallow_shell = true\nallow_python = ["a", "b.c"]\n'
        "retry_multiplier = 3\nallow_http_hosts = []\n"
    )
    settings = load(tmp_path)
    assert settings.redis_url == "unix:///run/redis.sock"
    assert settings.leader_renew == timedelta(seconds=2.5)
    assert (settings.allow_shell, settings.allow_python) == (True, ("a", "b.c"))
    assert (settings.retry_multiplier, settings.allow_http_hosts) == (3.0, ())


def test_another_toml_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text("slots = 1\n")
    (tmp_path / "other.toml").write_text("slots = 2\n")
    assert source(load(tmp_path, CRONFLOW_CONFIG="other.toml"), "SLOTS") == ("2", "other.toml")


def test_the_environment_and_the_working_directory_of_the_process_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cronflow.toml").write_text("retry_max = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRONFLOW_SLOTS", "3")
    settings = load_settings({})
    assert (settings.slots, settings.retry_max) == (3, 1)


def test_secrets_have_upper_or_lower_case_names_and_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mongo_url").write_text(f"{MONGO}\n")
    (tmp_path / "REDIS_URL").write_text(REDIS)
    (tmp_path / "Slots").write_text("many")
    (tmp_path / "tls.key").write_bytes(b"\xff")
    settings = load(tmp_path, CRONFLOW_SECRETS_DIR=str(tmp_path))
    assert (settings.mongo_url, settings.redis_url, settings.slots) == (MONGO, REDIS, 16)


def test_the_default_node_name_is_a_name_whatever_the_host_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host, expected in (("_My Host.local", "my-host.local"), ("ÄÖ", "node"), ("x" * 300, "x" * 95)):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        name, _, digits = load(tmp_path).node_name.rpartition("-")
        assert (name, len(digits)) == (expected, 4)
        load(tmp_path, CRONFLOW_NODE_NAME=f"{name}-{digits}")


def test_apps_and_labels_are_words_or_a_table(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text('app = ["a.b:app", "c:shop"]\nlabels = {region = "eu", disk = ""}\n')
    settings = load(tmp_path)
    assert (settings.app, settings.labels) == (("a.b:app", "c:shop"), ("region=eu", "disk="))
    settings = load(tmp_path, CRONFLOW_APP="x:y", CRONFLOW_LABELS="region=us, gpu=h100")
    assert (settings.app, settings.labels) == (("x:y",), ("region=us", "gpu=h100"))
    with pytest.raises(InvalidInput) as refused:
        load(tmp_path, CRONFLOW_APP="x", CRONFLOW_LABELS="eu,a=1,a=2")
    assert [str(problem) for problem in refused.value.problems] == [
        "CRONFLOW_APP: 'x' is not the address of an App; write package.module:app",
        "CRONFLOW_LABELS: 'eu' is not KEY=VALUE (write region=eu)",
        "CRONFLOW_LABELS: a is given twice (remove one of the two)",
    ]


# --------------------------------------------------------------------------------------------------------- older names


def test_the_older_names_work(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        CRON_MAX_RETRIES="5",
        CRON_RETRY_DELAY_MS="10000",
        CRON_RETRY_DELAY_MULTIPLIER="1.5",
        DB_URL=MONGO,
        SIMULATE_FAILURE="true",
    )
    assert settings.simulate_failure
    assert settings.retry == Retry(max=5, initial="10s", multiplier=1.5)
    assert source(settings, "MONGO_URL") == (MONGO, "environment DB_URL")
    assert settings.notes == ()


def test_the_newer_name_wins_and_the_older_one_is_noted(tmp_path: Path) -> None:
    settings = load(tmp_path, CRON_MAX_RETRIES="5", CRONFLOW_RETRY_MAX="1")
    assert settings.retry_max == 1
    assert settings.notes == ("CRON_MAX_RETRIES has no effect: CRONFLOW_RETRY_MAX is set too",)


def test_an_older_name_works_in_the_secrets_folder(tmp_path: Path) -> None:
    (tmp_path / "DB_URL").write_text(MONGO)
    assert load(tmp_path, CRONFLOW_SECRETS_DIR=str(tmp_path)).mongo_url == MONGO


def test_the_database_of_another_program_is_noted_and_left_alone(tmp_path: Path) -> None:
    settings = load(tmp_path, DB_URL="postgres://u:p@host/db")
    assert settings.mongo_url is None
    assert settings.notes == ("DB_URL has no effect: it is not the address of a MongoDB server",)


def test_the_older_role_of_a_process_is_refused(tmp_path: Path) -> None:
    [problem] = problems_of(tmp_path, SCHEDULER_NODE="master")
    assert problem.startswith("SCHEDULER_NODE: is not supported by this version: every node can lead")
    assert problem.endswith("(remove it; CRONFLOW_NODE_NAME names a node)")


def test_a_wrong_value_under_an_older_name_is_reported_under_that_name(tmp_path: Path) -> None:
    assert problems_of(tmp_path, CRON_RETRY_DELAY_MS="soon") == [
        "CRON_RETRY_DELAY_MS: 'soon' is not a duration; write 500ms, 30s, 5m, 2h or 1d"
    ]


# ------------------------------------------------------------------------------------------------------------ problems


def test_all_problems_of_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text("# mine\nslots = 0\nleader_tll = 5\n")
    found = problems_of(
        tmp_path, {"node_name": "A"}, CRONFLOW_RETRY_MAX="many", CRONFLOW_HEARTBEAT="10s", CRONFLOW_SLOT="3"
    )
    assert sorted(problem.split(": ")[0] for problem in found) == [
        "--name",
        "CRONFLOW_HEARTBEAT",
        "CRONFLOW_RETRY_MAX",
        "CRONFLOW_SLOT",
        "cronflow.toml:2",
        "cronflow.toml:3",
    ]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (
            "REDIS_URL",
            "http://u:secret@h",
            (
                "expected an address that begins with redis://, "
                "rediss://, unix://, redis+sentinel:// or redis+cluster://, got http://"
                " (write it like redis://host:6379/0)"
            ),
        ),
        (
            "REDIS_URL",
            "u:secret@h",
            (
                "expected an address that begins with redis://, "
                "rediss://, unix://, redis+sentinel:// or redis+cluster://, got something else"
                " (write it like redis://host:6379/0)"
            ),
        ),
        (
            "REDIS_URL",
            "redis://:sec/ret@h",
            (
                "the redis:// address has no host, or one that cannot be read (write it like redis://host:6379/0;"
                " in a password, write / as %2F, ? as %3F, # as %23 and @ as %40)"
            ),
        ),
        (
            "REDIS_URL",
            "redis://one,two",
            (
                "the redis:// address has no host, or one that cannot be read (write it like redis://host:6379/0;"
                " in a password, write / as %2F, ? as %3F, # as %23 and @ as %40)"
            ),
        ),
        (
            "MONGO_URL",
            "mongodb://host:port",
            (
                "the mongodb:// address has no host, or one that cannot be read (write it like"
                " mongodb://host:27017/?replicaSet=rs0; in a password, write / as %2F, ? as %3F, # as %23 and @ as %40)"
            ),
        ),
        (
            "NAMESPACE",
            "a b",
            "'a b' is not a namespace name; use 1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit",
        ),
        (
            "NODE_NAME",
            "node#1",
            "'node#1' is not a node name; use 1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit",
        ),
        ("LEADER_TTL", "half a minute", "'half a minute' is not a duration; write 500ms, 30s, 5m, 2h or 1d"),
        ("LEADER_TTL", "-5", "-5.0 is a negative duration; it must be zero or more"),
        ("NODE_TTL", "999ms", "999ms is too short; it must be at least 1s"),
        ("LOOK_AHEAD", "2001ms", "2001ms is too long; it must be at most 2s"),
        ("RUN_RETENTION", "23h", "23h is too short; it must be at least 24h"),
        ("SWEEP_AT", "24:00", "expected a time of day, got the text '24:00' (write it like \"03:00\", in UTC)"),
        ("CLEANUP_AT", "3am", "expected a time of day, got the text '3am' (write it like \"03:00\", in UTC)"),
        ("TIMEZONE", "Europe/Berlim", "there is no time zone 'Europe/Berlim' (did you mean Europe/Berlin?)"),
        ("SLOTS", "2.5", "expected a whole number from 1 to 10000, got the text '2.5'"),
        ("RETRY_MAX", "101", "expected a whole number from 0 to 100, got the text '101'"),
        ("RETRY_MULTIPLIER", "nan", "expected a number from 1 to 100, got the text 'nan'"),
        ("ALLOW_SHELL", "maybe", "expected true or false, got the text 'maybe'"),
        ("ALLOW_PYTHON", "billing:jobs", "'billing:jobs' is not a module (write names such as billing.jobs)"),
        (
            "ALLOW_HTTP_HOSTS",
            "https://example.com",
            "'https://example.com' is not a host (write names such as *.example.com, or networks such as 10.0.0.0/8)",
        ),
        ("LOG_FORMAT", "xml", "expected text or json, got the text 'xml'"),
        ("METRICS_PORT", "70000", "expected a whole number from 0 to 65535, got the text '70000'"),
        (
            "METRICS_HOST",
            "everywhere",
            (
                "expected an IP address, got the text 'everywhere'"
                " (write 127.0.0.1 for this machine alone, 0.0.0.0 for all that reach it)"
            ),
        ),
        ("LOG_LEVEL", "loud", "expected debug, info, warn or error, got the text 'loud'"),
    ],
)
def test_a_wrong_value_is_refused_at_its_variable(tmp_path: Path, name: str, value: str, problem: str) -> None:
    found = problems_of(tmp_path, **{f"CRONFLOW_{name}": value})
    assert found == [f"CRONFLOW_{name}: {problem}"]
    assert "secret" not in found[0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("leader_ttl = [30]", "leader_ttl: expected a duration such as 30s, got a list"),
        (f"leader_ttl = {10**400}", "leader_ttl: expected a duration such as 30s, got a number that is too large"),
        (
            f"retry_multiplier = {10**400}",
            "retry_multiplier: expected a number from 1 to 100, got a number that is too large",
        ),
        (
            "redis_url = 5",
            (
                "redis_url: expected an address that begins with redis://, "
                "rediss://, unix://, redis+sentinel:// or redis+cluster://, got the number 5"
                " (write it like redis://host:6379/0)"
            ),
        ),
        ("slots = true", "slots: expected a whole number from 1 to 10000, got true"),
        ("allow_shell = 1", "allow_shell: expected true or false, got the number 1"),
        ("allow_python = [1]", "allow_python: expected words separated by commas, got a list"),
        ("node_name = 5", "node_name: expected a node name, got the number 5"),
        ("log_level = 5", "log_level: expected debug, info, warn or error, got the number 5"),
        ("redis_urls = 5", "redis_urls: unknown setting (did you mean redis_url?)"),
        ("db_url = 5", "db_url: unknown setting (did you mean mongo_url?)"),
        ("xyz = 5", "xyz: unknown setting (remove it)"),
    ],
)
def test_a_wrong_line_of_the_toml_file_is_refused_with_its_number(tmp_path: Path, line: str, problem: str) -> None:
    (tmp_path / "cronflow.toml").write_text(f"# settings\n\n{line}\n")
    assert problems_of(tmp_path) == [f"cronflow.toml:3: {problem}"]


def test_a_problem_without_a_known_line_is_reported_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text('"slots" = 0\n')
    assert problems_of(tmp_path) == ["cronflow.toml: slots: expected a whole number from 1 to 10000, got the number 0"]


def test_a_toml_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").mkdir()
    assert problems_of(tmp_path) == [f"cronflow.toml: {tmp_path}/cronflow.toml cannot be read: Is a directory"]


def test_invalid_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text("slots: 5\n")
    [problem] = problems_of(tmp_path)
    assert re.fullmatch(r"cronflow\.toml: not TOML: Expected '=' after a key .* \(at line 1, column 6\)", problem)


def test_a_named_file_or_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert problems_of(tmp_path, CRONFLOW_CONFIG="nope.toml", CRONFLOW_SECRETS_DIR="nope") == [
        f"CRONFLOW_SECRETS_DIR: {tmp_path}/nope cannot be read: No such file or directory",
        f"CRONFLOW_CONFIG: {tmp_path}/nope.toml cannot be read: No such file or directory",
    ]


def test_a_secret_that_is_not_text_or_too_large_is_refused(tmp_path: Path) -> None:
    (tmp_path / "MONGO_URL").write_bytes(b"\xff")
    (tmp_path / "REDIS_URL").write_bytes(b"x" * 65_537)
    (tmp_path / "SLOTS").write_bytes(b" " * 65_535 + b"5")
    assert problems_of(tmp_path, CRONFLOW_SECRETS_DIR=str(tmp_path)) == [
        f"{tmp_path}/MONGO_URL: {tmp_path}/MONGO_URL is not UTF-8",
        f"{tmp_path}/REDIS_URL: {tmp_path}/REDIS_URL is larger than 64 KiB",
    ]


def test_an_unknown_variable_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path, CRONFLOW_LEADER_TLL="30s", CRONFLOW_slots="3", CRONFLOW_DB_URL=MONGO, CRONFLOW_XYZ="1"
    )
    assert found == [
        "CRONFLOW_LEADER_TLL: unknown setting (did you mean CRONFLOW_LEADER_TTL?)",
        "CRONFLOW_slots: unknown setting (did you mean CRONFLOW_SLOTS?)",
        "CRONFLOW_DB_URL: unknown setting (did you mean CRONFLOW_MONGO_URL?)",
        "CRONFLOW_XYZ: unknown setting (remove it)",
    ]


def test_what_a_job_finds_in_its_environment_is_no_setting(tmp_path: Path) -> None:
    settings = load(tmp_path, CRONFLOW_RUN_ID="a@b", CRONFLOW_JOB="a", CRONFLOW_FENCE="1", CRONFLOW_SHARD_INDEX="1")
    assert settings.notes == ()


def test_a_time_of_day_is_read_from_text_and_from_toml(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text("cleanup_at = 04:30:00\n")
    settings = load(tmp_path, CRONFLOW_SWEEP_AT=" 23:59 ")
    assert (settings.sweep_at, settings.cleanup_at) == (time(23, 59), time(4, 30))
    (tmp_path / "cronflow.toml").write_text("cleanup_at = 04:30:01\n")
    assert "expected a time of day" in problems_of(tmp_path)[0]


def test_a_setting_that_nothing_would_follow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cronflow.toml").write_text("scheduler_node = true\n")
    refused = "is not supported by this version"
    instead = "every node can lead (remove it; CRONFLOW_NODE_NAME names a node)"
    assert problems_of(tmp_path, CRONFLOW_SCHEDULER_NODE="1") == [
        f"CRONFLOW_SCHEDULER_NODE: {refused}: {instead}",
        f"cronflow.toml:1: scheduler_node: {refused}: {instead}",
    ]


def test_a_flag_that_is_no_setting_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^no settings: slot$"):
        load(tmp_path, {"slot": 3})


# ------------------------------------------------------------------------------------------------- what fits together


def test_the_renewal_must_fit_twice_into_the_leaders_ttl(tmp_path: Path) -> None:
    assert load(tmp_path, CRONFLOW_LEADER_TTL="10s", CRONFLOW_LEADER_RENEW="5s").leader_renew == timedelta(seconds=5)
    assert problems_of(tmp_path, CRONFLOW_LEADER_TTL="10s", CRONFLOW_LEADER_RENEW="6s") == [
        (
            "CRONFLOW_LEADER_RENEW: LEADER_RENEW is 6s and LEADER_TTL is 10s (LEADER_RENEW must be at most half of"
            " LEADER_TTL, 5s)"
        )
    ]
    assert problems_of(tmp_path, {"leader_renew": "16s"}) == [
        (
            "--leader-renew: LEADER_RENEW is 16s and LEADER_TTL is 30s (LEADER_RENEW must be at most half of"
            " LEADER_TTL, 15s)"
        )
    ]


@pytest.mark.parametrize(("ttl", "renew"), [("60s", 15), ("30s", 15), ("9s", 4.5), ("1s", 0.5)])
def test_by_default_the_renewal_fits_twice_into_the_leaders_ttl(tmp_path: Path, ttl: str, renew: float) -> None:
    settings = load(tmp_path, CRONFLOW_LEADER_TTL=ttl)
    assert settings.leader_renew == timedelta(seconds=renew)
    assert source(settings, "LEADER_RENEW") == (format_duration(settings.leader_renew), "default")
    assert timings(settings).leader_ttl == settings.leader_ttl.total_seconds()


@pytest.mark.parametrize(("ttl", "heartbeat"), [("60s", 5), ("15s", 5), ("3s", 1)])
def test_by_default_the_heartbeat_fits_three_times_into_the_nodes_ttl(
    tmp_path: Path, ttl: str, heartbeat: float
) -> None:
    settings = load(tmp_path, CRONFLOW_NODE_TTL=ttl)
    assert settings.heartbeat == timedelta(seconds=heartbeat)
    assert timings(settings).node_ttl == settings.node_ttl.total_seconds()


def test_the_heartbeat_must_be_less_than_half_of_the_nodes_ttl(tmp_path: Path) -> None:
    assert load(tmp_path, CRONFLOW_HEARTBEAT="7s").heartbeat == timedelta(seconds=7)
    assert problems_of(tmp_path, CRONFLOW_HEARTBEAT="7500ms") == [
        (
            "CRONFLOW_HEARTBEAT: HEARTBEAT is 7500ms and NODE_TTL is 15s (HEARTBEAT must be less than half of NODE_TTL,"
            " 7500ms)"
        )
    ]


def test_the_shortest_times_are_taken(tmp_path: Path) -> None:
    settings = load(tmp_path, CRONFLOW_LEADER_TTL="1s", CRONFLOW_LEADER_RENEW="10ms", CRONFLOW_RUN_LEASE="1")
    assert (settings.leader_ttl, settings.run_lease) == (timedelta(seconds=1), timedelta(seconds=1))


def test_a_setting_that_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    assert problems_of(tmp_path, CRONFLOW_LEADER_TTL="x", CRONFLOW_LEADER_RENEW="1h") == [
        "CRONFLOW_LEADER_TTL: 'x' is not a duration; write 500ms, 30s, 5m, 2h or 1d"
    ]


# ------------------------------------------------------------------------------------------------------------- showing


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:secret@host", "redis://:***@host"),
        ("redis://user:secret@host/0?password=secret&db=1", "redis://user:***@host/0?password=***&db=1"),
        ("redis://user:se:cret@sec@ret@host", "redis://user:***@host"),
    ],
)
def test_passwords_in_addresses_are_never_shown(tmp_path: Path, url: str, shown: str) -> None:
    settings = load(tmp_path, CRONFLOW_REDIS_URL=url)
    assert source(settings, "REDIS_URL") == (shown, "environment CRONFLOW_REDIS_URL")
    assert "secret" not in repr(settings)


def test_the_options_of_a_mongodb_address_are_masked_too(tmp_path: Path) -> None:
    url = (
        "mongodb://u:secret@a,b/?tlsCertificateKeyFilePassword=secret&authMechanismProperties=AWS_SESSION_TOKEN:secret"
    )
    shown, _ = source(load(tmp_path, CRONFLOW_MONGO_URL=url), "MONGO_URL")
    assert shown == "mongodb://u:***@a,b/?tlsCertificateKeyFilePassword=***&authMechanismProperties=***"


def test_the_spool_lies_where_programs_keep_their_state_and_never_below_where_they_were_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    assert load(tmp_path).spool_dir == Path("/home/ada/.local/state/cronflow/spool")
    assert load(tmp_path, CRONFLOW_SPOOL_DIR="~/spool").spool_dir == Path("/home/ada/spool")
    assert problems_of(tmp_path, CRONFLOW_SPOOL_DIR="spool") == [
        "CRONFLOW_SPOOL_DIR: spool is not an absolute path (write one that begins with / or ~)"
    ]


# --------------------------------------------------------------------------------------------------------- credentials

SECRET = "a secret of the tests that is long enough"
HASH = "$argon2id$v=19$m=65536,t=3,p=4$MDEyMzQ1Njc4OWFi$bWFkZSB1cCBhbmQgbm9ib2R5J3M"
SEALING = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


def test_nothing_that_logs_in_is_shown_in_a_listing_or_an_error(tmp_path: Path) -> None:
    settings = load(
        tmp_path, CRONFLOW_ADMIN_PASSWORD="hunter-two", CRONFLOW_JWT_SECRET=SECRET, CRONFLOW_SECRETS_KEY=SEALING
    )
    for name in ("ADMIN_PASSWORD", "JWT_SECRET", "SECRETS_KEY"):
        assert source(settings, name) == ("***", f"environment CRONFLOW_{name}")
    assert not any(word in repr(settings) for word in ("hunter", "tests that", "0123456789"))
    told = problems_of(
        tmp_path,
        CRONFLOW_ADMIN_PASSWORD="hunter2",
        CRONFLOW_JWT_SECRET="hunter3",
        CRONFLOW_SECRETS_KEY="hunter4",
        CRONFLOW_ADMIN_PASSWORD_HASH="hunter5",
    )
    assert len(told) == 4
    assert not any("hunter" in problem for problem in told)


def test_a_signing_secret_of_31_bytes_is_refused_and_one_of_32_is_not(tmp_path: Path) -> None:
    assert "has 31 bytes; it must have at least 32" in problems_of(tmp_path, CRONFLOW_JWT_SECRET="x" * 31)[0]
    assert load(tmp_path, CRONFLOW_JWT_SECRET="x" * 32).jwt_secret == "x" * 32


def test_sealing_keys_are_a_list_and_each_has_32_bytes(tmp_path: Path) -> None:
    keys = load(tmp_path, CRONFLOW_SECRETS_KEY=f"{SEALING}, {SEALING}").secrets_key
    assert keys == (b"01234567890123456789012345678901",) * 2
    for wrong in ("c2hvcnQ=", f"{SEALING},c2hvcnQ=", "not base64!", ","):
        assert "32 bytes in base64" in problems_of(tmp_path, CRONFLOW_SECRETS_KEY=wrong)[0]


@pytest.mark.parametrize("origin", ["*", "https://*", "ops.example.com", "https://ops.example.com/"])
def test_an_origin_is_named_whole(tmp_path: Path, origin: str) -> None:
    assert "is not an origin" in problems_of(tmp_path, CRONFLOW_ALLOW_ORIGINS=origin)[0]


def test_a_trusted_proxy_is_an_address_or_a_network(tmp_path: Path) -> None:
    assert load(tmp_path, CRONFLOW_TRUSTED_PROXIES="10.0.0.0/8, ::1").trusted_proxies == ("10.0.0.0/8", "::1")
    assert "10.0.0.0/8" in problems_of(tmp_path, CRONFLOW_TRUSTED_PROXIES="10.1.0.0/8")[0]
    assert problems_of(tmp_path, CRONFLOW_TRUSTED_PROXIES="*")


def credentials_problems(settings: Settings) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        credentials(settings)
    return [problem.place for problem in caught.value.problems]


def test_without_an_admin_and_a_signing_secret_no_api_starts(tmp_path: Path) -> None:
    assert credentials_problems(load(tmp_path)) == ["CRONFLOW_ADMIN_PASSWORD", "CRONFLOW_JWT_SECRET"]
    assert credentials_problems(load(tmp_path, CRONFLOW_ADMIN_PASSWORD_HASH=HASH)) == ["CRONFLOW_JWT_SECRET"]


def test_a_password_comes_from_one_place(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("correct horse\n")
    read = credentials(load(tmp_path, CRONFLOW_ADMIN_PASSWORD_FILE=str(file), CRONFLOW_JWT_SECRET=SECRET))
    assert (read.admin, read.password, read.password_hash) == ("admin", "correct horse", None)
    assert "correct" not in repr(read)
    both = load(
        tmp_path,
        CRONFLOW_ADMIN_PASSWORD_FILE=str(file),
        CRONFLOW_ADMIN_PASSWORD="correct horse",
        CRONFLOW_JWT_SECRET=SECRET,
    )
    assert credentials_problems(both) == ["CRONFLOW_ADMIN_PASSWORD_FILE"]
    for content in ("short", ""):
        file.write_text(content)
        short = load(tmp_path, CRONFLOW_ADMIN_PASSWORD_FILE=str(file), CRONFLOW_JWT_SECRET=SECRET)
        assert credentials_problems(short) == ["CRONFLOW_ADMIN_PASSWORD_FILE"]


OIDC = {
    "CRONFLOW_OIDC_ISSUER": "https://id.example.com/realms/work",
    "CRONFLOW_OIDC_CLIENT_ID": "cronflow",
    "CRONFLOW_OIDC_ROLES": "admins=admin, payroll=editor:payroll-*",
    "CRONFLOW_PUBLIC_URL": "https://cron.example.com/",
}


def test_single_sign_on_needs_all_its_settings_and_shows_no_secret(tmp_path: Path) -> None:
    assert oidc_config(load(tmp_path)) is None
    (tmp_path / "secret").write_text("geheim\n")
    read = load(tmp_path, **OIDC, CRONFLOW_OIDC_CLIENT_SECRET_FILE=str(tmp_path / "secret"))
    found = oidc_config(read)
    assert found is not None
    assert (found.issuer, found.secret) == (OIDC["CRONFLOW_OIDC_ISSUER"], "geheim")
    assert found.public_url == "https://cron.example.com"
    assert [str(one) for one in found.roles] == ["admins=admin", "payroll=editor:payroll-*"]
    assert "geheim" not in repr(found)
    assert "geheim" in secrets_of(read)
    shown = source(load(tmp_path, **OIDC, CRONFLOW_OIDC_CLIENT_SECRET="geheim"), "OIDC_CLIENT_SECRET")
    assert shown[0] == "***"


@pytest.mark.parametrize(
    ("changed", "places"),
    [
        ({"OIDC_ISSUER": ""}, ["OIDC_CLIENT_ID", "OIDC_ROLES"]),
        ({"OIDC_CLIENT_ID": "", "OIDC_ROLES": "", "PUBLIC_URL": ""}, ["OIDC_CLIENT_ID", "PUBLIC_URL", "OIDC_ROLES"]),
        ({"PUBLIC_URL": "https://example.com/cron"}, ["PUBLIC_URL"]),
        ({"OIDC_CLIENT_SECRET": "x", "OIDC_CLIENT_SECRET_FILE": "/x"}, ["OIDC_CLIENT_SECRET_FILE"]),
        ({"OIDC_CLIENT_SECRET_FILE": "/nowhere"}, ["OIDC_CLIENT_SECRET_FILE"]),
    ],
    ids=str,
)
def test_what_is_missing_for_single_sign_on_is_reported_at_once(
    tmp_path: Path, changed: dict[str, str], places: list[str]
) -> None:
    given = OIDC | {f"CRONFLOW_{name}": value for name, value in changed.items()}
    with pytest.raises(InvalidInput) as caught:
        oidc_config(load(tmp_path, **given))
    assert [one.place.removeprefix("CRONFLOW_") for one in caught.value.problems] == places


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OIDC_ISSUER", "http://id.example.com", "must use https"),
        ("OIDC_ISSUER", "https://id.example.com?x=1", "no user, query or fragment"),
        ("OIDC_SCOPES", 'openid "x"', "is not a scope"),
        ("OIDC_ROLES", "admins=boss, x", "does not give a group one of the roles"),
    ],
)
def test_a_setting_of_single_sign_on_that_cannot_be_right_is_refused(
    tmp_path: Path, name: str, value: str, message: str
) -> None:
    assert message in problems_of(tmp_path, **{f"CRONFLOW_{name}": value})[0]
    assert load(tmp_path, CRONFLOW_OIDC_ISSUER="http://127.0.0.1:9000").oidc_issuer == "http://127.0.0.1:9000"


def test_the_settings_leave_the_environment_and_all_else_stays() -> None:
    environ = {
        "CRONFLOW_SECRETS_KEY": "k",
        "CRONFLOW_MONGO_URL": "m",
        "CRONFLOW_SECRETS_DIR": "d",
        "DB_URL": "mongodb://h",
        "CRONFLOW_TEST_MONGO_URL": "t",
        "AWS_REGION": "eu",
        "PATH": "p",
    }
    remove_settings(environ)
    own = {"DB_URL": "postgres://h"}
    remove_settings(own)
    assert own == {"DB_URL": "postgres://h"}
    assert environ == {"CRONFLOW_TEST_MONGO_URL": "t", "AWS_REGION": "eu", "PATH": "p"}


@pytest.mark.parametrize(
    ("password", "secret", "weak"),
    [
        ("s9-Kf4+mQ2xT", "Zb0r5hV1yq8TzK3nLw7XcDfGjPmQsUaE", []),
        (None, "Zb0r5hV1yq8TzK3nLw7XcDfGjPmQsUaE", []),
        ("s9-Kf4+m", "Zb0r5hV1yq8TzK3nLw7XcDfGjPmQsUaE", ["ADMIN_PASSWORD"]),
        ("aaaaaaaaaaaaaaa", "Zb0r5hV1yq8TzK3nLw7XcDfGjPmQsUaE", ["ADMIN_PASSWORD"]),
        ("cronflow-Password1!", "Zb0r5hV1yq8TzK3nLw7XcDfGjPmQsUaE", ["ADMIN_PASSWORD"]),
        ("grace-1234567", "Zb0r5hV1yq8TzK3nLw7XcDfGjPmQsUaE", ["ADMIN_PASSWORD"]),
        ("correct horse battery", "x" * 64, ["JWT_SECRET"]),
        ("correct horse battery", "change-me-change-me-change-me-change-me", ["JWT_SECRET"]),
        ("correct horse battery", "0123456789" * 4, []),
        ("password", "secret" * 10, ["ADMIN_PASSWORD", "JWT_SECRET"]),
    ],
)
def test_weak_credentials_are_found_and_not_shown(password: str | None, secret: str, weak: list[str]) -> None:
    found = weaknesses(Credentials("grace", password, None if password else "$argon2id$", secret))
    assert [one.place for one in found] == weak
    assert not any(value in str(one) for one in found for value in (password, secret) if value)

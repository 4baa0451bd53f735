"""Each kind of secret is masked in the log, in events and in lines of libraries."""

from __future__ import annotations

import base64
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import structlog

from cronflow.cli.process_log import MASK, SHORTEST, LogFormat, Masking, configure, log_of
from cronflow.config import Settings
from cronflow.config.settings import FIELDS, secrets_of

KEY = bytes(range(32))
SETTINGS = Settings(
    redis_url="rediss://app:redis%21pass@cache.internal:6380/0",
    mongo_url="mongodb://app:mongo-pass@db1:27017,db2:27017/?replicaSet=rs0",
    api_key="cfk.deploy.aBcDeFgHiJkLmNoP",
    admin_password="correct horse battery",
    admin_password_hash="$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2g",
    jwt_secret="of-thirty-two-bytes-or-some-more",
    secrets_key=(KEY,),
    oidc_client_secret="of-the-identity-provider",
    smtp_password="of-the-mail-server",
)
SEALING = base64.b64encode(KEY).decode()
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJlLW9mLWl0"

KINDS = {
    "redis password": ("cannot connect to {}", "redis!pass"),
    "redis url": ("cannot connect to {}", "rediss://app:redis%21pass@cache.internal:6380/0"),
    "mongo url": ("cannot connect to {}", "mongodb://app:mongo-pass@db1:27017,db2:27017/?replicaSet=rs0"),
    "url of somebody else": ("asking {}", "https://eve:s3cret-of-eve@example.com/x"),
    "redis url without a user": ("at {}", "redis://:only-a-pass@host:6379"),
    "option of a url": ("at {}", "mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:abcdefgh"),
    "api key of the settings": ("with {}", "cfk.deploy.aBcDeFgHiJkLmNoP"),
    "api key of somebody else": ("with {}", "cfk.other-key.QrStUvWxYz012345"),
    "admin password": ("tried {}", "correct horse battery"),
    "hash": ("stored {}", "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaGhhc2g"),
    "signing secret": ("signed by {}", "of-thirty-two-bytes-or-some-more"),
    "sealing key": ("sealed by {}", SEALING),
    "access token": ("of {}", JWT),
    "bearer": ("sent Bearer {}", "opaque-token-1234567890"),
    "header": ("sent Authorization: {}", "Basic YWRtaW46cGFzc3dvcmQ="),
    "headers": ("sent {{'Authorization': '{}', 'Accept': 'x'}}", "Digest username=admin"),
}
LEAKS = {
    "rediss://app:redis%21pass@cache.internal:6380/0": "redis%21pass",
    "mongodb://app:mongo-pass@db1:27017,db2:27017/?replicaSet=rs0": "mongo-pass",
    "https://eve:s3cret-of-eve@example.com/x": "s3cret-of-eve",
    "redis://:only-a-pass@host:6379": "only-a-pass",
    "mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:abcdefgh": "abcdefgh",
    "cfk.deploy.aBcDeFgHiJkLmNoP": "aBcDeFgHiJkLmNoP",
    "cfk.other-key.QrStUvWxYz012345": "QrStUvWxYz012345",
}


def by_event(text: str) -> None:
    structlog.get_logger("x").warning(text)


def by_field(text: str) -> None:
    structlog.get_logger("x").warning("it happened", reason=text)


def by_depth(text: str) -> None:
    structlog.get_logger("x").warning("it happened", tried=[{"with": (text,)}], because=ValueError(text))


def by_name_of_a_field(text: str) -> None:
    structlog.get_logger("x").warning("it happened", given={text: 1})


def by_traceback(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        structlog.get_logger("x").exception("it broke")


def by_library(text: str) -> None:
    logging.getLogger("redis").warning("trouble: %s", text)


def by_traceback_of_a_library(text: str) -> None:
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("uvicorn.error").exception("it broke")


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize(
    "way",
    [by_event, by_field, by_depth, by_name_of_a_field, by_traceback, by_library, by_traceback_of_a_library],
    ids=lambda way: way.__name__,
)
def test_no_kind_of_secret_is_logged(
    form: LogFormat, way: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    configure("info", form, secrets=secrets_of(SETTINGS))
    for kind, (text, secret) in KINDS.items():
        way(text.format(secret))
        shown = capsys.readouterr().err
        assert MASK in shown, kind
        assert LEAKS.get(secret, secret) not in shown, kind


def test_a_field_named_like_a_secret_is_masked_unless_it_is_a_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("info", LogFormat.JSON)
    structlog.get_logger("x").info(
        "asked",
        password="x",
        api_key="y",
        Authorization=b"z",
        tokens=5,
        secret=None,
        cookie=["w"],
        nested={"client_secret": "v", "fine": "u"},
    )
    found = orjson.loads(capsys.readouterr().err)
    assert (found["password"], found["api_key"], found["Authorization"], found["cookie"]) == (MASK,) * 4
    assert (found["tokens"], found["secret"]) == (5, None)
    assert found["nested"] == {"client_secret": MASK, "fine": "u"}


def test_other_values_are_not_masked() -> None:
    event = {
        "event": "not pushed, at redis://cache:6379/0 and http://[::1]:80/a?b=c@d",
        "run": "nightly-report@20261121T020000Z",
        "term": 7,
        "left": 1.5,
        "basic": "basic needs",
    }
    assert Masking(frozenset({"x" * (SHORTEST - 1)}))(None, "", dict(event)) == event


def test_a_secret_that_begins_with_another_is_masked_to_its_end() -> None:
    assert Masking({"first", "first-and-more"})(None, "", {"event": "of first-and-more"}) == {"event": "of ***"}


def test_secrets_from_files_are_masked(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    settings = Settings(admin_password_file=tmp_path / "password", api_key_file=tmp_path / "gone")
    assert secrets_of(settings) == {"from a file"}


def test_every_hidden_setting_is_among_the_secrets() -> None:
    hidden = [name for name, one in FIELDS.items() if "hidden" in one.metadata]
    assert len(hidden) == 7
    for name in hidden:
        assert secrets_of(Settings(**{name: getattr(SETTINGS, name)})), name


def test_without_a_terminal_lines_are_json_with_the_name_of_the_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log_of(Settings(), role="node", node="node-1")
    structlog.get_logger("x").info("leader elected", term=3)
    structlog.get_logger("x").info("node up", node="node-1#abcd")
    first, second = map(orjson.loads, capsys.readouterr().err.splitlines())
    assert (first["role"], first["node"], first["term"]) == ("node", "node-1", 3)
    assert second["node"] == "node-1#abcd"


def test_on_a_terminal_lines_are_text_unless_the_setting_is_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    log_of(Settings(), role="api")
    structlog.get_logger("x").info("it happened", term=3)
    log_of(Settings(log_format="json"), role="api")
    structlog.get_logger("x").info("it happened")
    plain, machine = capsys.readouterr().err.splitlines()
    assert plain.endswith("INFO    it happened  term=3")
    assert orjson.loads(machine)["role"] == "api"


def test_lines_of_an_attempt_have_its_run(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", LogFormat.JSON)
    with structlog.contextvars.bound_contextvars(run="a@1", job="a", attempt=2):
        structlog.get_logger("x").info("start refused", fence=9)
        logging.getLogger("theirs").warning("a line of a library")
    ours, theirs = map(orjson.loads, capsys.readouterr().err.splitlines())
    assert [ours[name] for name in ("run", "job", "attempt", "fence")] == ["a@1", "a", 2, 9]
    assert [theirs[name] for name in ("run", "job", "attempt")] == ["a@1", "a", 2]

"""The settings of the mail server: what fits together, and the errors of what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cronflow.backends.clock import SystemClock
from cronflow.bootstrap.parts import notifier
from cronflow.config import Settings
from cronflow.config.mail import mail_server
from cronflow.config.settings import describe, secrets_of
from cronflow.config.values import mail_address
from cronflow.domain.errors import InvalidInput
from cronflow.domain.mail_server import MailServer
from cronflow.testing.memory import memory_backends

FROM = "cronflow@example.com"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://mail.example.com", MailServer("mail.example.com", 587, False, True, FROM)),
        (
            "smtp://ops%40x:pa%3Ass@mail.example.com:25",
            MailServer("mail.example.com", 25, False, True, FROM, "ops@x", "pa:ss"),
        ),
        ("smtps://mail.example.com", MailServer("mail.example.com", 465, True, False, FROM)),
        ("smtp+plain://relay", MailServer("relay", 25, False, False, FROM)),
        ("smtp://127.0.0.1:1025", MailServer("127.0.0.1", 1025, False, None, FROM)),
    ],
)
def test_the_address_says_how_mail_is_encrypted(url: str, expected: MailServer) -> None:
    assert mail_server(Settings(smtp_url=url, smtp_from=FROM)) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"smtp_from": FROM}, "CRONFLOW_SMTP_FROM: has no effect without SMTP_URL"),
        ({"smtp_url": "smtp://x"}, "CRONFLOW_SMTP_FROM: is not set"),
        ({"smtp_url": "smtp://u@x", "smtp_from": FROM}, "CRONFLOW_SMTP_PASSWORD: is not set, and SMTP_URL has a user"),
        ({"smtp_url": "smtp://x", "smtp_from": FROM, "smtp_password": "pass"}, "has no user, and a password is set"),
        ({"smtp_url": "smtp://x/inbox", "smtp_from": FROM}, "more than a user, a host and a port"),
        ({"smtp_url": "smtp://x:99999", "smtp_from": FROM}, "more than a user, a host and a port"),
        (
            {"smtp_url": "smtp://u:in-url@x", "smtp_from": FROM, "smtp_password": "pass"},
            "SMTP_URL and SMTP_PASSWORD both have the password",
        ),
        ({"smtp_url": "smtp://u@x", "smtp_from": FROM, "smtp_password_file": Path("/nowhere")}, "cannot be read"),
    ],
)
def test_a_process_does_not_start_with_settings_that_do_not_fit_together(fields: dict[str, Any], message: str) -> None:
    settings, backends = Settings(**fields), memory_backends(SystemClock())
    with pytest.raises(InvalidInput) as refused:
        notifier(settings, backends, SystemClock())
    assert message in str(refused.value)
    assert "in-url" not in str(refused.value)


def test_the_password_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    settings = Settings(smtp_url="smtp://u@x", smtp_from=FROM, smtp_password_file=tmp_path / "password")
    server = mail_server(settings)
    assert server is not None
    assert server.password == "from a file"
    assert "from a file" not in repr(server)
    assert "from a file" in secrets_of(settings)
    known = Settings(smtp_url="smtp://u:hidden@x", smtp_password="hid")
    shown = {name: value for name, value, _ in describe(known)}
    assert "hid" not in f"{shown['SMTP_URL']} {shown['SMTP_PASSWORD']}"
    with pytest.raises(InvalidInput):
        mail_address("CronFlow <a@b>")

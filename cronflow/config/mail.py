"""The mail server of the settings, checked as a whole when a process starts.

Rule: a password is sent only over TLS or to this machine, unless the address says `smtp+plain`. There is no default
sender, because mail servers reject an invented one.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from cronflow.config import values
from cronflow.config.settings import Settings
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.mail_server import MailServer

PORTS = {"smtp": 587, "smtps": 465, "smtp+plain": 25}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def mail_server(settings: Settings) -> MailServer | None:
    """None without SMTP_URL. Raises InvalidInput with everything that does not fit together."""
    problems: list[Problem] = []
    given = {name: getattr(settings, name) for name in ("smtp_password", "smtp_password_file", "smtp_from")}
    if settings.smtp_url is None:
        for name in (name for name, value in given.items() if value is not None):
            remedy = "set CRONFLOW_SMTP_URL, such as smtp://user@mail.example.com:587, or remove this setting"
            problems.append(Problem(f"CRONFLOW_{name.upper()}", "has no effect without SMTP_URL", remedy))
        if problems:
            raise InvalidInput(problems)
        return None
    url = urlsplit(settings.smtp_url)
    try:
        port = url.port or PORTS[url.scheme]
    except ValueError:
        port = 0
    if not 0 < port < 65_536 or not url.hostname or url.path.strip("/") or url.query or url.fragment:
        remedy = "write it like smtp://user@mail.example.com:587"
        problems.append(Problem("CRONFLOW_SMTP_URL", "has no host, or more than a user, a host and a port", remedy))
    password = _password(settings, url.password, problems)
    if password is not None and not url.username:
        remedy = "write the user into the address: smtp://user@mail.example.com:587"
        problems.append(Problem("CRONFLOW_SMTP_URL", "has no user, and a password is set", remedy))
    if url.username and password is None:
        remedy = "set CRONFLOW_SMTP_PASSWORD or CRONFLOW_SMTP_PASSWORD_FILE"
        problems.append(Problem("CRONFLOW_SMTP_PASSWORD", "is not set, and SMTP_URL has a user", remedy))
    if settings.smtp_from is None:
        remedy = "set the address that e-mail is sent from, such as cronflow@example.com"
        problems.append(Problem("CRONFLOW_SMTP_FROM", "is not set, and SMTP_URL is", remedy))
    if problems or settings.smtp_from is None or url.hostname is None:
        raise InvalidInput(problems)
    starttls = None if url.hostname in LOOPBACK else True
    return MailServer(
        url.hostname,
        port,
        tls=url.scheme == "smtps",
        starttls=starttls if url.scheme == "smtp" else False,
        sender=settings.smtp_from,
        user=unquote(url.username) if url.username else None,
        password=password,
    )


def _password(settings: Settings, in_url: str | None, problems: list[Problem]) -> str | None:
    ways = {
        "SMTP_URL": unquote(in_url) if in_url else None,
        "SMTP_PASSWORD": settings.smtp_password,
        "SMTP_PASSWORD_FILE": settings.smtp_password_file,
    }
    present = [name for name, value in ways.items() if value is not None]
    if len(present) > 1:
        what = f"{present[0]} and {present[1]} both have the password"
        problems.append(Problem(f"CRONFLOW_{present[1]}", what, "remove one of the two"))
    if settings.smtp_password_file is None:
        return settings.smtp_password or (unquote(in_url) if in_url else None)
    try:
        return values.mail_password(settings.smtp_password_file.read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        what = f"{settings.smtp_password_file} cannot be read: {why}"
        problems.append(Problem("CRONFLOW_SMTP_PASSWORD_FILE", what, "make it readable for this user"))
    except InvalidInput as error:
        problems += (Problem("CRONFLOW_SMTP_PASSWORD_FILE", one.what, one.remedy) for one in error.problems)
    return None

"""The servers that the settings name: Redis, MongoDB and the mail server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cronflow.config import Settings
from cronflow.config.mail import mail_server
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.executors.notifications.mail_sender import MailSender


def urls(settings: Settings) -> tuple[str, str]:
    """The addresses of Redis and MongoDB. Raises InvalidInput if one is not set."""
    remedy = "set it; for commands, `cronflow login URL` is enough; `cronflow dev` starts a local cluster"
    missing = [
        Problem(f"CRONFLOW_{name}", "is not set", remedy)
        for name, value in (("REDIS_URL", settings.redis_url), ("MONGO_URL", settings.mongo_url))
        if not value
    ]
    if missing or settings.redis_url is None or settings.mongo_url is None:
        raise InvalidInput(missing)
    return settings.redis_url, settings.mongo_url


def mail_sender(settings: Settings) -> MailSender | None:
    """None without a mail server. Raises InvalidInput for settings that contradict each other."""
    server = mail_server(settings)
    if server is None:
        return None
    # Imported here because most processes send no mail.
    from cronflow.executors.notifications.mail_sender import MailSender

    return MailSender(server)

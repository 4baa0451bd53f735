"""Where an alert sends its notifications: a webhook in one of several formats, or e-mail.

Rules: an address that contains a secret is given as a reference, never in clear text. An e-mail address is one line
without anything that could begin another header or name another recipient. Sending is not done here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.secret import refuse_references

LONGEST_URL = 2000
MOST_RECIPIENTS = 50
LONGEST_ADDRESS = 254
MOST_LOG_LINES = 100

_SECRET = re.compile(r"\$\{secret:[A-Za-z0-9][A-Za-z0-9._-]{0,99}\}")
_URL = re.compile(r"https?://[^/?#\s@]+([/?#]\S*)?")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


class WebhookFormat(StrEnum):
    """What is sent to a webhook: CronFlow's JSON, a message for Slack or Microsoft Teams, or a ping."""

    JSON = "json"
    SLACK = "slack"
    TEAMS = "teams"
    PING = "ping"


def check_url(url: str) -> None:
    """Raises InvalidInput for what is not an http or https address."""
    if not _URL.fullmatch(url):
        remedy = "write https://host/path, without user, password or spaces"
        raise InvalidInput(Problem("", "not an http:// or https:// address", remedy))
    if len(url) > LONGEST_URL:
        raise InvalidInput(f"an address has at most {LONGEST_URL:,} characters, this one has {len(url):,}")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of HTTP requests. `secret` is a reference to the secret that signs notifications in JSON. The
    addresses of the other formats are secrets themselves, so their `url` may be a reference as a whole.
    """

    url: str
    secret: str | None = None
    format: WebhookFormat = WebhookFormat.JSON

    def __post_init__(self) -> None:
        if self.format is WebhookFormat.JSON or not self.is_secret:
            remedy = "sign JSON with `secret` instead; for another format, write ${secret:NAME} as the whole url"
            refuse_references(self.url, "an address", remedy)
            check_url(self.url)
        if self.secret is not None and self.format is not WebhookFormat.JSON:
            what = f"the format {self.format} has no signature, and secret is given"
            remedy = "remove secret; to keep the address secret, write url: ${secret:NAME}"
            raise InvalidInput(Problem("", what, remedy))
        if self.secret is not None and not _SECRET.fullmatch(self.secret):
            remedy = "run `cronflow secrets set NAME` and write ${secret:NAME}"
            raise InvalidInput(Problem("", "a signing secret is given by its name", remedy))

    @property
    def is_secret(self) -> bool:
        """Whether the address is a reference to a secret."""
        return _SECRET.fullmatch(self.url) is not None


def check_address(address: str) -> None:
    """Raises InvalidInput for what is not one e-mail address."""
    if len(address) > LONGEST_ADDRESS or not _ADDRESS.fullmatch(address):
        shown = address if len(address) <= 60 else f"{address[:57]}…"
        remedy = "write one address, such as ops@example.com"
        raise InvalidInput(Problem("", f"{shown!r} is not an e-mail address", remedy))


@dataclass(frozen=True, slots=True)
class Email:
    """Recipients of e-mail, and how many of a run's last log lines each message shows."""

    to: tuple[str, ...]
    log_lines: int = 10

    def __post_init__(self) -> None:
        if not self.to:
            raise InvalidInput(Problem("", "to is empty", "add at least one address"))
        if len(self.to) > MOST_RECIPIENTS:
            raise InvalidInput(f"to has {len(self.to)} addresses; at most {MOST_RECIPIENTS} are allowed")
        for address in self.to:
            check_address(address)
        if len({address.lower() for address in self.to}) < len(self.to):
            raise InvalidInput(Problem("", "to has an address twice", "remove one of the two"))
        if not 0 <= self.log_lines <= MOST_LOG_LINES:
            raise InvalidInput(f"log_lines is {self.log_lines}; it must be 0 to {MOST_LOG_LINES}")

"""Hands e-mail over to a mail server.

Rules: a message goes over TLS unless the settings say otherwise, and the server's certificate is verified. A refusal of
the message for good (5xx) is final, a temporary one (4xx) is not. A failed login is not about the message, so it is
retried. If a server takes the message for some recipients and refuses others for good, it is delivered, with the
refusals as its error; if it only delays others, the message is sent again to all.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import EmailMessage

import aiosmtplib

from cronflow.domain.mail_server import MailServer

TIMEOUT_S = 10.0
MOST_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Handover:
    """How a message fared: the code of the server, and why it was not accepted, or not for all."""

    status: int | None
    error: str | None = None
    final: bool = False
    partly: bool = False


class MailSender:
    """`tls_context` verifies the server; by default with the certificates of the system."""

    def __init__(self, server: MailServer, tls_context: ssl.SSLContext | None = None) -> None:
        self.server = server
        self._tls_context = tls_context

    async def send(self, message: EmailMessage, recipients: Sequence[str]) -> Handover:
        """Send on a new connection within ten seconds."""
        server = self.server
        if self._tls_context is None and (server.tls or server.starttls is not False):
            # Created here because most processes send no mail, and loading certificates is slow.
            self._tls_context = ssl.create_default_context()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                refused, _ = await aiosmtplib.send(
                    message.as_bytes(),
                    sender=server.sender,
                    recipients=list(recipients),
                    hostname=server.host,
                    port=server.port,
                    username=server.user,
                    password=server.password,
                    local_hostname=socket.gethostname() or "localhost",
                    timeout=TIMEOUT_S,
                    use_tls=server.tls,
                    start_tls=None if server.tls else server.starttls,
                    tls_context=self._tls_context,
                )
        except TimeoutError:
            return Handover(None, f"no answer from {self._place} within {TIMEOUT_S:g} s")
        except aiosmtplib.SMTPRecipientsRefused as error:
            return self._refused({one.recipient: (one.code, one.message) for one in error.recipients}, partly=False)
        except aiosmtplib.SMTPAuthenticationError as error:
            return Handover(error.code, _cut(f"{self._place} refused the login: {error.code} {error.message}"))
        except aiosmtplib.SMTPResponseException as error:
            final = 500 <= error.code <= 599 and not isinstance(error, aiosmtplib.SMTPConnectResponseError)
            return Handover(error.code, _cut(f"{self._place} answered {error.code} {error.message}"), final)
        except (aiosmtplib.SMTPException, OSError) as error:
            return Handover(None, _cut(f"{self._place} cannot be used: {error or type(error).__name__}"))
        return self._refused(refused, partly=True) if refused else Handover(250)

    def _refused(self, refused: Mapping[str, tuple[int, str]], *, partly: bool) -> Handover:
        """Some or all recipients were refused."""
        code, _ = next(iter(refused.values()))
        listed = "; ".join(f"{address}: {status} {text}" for address, (status, text) in refused.items())
        final = all(status >= 500 for status, _ in refused.values())
        return Handover(code, _cut(f"{self._place} refused {listed}"), final, partly and final)

    @property
    def _place(self) -> str:
        return f"{self.server.host}:{self.server.port}"


def _cut(text: str) -> str:
    return " ".join(text.split())[:MOST_SHOWN]

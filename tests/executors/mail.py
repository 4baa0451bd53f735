"""A real mail server of the test on the loopback: plain, with STARTTLS, or with TLS, and a login."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.waiting import eventually


@dataclass
class Mailbox:
    """What the server has accepted; `replies` are its answers to recipients and messages, before it accepts."""

    port: int = 0
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.replies:
            return self.replies.pop(0)
        assert isinstance(envelope.content, bytes)
        made = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(made, EmailMessage)
        self.messages.append(made)
        self.recipients.append(list(envelope.rcpt_tos))
        self.encrypted.append(session.ssl is not None)
        return "250 accepted"

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append(data.login.decode())
        return AuthResult(success=data.password == b"secret word", handled=False)


@asynccontextmanager
async def mail_server(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, login: bool = False
) -> AsyncIterator[Mailbox]:
    """A server in the test's event loop."""
    mailbox, loop = Mailbox(), asyncio.get_running_loop()

    def session() -> SMTP:
        return Tracked(
            mailbox,
            tls_context=starttls,
            require_starttls=False,
            auth_required=login,
            auth_require_tls=starttls is not None,
            authenticator=mailbox.authenticate if login else None,
            loop=loop,
            # Without a name it would ask the name server.
            hostname="localhost",
        )

    connections: list[asyncio.BaseTransport] = []
    sockets: list[socket.socket] = []

    class Tracked(SMTP):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connections.append(transport)
            sockets.append(transport.get_extra_info("socket"))
            super().connection_made(transport)

    server = await loop.create_server(session, "127.0.0.1", 0, ssl=tls)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
        for connection in connections:
            if isinstance(connection, asyncio.WriteTransport):
                connection.abort()
        await eventually(lambda: all(one.fileno() == -1 for one in sockets), what="all connections are closed")

"""The mail server that hands e-mail on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed over, and who sends it. `tls`: from the first byte; `starttls`: True: required, None: used
    if it is offered.
    """

    host: str
    port: int
    tls: bool
    starttls: bool | None
    sender: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

"""Sends notifications as HTTP requests, in JSON signed as Standard Webhooks specifies.

Notifications may go where HTTP jobs may go, and every address is checked. A redirect counts as a failure. The signing
secret is in clear text only here, while it signs, as is an address that is a secret. A webhook whose secret is missing
gets nothing, because its receiver could not verify the request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import httpx2

from cronflow.auth.vault import CannotOpen, Vault
from cronflow.domain.alert_receivers import Webhook, WebhookFormat, check_url
from cronflow.domain.alerts import Answer
from cronflow.domain.errors import InvalidInput, PermanentError
from cronflow.domain.secret import Mask, referenced
from cronflow.executors.http import CheckedTransport, beginning, shown_url
from cronflow.ports import Clock, SecretReader

TIMEOUT_S = 10.0
MOST_SHOWN = 500
PREFIX = "whsec_"
SHORTEST_KEY, LONGEST_KEY = 24, 64
_BETWEEN = re.compile(r"[/?&=;:+,.]")
"""What stands between the parts of a path or query."""
_KEPT = "/?&=;:+,.%~!$'()*@"
HOW_TO_MAKE = 'echo "whsec_$(openssl rand -base64 32)" | cronflow secrets set'


class Unsigned(Exception):
    """A secret of the webhook is unavailable; the message gives the reason."""


class HttpWebhookSender:
    """Posts to webhooks. `vault` is None without SECRETS_KEY. For `allowed_hosts` see HttpExecutor."""

    def __init__(
        self, secrets: SecretReader, vault: Vault | None, clock: Clock, *, allowed_hosts: Sequence[str] | None = None
    ) -> None:
        self._secrets = secrets
        self._vault = vault
        self._clock = clock
        self._allowed_hosts = allowed_hosts
        self._transport: CheckedTransport | None = None

    async def post(
        self, webhook: Webhook, notification: str, body: str, at: datetime, change_url: Callable[[str], str] = str
    ) -> Answer:
        """Send one POST on a new connection within ten seconds; at most 500 characters of the response are read."""
        began = self._clock.monotonic()
        try:
            url = await self._url(webhook)
            hidden = HiddenAddress(url if webhook.is_secret else "")
            stamp = str(int(at.timestamp()))
            status, error = await self._exchange(webhook, change_url(url), hidden, notification, body, stamp)
        except Unsigned as refusal:
            status, error = None, str(refusal)
        return Answer(status, error, round((self._clock.monotonic() - began) * 1000))

    async def _exchange(
        self, webhook: Webhook, url: str, hidden: HiddenAddress, notification: str, body: str, stamp: str
    ) -> tuple[int | None, str | None]:
        headers = {
            "Content-Type": "text/plain; charset=utf-8" if webhook.format is WebhookFormat.PING else "application/json",
            "User-Agent": "cronflow",
            "Accept-Encoding": "identity",
            "webhook-id": notification,
            "webhook-timestamp": stamp,
        }
        if webhook.secret is not None:
            headers["webhook-signature"] = signature(await self._key(webhook.secret), notification, stamp, body)
        if self._transport is None:
            # Created here because most processes send no webhooks, and loading certificates is slow.
            self._transport = CheckedTransport(self._allowed_hosts)
        try:
            request = httpx2.Request("POST", url, headers=headers, content=body.encode())
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._transport.handle_async_request(request)
                try:
                    said = await hidden.answer(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            return None, f"no answer within {TIMEOUT_S:g} s"
        except (httpx2.InvalidURL, ValueError) as error:
            # The message contains the part that is wrong, in a form of its own.
            return None, "the address in the secret is not valid" if webhook.is_secret else str(error)
        except PermanentError as error:
            return None, hidden.text(str(error))
        except httpx2.RequestError as error:
            what = hidden.text(f"{type(error).__name__}: {error}".removesuffix(": "))
            parsed = httpx2.URL(url)
            shown = f"{parsed.scheme}://{parsed.host}/…" if webhook.is_secret else shown_url(parsed)
            return None, f"{shown} cannot be reached: {what}"[:MOST_SHOWN]
        status = response.status_code
        return status, None if 200 <= status <= 299 else f"answered {status}: {said or 'an empty body'}"

    async def _url(self, webhook: Webhook) -> str:
        if not webhook.is_secret:
            return webhook.url
        [name] = referenced(webhook.url)
        url = (await self._opened(name, f"run `cronflow secrets set {name}`")).strip()
        try:
            check_url(url)
        except InvalidInput:
            remedy = f"run `cronflow secrets set {name}` with the address of the webhook"
            raise Unsigned(f"the secret {name} is not an http:// or https:// address; {remedy}") from None
        return url

    async def _opened(self, name: str, remedy: str) -> str:
        found = await self._secrets.get([name])
        if not found:
            raise Unsigned(f"there is no secret {name}; {remedy}")
        if self._vault is None:
            raise Unsigned(f"this process has no SECRETS_KEY, so it cannot open the secret {name}")
        try:
            return self._vault.open(found[0])
        except CannotOpen as error:
            raise Unsigned(str(error)) from None

    async def _key(self, reference: str) -> bytes:
        [name] = referenced(reference)
        try:
            return key_of(await self._opened(name, f"{HOW_TO_MAKE} {name}"))
        except ValueError:
            raise Unsigned(
                f"the secret {name} is not {PREFIX} and {SHORTEST_KEY} to {LONGEST_KEY} bytes in base64; "
                f"{HOW_TO_MAKE} {name}"
            ) from None


def key_of(secret: str) -> bytes:
    """Decode a Standard Webhooks secret: `whsec_` and base64. Raises ValueError."""
    text = secret.strip()
    if not text.startswith(PREFIX):
        raise ValueError
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError from None
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise ValueError
    return key


def signature(key: bytes, notification: str, stamp: str, body: str) -> str:
    signed = hmac.new(key, f"{notification}.{stamp}.{body}".encode(), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


class HiddenAddress:
    """Masks an address that is a secret in what a receiver answers, which may repeat it: the whole address, its path
    and query, and their parts, but not its host. `url` is empty for an address that is no secret.
    """

    def __init__(self, url: str) -> None:
        self._longest = 0
        self._mask = Mask(())
        if url:
            parts = urlsplit(url)
            resource = urlunsplit(("", "", parts.path, parts.query, ""))
            words = [word for text in (parts.path, parts.query, parts.fragment) for word in _BETWEEN.split(text)]
            forms = [url, resource, parts.path, parts.query, parts.fragment, *words]
            # A request escapes what is not ASCII, receivers decode what is escaped, and HTML escapes an ampersand.
            forms += [quote(form, safe=_KEPT) for form in forms] + [unquote(form) for form in forms]
            forms += [escape(form) for form in forms]
            self._longest = max(len(form.encode()) for form in forms)
            self._mask = Mask(form for form in forms if form != "/")

    def text(self, text: str) -> str:
        return self._mask.text(text)

    async def answer(self, response: httpx2.Response) -> str:
        """The beginning of the body. More is read than is shown, so that no address is cut in two and not masked."""
        most = MOST_SHOWN + self._longest
        body = await beginning(response, most)
        said = self.text(" ".join(body.decode(errors="replace").split()))
        if self._longest and len(body) == most:
            said = said[: -self._longest]
        return said[:MOST_SHOWN]

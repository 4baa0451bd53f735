"""Log in through the identity provider: from the page, with a code for devices, or from a command with a browser.

A login has a state until it is finished: stored for a few minutes in Redis, sealed, and taken once, so no answer of the
provider counts twice. The verifier of PKCE and the nonce never leave the API. Whoever finishes a login must be whoever
began it: the page's browser has a cookie, a command has a handle; both are random, and only their hashes are kept. An
answer that a third party puts in somebody's browser therefore leads nowhere.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import orjson

from cronflow.auth.tokens import hashed, random_text
from cronflow.auth.vault import CannotOpen, Vault
from cronflow.domain.access import LoginMethod, Secret
from cronflow.domain.single_sign_on import SignInRefused
from cronflow.ports import Backends, Clock
from cronflow.ports.identity import DeviceCode, Identity, IdentityProvider, NotYet
from cronflow.usecases.logins import SESSION_LASTS, IssuedTokens, Logins
from cronflow.usecases.people import UNCHECKED_LASTS, OidcPeople, recorded_groups

CALLBACK = "/api/v1/auth/oidc/callback"
LOGIN_LASTS = timedelta(minutes=10)
SLOWER_S = 5.0
"""By how much `slow_down` lengthens the interval (RFC 8628, 3.5)."""
LOOPBACK = "http://127.0.0.1:{port}/callback"
"""Where a command listens for the answer of the provider: the address, and not a name that others could define."""


class BegunLogin(NamedTuple):
    """A login in a browser. Whoever presents `proof` may finish it."""

    url: str
    proof: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLogin:
    """A login with a code for devices. `handle` finishes it."""

    handle: str
    shown: DeviceCode


class SingleSignOn:
    """Logins through one provider. `name` is that of the button on the page."""

    def __init__(
        self,
        backends: Backends,
        clock: Clock,
        provider: IdentityProvider,
        people: OidcPeople,
        logins: Logins,
        vault: Vault,
        *,
        name: str,
        public_url: str,
    ) -> None:
        self._tickets = backends.tickets
        self._limiter = backends.limiter
        self._clock = clock
        self._provider = provider
        self._people = people
        self._logins = logins
        self._vault = vault
        self.name = name
        self.public_url = public_url

    # ---------------------------------------------------------------------------------------------------- in a browser

    async def begin_page(self, goal: str) -> BegunLogin:
        """Begin a login of the page, which then goes on to the path `goal`."""
        return await self._begin("page", f"{self.public_url}{CALLBACK}", goal)

    async def begin_loopback(self, port: int) -> BegunLogin:
        """Begin a login of a command that listens on this port of its machine (RFC 8252)."""
        return await self._begin("loopback", LOOPBACK.format(port=port), "")

    async def finish_page(self, state: str, proof: str, code: str, issuer: str | None) -> tuple[IssuedTokens, str]:
        """The tokens, and the path to go to. Raises SignInRefused."""
        begun = await self._take("page", state, proof)
        return await self._finish(begun, code, issuer), str(begun["goal"])

    async def finish_loopback(self, state: str, proof: str, code: str, issuer: str | None) -> IssuedTokens:
        """The tokens. Raises SignInRefused."""
        return await self._finish(await self._take("loopback", state, proof), code, issuer)

    async def _begin(self, kind: str, redirect_uri: str, goal: str) -> BegunLogin:
        state, nonce, verifier, proof = (random_text() for _ in range(4))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        url = await self._provider.authorization_url(
            redirect_uri=redirect_uri, state=state, nonce=nonce, challenge=challenge
        )
        begun = {"nonce": nonce, "verifier": verifier, "redirect_uri": redirect_uri, "goal": goal}
        await self._keep(state, {"kind": kind, "proof": hashed(proof), **begun}, LOGIN_LASTS.total_seconds())
        return BegunLogin(url, proof, state)

    async def _finish(self, begun: Mapping[str, object], code: str, issuer: str | None) -> IssuedTokens:
        await self._provider.check_issuer(issuer)
        identity = await self._provider.exchange(
            code=code,
            redirect_uri=str(begun["redirect_uri"]),
            verifier=str(begun["verifier"]),
            nonce=str(begun["nonce"]),
        )
        return await self._admit(identity, LoginMethod.OIDC)

    # ---------------------------------------------------------------------------------------- with a code for devices

    async def begin_device(self) -> DeviceLogin | None:
        """Begin a login with a code (RFC 8628); None if the provider does not offer it."""
        shown = await self._provider.start_device()
        if shown is None:
            return None
        handle = random_text()
        begun = {"kind": "device", "proof": hashed(handle), "code": shown.device_code, "interval_s": shown.interval_s}
        until = self._clock.now() + timedelta(seconds=shown.expires_in_s)
        await self._keep(handle, {**begun, "until": until.isoformat()}, shown.expires_in_s)
        return DeviceLogin(handle=handle, shown=shown)

    async def poll_device(self, handle: str) -> IssuedTokens | NotYet:
        """The tokens when the person has entered the code. The provider is asked at its own pace, however often the
        client asks. Raises SignInRefused.
        """
        begun = self._open(handle, await self._tickets.get_login(hashed(handle)), "device", handle)
        interval_s = float(str(begun["interval_s"]))
        if await self._limiter.take(f"device:{hashed(handle)[:32]}", 1 / interval_s, 1):
            return NotYet(slow_down=True)
        try:
            found = await self._provider.poll_device(str(begun["code"]))
        except SignInRefused:
            await self._tickets.take_login(hashed(handle))
            raise
        if isinstance(found, NotYet):
            if found.slow_down:
                left_s = (datetime.fromisoformat(str(begun["until"])) - self._clock.now()).total_seconds()
                await self._keep(handle, {**begun, "interval_s": interval_s + SLOWER_S}, max(1.0, left_s))
            return found
        # Of two clients that poll with the same handle, one is let in.
        await self._take("device", handle, handle)
        return await self._admit(found, LoginMethod.DEVICE)

    # ----------------------------------------------------------------------------------------------------------- common

    async def _admit(self, identity: Identity, method: LoginMethod) -> IssuedTokens:
        groups = recorded_groups(identity)
        try:
            user = await self._people.admit(identity)
        except SignInRefused as error:
            await self.refused(error, groups)
            raise
        token = identity.refresh_token
        lasts = UNCHECKED_LASTS if token is None else SESSION_LASTS
        return await self._logins.open(user, method, lasts=lasts, refresh_token=token, facts={"groups": groups})

    async def refused(self, error: SignInRefused, groups: list[str] | None = None) -> None:
        """Record a refused login."""
        facts = {"method": "oidc", "reason": str(error), **({} if groups is None else {"groups": groups})}
        await self._logins.record_refusal("", facts)

    async def _keep(self, key: str, begun: Mapping[str, object], lasts_s: float) -> None:
        sealed = self._vault.seal(hashed(key), orjson.dumps(begun).decode())
        await self._tickets.put_login(hashed(key), sealed, lasts_s)

    async def _take(self, kind: str, key: str, proof: str) -> Mapping[str, object]:
        return self._open(key, await self._tickets.take_login(hashed(key)), kind, proof)

    def _open(self, key: str, sealed: str | None, kind: str, proof: str) -> Mapping[str, object]:
        """The state of a login that this caller has begun. Raises SignInRefused."""
        over = SignInRefused("expired", "this login was already completed or has expired; log in again")
        if sealed is None:
            raise over
        try:
            stored = Secret(name=hashed(key), sealed=sealed, updated_at=self._clock.now(), updated_by="")
            found = orjson.loads(self._vault.open(stored))
        except (CannotOpen, ValueError):
            raise over from None
        if found["kind"] != kind or not hmac.compare_digest(str(found["proof"]), hashed(proof)):
            raise SignInRefused("expired", "this login was started by another browser or command; log in again")
        return dict(found)

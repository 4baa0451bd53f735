"""The identity provider: an OpenID Connect provider at which people log in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cronflow.domain.errors import BackendUnavailable


class ProviderUnavailable(BackendUnavailable):
    """The provider did not answer, or with something that is not its protocol. Nobody's login ends because of it.
    `refresh_token` is the one for the next time, if the provider had already replaced the one that it was given.
    """

    def __init__(self, address: str, reason: str, refresh_token: str | None = None) -> None:
        self.refresh_token = refresh_token
        super().__init__("the identity provider", address, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A person, as the provider vouches for them: verified claims, groups (None: it sent none), and its refresh token
    (None: it gave none).
    """

    subject: str
    claims: Mapping[str, object] = field(repr=False)
    groups: tuple[str, ...] | None
    refresh_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCode:
    """A login that a person completes in any browser, at `uri` with `user_code`."""

    device_code: str = field(repr=False)
    user_code: str
    uri: str
    complete_uri: str | None
    interval_s: float
    expires_in_s: float


@dataclass(frozen=True, slots=True)
class NotYet:
    """The person has not completed the login. `slow_down`: the provider wants to be asked less often."""

    slow_down: bool = False


class IdentityProvider(Protocol):
    """Every method raises ProviderUnavailable; those that return an Identity raise SignInRefused if the provider
    refuses, or if what it sends does not prove the identity. An Identity has passed every check of an ID token.
    """

    @property
    def issuer(self) -> str: ...

    async def authorization_url(self, *, redirect_uri: str, state: str, nonce: str, challenge: str) -> str:
        """Where the browser goes to log in. `challenge` is that of PKCE, by S256."""

    async def check_issuer(self, issuer: str | None) -> None:
        """Check the `iss` parameter of an answer (RFC 9207). Raises SignInRefused for that of another provider."""

    async def exchange(self, *, code: str, redirect_uri: str, verifier: str, nonce: str) -> Identity:
        """Exchange an authorization code, once."""

    async def start_device(self) -> DeviceCode | None:
        """Begin a login with a code for devices (RFC 8628); None if the provider does not offer it."""

    async def poll_device(self, device_code: str) -> Identity | NotYet:
        """Whether the person has completed it."""

    async def confirm(self, refresh_token: str, subject: str) -> Identity:
        """Ask whether the person is still known there, and for their groups of today. The Identity has the refresh
        token for the next time.
        """

"""Builds single sign-on from the settings."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from cronflow.auth.vault import Vault
from cronflow.backends.identity_provider import OidcProvider
from cronflow.config import OidcConfig, Settings, oidc_config
from cronflow.ports import Backends, Clock
from cronflow.usecases.logins import Logins
from cronflow.usecases.people import OidcPeople
from cronflow.usecases.single_sign_on import SingleSignOn


@dataclass(frozen=True, slots=True)
class SignInParts:
    """The provider and its people. Logins need the people, and single sign-on needs the logins."""

    config: OidcConfig
    provider: OidcProvider
    people: OidcPeople
    vault: Vault

    def single_sign_on(self, backends: Backends, clock: Clock, logins: Logins) -> SingleSignOn:
        return SingleSignOn(
            backends,
            clock,
            self.provider,
            self.people,
            logins,
            self.vault,
            name=self.config.name,
            public_url=self.config.public_url,
        )


def sign_in_parts(settings: Settings, backends: Backends, clock: Clock, jwt_secret: str) -> SignInParts | None:
    """None without OIDC_ISSUER. The provider is not contacted before somebody logs in. Raises InvalidInput."""
    config = oidc_config(settings)
    if config is None:
        return None
    provider = OidcProvider(
        config.issuer,
        config.client,
        config.secret,
        clock,
        scopes=config.scopes,
        groups_claim=config.groups_claim,
    )
    vault = login_vault(jwt_secret)
    people = OidcPeople(
        backends, clock, provider, config.roles, vault, client=config.client, groups_claim=config.groups_claim
    )
    return SignInParts(config, provider, people, vault)


def login_vault(jwt_secret: str) -> Vault:
    """Seals what the identity provider gives, with a key made from JWT_SECRET, which every API has."""
    return Vault([hmac.digest(jwt_secret.encode(), b"identity provider", hashlib.sha256)])

"""The settings of single sign-on as one value, checked together.

Settings that have no effect without the others are refused, so that nobody believes that single sign-on is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cronflow.config.settings import Settings, text_in
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.single_sign_on import GroupRole

_OTHERS = ("oidc_client_id", "oidc_client_secret", "oidc_client_secret_file", "oidc_roles")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    """Single sign-on as the API needs it."""

    issuer: str
    client: str
    secret: str | None = field(repr=False)
    scopes: Sequence[str]
    groups_claim: str
    roles: Sequence[GroupRole]
    name: str
    public_url: str


def oidc_config(settings: Settings) -> OidcConfig | None:
    """None without OIDC_ISSUER. Raises InvalidInput with everything that is missing or set twice."""
    if settings.oidc_issuer is None:
        given = [name for name in _OTHERS if getattr(settings, name)]
        if given:
            what = "has no effect, because OIDC_ISSUER is not set"
            raise InvalidInput([Problem(f"CRONFLOW_{name.upper()}", what, "set it, or remove this") for name in given])
        return None
    problems: list[Problem] = []
    secret = settings.oidc_client_secret
    if not settings.oidc_client_id:
        problems.append(Problem("CRONFLOW_OIDC_CLIENT_ID", "is not set", "use the id that the identity provider shows"))
    if settings.public_url is None:
        remedy = "set the address under which people reach the API, such as https://cron.example.com"
        problems.append(Problem("CRONFLOW_PUBLIC_URL", "is not set, and single sign-on returns people there", remedy))
    elif settings.public_url.partition("://")[2].rstrip("/").count("/") or "@" in settings.public_url:
        what = "must be a scheme and a host without a path, because the page is served there"
        problems.append(Problem("CRONFLOW_PUBLIC_URL", what, "such as https://cron.example.com"))
    if not settings.oidc_roles:
        remedy = "such as cronflow-admins=admin, payroll=editor:payroll-*"
        problems.append(Problem("CRONFLOW_OIDC_ROLES", "is not set, so no group may log in", remedy))
    if settings.oidc_client_secret_file is not None:
        if secret is not None:
            what = "OIDC_CLIENT_SECRET and OIDC_CLIENT_SECRET_FILE are both set"
            problems.append(Problem("CRONFLOW_OIDC_CLIENT_SECRET_FILE", what, "remove one of the two"))
        else:
            try:
                secret = text_in(settings.oidc_client_secret_file)
            except InvalidInput as error:
                problems += (Problem("CRONFLOW_OIDC_CLIENT_SECRET_FILE", one.what) for one in error.problems)
    if problems or settings.public_url is None or settings.oidc_client_id is None:
        raise InvalidInput(problems)
    return OidcConfig(
        issuer=settings.oidc_issuer,
        client=settings.oidc_client_id,
        secret=secret or None,
        scopes=settings.oidc_scopes,
        groups_claim=settings.oidc_groups_claim,
        roles=settings.oidc_roles,
        name=settings.oidc_name,
        public_url=settings.public_url.rstrip("/"),
    )

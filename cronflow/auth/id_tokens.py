"""Validates ID tokens of an OpenID Connect provider (OpenID Connect Core 1.0, section 3.1.3.7).

The rule: a token counts only with a signature by a key that the provider publishes, in an asymmetric algorithm of the
list below, whatever its header claims; from the configured issuer; for this client; not expired; and with the nonce of
the login that asked for it. It fetches no keys.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jwt

from cronflow.domain.single_sign_on import LONGEST_SUBJECT

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
)  # fmt: skip
"""Neither `none` nor HMAC: with these, anyone who knows the client could sign."""
KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
LEEWAY_S = 60.0
"""How far the clocks may differ."""


class UnknownKey(Exception):
    """No published key fits the token. The provider may have new ones."""


class InvalidIdToken(Exception):
    """The token proves nothing; the message gives the reason."""


def read_id_token(
    text: str, keys: Sequence[Mapping[str, Any]], *, issuer: str, client: str, nonce: str | None, now: datetime
) -> Mapping[str, Any]:
    """The claims. `nonce` is None where the login could send none. Raises UnknownKey and InvalidIdToken."""
    try:
        header = jwt.get_unverified_header(text)
    except jwt.InvalidTokenError:
        raise InvalidIdToken("it is not a JWT") from None
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise InvalidIdToken(f"its algorithm {str(algorithm)[:20]} is not accepted")
    key = _key(keys, header.get("kid"), algorithm)
    try:
        claims: Mapping[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[algorithm],
            audience=client,
            issuer=issuer,
            # Times are compared below, with the clock of the cluster.
            options={
                "require": ["iss", "sub", "aud", "exp", "iat"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.InvalidSignatureError:
        # A key may have been replaced under the same name.
        raise UnknownKey("no published key matches its signature") from None
    except jwt.InvalidTokenError as error:
        raise InvalidIdToken(str(error)) from None
    _check_times(claims, now.timestamp())
    _check_client(claims, client)
    if nonce is not None and not _same(claims.get("nonce"), nonce):
        raise InvalidIdToken("its nonce is not the one of this login")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        raise InvalidIdToken("it has no subject")
    return claims


def _key(keys: Sequence[Mapping[str, Any]], named: object, algorithm: str) -> jwt.PyJWK:
    fitting = [
        key
        for key in keys
        if key.get("kty") == KEY_TYPES[algorithm[:2]]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (named is None or key.get("kid") == named)
    ]
    # Without a name, several keys would leave open which one is meant.
    if len(fitting) != 1 and (named is None or not fitting):
        raise UnknownKey("no published key matches its key id")
    try:
        return jwt.PyJWK(dict(fitting[0]), algorithm=algorithm)
    except jwt.PyJWTError:
        raise UnknownKey("the published key cannot be read") from None


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    for name in ("exp", "iat", "nbf"):
        value = claims.get(name, now)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidIdToken(f"its {name} is not an instant")
    if claims["exp"] <= now - LEEWAY_S:
        raise InvalidIdToken("it has expired")
    if max(claims["iat"], claims.get("nbf", 0)) > now + LEEWAY_S:
        raise InvalidIdToken("its time of issue is in the future; compare the clocks of both machines")


def _check_client(claims: Mapping[str, Any], client: str) -> None:
    audience, party = claims["aud"], claims.get("azp")
    if party is None and isinstance(audience, list) and len(audience) > 1:
        raise InvalidIdToken("it is for several clients and does not name the one that requested it (azp)")
    if party is not None and not _same(party, client):
        raise InvalidIdToken("another client requested it (azp)")


def _same(value: object, expected: str) -> bool:
    return isinstance(value, str) and hmac.compare_digest(value.encode(), expected.encode())

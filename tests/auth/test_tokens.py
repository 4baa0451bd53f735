"""Which access tokens are good: every part of one that is changed, left out or signed otherwise makes it none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest

from cronflow.auth.tokens import ACCESS_S, AccessTokens, Claims, key_parts, key_text, refresh_parts
from cronflow.testing.clock import FakeClock
from tests.auth.bench import SECRET

ADA = Claims("ada", "f1")


@pytest.fixture
def tokens(clock: FakeClock) -> AccessTokens:
    return AccessTokens(SECRET, "default", clock)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forged(tokens: AccessTokens, header: dict[str, Any] | None = None, secret: str = SECRET, **claims: Any) -> str:
    """A token with another header or other claims (None takes one away), well signed with HS256."""
    content = jwt.decode(tokens.make(ADA), options={"verify_signature": False}) | claims
    content = {name: value for name, value in content.items() if value is not None}
    signed = f"{part(header or {'alg': 'HS256', 'typ': 'JWT'})}.{part(content)}"
    signature = hmac.digest(secret.encode(), signed.encode(), hashlib.sha256)
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


async def test_a_token_is_good_until_it_expires(tokens: AccessTokens, clock: FakeClock) -> None:
    token = tokens.make(ADA)
    await clock.advance(ACCESS_S - 1)
    assert tokens.read(token) == ADA
    await clock.advance(1)
    assert tokens.read(token) is None


def test_a_token_that_is_made_by_hand_in_the_same_way_is_good(tokens: AccessTokens) -> None:
    assert tokens.read(forged(tokens)) == ADA


@pytest.mark.parametrize("claim", ["iss", "aud", "sub", "sid", "jti", "iat", "exp"])
def test_no_claim_may_be_missing(tokens: AccessTokens, claim: str) -> None:
    without: dict[str, Any] = {claim: None}
    assert tokens.read(forged(tokens, **without)) is None


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"iss": "another"},
        {"exp": 1},
        {"exp": True},
        {"exp": "9999999999"},
        {"sub": 5},
        {"sid": ["f1"]},
        {"jti": 5},
    ],
    ids=str,
)
def test_no_claim_may_be_another(tokens: AccessTokens, claims: dict[str, Any]) -> None:
    assert tokens.read(forged(tokens, **claims)) is None


def test_a_token_of_another_secret_or_of_another_cluster_is_none(tokens: AccessTokens, clock: FakeClock) -> None:
    assert AccessTokens("another secret that is long enough too", "default", clock).read(tokens.make(ADA)) is None
    assert AccessTokens(SECRET, "staging", clock).read(tokens.make(ADA)) is None
    assert tokens.read(forged(tokens, secret="x" * 40)) is None


def test_a_token_without_a_signature_is_refused_whatever_its_header_claims(tokens: AccessTokens) -> None:
    _, content, signature = tokens.make(ADA).split(".")
    for algorithm in ("none", "None", "NONE", "HS256"):
        assert tokens.read(f"{part({'alg': algorithm, 'typ': 'JWT'})}.{content}.") is None
    assert tokens.read(f"{part({'alg': 'none'})}.{content}.{signature}") is None


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_a_token_that_is_well_signed_with_another_algorithm_is_none(tokens: AccessTokens, algorithm: str) -> None:
    content = jwt.decode(tokens.make(ADA), options={"verify_signature": False})
    assert tokens.read(jwt.encode(content, SECRET * 2, algorithm)) is None
    assert AccessTokens(SECRET * 2, "default", FakeClock()).read(jwt.encode(content, SECRET * 2, algorithm)) is None
    assert AccessTokens(SECRET * 2, "default", FakeClock()).read(jwt.encode(content, SECRET * 2, "HS256")) == ADA


def test_a_token_that_claims_another_algorithm_is_refused(tokens: AccessTokens) -> None:
    for header in ({"alg": "RS256"}, {"alg": "HS384"}, {"typ": "JWT"}, {"alg": "none"}):
        assert tokens.read(forged(tokens, header)) is None


@pytest.mark.parametrize("text", ["", ".", "..", "a.b.c", "ü", "eyJ", "a" * 10_000, "cfk.a.b"])
def test_text_that_is_not_a_token_is_refused(tokens: AccessTokens, text: str) -> None:
    assert tokens.read(text) is None


def test_no_two_tokens_have_one_id(tokens: AccessTokens) -> None:
    ids = {jwt.decode(tokens.make(ADA), options={"verify_signature": False})["jti"] for _ in range(100)}
    assert len(ids) == 100


def test_keys_and_refresh_tokens_are_split_into_their_parts() -> None:
    assert key_parts(key_text("ci.nightly", "r-_")) == ("ci.nightly", "r-_")
    for text in ("cfk.", "cfk.ci", "cfk.ci.", "cfk..x", "ci.x", ""):
        assert key_parts(text) is None
    assert refresh_parts("f1.random") == ("f1", "random")
    for text in ("f1", "f1.", ".random", ""):
        assert refresh_parts(text) is None

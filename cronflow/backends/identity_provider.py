"""Speaks OpenID Connect to the identity provider: discovery, keys, and its token endpoint.

The rules: the document of discovery must be that of the configured issuer; every address in it is https (plain http
only on this machine); no redirect is followed; an answer is read up to a limit and within ten seconds. Keys are fetched
again when a token names an unknown one, but not more often than every ten seconds, and after an hour in any case.
It decides about no rights.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import orjson

from cronflow.auth.id_tokens import InvalidIdToken, UnknownKey, read_id_token
from cronflow.domain.single_sign_on import SignInRefused, groups_in
from cronflow.ports import Clock
from cronflow.ports.identity import DeviceCode, Identity, NotYet, ProviderUnavailable

TIMEOUT_S = 10.0
LARGEST = 1024 * 1024
KEEP_S = 3600.0
KEYS_AGAIN_S = 10.0
DISCOVERY = "/.well-known/openid-configuration"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_S, LONGEST_INTERVAL_S = 5.0, 60.0
EXPIRES_S, LONGEST_EXPIRES_S = 600.0, 1800.0
LONGEST_TEXT = 2000
_REQUIRED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ENDPOINTS = (*_REQUIRED, "userinfo_endpoint", "device_authorization_endpoint")


class OidcProvider:
    """An IdentityProvider. `secret` is None for a public client. `groups_claim` is where the groups are."""

    def __init__(
        self,
        issuer: str,
        client: str,
        secret: str | None,
        clock: Clock,
        *,
        scopes: Sequence[str] = ("openid", "profile", "email"),
        groups_claim: str = "groups",
    ) -> None:
        self.issuer = issuer
        self._client = client
        self._secret = secret
        self._clock = clock
        self._scope = " ".join(dict.fromkeys(("openid", *scopes)))
        self._groups_claim = groups_claim
        self._trust: ssl.SSLContext | None = None
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, list[Mapping[str, Any]]] | None = None

    async def authorization_url(self, *, redirect_uri: str, state: str, nonce: str, challenge: str) -> str:
        address = str((await self._discovered())["authorization_endpoint"])
        asked = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": redirect_uri,
            "scope": self._scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}"

    async def check_issuer(self, issuer: str | None) -> None:
        always = (await self._discovered()).get("authorization_response_iss_parameter_supported") is True
        if issuer != self.issuer and (issuer is not None or always):
            raise SignInRefused("invalid", "the answer is not from the configured identity provider")

    async def exchange(self, *, code: str, redirect_uri: str, verifier: str, nonce: str) -> Identity:
        asked = {"code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
        answer = await self._token("authorization_code", asked)
        return await self._identity(answer, nonce=nonce)

    async def start_device(self) -> DeviceCode | None:
        address = (await self._discovered()).get("device_authorization_endpoint")
        if address is None:
            return None
        status, answer = await self._post(str(address), {"scope": self._scope})
        if status != 200:
            # Some providers offer the flow in general, but not to this client.
            if answer.get("error") in ("unauthorized_client", "unsupported_grant_type", "invalid_request"):
                return None
            raise _refusal(answer)
        code, shown, uri = (answer.get(name) for name in ("device_code", "user_code", "verification_uri"))
        complete = answer.get("verification_uri_complete")
        if not isinstance(code, str) or not isinstance(shown, str) or not isinstance(uri, str):
            raise self._away("its answer has no code for devices")
        for one in (uri, complete):
            if one is not None and not _is_safe(one):
                raise self._away("its address for entering codes is not https")
        return DeviceCode(
            device_code=code,
            user_code=shown[:50],
            uri=uri[:LONGEST_TEXT],
            complete_uri=complete if isinstance(complete, str) and len(complete) <= LONGEST_TEXT else None,
            interval_s=_seconds(answer.get("interval"), INTERVAL_S, LONGEST_INTERVAL_S),
            expires_in_s=_seconds(answer.get("expires_in"), EXPIRES_S, LONGEST_EXPIRES_S),
        )

    async def poll_device(self, device_code: str) -> Identity | NotYet:
        asked = {"device_code": device_code}
        status, answer = await self._post(await self._token_address(), {"grant_type": DEVICE_GRANT, **asked})
        error = answer.get("error")
        if error in ("authorization_pending", "slow_down"):
            return NotYet(slow_down=error == "slow_down")
        if status != 200:
            raise _refusal(answer)
        # The request for a device code has no nonce.
        return await self._identity(answer, nonce=None)

    async def confirm(self, refresh_token: str, subject: str) -> Identity:
        answer = await self._token("refresh_token", {"refresh_token": refresh_token})
        try:
            found = await self._identity(answer, nonce=None, subject=subject)
        except ProviderUnavailable as error:
            fresh = answer.get("refresh_token")
            error.refresh_token = fresh if isinstance(fresh, str) else None
            raise
        if found.refresh_token is not None:
            return found
        # Without a new refresh token in the answer, the old one stays valid.
        return Identity(subject=found.subject, claims=found.claims, groups=found.groups, refresh_token=refresh_token)

    # ------------------------------------------------------------------------------------------------------- answers

    async def _token(self, grant: str, asked: Mapping[str, str]) -> Mapping[str, Any]:
        status, answer = await self._post(await self._token_address(), {"grant_type": grant, **asked})
        if status != 200:
            raise _refusal(answer)
        return answer

    async def _identity(self, answer: Mapping[str, Any], *, nonce: str | None, subject: str | None = None) -> Identity:
        """The identity of a token response. With a `subject`, that of the person who logged in, the ID token may be
        missing, as in an answer to a refresh; then the access token proves the person at the userinfo endpoint.
        """
        text, access = answer.get("id_token"), answer.get("access_token")
        claims: Mapping[str, Any] = {}
        if isinstance(text, str):
            claims = await self._claims(text, nonce)
        elif subject is None:
            raise SignInRefused("invalid", "the identity provider sent no ID token; does OIDC_SCOPES have openid?")
        known = claims.get("sub", subject)
        groups = groups_in(claims, self._groups_claim)
        # A refresh needs no name.
        has_name = subject is not None or any(name in claims for name in ("preferred_username", "email"))
        if (groups is None or not claims or not has_name) and isinstance(access, str):
            info = await self._userinfo(access)
            if info is not None:
                if info.get("sub") != known:
                    raise SignInRefused("invalid", "the identity provider described another person")
                # The claims of the ID token are signed and come first.
                claims = {**info, **claims}
                groups = groups_in(claims, self._groups_claim) if groups is None else groups
        if "sub" not in claims or (subject is not None and claims["sub"] != subject):
            raise SignInRefused("invalid", "the identity provider did not confirm the person")
        if groups is None and _left_out(claims, self._groups_claim):
            raise SignInRefused(
                "no_role", "the identity provider left out the groups, because there are too many; limit them there"
            )
        fresh = answer.get("refresh_token")
        return Identity(
            subject=claims["sub"], claims=claims, groups=groups, refresh_token=fresh if isinstance(fresh, str) else None
        )

    async def _claims(self, text: str, nonce: str | None) -> Mapping[str, Any]:
        if len(text) > LARGEST:
            raise SignInRefused("invalid", "the ID token is too large")
        for again in (False, True):
            try:
                return read_id_token(
                    text,
                    await self._published(again=again),
                    issuer=self.issuer,
                    client=self._client,
                    nonce=nonce,
                    now=self._clock.now(),
                )
            except UnknownKey as error:
                reason = str(error)
            except InvalidIdToken as error:
                raise SignInRefused("invalid", f"the ID token is not valid: {error}") from None
        raise SignInRefused("invalid", f"the ID token is not valid: {reason}")

    async def _userinfo(self, access: str) -> Mapping[str, Any] | None:
        address = (await self._discovered()).get("userinfo_endpoint")
        if address is None:
            return None
        status, answer = await self._exchange("GET", str(address), {"Authorization": f"Bearer {access}"})
        if status in (401, 403):
            raise SignInRefused("refused", "the identity provider no longer accepts its own token")
        if status != 200:
            raise self._away(f"userinfo answered {status}")
        return answer

    # ----------------------------------------------------------------------------------------------------- transport

    async def _discovered(self) -> Mapping[str, Any]:
        now = self._clock.monotonic()
        if self._metadata is None or now - self._metadata[0] > KEEP_S:
            address = f"{self.issuer.rstrip('/')}{DISCOVERY}"
            status, found = await self._exchange("GET", address)
            if status != 200:
                raise self._away(f"{DISCOVERY} answered {status}")
            if found.get("issuer") != self.issuer:
                what = f"its issuer is {str(found.get('issuer'))[:200]}; OIDC_ISSUER must be exactly the same"
                raise self._away(what)
            if missing := [name for name in _REQUIRED if not isinstance(found.get(name), str)]:
                raise self._away(f"its configuration has no {missing[0]}")
            if wrong := [name for name in _ENDPOINTS if name in found and not _is_safe(found[name])]:
                raise self._away(f"its {wrong[0]} is not https")
            self._metadata = now, found
        return self._metadata[1]

    async def _published(self, *, again: bool) -> list[Mapping[str, Any]]:
        now = self._clock.monotonic()
        age = KEEP_S + 1 if self._keys is None else now - self._keys[0]
        if self._keys is None or age > (KEYS_AGAIN_S if again else KEEP_S):
            status, found = await self._exchange("GET", str((await self._discovered())["jwks_uri"]))
            keys = found.get("keys")
            if status != 200 or not isinstance(keys, list):
                raise self._away("its keys cannot be read")
            self._keys = now, [key for key in keys if isinstance(key, Mapping)]
        return self._keys[1]

    async def _token_address(self) -> str:
        return str((await self._discovered())["token_endpoint"])

    async def _post(self, address: str, form: Mapping[str, str]) -> tuple[int, Mapping[str, Any]]:
        """A request with the credentials of the client. The status is 200, or that of an OAuth error."""
        headers, sent = {"Content-Type": "application/x-www-form-urlencoded"}, {**form}
        ways = (await self._discovered()).get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if self._secret is not None and "client_secret_basic" not in ways and "client_secret_post" in ways:
            sent |= {"client_id": self._client, "client_secret": self._secret}
        elif self._secret is not None:
            # RFC 6749, 2.3.1: both are form-encoded first.
            pair = httpx2.BasicAuth(quote(self._client, safe=""), quote(self._secret, safe=""))
            request = next(pair.auth_flow(httpx2.Request("POST", address)))
            headers["Authorization"] = request.headers["Authorization"]
        else:
            sent["client_id"] = self._client
        status, answer = await self._exchange("POST", address, headers, urlencode(sent).encode())
        if status != 200 and not (400 <= status < 500 and isinstance(answer.get("error"), str)):
            raise self._away(f"{urlsplit(address).path} answered {status}")
        if answer.get("error") in ("server_error", "temporarily_unavailable"):
            raise self._away(str(answer["error"]))
        if answer.get("error") == "invalid_client":
            raise self._away("it does not accept the credentials of CronFlow; check OIDC_CLIENT_ID and the secret")
        return status, answer

    async def _exchange(
        self, method: str, address: str, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> tuple[int, Mapping[str, Any]]:
        sent = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "cronflow",
            **(headers or {}),
        }
        if self._trust is None:
            # Loading the certificates takes a while.
            self._trust = await asyncio.to_thread(httpx2.create_ssl_context)
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                httpx2.AsyncClient(verify=self._trust, follow_redirects=False, timeout=TIMEOUT_S) as client,
                client.stream(method, address, headers=sent, content=content) as response,
            ):
                body = b""
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > LARGEST:
                        raise self._away("its answer is too large")
                status = response.status_code
        except TimeoutError:
            raise self._away(f"no answer within {TIMEOUT_S:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise self._away(f"{type(error).__name__}: {error}".removesuffix(": ")[:200]) from None
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, Mapping):
            if status < 400:
                raise self._away(f"{urlsplit(address).path} answered no JSON object (is a JWT configured there?)")
            found = {}
        return status, found

    def _away(self, reason: str) -> ProviderUnavailable:
        return ProviderUnavailable(self.issuer, reason)


def _refusal(answer: Mapping[str, Any]) -> SignInRefused:
    error = str(answer.get("error"))[:100]
    words = {
        "access_denied": "the login was declined at the identity provider",
        "expired_token": "the code was not entered in time; log in again",
        "invalid_grant": "the identity provider has ended this login, or the code was already used",
    }
    return SignInRefused("refused", words.get(error, f"the identity provider refused: {error}"))


def _left_out(claims: Mapping[str, Any], claim: str) -> bool:
    """Whether the provider moved the groups elsewhere, as Entra does for people in many groups."""
    names = claims.get("_claim_names")
    return (isinstance(names, Mapping) and claim in names) or claims.get("hasgroups") is True


def _is_safe(address: object) -> bool:
    """Whether it is https, or plain http to this machine."""
    if not isinstance(address, str):
        return False
    parts = urlsplit(address)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and is_local))


def _seconds(value: object, default: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return default
    return min(float(value), most)

"""Log in with a password, stay logged in, log out.

A login starts a session: a family of refresh tokens of which only the latest is valid. Each refresh replaces the token
by compare-and-set, so if two replicas receive the same token, one wins. Presenting an outdated token, by a thief or by
the robbed user, ends the session for both.

An access token is valid while it is not expired, its session exists, and its user is enabled and unchanged. Every
request checks all three, so logging out, disabling and changing a user take effect at once.

Attempts are counted before the password is checked: by address, before anything else is read; by address and account
together; and by account. The first two refuse, the third only delays, so nobody can lock a user out from elsewhere. The
admin of the settings is a user that is not stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

import structlog

from cronflow.auth.passwords import Passwords
from cronflow.auth.tokens import (
    ACCESS_S,
    AccessTokens,
    Claims,
    hashed,
    random_text,
    refresh_parts,
    refresh_text,
)
from cronflow.domain.access import KEY_AUTHOR, Principal, Role, Session, User
from cronflow.domain.errors import TooSoon
from cronflow.ports import Backends, Clock
from cronflow.usecases.audit import Auditor, Changed

SESSION_LASTS = timedelta(days=7)
TICKET_S = 30.0
FREE_ATTEMPTS, FIRST_WAIT_S, LONGEST_WAIT_S = 5, 60.0, 900.0
FREE_BY_ADDRESS = 20
"""More than for one account, because many people may share an address."""
FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 8.0
COUNTED_FOR_S = 900.0

log = structlog.get_logger("cronflow.auth")


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """The tokens of a login or refresh. `expires_in` is the lifetime of the access token in seconds."""

    access_token: str
    refresh_token: str
    expires_in: int = ACCESS_S


def settings_admin(name: str, password_hash: str, jwt_secret: str, credential: str) -> User:
    """The admin of the settings. `credential` is the password or its hash: the same one gives the same stamp on every
    replica, and a new one ends all sessions. Without JWT_SECRET a stamp reveals nothing about it.
    """
    stamp = hmac.digest(jwt_secret.encode(), f"admin {credential}".encode(), hashlib.sha256).hex()
    began = datetime(1970, 1, 1, tzinfo=UTC)
    return User(name=name, role=Role.ADMIN, password_hash=password_hash, stamp=stamp, created_at=began)


class Logins:
    """The login sessions of one cluster. Any number of replicas may serve them."""

    def __init__(
        self, backends: Backends, clock: Clock, tokens: AccessTokens, admin: User, passwords: Passwords
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._tokens = tokens
        self._admin = admin
        self._passwords = passwords
        self._auditor = Auditor(backends.audit, clock)

    async def count_attempt(self, address: str) -> None:
        """Count an attempt of this address to log in, before its request is read. Raises TooSoon."""
        await self._count(_by_address(address), FREE_BY_ADDRESS)

    async def login(self, name: str, password: str, address: str) -> IssuedTokens | None:
        """Start a session after `count_attempt`; None for a wrong name or password. Raises TooSoon."""
        account = f"login:user:{hashed(name)[:32]}"
        pair = f"{account}:{network_of(address)}"
        await self._count(pair, FREE_ATTEMPTS)
        failures = await self._backends.limiter.count(account, COUNTED_FOR_S) - 1 - FREE_ATTEMPTS
        if failures >= 0:
            await self._clock.sleep(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 30)))
        user = await self._user(name)
        right = await self._passwords.matches(password, None if user is None else user.password_hash)
        if user is None or not right or not user.enabled:
            log.warning("login refused", user=name[:100], address=address)
            return None
        # Forgive only this attempt of the address; otherwise a user could log in to keep guessing other passwords.
        await self._backends.limiter.take_back(_by_address(address))
        for key in (pair, account):
            await self._backends.limiter.forgive(key)
        session, random = secrets.token_hex(16), random_text()
        until = self._clock.now() + SESSION_LASTS
        await self._backends.sessions.create(
            Session(id=session, user=user.name, stamp=user.stamp, token_hash=hashed(random), expires_at=until)
        )
        log.info("login", user=user.name, address=address)
        return self._tokens_for(user.name, session, random)

    async def _count(self, key: str, free: int) -> None:
        wait_s = await self._backends.limiter.attempt(key, free, FIRST_WAIT_S, LONGEST_WAIT_S)
        if wait_s:
            raise TooSoon(wait_s)

    async def refresh(self, refresh_token: str) -> IssuedTokens | None:
        """New tokens for the latest refresh token. Any other token returns None and ends its session."""
        session, random = await self._session_of(refresh_token)
        if session is None or await self._user_in(session) is None:
            return None
        following = random_text()
        if not await self._backends.sessions.rotate(session.id, hashed(random), hashed(following)):
            await self._backends.sessions.end(session.id)
            log.warning("refresh token used twice, session ended", user=session.user)
            await self._auditor.record(session.user, Changed("session.revoke", f"user:{session.user}"))
            return None
        return self._tokens_for(session.user, session.id, following)

    async def logout(self, refresh_token: str) -> bool:
        """End the session; ending it twice is safe. False, and no effect, if this is not its latest refresh token."""
        session, random = await self._session_of(refresh_token)
        if session is None:
            return True
        if not hmac.compare_digest(session.token_hash, hashed(random)):
            return False
        await self._backends.sessions.end(session.id)
        return True

    async def principal(self, access_token: str) -> Principal | None:
        """The principal of the token; None if the token is not valid."""
        claims = self._tokens.read(access_token)
        session = None if claims is None else await self._backends.sessions.get(claims.session)
        if claims is None or session is None or session.user != claims.user:
            return None
        user = await self._user_in(session)
        return None if user is None else user.principal(session.id)

    async def is_current(self, principal: Principal) -> bool:
        """Whether the session or key of the principal still exists, and gives the same rights."""
        if principal.name.startswith(KEY_AUTHOR):
            key = await self._backends.keys.get(principal.name.removeprefix(KEY_AUTHOR))
            found = None if key is None or key.has_expired(self._clock.now()) else key.principal
        else:
            session = await self._backends.sessions.get(principal.login)
            user = None if session is None else await self._user_in(session)
            found = None if user is None else user.principal(principal.login)
        return found is not None and (found, found.login) == (principal, principal.login)

    async def ticket(self, principal: Principal) -> str:
        """A ticket that can be redeemed once within TICKET_S."""
        ticket = random_text()
        await self._backends.tickets.put(hashed(ticket), principal, TICKET_S)
        return ticket

    async def redeem(self, ticket: str) -> Principal | None:
        """The principal of the ticket; None if it was redeemed or has expired, or if its login has ended."""
        found = await self._backends.tickets.take(hashed(ticket))
        return found if found is not None and await self.is_current(found) else None

    def _tokens_for(self, user: str, session: str, random: str) -> IssuedTokens:
        return IssuedTokens(self._tokens.make(Claims(user, session)), refresh_text(session, random))

    async def _session_of(self, refresh_token: str) -> tuple[Session | None, str]:
        parts = refresh_parts(refresh_token)
        return (None, "") if parts is None else (await self._backends.sessions.get(parts[0]), parts[1])

    async def _user_in(self, session: Session) -> User | None:
        """The user of the session, if both are still valid."""
        if session.expires_at <= self._clock.now():
            return None
        user = await self._user(session.user)
        return user if user is not None and user.enabled and user.stamp == session.stamp else None

    async def _user(self, name: str) -> User | None:
        return self._admin if name == self._admin.name else await self._backends.users.get(name)


def _by_address(address: str) -> str:
    return f"login:{network_of(address)}"


def network_of(address: str) -> str:
    """The key by which clients are counted: the IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ip_address(address)
    except ValueError:
        return "unknown"
    return str(ip_network((found, 64), strict=False).network_address) if isinstance(found, IPv6Address) else address

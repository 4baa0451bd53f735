"""Log in with a password, stay logged in, log out. `single_sign_on` logs in through the identity provider.

A login starts a session: a family of refresh tokens of which only the latest is valid. Each refresh replaces the token
by compare-and-set, so if two replicas receive the same token, one wins. Presenting an outdated token, by a thief or by
the robbed user, ends the session for both.

An access token is valid while it is not expired, its session exists, and its user is enabled and unchanged. Every
request checks all three, so logging out, disabling and changing a user take effect at once.

Attempts are counted before the password is checked: by address, before anything else is read; by address and account
together; and by account. The first two refuse, the third only delays, so nobody can lock a user out from elsewhere. The
admin of the settings is a user that is not stored. Without `passwords_for_all` only this admin may use a password, and
sessions of other users with passwords end. People of the identity provider are checked there by `people`.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
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
from cronflow.domain.access import KEY_AUTHOR, LoginMethod, Principal, Role, Session, User, UserSource
from cronflow.domain.errors import BackendUnavailable, TooSoon
from cronflow.domain.single_sign_on import SignInRefused
from cronflow.ports import Backends, Clock
from cronflow.usecases.audit import Auditor, Changed, client_address, client_agent
from cronflow.usecases.people import OidcPeople, rights_facts

SESSION_LASTS = timedelta(days=7)
TICKET_S = 30.0
FREE_ATTEMPTS, FIRST_WAIT_S, LONGEST_WAIT_S = 5, 60.0, 900.0
FREE_BY_ADDRESS = 20
"""More than for one account, because many people may share an address."""
FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 8.0
COUNTED_FOR_S = 900.0
TOUCH_AFTER = timedelta(minutes=5)
"""The last use of a session is stored with this precision."""
REFUSALS_PER_S, REFUSALS_AT_ONCE = 0.2, 100
"""How many refused logins of the whole cluster are recorded in the audit log; all are in the log of the process."""
PASSWORD_ONLY = "passwords are switched off here (PASSWORD_LOGIN); log in with single sign-on"  # noqa: S105  a message

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
        self,
        backends: Backends,
        clock: Clock,
        tokens: AccessTokens,
        admin: User,
        passwords: Passwords,
        *,
        people: OidcPeople | None = None,
        passwords_for_all: bool = True,
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._tokens = tokens
        self._admin = admin
        self._passwords = passwords
        self._auditor = Auditor(backends.audit, clock)
        self._people = people
        self.passwords_for_all = passwords_for_all

    async def count_attempt(self, address: str) -> None:
        """Count an attempt of this address to log in, before its request is read. Raises TooSoon."""
        await self._count(_by_address(address), FREE_BY_ADDRESS)

    async def count_sign_in(self, address: str) -> None:
        """Count a login through the provider that this address begins. Raises TooSoon. They have a count of their own,
        because a link of another site can begin one, and must not use up the attempts with a password.
        """
        await self._count(_sign_in_by_address(address), FREE_BY_ADDRESS)

    async def login(self, name: str, password: str, address: str) -> IssuedTokens | None:
        """Start a session after `count_attempt`; None for a wrong name or password. Raises TooSoon, and SignInRefused
        if passwords are switched off for this name, whether it exists or not.
        """
        if not self.passwords_for_all and name != self._admin.name:
            raise SignInRefused("passwords", PASSWORD_ONLY)
        account = f"login:user:{hashed(name)[:32]}"
        pair = f"{account}:{network_of(address)}"
        await self._count(pair, FREE_ATTEMPTS)
        failures = await self._backends.limiter.count(account, COUNTED_FOR_S) - 1 - FREE_ATTEMPTS
        if failures >= 0:
            await self._clock.sleep(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** min(failures, 30)))
        user = await self._user(name)
        if user is not None and user.source is not UserSource.LOCAL:
            user = None
        right = await self._passwords.matches(password, None if user is None else user.password_hash)
        if user is None or not right or not user.enabled:
            log.warning("login refused", user=name[:100], address=address)
            # A name that does not exist may be a password in the wrong field.
            await self.record_refusal("" if user is None else user.name, {"method": LoginMethod.PASSWORD.value})
            return None
        # Forgive only this attempt of the address; otherwise a user could log in to keep guessing other passwords.
        await self._backends.limiter.take_back(_by_address(address))
        for key in (pair, account):
            await self._backends.limiter.forgive(key)
        return await self.open(user, LoginMethod.PASSWORD)

    async def open(
        self,
        user: User,
        method: LoginMethod,
        *,
        lasts: timedelta = SESSION_LASTS,
        refresh_token: str | None = None,
        facts: Mapping[str, object] | None = None,
    ) -> IssuedTokens:
        """Start a session of a user whose identity is proved. `refresh_token` is that of the provider; `facts` are for
        the audit log.
        """
        now, name, random = self._clock.now(), secrets.token_hex(16), random_text()
        from_provider = self._people if user.source is UserSource.OIDC else None
        session = Session(
            id=name,
            user=user.name,
            stamp=user.stamp,
            token_hash=hashed(random),
            expires_at=now + lasts,
            method=method,
            created_at=now,
            last_used_at=now,
            address=client_address.get(),
            agent=client_agent.get(),
            checked_at=None if from_provider is None else now,
            rules="" if from_provider is None else from_provider.rules,
            grant="" if from_provider is None else from_provider.seal(name, refresh_token),
        )
        await self._backends.sessions.create(session)
        log.info("login", user=user.name, address=session.address, method=method.value)
        after = {"method": method.value, "session": session.short_id, **rights_facts(user), **(facts or {})}
        await self._auditor.record(user.name, Changed("session.create", f"user:{user.name}", None, after))
        return self._tokens_for(session, random)

    async def record_refusal(self, name: str, facts: Mapping[str, object]) -> None:
        """Write an entry for a refused login, unless there were very many. `name` is empty if it is not a user's."""
        limit = await self._backends.limiter.take("audit:refusals", REFUSALS_PER_S, REFUSALS_AT_ONCE)
        if not limit:
            await self._auditor.record("", Changed("login.refuse", f"user:{name or '?'}", None, facts))

    async def signed_in(self, address: str) -> None:
        """Take back what `count_sign_in` counted for this address, which has logged in."""
        await self._backends.limiter.take_back(_sign_in_by_address(address))

    async def _count(self, key: str, free: int) -> None:
        wait_s = await self._backends.limiter.attempt(key, free, FIRST_WAIT_S, LONGEST_WAIT_S)
        if wait_s:
            raise TooSoon(wait_s)

    async def refresh(self, refresh_token: str) -> IssuedTokens | None:
        """New tokens for the latest refresh token. Any other token returns None and ends its session."""
        session, random = await self._session_of(refresh_token)
        user = None if session is None else await self._user_of(session)
        if session is None or user is None:
            return None
        following = random_text()
        if not await self._backends.sessions.rotate(session.id, hashed(random), hashed(following)):
            await self._backends.sessions.end(session.id)
            log.warning("refresh token used twice, session ended", user=session.user)
            await self._auditor.record(session.user, Changed("session.revoke", f"user:{session.user}"))
            return None
        if user.source is UserSource.OIDC:
            try:
                session = await self._checked(session, user)
            except BackendUnavailable:
                # The client keeps its token and asks again.
                await self._backends.sessions.rotate(session.id, hashed(following), hashed(random))
                raise
        await self._backends.sessions.touch(session.id, self._clock.now())
        return self._tokens_for(session, following)

    async def _checked(self, session: Session, user: User) -> Session:
        """The session, confirmed by the provider. Raises SignInRefused after ending it, and BackendUnavailable."""
        try:
            if self._people is None:
                raise SignInRefused("refused", "single sign-on is switched off")
            return await self._people.check(session, user)
        except SignInRefused as error:
            await self._backends.sessions.end(session.id)
            log.warning("session ended", user=session.user, reason=str(error))
            ended = {"session": session.short_id, "reason": str(error)}
            await self._auditor.record(session.user, Changed("session.revoke", f"user:{session.user}", ended))
            raise

    async def logout(self, refresh_token: str) -> bool:
        """End the session; ending it twice is safe. False, and no effect, if this is not its latest refresh token."""
        session, random = await self._session_of(refresh_token)
        if session is None:
            return True
        if not hmac.compare_digest(session.token_hash, hashed(random)):
            return False
        await self._backends.sessions.end(session.id)
        ended = {"session": session.short_id}
        await self._auditor.record(session.user, Changed("session.end", f"user:{session.user}", ended))
        return True

    async def principal(self, access_token: str) -> Principal | None:
        """The principal of the token; None if the token is not valid."""
        claims = self._tokens.read(access_token)
        session = None if claims is None else await self._backends.sessions.get(claims.session)
        if claims is None or session is None or session.user != claims.user:
            return None
        user = await self._user_in(session)
        if user is None:
            return None
        now = self._clock.now()
        if session.last_used_at is None or now - session.last_used_at >= TOUCH_AFTER:
            await self._touch(session.id, now)
        return user.principal(session.id)

    async def _touch(self, session: str, now: datetime) -> None:
        try:
            await self._backends.sessions.touch(session, now)
        except BackendUnavailable:
            # The last use is only shown to people; the request does not depend on it.
            return

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

    def _tokens_for(self, session: Session, random: str) -> IssuedTokens:
        is_checked = self._people is not None and bool(session.rules)
        lasts_s = self._people.lasts_s(session) if self._people is not None and is_checked else ACCESS_S
        access = self._tokens.make(Claims(session.user, session.id), lasts_s)
        return IssuedTokens(access, refresh_text(session.id, random), lasts_s)

    async def _session_of(self, refresh_token: str) -> tuple[Session | None, str]:
        parts = refresh_parts(refresh_token)
        return (None, "") if parts is None else (await self._backends.sessions.get(parts[0]), parts[1])

    async def _user_in(self, session: Session) -> User | None:
        """The user of the session, if both are valid for a request now."""
        user = await self._user_of(session)
        if user is None or user.source is UserSource.LOCAL:
            return user
        return user if self._people is not None and self._people.accepts(session) else None

    async def _user_of(self, session: Session) -> User | None:
        """The user of the session, if both still exist. A person of the provider may have to be checked there."""
        if session.expires_at <= self._clock.now():
            return None
        user = await self._user(session.user)
        if user is None or not user.enabled or user.stamp != session.stamp:
            return None
        may_stay = user.source is UserSource.OIDC or self.passwords_for_all or user.name == self._admin.name
        return user if may_stay else None

    async def _user(self, name: str) -> User | None:
        return self._admin if name == self._admin.name else await self._backends.users.get(name)


def _by_address(address: str) -> str:
    return f"login:{network_of(address)}"


def _sign_in_by_address(address: str) -> str:
    return f"login:oidc:{network_of(address)}"


def network_of(address: str) -> str:
    """The key by which clients are counted: the IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ip_address(address)
    except ValueError:
        return "unknown"
    return str(ip_network((found, 64), strict=False).network_address) if isinstance(found, IPv6Address) else address

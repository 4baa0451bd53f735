"""People of the identity provider: who may log in, with which role, and whether they still may.

Groups decide about the role, by the table OIDC_ROLES. A session counts for CHECK_AFTER_S after the provider has
confirmed the person; the refresh that follows asks it again, with the provider's refresh token, which is stored sealed.
So a person who was removed there, or left the groups, loses access after ACCESS_S at the latest. Without such a token
the session ends after UNCHECKED_LASTS. A provider may replace the token with each answer: if MongoDB does not take the
new one, it waits in Redis for the next refresh. A change of the settings makes the next request of every session ask
again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import structlog

from cronflow.auth.tokens import ACCESS_S, hashed
from cronflow.auth.vault import CannotOpen, Vault
from cronflow.domain.access import Secret, Session, User, UserSource
from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.single_sign_on import GroupRole, Rights, SignInRefused, person_name, rights_of
from cronflow.ports import Backends, Clock
from cronflow.ports.identity import Identity, IdentityProvider, ProviderUnavailable

CHECK_AFTER_S = 300.0
"""A refresh asks the provider if it was asked longer ago than this."""
UNCHECKED_LASTS = timedelta(hours=1)
MOST_RECORDED = 50

log = structlog.get_logger("cronflow.auth")


class OidcPeople:
    """The people of one provider. `rules` identifies the settings that decide about their rights."""

    def __init__(
        self,
        backends: Backends,
        clock: Clock,
        provider: IdentityProvider,
        table: Sequence[GroupRole],
        vault: Vault,
        *,
        client: str,
        groups_claim: str,
    ) -> None:
        self._users = backends.users
        self._sessions = backends.sessions
        self._tickets = backends.tickets
        self._clock = clock
        self._provider = provider
        self._table = table
        self._vault = vault
        rules = "\n".join((provider.issuer, client, groups_claim, *sorted(map(str, table))))
        self.rules = hashlib.sha256(rules.encode()).hexdigest()[:16]

    async def admit(self, identity: Identity) -> User:
        """The user for a person who has just logged in, with the rights of today. Raises SignInRefused.

        The subject decides who it is: a person who gets another name at the provider stays the same user here.
        """
        subject = self._subject(identity.subject)
        for _ in range(3):
            known = await self._users.of_subject(subject)
            if disabled := next((user for user in known if not user.enabled), None):
                raise SignInRefused("disabled", f"{disabled.name} is disabled here; an admin can enable the user")
            if known:
                rights = self._rights(known[0].name, identity)
                if (changed := _with(known[0], rights)) == known[0]:
                    return changed
                if await self._users.replace(changed, known[0].stamp):
                    return changed
                continue
            name = person_name(identity.claims)
            rights = self._rights(name, identity)
            if await self._users.get(name) is not None:
                what = (
                    f"{name} already belongs to another person of the identity provider; an admin can delete that user"
                )
                raise SignInRefused("name", what)
            made = self._new(name, subject, rights)
            if await self._users.create(made):
                return made
        raise Conflict("the user was changed by someone else; try again")

    def seal(self, session: str, refresh_token: str | None) -> str:
        """The sealed refresh token of the provider, bound to the session; empty for None."""
        return "" if refresh_token is None else self._vault.seal(session, refresh_token)

    def accepts(self, session: Session) -> bool:
        """Whether the session counts for a request now."""
        if session.checked_at is None or session.rules != self.rules:
            return False
        return not session.grant or self._age_s(session) < ACCESS_S

    def lasts_s(self, session: Session) -> int:
        """How long an access token of the session may be valid."""
        if session.grant:
            return max(1, int(ACCESS_S - self._age_s(session)))
        return ACCESS_S

    async def check(self, session: Session, user: User) -> Session:
        """The session, after the provider was asked if that was due. Raises SignInRefused, and ProviderUnavailable,
        which changes nothing.
        """
        if session.rules == self.rules and self._age_s(session) < CHECK_AFTER_S:
            return session
        if not session.grant:
            if session.rules == self.rules:
                return session
            raise SignInRefused("no_role", "the settings of single sign-on have changed; log in again")
        try:
            grant = await self._kept_grant(session) or session.grant
            sealed = Secret(name=session.id, sealed=grant, updated_at=self._clock.now(), updated_by="")
            token = self._vault.open(sealed)
        except CannotOpen:
            raise SignInRefused("refused", "JWT_SECRET has changed; log in again") from None
        prefix = f"{self._provider.issuer} "
        if not user.subject.startswith(prefix):
            raise SignInRefused("refused", "another identity provider is configured now; log in again")
        try:
            identity = await self._provider.confirm(token, user.subject.removeprefix(prefix))
        except ProviderUnavailable as error:
            await self._keep_grant(session, error.refresh_token)
            raise
        now, grant = self._clock.now(), self.seal(session.id, identity.refresh_token)
        try:
            await self._write(user, self._rights(user.name, identity))
            await self._sessions.confirm(session.id, now, self.rules, grant)
        except SignInRefused:
            await self._expel(user)
            raise
        except BackendUnavailable:
            await self._keep_grant(session, identity.refresh_token)
            raise
        return replace(session, checked_at=now, rules=self.rules, grant=grant)

    async def _keep_grant(self, session: Session, refresh_token: str | None) -> None:
        """Keep the refresh token of the provider that could not be stored in the session. The provider accepts no
        earlier one, and may revoke the whole grant when one is presented again.
        """
        if refresh_token is None:
            return
        left_s = (session.expires_at - self._clock.now()).total_seconds()
        try:
            await self._tickets.put_login(_place_of(session), self.seal(session.id, refresh_token), max(1.0, left_s))
        except BackendUnavailable as error:
            log.warning("refresh token of the identity provider lost", user=session.user, reason=str(error))

    async def _kept_grant(self, session: Session) -> str | None:
        try:
            return await self._tickets.get_login(_place_of(session))
        except BackendUnavailable:
            return None

    def _age_s(self, session: Session) -> float:
        return (self._clock.now() - session.checked_at).total_seconds() if session.checked_at else ACCESS_S

    def _rights(self, name: str, identity: Identity) -> Rights:
        if identity.groups is None:
            raise SignInRefused(
                "no_role",
                "the identity provider sent no groups; check OIDC_GROUPS_CLAIM, OIDC_SCOPES and the client there",
            )
        rights = rights_of(frozenset(identity.groups), self._table)
        if rights is None:
            log.warning("login refused", user=name, groups=recorded_groups(identity))
            raise SignInRefused("no_role", f"no group of {name} has a role here; ask an admin to add one to OIDC_ROLES")
        return rights

    async def _write(self, user: User, rights: Rights) -> None:
        """Store the rights if they have changed. A concurrent change by an admin ends the session anyway."""
        if (changed := _with(user, rights)) != user and await self._users.replace(changed, user.stamp):
            log.info("role changed", user=user.name, role=rights.role.value)

    async def _expel(self, user: User) -> None:
        """End all sessions of a person who has no role any more."""
        await self._users.replace(replace(user, stamp=secrets.token_hex(16)), user.stamp)

    def _new(self, name: str, subject: str, rights: Rights) -> User:
        stamp, now = secrets.token_hex(16), self._clock.now()
        user = User(name=name, role=rights.role, password_hash="", stamp=stamp, created_at=now, source=UserSource.OIDC)
        return _with(replace(user, subject=subject), rights)

    def _subject(self, subject: str) -> str:
        # Subjects are unique only within their issuer.
        return f"{self._provider.issuer} {subject}"


def _place_of(session: Session) -> str:
    """Where a token is kept that replaces the stored one. Another stored one has another place, so what is kept is
    never used twice.
    """
    return hashed(f"grant {session.id} {session.grant}")


def recorded_groups(identity: Identity) -> list[str]:
    """The groups for the audit log, bounded."""
    return sorted(identity.groups or ())[:MOST_RECORDED]


def rights_facts(user: User) -> Mapping[str, object]:
    """The rights of a user for the audit log."""
    return {"role": user.role.value, **({"jobs": list(user.jobs)} if user.jobs else {})}


def _with(user: User, rights: Rights) -> User:
    return replace(
        user,
        role=rights.role,
        jobs=rights.jobs,
        allow_shell=rights.allow_shell,
        allow_secrets=rights.allow_secrets,
    )

"""List and revoke login sessions. A session that is revoked counts for no further request; open live streams of it are
closed within seconds. Everybody manages their own sessions; the caller checks who may manage those of others.
"""

from __future__ import annotations

import re

from cronflow.domain.access import SHORT_ID, Session
from cronflow.domain.errors import NotFound
from cronflow.ports import Clock, SessionStore
from cronflow.usecases.audit import Auditor, Changed

PAGE = 500
_ID = re.compile(rf"[0-9a-f]{{{SHORT_ID},32}}")


class LoginSessions:
    """The sessions of all users."""

    def __init__(self, sessions: SessionStore, clock: Clock, audit: Auditor) -> None:
        self._sessions = sessions
        self._clock = clock
        self._audit = audit

    async def find(self, *, user: str | None = None, after: str = "", limit: int = 500) -> list[Session]:
        """Sessions that have not expired, of one user or of all, by id, after the id `after`."""
        now, found = self._clock.now(), list[Session]()
        while len(found) < limit:
            page = await self._sessions.find(user=user, after=after, limit=limit)
            found += [one for one in page if one.expires_at > now]
            if len(page) < limit:
                break
            after = page[-1].id
        return found[:limit]

    async def get(self, short_id: str) -> Session:
        """The session with this id, which may be the short one. Raises NotFound."""
        if _ID.fullmatch(short_id):
            # The first id after all texts that are less than this one.
            before = f"{short_id[:-1]}{chr(ord(short_id[-1]) - 1)}~"
            for session in await self._sessions.find(after=before, limit=1):
                if session.id.startswith(short_id) and session.expires_at > self._clock.now():
                    return session
        raise NotFound("session", short_id[:50])

    async def revoke(self, session: Session, *, by: str = "") -> None:
        """End the session."""
        await self._revoke([session], by)

    async def revoke_all(self, user: str, *, by: str = "") -> list[Session]:
        """End all sessions of a user, and return them."""
        ended: list[Session] = []
        while found := await self.find(user=user, limit=PAGE):
            await self._revoke(found, by)
            ended += found
        return ended

    async def _revoke(self, found: list[Session], by: str) -> None:
        for session in found:
            await self._sessions.end(session.id)
        await self._audit.record(
            by, *(Changed("session.revoke", f"user:{one.user}", {"session": one.short_id}) for one in found)
        )

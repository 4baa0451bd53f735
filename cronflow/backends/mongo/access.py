"""Users, sessions, API keys, secrets and the audit log, each by name or id.

Reading the database grants no access: passwords, tokens and keys are stored as hashes, secrets are sealed, and audit
entries are masked. The refresh tokens of the identity provider are sealed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from cronflow.backends import codec
from cronflow.backends.mongo.database import Document, MongoDatabase, NamedCollection
from cronflow.domain.access import ApiKey, AuditEntry, LoginMethod, Secret, Session, User, UserSource, entry_id
from cronflow.ports import AuditQuery


class MongoUserStore(NamedCollection):
    collection = "users"

    async def create(self, user: User) -> bool:
        return await self.insert(_user_document(user))

    async def get(self, name: str) -> User | None:
        return await self.one(name, _user)

    async def of_subject(self, subject: str) -> list[User]:
        async with self._database.translated():
            found = await self._documents.find({"subject": subject}).sort("created_at", 1).to_list(None)
        return [_user(document) for document in found]

    async def find(self, *, after: str = "", limit: int = 500) -> list[User]:
        return await self.page(after, limit, _user)

    async def replace(self, user: User, stamp: str) -> bool:
        async with self._database.translated():
            result = await self._documents.replace_one({"_id": user.name, "stamp": stamp}, _user_document(user))
        return bool(result.matched_count)


class MongoSessionStore(NamedCollection):
    """A TTL index deletes expired sessions."""

    collection = "sessions"

    async def create(self, session: Session) -> None:
        await self.insert(_session_document(session))

    async def get(self, session: str) -> Session | None:
        return await self.one(session, _session)

    async def find(self, *, user: str | None = None, after: str = "", limit: int = 500) -> list[Session]:
        filters: dict[str, object] = {"_id": {"$gt": after}} if user is None else {"user": user, "_id": {"$gt": after}}
        async with self._database.translated():
            found = await self._documents.find(filters).sort("_id", 1).limit(limit).to_list(None)
        return [_session(document) for document in found]

    async def touch(self, session: str, at: datetime) -> None:
        await self._set(session, {"last_used_at": at})

    async def confirm(self, session: str, at: datetime, rules: str, grant: str) -> None:
        await self._set(session, {"checked_at": at, "rules": rules, "grant": grant})

    async def _set(self, session: str, fields: dict[str, object]) -> None:
        async with self._database.translated():
            await self._documents.update_one({"_id": session}, {"$set": fields})

    async def rotate(self, session: str, old: str, new: str) -> bool:
        async with self._database.translated():
            result = await self._documents.update_one(
                {"_id": session, "token_hash": old}, {"$set": {"token_hash": new}}
            )
        return bool(result.matched_count)

    async def end(self, session: str) -> None:
        await self.delete(session)


class MongoKeyStore(NamedCollection):
    collection = "api_keys"

    async def create(self, key: ApiKey) -> bool:
        return await self.insert(
            {
                "_id": key.name,
                **codec.rights_document(key),
                "key_hash": key.key_hash,
                "created_at": key.created_at,
                "created_by": key.created_by,
                "expires_at": key.expires_at,
                "last_used_at": key.last_used_at,
            }
        )

    async def get(self, name: str) -> ApiKey | None:
        return await self.one(name, _key)

    async def find(self, *, after: str = "", limit: int = 500) -> list[ApiKey]:
        return await self.page(after, limit, _key)

    async def touch(self, name: str, at: datetime) -> None:
        async with self._database.translated():
            await self._documents.update_one({"_id": name}, {"$set": {"last_used_at": at}})


class MongoSecretStore(NamedCollection):
    collection = "secrets"

    async def put(self, secret: Secret) -> bool:
        document = {"sealed": secret.sealed, "updated_at": secret.updated_at, "updated_by": secret.updated_by}
        async with self._database.translated():
            result = await self._documents.replace_one({"_id": secret.name}, document, upsert=True)
        return result.upserted_id is not None

    async def get(self, names: Collection[str]) -> list[Secret]:
        async with self._database.translated():
            found = await self._documents.find({"_id": {"$in": list(names)}}).to_list(None)
        return [_secret(document) for document in found]

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        return await self.page(after, limit, _secret)


class MongoAuditStore:
    """Changes are stored as JSON text, because their keys may contain characters that MongoDB's may not."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database, self._audit = database, database["audit"]

    async def append(self, entries: Sequence[AuditEntry]) -> None:
        await self._database.insert_new("audit", [_entry_document(entry) for entry in entries])

    async def find(self, query: AuditQuery) -> list[AuditEntry]:
        asked = {"by": query.by, "action": query.action, "target": query.target}
        filters: dict[str, object] = {field: value for field, value in asked.items() if value is not None}
        if query.job is not None:
            # All runs of a job, whose ids go on with `@` and then a digit or a word.
            runs = {"$gte": f"run:{query.job}@", "$lt": f"run:{query.job}A"}
            filters["$or"] = [{"target": f"job:{query.job}"}, {"target": runs}]
        ends = [query.before] if query.before is not None else []
        if query.until is not None:
            ends.append(entry_id(query.until))
        bounds = {"$lt": min(ends)} if ends else {}
        if query.since is not None:
            bounds["$gte"] = entry_id(query.since)
        if bounds:
            filters["_id"] = bounds
        async with self._database.translated():
            found = await self._audit.find(filters).sort("_id", -1).limit(query.limit).to_list(None)
        return [_entry(document) for document in found]

    async def keep(self, retention: timedelta) -> None:
        await self._database.expire("audit", "at", retention)


def _user_document(user: User) -> dict[str, Any]:
    return {
        "_id": user.name,
        **codec.rights_document(user),
        "password_hash": user.password_hash,
        "stamp": user.stamp,
        "created_at": user.created_at,
        "enabled": user.enabled,
        **({} if user.source is UserSource.LOCAL else {"source": user.source.value, "subject": user.subject}),
    }


def _user(document: Document) -> User:
    return User(
        name=document["_id"],
        **codec.rights(document),
        password_hash=document["password_hash"],
        stamp=document["stamp"],
        created_at=document["created_at"],
        enabled=document["enabled"],
        source=UserSource(document.get("source", UserSource.LOCAL)),
        subject=document.get("subject", ""),
    )


def _session_document(session: Session) -> dict[str, Any]:
    return {
        "_id": session.id,
        "user": session.user,
        "stamp": session.stamp,
        "token_hash": session.token_hash,
        "expires_at": session.expires_at,
        "method": session.method.value,
        "created_at": session.created_at,
        "last_used_at": session.last_used_at,
        "address": session.address,
        "agent": session.agent,
        "checked_at": session.checked_at,
        "rules": session.rules,
        "grant": session.grant,
    }


def _session(document: Document) -> Session:
    return Session(
        id=document["_id"],
        user=document["user"],
        stamp=document["stamp"],
        token_hash=document["token_hash"],
        expires_at=document["expires_at"],
        method=LoginMethod(document.get("method", LoginMethod.PASSWORD)),
        created_at=document.get("created_at"),
        last_used_at=document.get("last_used_at"),
        address=document.get("address"),
        agent=document.get("agent", ""),
        checked_at=document.get("checked_at"),
        rules=document.get("rules", ""),
        grant=document.get("grant", ""),
    )


def _key(document: Document) -> ApiKey:
    return ApiKey(
        name=document["_id"],
        **codec.rights(document),
        key_hash=document["key_hash"],
        created_at=document["created_at"],
        created_by=document["created_by"],
        expires_at=document["expires_at"],
        last_used_at=document["last_used_at"],
    )


def _secret(document: Document) -> Secret:
    return Secret(
        name=document["_id"],
        sealed=document["sealed"],
        updated_at=document["updated_at"],
        updated_by=document["updated_by"],
    )


def _entry_document(entry: AuditEntry) -> dict[str, Any]:
    return {
        "_id": entry.id,
        "at": entry.at,
        "by": entry.by,
        "action": entry.action,
        "target": entry.target,
        "before": orjson.dumps(entry.before).decode(),
        "after": orjson.dumps(entry.after).decode(),
        "address": entry.address,
    }


def _entry(document: Document) -> AuditEntry:
    return AuditEntry(
        id=document["_id"],
        at=document["at"],
        by=document["by"],
        action=document["action"],
        target=document["target"],
        before=orjson.loads(document["before"]),
        after=orjson.loads(document["after"]),
        address=document["address"],
    )

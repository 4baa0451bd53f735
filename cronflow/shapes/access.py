"""Users, API keys, secrets and audit entries. What logs in, or is secret, has no shape."""

from __future__ import annotations

from cronflow.domain.access import ApiKey, AuditEntry, Secret, User
from cronflow.shapes.plain import Shape, iso, optional_iso


def user_shape(user: User) -> Shape:
    """A user."""
    return {
        "name": user.name,
        "role": user.role.value,
        "enabled": user.enabled,
        "created_at": iso(user.created_at),
    }


def key_shape(key: ApiKey) -> Shape:
    """An API key."""
    return {
        "name": key.name,
        "role": key.role.value,
        "jobs": list(key.jobs),
        "created_at": iso(key.created_at),
        "created_by": key.created_by or None,
        "expires_at": optional_iso(key.expires_at),
        "last_used_at": optional_iso(key.last_used_at),
    }


def secret_shape(secret: Secret) -> Shape:
    """The name of a secret, and who set it."""
    return {
        "name": secret.name,
        "updated_at": iso(secret.updated_at),
        "updated_by": secret.updated_by or None,
    }


def audit_shape(entry: AuditEntry) -> Shape:
    """An entry of the audit log."""
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "by": entry.by or None,
        "action": entry.action,
        "target": entry.target,
        "before": entry.before,
        "after": entry.after,
        "address": entry.address,
    }

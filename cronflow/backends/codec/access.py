"""The rights of users, keys and principals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cronflow.backends.codec.values import Document
from cronflow.domain.access import ApiKey, Principal, Role, User


def rights_document(holder: ApiKey | User | Principal) -> Document:
    """The role, patterns and rights. An editor is stored as a viewer with `editor`, because CronFlow 0.6 does not know
    the role; an API of that version admits them as viewers.
    """
    if holder.role is not Role.EDITOR:
        return {"role": holder.role.value, "jobs": list(holder.jobs)}
    rights = {"shell": holder.allow_shell, "secrets": holder.allow_secrets}
    return {"role": Role.VIEWER.value, "jobs": list(holder.jobs), "editor": rights}


def rights(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `rights_document` stores. CronFlow 0.6 had keys of admins limited to some jobs, which could read
    every secret; they are editors without any right.
    """
    role, jobs, editor = Role(document["role"]), tuple(document.get("jobs", ())), document.get("editor")
    if editor is None and not (role is Role.ADMIN and jobs):
        return {"role": role, "jobs": jobs}
    found = editor or {}
    allowed = {"allow_shell": found.get("shell", False), "allow_secrets": found.get("secrets", False)}
    return {"role": Role.EDITOR, "jobs": jobs, **allowed}

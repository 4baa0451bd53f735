"""People who log in through an identity provider: their names, and the role that their groups give them.

A person is known by the provider's subject, which never changes; the name is only shown and recorded. It begins with
`oidc:`, which no name of a local user does, so the two cannot collide. Groups give rights by the table OIDC_ROLES; a
person in no group of the table has none and is refused. Nothing here talks to the provider.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cronflow.domain.access import Role, check_limits
from cronflow.domain.errors import CronFlowError, InvalidInput, Problem

PERSON_PREFIX = "oidc:"
"""The name of every person who logs in through the provider begins with this."""
LONGEST_SUBJECT = 255
MOST_GROUPS, LONGEST_GROUP = 1000, 256
_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}")
_RIGHTS = {"shell": "allow_shell", "secrets": "allow_secrets"}
_EXAMPLE = "write it like cronflow-admins=admin, or payroll=editor:payroll-*"


class SignInRefused(CronFlowError):
    """The provider or CronFlow refuses a login. `reason` is a word for the page; the message is for people."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """A role with its limits, as in User."""

    role: Role
    jobs: tuple[str, ...] = ()
    allow_shell: bool = False
    allow_secrets: bool = False


@dataclass(frozen=True, slots=True)
class GroupRole:
    """The rights of one group of the provider. Its text is the way it is written in OIDC_ROLES."""

    group: str
    rights: Rights

    def __str__(self) -> str:
        rights = "".join(f"+{word}" for word, name in _RIGHTS.items() if getattr(self.rights, name))
        jobs = f":{' '.join(self.rights.jobs)}" if self.rights.jobs else ""
        return f"{self.group}={self.rights.role.value}{rights}{jobs}"


def parse_group_role(text: str) -> GroupRole:
    """Reads `group=role`; an editor may have rights and patterns, `payroll=editor+shell:payroll-* tax-*`. Raises
    InvalidInput.
    """
    # A group may contain `=`, as names of a directory do; roles and patterns do not.
    group, mark, given = (part.strip() for part in text.rpartition("="))
    named, colon, patterns = given.partition(":")
    word, *rights = named.strip().split("+")
    if not mark or not group or len(group) > LONGEST_GROUP or word not in list(Role):
        known = ", ".join(role.value for role in Role)
        raise InvalidInput(Problem("", f"{text[:100]!r} does not give a group one of the roles {known}", _EXAMPLE))
    if unknown := [right for right in rights if right not in _RIGHTS]:
        raise InvalidInput(Problem("", f"{unknown[0]!r} is not a right of editors", "use +shell and +secrets"))
    jobs = patterns.split() if colon else None
    if jobs is not None and Role(word) is not Role.EDITOR:
        raise InvalidInput(Problem("", f"jobs cannot limit the role {word}", "use the role editor, or leave them out"))
    allowed = {_RIGHTS[right]: True for right in rights}
    shell, secrets = allowed.get("allow_shell", False), allowed.get("allow_secrets", False)
    limits = check_limits(Role(word), jobs, allow_shell=shell, allow_secrets=secrets)
    return GroupRole(group, Rights(role=Role(word), jobs=limits, allow_shell=shell, allow_secrets=secrets))


def rights_of(groups: Collection[str], table: Sequence[GroupRole]) -> Rights | None:
    """The rights of a person in these groups; None if no group of the table is among them.

    The highest role wins. Several groups of editors add up their jobs, but keep only the rights that all of them have:
    otherwise a right that was given for some jobs would count for others.
    """
    found = [one.rights for one in table if one.group in groups]
    if not found:
        return None
    highest = max((one.role for one in found), key=list(Role).index)
    same = [one for one in found if one.role is highest]
    all_jobs = any(not one.jobs for one in same)
    jobs = () if all_jobs else tuple(dict.fromkeys(pattern for one in same for pattern in one.jobs))
    shell, secrets = all(one.allow_shell for one in same), all(one.allow_secrets for one in same)
    return Rights(role=highest, jobs=jobs, allow_shell=shell, allow_secrets=secrets)


def groups_in(claims: Mapping[str, object], claim: str) -> tuple[str, ...] | None:
    """The groups in the claim of this name, or of this path (`realm_access.roles`); None if there is no such claim."""
    found: object = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return (found[:LONGEST_GROUP],)
    if not isinstance(found, list):
        return None
    return tuple(one for one in found[:MOST_GROUPS] if isinstance(one, str) and 0 < len(one) <= LONGEST_GROUP)


def person_name(claims: Mapping[str, object]) -> str:
    """The name under which a person is shown and recorded. Raises SignInRefused if no claim can serve as one."""
    for claim in _candidates(claims):
        name = claim.strip().lower()
        if _NAME.fullmatch(name):
            return f"{PERSON_PREFIX}{name}"
    raise SignInRefused("invalid", "the identity provider sent no usable name (preferred_username or email)")


def _candidates(claims: Mapping[str, object]) -> Iterable[str]:
    for claim in ("preferred_username", "email", "sub"):
        found = claims.get(claim)
        # An address that its owner has not proved could be that of somebody else.
        if isinstance(found, str) and not (claim == "email" and claims.get("email_verified") is False):
            yield found

"""What the API needs to let anybody in: an admin, and what access tokens are signed with.

The rule it protects: there is no default password and no default secret. Who starts an API without them is told both
at once, before a server is contacted.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from cronflow.config import values
from cronflow.config.settings import FIELDS, Settings
from cronflow.domain.errors import InvalidInput, Problem

_WAYS = ("admin_password", "admin_password_file", "admin_password_hash")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The admin's name and either the password or its hash, and the secret of the access tokens."""

    admin: str
    password: str | None = field(repr=False)
    password_hash: str | None = field(repr=False)
    jwt_secret: str = field(repr=False)


def credentials(settings: Settings) -> Credentials:
    """Raises InvalidInput with all that is missing, or is there twice."""
    problems: list[Problem] = []
    ways = [name for name in _WAYS if getattr(settings, name) is not None]
    password = settings.admin_password
    if not ways:
        what = "is not set, and there is no default password"
        remedy = "set it, or CRONFLOW_ADMIN_PASSWORD_FILE, or CRONFLOW_ADMIN_PASSWORD_HASH"
        problems.append(Problem("CRONFLOW_ADMIN_PASSWORD", what, remedy))
    elif len(ways) > 1:
        named = " and ".join(name.upper() for name in ways)
        problems.append(Problem(f"CRONFLOW_{ways[1].upper()}", f"{named} are both set", "remove one of the two"))
    elif settings.admin_password_file is not None:
        try:
            password = _password_in(settings.admin_password_file)
        except InvalidInput as error:
            problems += (Problem("CRONFLOW_ADMIN_PASSWORD_FILE", one.what, one.remedy) for one in error.problems)
    if settings.jwt_secret is None:
        remedy = "make one with `openssl rand -base64 48`, the same for every API"
        problems.append(Problem("CRONFLOW_JWT_SECRET", "is not set", remedy))
    if problems or settings.jwt_secret is None:
        raise InvalidInput(problems)
    return Credentials(settings.admin_user, password, settings.admin_password_hash, settings.jwt_secret)


def secrets_of(settings: Settings) -> frozenset[str]:
    """What must be shown nowhere: every hidden value, what the files hold that stand in for one, and the passwords of
    addresses.
    """
    found: set[str] = set()
    for name, field_ in FIELDS.items():
        value = getattr(settings, name)
        if value is not None and "hidden" in field_.metadata:
            found |= {value} if isinstance(value, str) else {base64.b64encode(key).decode() for key in value}
    for file in (settings.admin_password_file, settings.api_key_file):
        try:
            found.add("" if file is None else file.read_text("utf-8").strip())
        except (OSError, UnicodeDecodeError):
            # Whoever needs it says what is wrong with it; nothing can be shown of what cannot be read.
            continue
    for url in filter(None, (settings.redis_url, settings.mongo_url)):
        user = url.partition("://")[2].rpartition("@")[0]
        password = user.partition(":")[2]
        found |= {password, unquote(password)}
    return frozenset(found - {""})


def _password_in(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not UTF-8") from None
    return values.password(text)

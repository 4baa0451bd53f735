"""The credentials of a development cluster: generated once per data folder, unless the settings have them.

The rule: two folders never share credentials, and only the owner of the folder can read them.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cronflow.config import Settings
from cronflow.domain.errors import CronFlowError


@dataclass(frozen=True, slots=True)
class DevCredentials:
    """The complete settings, and the generated part: for the API only, and for all processes."""

    settings: Settings
    for_api: dict[str, str] = field(repr=False)
    for_all: dict[str, str] = field(repr=False)
    password: str | None = field(repr=False)


def complete(settings: Settings, folder: Path | None) -> DevCredentials:
    """Generate what the settings lack, or read what was generated before; without a folder nothing is stored.
    `password` is None when the settings have one, which must not be printed.
    """
    for_api: dict[str, str] = {}
    for_all: dict[str, str] = {}
    password = None
    if not (settings.admin_password or settings.admin_password_file or settings.admin_password_hash):
        password = for_api["CRONFLOW_ADMIN_PASSWORD"] = _stored(folder, "admin-password", _password)
        settings = replace(settings, admin_password=password)
    if settings.jwt_secret is None:
        secret = for_api["CRONFLOW_JWT_SECRET"] = _stored(folder, "jwt-secret", lambda: secrets.token_urlsafe(48))
        settings = replace(settings, jwt_secret=secret)
    if settings.secrets_key is None:
        key = for_all["CRONFLOW_SECRETS_KEY"] = _stored(folder, "secrets-key", _key)
        settings = replace(settings, secrets_key=(base64.b64decode(key),))
    return DevCredentials(settings, for_api, for_all, password)


def _password() -> str:
    return secrets.token_urlsafe(12)


def _key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def _stored(folder: Path | None, name: str, make: Callable[[], str]) -> str:
    if folder is None:
        return make()
    file = folder / name
    try:
        if file.exists():
            return file.read_text("utf-8").strip()
        value = make()
        # Private from the start, not afterwards.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(value + "\n")
    except OSError as error:
        raise CronFlowError(f"{file} cannot be used: {error.strerror}") from error
    return value

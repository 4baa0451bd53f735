"""Which way commands take: through an API that somebody has logged in to, or to the servers themselves.

The rule: CRONFLOW_API_URL counts before the login that is kept, and either before REDIS_URL and MONGO_URL. What is
kept stands in one file, see `cronflow.remote.login`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.remote.login import Login, LoginFile

if TYPE_CHECKING:
    from cronflow.config import Settings


def login_file() -> LoginFile:
    """The place of the XDG base directories for what a person sets up. Raises InvalidInput where there is none."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not Path(folder).is_absolute():
        try:
            folder = str(Path.home() / ".config")
        except RuntimeError:
            raise InvalidInput(Problem("HOME", "is not set, so no login is kept", "set XDG_CONFIG_HOME")) from None
    return LoginFile(Path(folder) / "cronflow" / "login.json")


def login_of(settings: Settings) -> tuple[Login, LoginFile | None] | None:
    """The login that counts, and the file that it is kept in; None: commands go to the servers. Raises InvalidInput."""
    key = _key(settings)
    if settings.api_url is None:
        if key is not None:
            what = "is set, and CRONFLOW_API_URL is not"
            raise InvalidInput(Problem("CRONFLOW_API_KEY", what, "set CRONFLOW_API_URL to the address of the API"))
        return _kept()
    url = settings.api_url.rstrip("/")
    if key is not None:
        return Login(url=url, token=key, insecure=settings.api_insecure), None
    kept = _kept()
    if kept is None or kept[0].url != url:
        what = f"says {url}, and nobody is logged in there"
        remedy = f"set CRONFLOW_API_KEY or CRONFLOW_API_KEY_FILE, or: cronflow login {url}"
        raise InvalidInput(Problem("CRONFLOW_API_URL", what, remedy))
    return kept


def _kept() -> tuple[Login, LoginFile | None] | None:
    try:
        file = login_file()
    except InvalidInput:
        # Without a home nobody can have logged in.
        return None
    login = file.read()
    return None if login is None else (login, file)


def _key(settings: Settings) -> str | None:
    if settings.api_key is not None and settings.api_key_file is not None:
        what = "CRONFLOW_API_KEY and CRONFLOW_API_KEY_FILE are both set"
        raise InvalidInput(Problem("CRONFLOW_API_KEY_FILE", what, "remove one of the two"))
    if settings.api_key_file is None:
        return settings.api_key
    from cronflow.config.values import key

    path = settings.api_key_file
    try:
        return key(path.read_text("ascii"))
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
    except (UnicodeDecodeError, InvalidInput):
        reason = f"{path} holds no API key"
    raise InvalidInput(Problem("CRONFLOW_API_KEY_FILE", reason))

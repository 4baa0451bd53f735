"""Decides which cluster a command uses: the API of a login, or the servers of the settings.

The rule: what somebody said for this command wins over what was saved earlier. The order is `--context` or
CRONFLOW_CONTEXT, CRONFLOW_API_URL, the servers in flags, the environment or the secrets folder, the saved login, and
last the servers in cronflow.toml. `Target.ignored` has what else is set, so that no choice is silent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cronflow.cli import main
from cronflow.config.values import masked
from cronflow.domain.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from cronflow.client.contexts import Contexts
    from cronflow.client.session import Login, LoginFile
    from cronflow.config import Settings

SERVERS = ("redis_url", "mongo_url", "namespace")


@dataclass(frozen=True, slots=True)
class Target:
    """A login and the file that stores it, if any; or, without a login, the servers of `settings`. `ignored` has the
    places of other clusters that are named too.
    """

    settings: Settings
    login: Login | None = None
    file: LoginFile | None = None
    ignored: Sequence[str] = ()

    def __str__(self) -> str:
        if self.login is not None:
            user = f" as {self.login.user}" if self.login.user else ""
            return f"{self.login.url}{user}" + (f", context {self.login.context}" if self.login.context else "")
        urls = [masked(url) for url in (self.settings.redis_url, self.settings.mongo_url) if url]
        return f"namespace {self.settings.namespace}" + (f" at {' and '.join(urls)}" if urls else "")


def settings(overrides: Mapping[str, object] | None = None) -> Settings:
    """The settings of this process. Raises InvalidInput with every problem."""
    from cronflow.config import load_settings

    return load_settings({"context": main.context_option, **(overrides or {})})


def contexts() -> Contexts:
    """In the XDG configuration folder. Raises InvalidInput without a home directory."""
    from cronflow.client.contexts import Contexts

    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not Path(folder).is_absolute():
        try:
            folder = str(Path.home() / ".config")
        except RuntimeError:
            raise InvalidInput(
                Problem("HOME", "is not set, so no login can be stored", "set XDG_CONFIG_HOME")
            ) from None
    return Contexts(Path(folder) / "cronflow")


def target() -> Target:
    """The cluster of this command. Raises InvalidInput when what names it is invalid or incomplete."""
    read = settings()
    servers = [_place(read, name) for name in SERVERS if name in read.sources]
    explicit = [_place(read, name) for name in SERVERS if _is_explicit(read, name)]
    api = [] if read.api_url is None else [_place(read, "api_url")]
    if read.context is not None:
        return Target(read, *_named(read, read.context), [*api, *servers])
    key = _api_key(read)
    if read.api_url is not None:
        login, file = _of_api(read, read.api_url.rstrip("/"), key)
        saved = [] if file is not None else _saved_elsewhere(login.url)
        return Target(read, login, file, [*servers, *saved])
    if key is not None:
        what = "is set, but CRONFLOW_API_URL is not"
        raise InvalidInput(Problem("CRONFLOW_API_KEY", what, "set CRONFLOW_API_URL to the address of the API"))
    if not explicit:
        stored = _current()
        return Target(read) if stored is None else Target(read, *stored, servers)
    saved = _saved_elsewhere("")
    lacking = [f"CRONFLOW_{name.upper()}" for name in SERVERS[:2] if getattr(read, name) is None]
    if saved and lacking:
        verb = "are" if len(lacking) > 1 else "is"
        what = f"selects the servers of the settings, but {' and '.join(lacking)} {verb} not set"
        remedy = "set the addresses, remove it, or choose a saved login with --context NAME"
        raise InvalidInput(Problem(explicit[0], what, remedy))
    return Target(read, ignored=saved)


def _is_explicit(read: Settings, name: str) -> bool:
    """Whether a setting was given for this command or this shell. A cronflow.toml applies wherever it lies, also in a
    folder that somebody else wrote.
    """
    from cronflow.config.sources import TOML

    return read.sources.get(name, TOML) != TOML


def _place(read: Settings, name: str) -> str:
    source = read.sources[name]
    variable = source.removeprefix("environment ")
    return variable if variable != source else f"{name.upper()} in {source}"


def _named(read: Settings, name: str) -> tuple[Login, LoginFile]:
    file = contexts().file(name)
    login = file.read()
    if login is None:
        place = "--context" if read.sources["context"] == "flag" else _place(read, "context")
        remedy = f"list them: cronflow context list; or log in: cronflow login URL --context {name}"
        raise InvalidInput(Problem(place, f"there is no saved login {name!r}", remedy))
    return login, file


def _of_api(read: Settings, url: str, key: str | None) -> tuple[Login, LoginFile | None]:
    """The login at CRONFLOW_API_URL: with the key, else a saved one for this address."""
    from cronflow.client.session import Login

    if key is not None:
        return Login(url=url, token=key, insecure=read.api_insecure), None
    for file in _saved():
        login = file.read()
        if login is not None and login.url == url:
            return login, file
    what = f"is {url}, but you are not logged in there"
    remedy = f"set CRONFLOW_API_KEY or CRONFLOW_API_KEY_FILE, or: cronflow login {url}"
    raise InvalidInput(Problem("CRONFLOW_API_URL", what, remedy))


def _saved() -> list[LoginFile]:
    """The file of the current context, which may not exist, and then those of the others."""
    try:
        saved = contexts()
    except InvalidInput:
        # Without a home directory there is no login.
        return []
    return [saved.file(name) for name in dict.fromkeys([saved.current(), *saved.names()])]


def _current() -> tuple[Login, LoginFile] | None:
    file = next(iter(_saved()), None)
    login = None if file is None else file.read()
    return None if file is None or login is None else (login, file)


def _saved_elsewhere(url: str) -> list[str]:
    """The saved login, unless it is for `url`. One that cannot be read is not in use, so it is no error here."""
    try:
        stored = _current()
    except InvalidInput:
        return ["the saved login, which cannot be read"]
    return [] if stored is None or stored[0].url == url else [f"the saved login at {stored[0].url}"]


def _api_key(read: Settings) -> str | None:
    if read.api_key is not None and read.api_key_file is not None:
        what = "CRONFLOW_API_KEY and CRONFLOW_API_KEY_FILE are both set"
        raise InvalidInput(Problem("CRONFLOW_API_KEY_FILE", what, "remove one of the two"))
    if read.api_key_file is None:
        return read.api_key
    from cronflow.config.values import key

    path = read.api_key_file
    try:
        return key(path.read_text("ascii"))
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
    except (UnicodeDecodeError, InvalidInput):
        reason = f"{path} does not contain an API key"
    raise InvalidInput(Problem("CRONFLOW_API_KEY_FILE", reason))

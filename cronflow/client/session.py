"""The login file: the URL of the API and the tokens, stored between two commands. It sends nothing.

The rules it protects: other users cannot read the file, and it is never half written. A refresh token is valid once, so
a command that renews it holds the lock until the new one is in the file.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from cronflow.domain.errors import CronFlowError, InvalidInput, Problem

LOOK_EVERY_S = 0.05
LONGEST_WAIT_S = 90.0
"""For another command that renews the tokens: longer than a request may take."""
LARGEST = 64 * 1024
OTHERS = 0o077
DEFAULT_CONTEXT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Credentials for the API at `url`. `token` is an API key, or an access token that comes with a `refresh` token;
    `user` is empty for a key. `insecure` allows plain HTTP to another machine. `context` is the name of a stored login,
    and empty for one that is not stored.
    """

    url: str
    token: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)
    user: str = ""
    insecure: bool = False
    context: str = field(default="", compare=False)

    @property
    def command(self) -> str:
        """The command that replaces this login."""
        named = "" if self.context in ("", DEFAULT_CONTEXT) else f" --context {self.context}"
        return f"cronflow login {self.url}{named}"


class LoginFile:
    """Reads and writes the login of one context."""

    def __init__(self, path: Path, context: str = DEFAULT_CONTEXT) -> None:
        self.path = path
        self.context = context

    def read(self) -> Login | None:
        """None when there is no login. Raises InvalidInput when other users can read it, or it is not a login."""
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                content = file.read(LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InvalidInput(Problem(str(self.path), f"cannot be read: {error.strerror}")) from None
        if mode & OTHERS:
            what = f"other users of this machine can read this login (mode {mode:04o})"
            remedy = f"chmod 600 {self.path}; if it may have been read: cronflow logout, then cronflow login"
            raise InvalidInput(Problem(str(self.path), what, remedy))
        try:
            return _login(json.loads(content), self.context)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidInput(
                Problem(str(self.path), "is not a login file", "remove it, then cronflow login URL")
            ) from None

    def write(self, login: Login) -> None:
        """Replace the file in one step. Raises InvalidInput when it cannot be written."""
        content = {
            "url": login.url,
            "user": login.user,
            "token": login.token,
            "refresh": login.refresh,
            "insecure": login.insecure,
        }
        replace_file(self.path, json.dumps(content, indent=2))

    def forget(self) -> None:
        """Remove the file if it exists. Raises InvalidInput when it cannot be removed."""
        try:
            self.path.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise InvalidInput(Problem(str(self.path), f"cannot be removed: {error.strerror}")) from None

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """No other command can change the login meanwhile. Raises CronFlowError after LONGEST_WAIT_S."""
        try:
            _make_folder(self.path.parent)
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidInput(Problem(str(self.path), f"cannot be locked: {error.strerror}")) from None
        try:
            waited = 0.0
            # Polling instead of waiting in a thread: Ctrl-C then works at once.
            while not _lock(lock):
                if waited >= LONGEST_WAIT_S:
                    raise CronFlowError(f"another command has held {self.path} for {LONGEST_WAIT_S:.0f} s; try again")
                await asyncio.sleep(LOOK_EVERY_S)
                waited += LOOK_EVERY_S
            yield
        finally:
            os.close(lock)


def replace_file(path: Path, text: str) -> None:
    """Replace a private file in one step. Raises InvalidInput when it cannot be written."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _make_folder(path.parent)
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(Problem(str(path), f"cannot be written: {error.strerror}")) from None


def _make_folder(folder: Path) -> None:
    # `mkdir` with `parents` would give the mode only to the last one.
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)


def check_transport(url: str, *, insecure: bool) -> None:
    """Raises InvalidInput for plain HTTP to another machine, unless that is allowed."""
    parts = urlsplit(url)
    if parts.scheme != "http" or insecure or _is_loopback(parts.hostname or ""):
        return
    what = "plain http exposes the password and every token to anyone on the network"
    remedy = "use https://; over a safe channel such as a tunnel: --insecure, or CRONFLOW_API_INSECURE=true"
    raise InvalidInput(Problem(url, what, remedy))


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _login(content: Mapping[str, object], context: str) -> Login:
    """Raises KeyError, TypeError."""
    url, token, refresh = content["url"], content["token"], content["refresh"]
    if not isinstance(url, str) or not isinstance(token, str) or not isinstance(refresh, str | None):
        raise TypeError
    return Login(
        url=url,
        token=token,
        refresh=refresh,
        user=str(content["user"]),
        insecure=bool(content["insecure"]),
        context=context,
    )


def _lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

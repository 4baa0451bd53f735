"""Named contexts: the logins that are stored on this machine, and which of them is the current one.

The first login has the name `default` and the file that versions before contexts used, so an old login is read. Every
other context has a file of its own, so commands in two contexts never wait for each other's lock.
"""

from __future__ import annotations

from pathlib import Path

from cronflow.client.session import DEFAULT_CONTEXT, LoginFile, replace_file
from cronflow.domain.errors import InvalidInput, Problem


class Contexts:
    """The contexts in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def file(self, name: str) -> LoginFile:
        """The login file of a context, which may not exist."""
        if name == DEFAULT_CONTEXT:
            return LoginFile(self.folder / "login.json")
        return LoginFile(self.folder / "contexts" / f"{name}.json", context=name)

    def names(self) -> list[str]:
        """The contexts that have a login, sorted. Raises InvalidInput when the folder cannot be read."""
        try:
            named = [path.stem for path in (self.folder / "contexts").glob("*.json") if not path.name.startswith(".")]
        except OSError as error:
            raise InvalidInput(Problem(str(self.folder), f"cannot be read: {error.strerror}")) from None
        default = [DEFAULT_CONTEXT] if self.file(DEFAULT_CONTEXT).path.exists() else []
        return sorted([*default, *named])

    def current(self) -> str:
        """The name of the current context, which may have no login any more. Raises InvalidInput."""
        try:
            return self._pointer.read_text("utf-8").strip() or DEFAULT_CONTEXT
        except (FileNotFoundError, NotADirectoryError):
            return DEFAULT_CONTEXT
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(Problem(str(self._pointer), f"cannot be read: {error}")) from None

    def use(self, name: str) -> None:
        """Make a context the current one. Raises InvalidInput when that cannot be stored."""
        if name != self.current():
            replace_file(self._pointer, f"{name}\n")

    @property
    def _pointer(self) -> Path:
        return self.folder / "context"

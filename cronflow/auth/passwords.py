"""Hashing passwords with argon2id: off the event loop, a few at a time, and for unknown users too.

The rule it protects: a login costs one hash whoever asks, so that its time does not tell which users exist; and many
logins at once can neither stop the event loop nor fill the memory (each hash takes 64 MiB).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from cronflow.domain.errors import TooSoon

AT_ONCE = 2
MOST_WAITING = 32


class Passwords:
    """Hashes and compares passwords. At most `at_once` do so at a time, and MOST_WAITING wait."""

    def __init__(self, hasher: PasswordHasher | None = None, *, at_once: int = AT_ONCE) -> None:
        self._hasher = hasher or PasswordHasher()
        # Its threads begin with the first hash, and the process ends without waiting for more than one.
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="cronflow-argon2")
        self._most = at_once + MOST_WAITING
        self._pending = 0

    async def hashed(self, password: str) -> str:
        """The hash to keep. Raises TooSoon when too many wait."""
        return await self._in_thread(password, None)

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Whether the hash is of the password; for None, after the same work, False. Raises TooSoon when too many
        wait.
        """
        return bool(await self._in_thread(password, password_hash or "")) and password_hash is not None

    async def _in_thread(self, password: str, password_hash: str | None) -> str:
        if self._pending >= self._most:
            raise TooSoon(1.0)
        self._pending += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._work, password, password_hash)
        finally:
            self._pending -= 1

    def _work(self, password: str, password_hash: str | None) -> str:
        if password_hash is None:
            return self._hasher.hash(password)
        # Always asked for, so that the first login of all costs one hash more and not the first unknown user's.
        nobodys = self._nobodys
        try:
            self._hasher.verify(password_hash or nobodys, password)
        except (VerificationError, InvalidHashError):
            return ""
        return password_hash

    @cached_property
    def _nobodys(self) -> str:
        """A hash that no password has, made with the same parameters."""
        return self._hasher.hash(b"\xff nobody")

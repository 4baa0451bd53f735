"""Hashes passwords with argon2id, off the event loop and a few at a time.

A login for an unknown user costs one hash too, so response times do not reveal which users exist. Many concurrent
logins can neither block the event loop nor exhaust the memory (each hash takes 64 MiB).
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
    """Runs at most `at_once` hashes concurrently and queues at most MOST_WAITING more."""

    def __init__(self, hasher: PasswordHasher | None = None, *, at_once: int = AT_ONCE) -> None:
        self._hasher = hasher or PasswordHasher()
        # Threads start with the first hash, and the process exits without waiting for more than one.
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="cronflow-argon2")
        self._most = at_once + MOST_WAITING
        self._pending = 0

    async def hashed(self, password: str) -> str:
        """Raises TooSoon if too many hashes are queued."""
        return await self._in_thread(password, None)

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Whether the hash belongs to the password. None costs the same work and returns False. Raises TooSoon if too
        many hashes are queued.
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
        # Read for every user; otherwise the first unknown user would take one hash longer.
        unmatched = self._unmatched_hash
        try:
            self._hasher.verify(password_hash or unmatched, password)
        except (VerificationError, InvalidHashError):
            return ""
        return password_hash

    @cached_property
    def _unmatched_hash(self) -> str:
        """A hash with the same parameters that no password matches."""
        return self._hasher.hash(b"\xff nobody")

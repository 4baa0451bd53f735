"""Sealing secrets with SECRETS_KEY: AES-256-GCM, the name of the secret bound to its value.

What is sealed can be opened with the key that its text names and under its own name, so that nobody who can write to
the store can put one secret in another's place. The first key seals, all of them open: to rotate, put a new key in
front, set the secrets again, take the old key away.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from cronflow.domain.access import Secret
from cronflow.domain.errors import CronFlowError

KEY_BYTES = 32
NONCE_BYTES = 12


class CannotOpen(CronFlowError):
    """A secret is sealed with a key that is not among SECRETS_KEY, or was tampered with."""


class Vault:
    """Seals and opens. `keys` are of KEY_BYTES each, at least one."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_fingerprint(key): AESGCM(key) for key in keys}
        self._first = next(iter(self._keys))

    def seal(self, name: str, value: str) -> str:
        """The text to keep."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._keys[self._first].encrypt(nonce, value.encode(), name.encode())
        return f"{self._first}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, secret: Secret) -> str:
        """The value. Raises CannotOpen."""
        fingerprint, _, text = secret.sealed.partition(":")
        key = self._keys.get(fingerprint)
        if key is None:
            raise CannotOpen(f"the secret {secret.name} is sealed with a key that SECRETS_KEY does not have")
        raw = base64.b64decode(text)
        try:
            return key.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], secret.name.encode()).decode()
        except InvalidTag:
            raise CannotOpen(f"the secret {secret.name} is not what was sealed under this name") from None


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:8]

"""Seals secrets with SECRETS_KEY: AES-256-GCM, with the name of the secret bound to its value.

A sealed value opens only with the key that its text names and under its own name, so write access to the store is not
enough to swap two secrets. The first key seals and every key opens. To rotate keys, put the new key first, set all
secrets again, then remove the old key.
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
    """The secret is sealed with a key that is not in SECRETS_KEY, or was tampered with."""


class Vault:
    """Seals and opens secrets. `keys` needs at least one key; each has KEY_BYTES."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_fingerprint(key): AESGCM(key) for key in keys}
        self._first = next(iter(self._keys))

    def seal(self, name: str, value: str) -> str:
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._keys[self._first].encrypt(nonce, value.encode(), name.encode())
        return f"{self._first}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, secret: Secret) -> str:
        """Raises CannotOpen."""
        fingerprint, _, text = secret.sealed.partition(":")
        key = self._keys.get(fingerprint)
        if key is None:
            raise CannotOpen(f"secret {secret.name} is sealed with a key that is not in SECRETS_KEY")
        raw = base64.b64decode(text)
        try:
            return key.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], secret.name.encode()).decode()
        except InvalidTag:
            raise CannotOpen(f"the stored secret {secret.name} was altered or has another name") from None


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:8]

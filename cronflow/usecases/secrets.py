"""Secrets, for those who manage them: set and deleted by name, never read back."""

from __future__ import annotations

from cronflow.auth.vault import Vault
from cronflow.domain.access import Secret
from cronflow.domain.errors import InvalidInput, NotFound, Problem
from cronflow.domain.secret import check_secret_name, check_secret_value
from cronflow.ports import Backends, Clock
from cronflow.usecases.audit import Auditor, Changed


class SecretValues:
    """Setting and deleting secrets. `vault` None: there is no SECRETS_KEY, and none can be set."""

    def __init__(self, backends: Backends, clock: Clock, vault: Vault | None) -> None:
        self._secrets = backends.secrets
        self._clock = clock
        self._vault = vault
        self._auditor = Auditor(backends.audit, clock)

    async def find(self, *, after: str = "", limit: int = 500) -> list[Secret]:
        """By name, those behind `after`."""
        return await self._secrets.find(after=after, limit=limit)

    async def set(self, name: str, value: str, *, by: str = "") -> bool:
        """Seal and keep it. Returns whether it is new. Raises InvalidInput."""
        check_secret_name(name)
        check_secret_value(value)
        if self._vault is None:
            raise InvalidInput(Problem("SECRETS_KEY", "is not set, so no secret can be kept", KEY_REMEDY))
        sealed = self._vault.seal(name, value)
        secret = Secret(name=name, sealed=sealed, updated_at=self._clock.now(), updated_by=by)
        new = await self._secrets.put(secret)
        await self._auditor.record(by, Changed("secret.set", f"secret:{name}", None, {"new": new}))
        return new

    async def delete(self, name: str, *, by: str = "") -> None:
        """Delete it; attempts of jobs that name it fail from now on. Raises NotFound."""
        if not await self._secrets.delete(name):
            raise NotFound("secret", name)
        await self._auditor.record(by, Changed("secret.delete", f"secret:{name}"))


KEY_REMEDY = "make one with `openssl rand -base64 32`, the same for the API and all nodes"

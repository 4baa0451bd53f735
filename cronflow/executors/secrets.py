"""Puts secrets into a target just before the attempt, and takes them out of all that comes back.

The rule it protects: a secret is in clear text only in the memory of the node that runs the attempt, from its start to
its end. Lines, results and errors pass a mask; the assignment, the run and the job keep the reference. Only the job's
own document is filled, never the arguments that somebody gave to one run.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from cronflow.auth.vault import CannotOpen, Vault
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.secret import Mask, filled, referenced
from cronflow.executors import Executors
from cronflow.ports import Assignment, LineSink, SecretStore

READ_AGAIN_IN = timedelta(seconds=10)


class WithSecrets:
    """An Executor around the others. `vault` None: the node has no SECRETS_KEY and declines what needs secrets."""

    def __init__(self, inner: Executors, secrets: SecretStore, vault: Vault | None) -> None:
        self._inner = inner
        self._secrets = secrets
        self._vault = vault

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    async def declines(self, assignment: Assignment, node: str) -> str | None:
        """See Choosy: it needs secrets and there is no key, or what the executor says."""
        if self._vault is None and referenced(assignment.job.target):
            return f"the job needs secrets and the node {node} has no SECRETS_KEY"
        return await self._inner.declines(assignment, node)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. A secret that does not exist or cannot be opened fails the attempt for good; while they cannot
        be read it is deferred.
        """
        names = referenced(assignment.job.target)
        if not names:
            return await self._inner.run(assignment, node, log)
        try:
            found = {secret.name: secret for secret in await self._secrets.get(names)}
        except BackendUnavailable as error:
            return AttemptResult(Outcome.DEFERRED, error=f"its secrets cannot be read: {error}", delay=READ_AGAIN_IN)
        missing = sorted(names - found.keys())
        if missing:
            return AttemptResult(
                Outcome.PERMANENT, error=f"there is no secret {missing[0]}; cronflow secrets set makes it"
            )
        if self._vault is None:
            return AttemptResult(Outcome.PERMANENT, error=f"the node {node} has no SECRETS_KEY")
        try:
            values = {name: self._vault.open(secret) for name, secret in found.items()}
        except CannotOpen as error:
            return AttemptResult(Outcome.PERMANENT, error=str(error))
        mask = Mask(values.values())
        target = filled(assignment.job.target, values)
        ready = replace(assignment, job=replace(assignment.job, target=target))
        attempt_result = await self._inner.run(ready, node, lambda level, text: log(level, mask.text(text)))
        return replace(attempt_result, error=mask.value(attempt_result.error), result=mask.value(attempt_result.result))

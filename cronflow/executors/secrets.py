"""Inserts secrets into a target just before an attempt, and masks them in everything that comes back.

A secret is in clear text only in the memory of the node that runs the attempt. Log lines, results and errors are
masked; the assignment, the run and the job keep the reference. Secrets are inserted only into the job's own document,
never into the arguments of a run.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from cronflow.auth.vault import CannotOpen, Vault
from cronflow.domain.capabilities import needs_of
from cronflow.domain.errors import BackendUnavailable
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.domain.secret import Mask, filled, referenced
from cronflow.executors.by_target import Executors
from cronflow.executors.upstream import WithUpstreamValues
from cronflow.ports import Assignment, LineSink, SecretStore

READ_AGAIN_IN = timedelta(seconds=10)


class WithSecrets:
    """Wraps the other executors. Without a `vault` (no SECRETS_KEY), it declines jobs that need secrets."""

    def __init__(self, inner: Executors | WithUpstreamValues, secrets: SecretStore, vault: Vault | None) -> None:
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
        """See SelectiveExecutor: the job needs secrets but the node has no key, or the executor declines."""
        if self._vault is None and needs_of(assignment.job).secrets:
            return f"the job needs secrets, but node {node} has no SECRETS_KEY"
        return await self._inner.declines(assignment, node)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. A secret that does not exist or cannot be opened fails the attempt permanently. While secrets
        cannot be read, the attempt is deferred.
        """
        if not needs_of(assignment.job).secrets:
            return await self._inner.run(assignment, node, log)
        names = referenced(assignment.job.target)
        try:
            found = {secret.name: secret for secret in await self._secrets.get(names)}
        except BackendUnavailable as error:
            return AttemptResult(Outcome.DEFERRED, error=f"cannot read the secrets: {error}", delay=READ_AGAIN_IN)
        missing = sorted(names - found.keys())
        if missing:
            return AttemptResult(
                Outcome.PERMANENT, error=f"there is no secret {missing[0]}; create it with `cronflow secrets set`"
            )
        if self._vault is None:
            return AttemptResult(Outcome.PERMANENT, error=f"node {node} has no SECRETS_KEY")
        try:
            values = {name: self._vault.open(secret) for name, secret in found.items()}
        except CannotOpen as error:
            return AttemptResult(Outcome.PERMANENT, error=str(error))
        mask = Mask(values.values())
        target = filled(assignment.job.target, values)
        ready = replace(assignment, job=replace(assignment.job, target=target))
        attempt_result = await self._inner.run(ready, node, lambda level, text: log(level, mask.text(text)))
        return replace(attempt_result, error=mask.value(attempt_result.error), result=mask.value(attempt_result.result))

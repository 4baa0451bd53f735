"""The circuit breakers of jobs in memory."""

from __future__ import annotations

from collections.abc import Collection

from cronflow.domain.job_breaker import BreakerState
from cronflow.testing.memory.documents import DocumentPort


class MemoryBreakerStore(DocumentPort, port="breakers"):
    async def get(self, jobs: Collection[str]) -> dict[str, BreakerState]:
        return {state.job: state for state in self.documents.breakers.pick(jobs)}

    async def replace(self, seen: BreakerState, state: BreakerState) -> bool:
        if seen == BreakerState(job=seen.job) and self.documents.breakers.insert(state.job, state):
            return True
        return self.documents.breakers.replace_if(
            state.job, lambda present: _compared(present) == _compared(seen), lambda _: state
        )

    async def remove(self, jobs: Collection[str]) -> None:
        self.documents.breakers.delete(jobs)


def _compared(state: BreakerState) -> tuple[object, ...]:
    return state.opened_at, state.probe_at, state.counts_from

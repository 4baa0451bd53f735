"""Hooks that make a verb of the memory backend fail before it acts, fail after it acted, or stall between the two.

Failing after is the case that matters most: the caller learns only that something went wrong, although the write
stands.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from cronflow.domain.errors import BackendUnavailable

P = ParamSpec("P")
R = TypeVar("R")


class Faults:
    """What shall go wrong, by verb (`runs.apply`, `queue.take` …). Also counts the calls, for tests of round trips."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._stalls: dict[str, asyncio.Event] = {}

    def fail_before(self, verb: str, times: int = 1) -> None:
        """The next calls have no effect and raise BackendUnavailable. A service (`MongoDB`, `Redis`) stands for all its
        verbs.
        """
        self._before[verb] += times

    def fail_after(self, verb: str, times: int = 1) -> None:
        """The next calls take effect and raise BackendUnavailable."""
        self._after[verb] += times

    def stall(self, verb: str) -> asyncio.Event:
        """Calls wait, before they act, until the event that is returned is set."""
        return self._stalls.setdefault(verb, asyncio.Event())

    def heal(self) -> None:
        """Nothing goes wrong any more; what stalls goes on."""
        self._before.clear()
        self._after.clear()
        for event in self._stalls.values():
            event.set()
        self._stalls.clear()

    async def before(self, service: str, verb: str) -> None:
        """Called before a verb acts."""
        self.calls[verb] += 1
        # Even an in-memory call gives the others a turn, as a real one would.
        await asyncio.sleep(0)
        stalled = self._stalls.get(verb)
        if stalled is not None:
            await stalled.wait()
        self._fail(self._before, service, verb)

    def after(self, service: str, verb: str) -> None:
        """Called after a verb acted."""
        self._fail(self._after, service, verb)

    def _fail(self, planned: Counter[str], service: str, verb: str) -> None:
        for name in (verb, service):
            if planned[name] > 0:
                planned[name] -= 1
                raise BackendUnavailable(service, "memory", f"{verb} was told to fail")


class HasFaults(Protocol):
    """An adapter whose verbs can be made to fail."""

    faults: Faults


S = TypeVar("S", bound=HasFaults)


def verb(
    service: str, name: str
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], Coroutine[Any, Any, R]]]:
    """Make a port's verb of a plain method: it acts in one step, so the backend is linearizable."""

    def wrap(act: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
        async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            await self.faults.before(service, name)
            result = act(self, *args, **kwargs)
            self.faults.after(service, name)
            return result

        functools.update_wrapper(call, act)
        return call

    return wrap

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


class Stall:
    """A place where calls wait. `reached` is set once somebody does."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    async def arrive(self) -> None:
        """Wait here."""
        self.reached.set()
        await self._released.wait()

    def release(self) -> None:
        """Let everybody go on."""
        self._released.set()


class Faults:
    """What shall go wrong, by verb (`runs.apply`, `queue.take` …). Also counts the calls, for tests of round trips."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._stalls: dict[tuple[str, bool], Stall] = {}

    def fail_before(self, verb: str, times: int = 1) -> None:
        """The next calls have no effect and raise BackendUnavailable. A service (`MongoDB`, `Redis`) stands for all its
        verbs.
        """
        self._before[verb] += times

    def fail_after(self, verb: str, times: int = 1) -> None:
        """The next calls take effect and raise BackendUnavailable."""
        self._after[verb] += times

    def stall(self, verb: str, *, acted: bool = False) -> Stall:
        """Calls wait until the stall is released; before they act, or when they have `acted` but not yet answered."""
        return self._stalls.setdefault((verb, acted), Stall())

    def heal(self) -> None:
        """Nothing goes wrong any more; what stalls goes on."""
        self._before.clear()
        self._after.clear()
        for stall in self._stalls.values():
            stall.release()
        self._stalls.clear()

    async def before(self, service: str, verb: str) -> None:
        """Called before a verb acts."""
        self.calls[verb] += 1
        # Even an in-memory call gives the others a turn, as a real one would.
        await asyncio.sleep(0)
        await self._pass(verb, acted=False)
        self._fail(self._before, service, verb)

    async def after(self, service: str, verb: str) -> None:
        """Called after a verb acted."""
        await self._pass(verb, acted=True)
        self._fail(self._after, service, verb)

    async def _pass(self, verb: str, *, acted: bool) -> None:
        stall = self._stalls.get((verb, acted))
        if stall is not None:
            await stall.arrive()

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
            await self.faults.after(service, name)
            return result

        functools.update_wrapper(call, act)
        return call

    return wrap

"""Hooks that make a verb of the memory backend fail before it acts, fail after it acted, or stall at either point.

Failing after is the case that matters most: the caller gets an error although the write took effect.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from cronflow.domain.errors import BackendUnavailable


class Stall:
    """A point where calls wait. `reached` is set when the first call arrives."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._released = asyncio.Event()

    async def arrive(self) -> None:
        """Wait until released."""
        self.reached.set()
        await self._released.wait()

    def release(self) -> None:
        """Let all waiting calls continue."""
        self._released.set()


class Faults:
    """Planned faults by verb: a port of `Backends` and its method (`runs.apply`, `queue.take`). Also counts calls."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._stalls: dict[tuple[str, bool], Stall] = {}

    def fail_before(self, verb: str, times: int = 1) -> None:
        """The next calls have no effect and raise BackendUnavailable. `MongoDB` or `Redis` means all its verbs."""
        self._before[verb] += times

    def fail_after(self, verb: str, times: int = 1) -> None:
        """The next calls take effect and raise BackendUnavailable."""
        self._after[verb] += times

    def stall(self, verb: str, *, acted: bool = False) -> Stall:
        """Calls wait until the stall is released: before they act, or with `acted` before they return."""
        return self._stalls.setdefault((verb, acted), Stall())

    def heal(self) -> None:
        """Remove all faults, and release all stalls."""
        self._before.clear()
        self._after.clear()
        for stall in self._stalls.values():
            stall.release()
        self._stalls.clear()

    async def before(self, service: str, verb: str) -> None:
        """Called before the verb acts."""
        self.calls[verb] += 1
        # Yield to other tasks, as a real call would.
        await asyncio.sleep(0)
        await self._pass(verb, acted=False)
        self._fail(self._before, service, verb)

    async def after(self, service: str, verb: str) -> None:
        """Called after the verb acted."""
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
                raise BackendUnavailable(service, "memory", f"{verb} fails on purpose")


class FaultyPort:
    """Base of the memory backend's adapters. The hooks are called around each public coroutine method of a subclass,
    under the name `<port>.<method>`. The method itself awaits nothing, so the backend is linearizable.
    """

    faults: Faults
    service: str
    port: str

    def __init_subclass__(cls, *, port: str = "", unhooked: Collection[str] = ()) -> None:
        super().__init_subclass__()
        cls.port = port
        for name, act in list(vars(cls).items()):
            if inspect.iscoroutinefunction(act) and not name.startswith("_") and name not in unhooked:
                setattr(cls, name, _hooked(act))


def _hooked(act: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @functools.wraps(act)
    async def call(self: FaultyPort, /, *args: Any, **kwargs: Any) -> Any:
        verb = f"{self.port}.{act.__name__}"
        await self.faults.before(self.service, verb)
        result = await act(self, *args, **kwargs)
        await self.faults.after(self.service, verb)
        return result

    return call

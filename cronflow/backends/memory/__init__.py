"""All ports in memory: linearizable, on a clock that the owner chooses, with hooks that make any verb fail.

For tests and simulations, and for `cronflow dev --memory`. It keeps nothing: whoever needs durability takes MongoDB.
"""

from cronflow.backends.memory.backends import MemoryBackends, memory_backends
from cronflow.backends.memory.clock import FakeClock
from cronflow.backends.memory.faults import Faults

__all__ = ["FakeClock", "Faults", "MemoryBackends", "memory_backends"]

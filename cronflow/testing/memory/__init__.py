"""All ports in memory: linearizable, on a clock that the owner chooses, with hooks that make any verb fail.

For tests and simulations, and for `cronflow dev --memory`. It keeps nothing: whoever needs durability takes MongoDB.
"""

from cronflow.testing.clock import FakeClock
from cronflow.testing.faults import Faults
from cronflow.testing.memory.backends import MemoryBackends, memory_backends

__all__ = ["FakeClock", "Faults", "MemoryBackends", "memory_backends"]

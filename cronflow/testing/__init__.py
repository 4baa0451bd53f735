"""Support for tests: the memory backend, a fake clock, fault hooks, embedded servers, a schedule oracle and an audit.

from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends

clock = FakeClock()
backends = memory_backends(clock)
backends.faults.fail_after("runs.apply")
"""

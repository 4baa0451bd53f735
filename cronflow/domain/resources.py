"""Amounts of CPU and memory: what a node has, and what a job reserves of it while it runs.

Rule: the reservations of the runs on a node never exceed what the node has. A reservation is bookkeeping: it limits how
many runs are placed on a node, not how much a run uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cronflow.domain.errors import InvalidInput
from cronflow.domain.limits import SIZE_UNITS

SMALLEST_CPU, LARGEST_CPU = 0.001, 10_000
SMALLEST_MEMORY, LARGEST_MEMORY = 1 << 20, 1 << 50


@dataclass(frozen=True, slots=True)
class ResourceAmount:
    """CPUs, in thousandths at the finest, and memory in bytes."""

    cpu: float = 0.0
    memory: int = 0

    def __bool__(self) -> bool:
        return bool(self.cpu or self.memory)

    def plus(self, other: ResourceAmount) -> ResourceAmount:
        return ResourceAmount(round(self.cpu + other.cpu, 3), self.memory + other.memory)

    def fits(self, capacity: ResourceAmount | None, reserved: ResourceAmount) -> bool:
        """Whether `lack` finds nothing missing."""
        if not self:
            return True
        if capacity is None or self.memory > max(0, capacity.memory - reserved.memory):
            return False
        return self.cpu <= max(0, round(capacity.cpu - reserved.cpu, 3))

    def lack(self, capacity: ResourceAmount | None, reserved: ResourceAmount) -> str | None:
        """Why this amount does not fit into what is left of a node's capacity, or None. `capacity` None: the node did
        not announce any, as nodes of 0.9.
        """
        if not self:
            return None
        if capacity is None:
            return "does not announce its CPU and memory (an older version)"
        for name, needed, has, used, shown in (
            ("cpu", self.cpu, capacity.cpu, reserved.cpu, shown_cpu),
            ("memory", self.memory, capacity.memory, reserved.memory, shown_size),
        ):
            if needed > has:
                return f"{name}: needs {shown(needed)}, has {shown(has)}"
            if needed > (free := max(0, round(has - used, 3))):
                return f"{name}: needs {shown(needed)}, {shown(free)} of {shown(has)} free"
        return None


NOTHING = ResourceAmount()


def check_reservation(amount: ResourceAmount) -> None:
    """Raises InvalidInput for an amount that no job may reserve."""
    if amount.cpu and not SMALLEST_CPU <= amount.cpu <= LARGEST_CPU:
        raise InvalidInput(f"resources.cpu is {amount.cpu:g}; it must be {SMALLEST_CPU:g} to {LARGEST_CPU:,} CPUs")
    if amount.memory and not SMALLEST_MEMORY <= amount.memory <= LARGEST_MEMORY:
        raise InvalidInput(f"resources.memory is {shown_size(amount.memory)}; it must be 1MiB to 1024TiB")


def shown_cpu(cpu: float) -> str:
    """At most three decimals, rounded down."""
    return f"{math.floor(cpu * 1000 + 1e-6) / 1000:g}"


def shown_size(size: float) -> str:
    """Bytes in the largest unit that is not above them, rounded down to a tenth: `7.7 GiB`."""
    unit = next((unit for unit in reversed(SIZE_UNITS) if size >= SIZE_UNITS[unit]), "B")
    return f"{math.floor(size / SIZE_UNITS[unit] * 10) / 10:g} {unit}"

"""Amounts of CPU and memory: what fits into what is left, and how a shortage reads."""

from __future__ import annotations

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.resources import NOTHING, ResourceAmount, check_reservation, shown_size

MIB = 1 << 20
GIB = 1 << 30
NODE = ResourceAmount(cpu=2, memory=GIB)


@pytest.mark.parametrize(
    ("wanted", "reserved", "lack"),
    [
        (ResourceAmount(2, GIB), NOTHING, None),
        (ResourceAmount(0.1), ResourceAmount(1.9), None),
        (ResourceAmount(0.2), ResourceAmount(1.9), "cpu: needs 0.2, 0.1 of 2 free"),
        (ResourceAmount(3), NOTHING, "cpu: needs 3, has 2"),
        (
            ResourceAmount(0, 256 * MIB),
            ResourceAmount(0, GIB - 100 * MIB),
            "memory: needs 256 MiB, 100 MiB of 1 GiB free",
        ),
        (ResourceAmount(0, 2 * GIB), NOTHING, "memory: needs 2 GiB, has 1 GiB"),
        (ResourceAmount(0, MIB), ResourceAmount(0, 2 * GIB), "memory: needs 1 MiB, 0 B of 1 GiB free"),
        (NOTHING, ResourceAmount(9, 9 * GIB), None),
    ],
)
def test_an_amount_fits_unless_cpu_or_memory_is_short(
    wanted: ResourceAmount, reserved: ResourceAmount, lack: str | None
) -> None:
    assert wanted.lack(NODE, reserved) == lack
    assert wanted.fits(NODE, reserved) is (lack is None)


def test_tenths_of_a_cpu_add_up_to_a_whole_one() -> None:
    reserved = NOTHING
    for _ in range(20):
        assert ResourceAmount(0.1).lack(NODE, reserved) is None
        reserved = reserved.plus(ResourceAmount(0.1))
    assert ResourceAmount(0.1).lack(NODE, reserved) is not None


def test_a_node_that_announces_no_capacity_takes_no_run_that_reserves() -> None:
    assert ResourceAmount(0.1).lack(None, NOTHING) == "does not announce its CPU and memory (an older version)"
    assert NOTHING.lack(None, NOTHING) is None
    assert NOTHING.fits(None, NOTHING)
    assert not ResourceAmount(0.1).fits(None, NOTHING)


@pytest.mark.parametrize(
    "amount", [ResourceAmount(-1), ResourceAmount(0.0001), ResourceAmount(0, 1), ResourceAmount(1e9)]
)
def test_no_job_may_reserve_less_than_nothing_or_more_than_any_machine_has(amount: ResourceAmount) -> None:
    with pytest.raises(InvalidInput, match=r"it must be"):
        check_reservation(amount)


def test_sizes_read_in_the_largest_unit_and_never_promise_more_than_there_is() -> None:
    assert [shown_size(size) for size in (0, 100, 1024, 256 * MIB, GIB + 999 * MIB, 8_358_981_632)] == [
        "0 B",
        "100 B",
        "1 KiB",
        "256 MiB",
        "1.9 GiB",
        "7.7 GiB",
    ]

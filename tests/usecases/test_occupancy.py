"""What the placement rules of some jobs take into account."""

from __future__ import annotations

from cronflow.domain.job import JobRecord
from cronflow.domain.resources import ResourceAmount
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import MemoryBackends, memory_backends
from cronflow.usecases.occupancy import read_occupancy
from tests.contracts.builders import T0, a_job, a_pend, a_record, a_run

HALF = ResourceAmount(0.5)


def record(name: str = "report", **rules: object) -> JobRecord:
    return a_record(name, job=a_job(name, **rules), pending_run=a_pend(node="n1#a"))


async def filled() -> MemoryBackends:
    backends = memory_backends(FakeClock(T0))
    await backends.runs.insert([a_run("import"), a_run("report", node="n2#a"), a_run("large", reserved=HALF)])
    return backends


async def test_the_last_planned_run_is_the_last_one_unless_a_later_one_is_known() -> None:
    runs = (await filled()).runs
    assert (await read_occupancy(runs, [record(spread=True)])).last == {"report": "n1#a"}
    assert (await read_occupancy(runs, [record(spread=True)], {"report": "n3#a"})).last == {"report": "n3#a"}
    assert (await read_occupancy(runs, [record(prefer={"zone": "a"})])).last == {}


async def test_only_what_the_rules_need_is_read() -> None:
    backends = await filled()
    for rules, read in (
        ({"prefer": {"zone": "a"}}, []),
        ({"spread": True}, ["runs.taken_of"]),
        ({"apart_from": ("import",)}, ["runs.taken_of"]),
        ({"resources": HALF}, ["runs.reserving"]),
    ):
        before = backends.faults.calls.copy()
        await read_occupancy(backends.runs, [record(**rules)])
        assert sorted(backends.faults.calls - before) == read


async def test_open_runs_of_neighbours_and_all_reservations_count() -> None:
    runs = (await filled()).runs
    occupancy = await read_occupancy(runs, [record(apart_from=("import",), spread=True, resources=HALF)])
    assert (occupancy.runs_of("import", "n1#a"), occupancy.runs_of("report", "n2#a")) == (1, 1)
    assert (occupancy.reserved("n1#a"), occupancy.reserved("n2#a")) == (HALF, ResourceAmount())

"""What functions return and raise, in every store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from cronflow.backends import codec
from cronflow.domain.job import Delivery, Retry
from cronflow.domain.run import AttemptResult, Outcome, Run, RunState
from cronflow.domain.transitions import ClaimedRun
from cronflow.worker.spool import Finish
from tests.contracts.builders import T0, a_run, an_assignment
from tests.contracts.conftest import Stores

MINUTE = timedelta(minutes=1)
HELD = ClaimedRun(
    run=a_run().id, fence=100, node="n1#a", attempt=1, retry=Retry(max=0), delivery=Delivery.AT_LEAST_ONCE
)


async def only_run(stores: Stores) -> Run:
    """The run of the test."""
    (run,) = await stores.runs.get([HELD.run])
    return run


def nested(levels: int) -> object:
    """Lists within lists."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("inserted", [False, True], ids=["changed", "inserted"])
@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(2**63, id="2**63"),
        pytest.param(-(2**63), id="-2**63"),
        pytest.param({"a\0b": 1}, id="NUL in a key"),
        pytest.param("a\0b", id="NUL"),
        pytest.param(nested(99), id="nested"),
        pytest.param(nested(200), id="nested deeply"),
        pytest.param([{"$ref": "a", "$id": 1}], id="reference"),
        pytest.param({"$set": {"a.b": "$x", "": 1}}, id="operators"),
    ],
)
async def test_whatever_json_a_function_returns_comes_back_as_it_was(
    stores: Stores, returned: object, inserted: bool
) -> None:
    finish = Finish.of(HELD, AttemptResult(Outcome.OK, returned), "f1", T0, T0 + MINUTE)
    if finish.result is not None:
        await stores.results.keep([finish.result])
    if inserted:
        await stores.runs.insert_changed([(a_run(), finish.change)], T0)
    else:
        await stores.runs.insert([a_run()])
        await stores.runs.apply([finish.change])
    run = await only_run(stores)
    assert run.state is RunState.SUCCEEDED
    kept = run.result if run.result_size is None else (await stores.results.get(["f1"]))["f1"]
    assert kept == returned


async def test_arguments_that_look_like_a_reference_come_back_as_they_were_and_can_be_dispatched(
    stores: Stores,
) -> None:
    args = {"a": {"$ref": "x", "$id": [{"$ref": "y", "$id": 1}], "$db": "z", "more": 2}}
    await stores.runs.insert([a_run(args=args)])
    run = await only_run(stores)
    assert run.args == args
    assert codec.assignment(b"0\x1f" + codec.item(replace(an_assignment(), args=run.args or {}))).args == args


async def test_an_error_that_utf_8_cannot_carry_is_stored(stores: Stores) -> None:
    await stores.runs.insert([a_run()])
    failed = AttemptResult(Outcome.PERMANENT, error="no such file: caf\udce9")
    finish = Finish.of(HELD, failed, "f1", T0, T0 + MINUTE)
    await stores.runs.apply([finish.change])
    await stores.runs.keep_late([finish.late])
    assert (await only_run(stores)).error == "no such file: caf?"

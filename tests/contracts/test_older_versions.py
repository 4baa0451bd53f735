"""What CronFlow 0.9 does with the definitions of jobs that this version stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import orjson
import pytest

from cronflow.backends import codec
from cronflow.documents import parse_job
from cronflow.domain.capabilities import needs_of
from cronflow.domain.cluster import Member
from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, OnFull, Rate
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Job
from cronflow.domain.placement import Waiting, unable
from cronflow.domain.run import RunState
from cronflow.testing.clock import FakeClock
from cronflow.testing.memory import memory_backends
from cronflow.usecases import UseCases
from tests.contracts.builders import T0, a_job, a_record, a_report, a_run

LIMITED = a_job(
    require={"gpu": "yes"},
    concurrency=("db", KeyedConcurrency("{job}", 3, OnFull.SKIP)),
    rate=KeyedRate(Rate(10, timedelta(minutes=1), burst=2), "{job}"),
)
UNKNOWN = {"concurrency", "rate"}


def stored(job: Job) -> dict[str, object]:
    """The definition as it is stored, which 0.9 parses."""
    found: dict[str, object] = orjson.loads(codec.definition(job))
    return found


@pytest.mark.parametrize("job", [LIMITED, replace(LIMITED, require={}), a_job()])
def test_a_stored_job_is_read_back_as_it_was(job: Job) -> None:
    assert codec.record(codec.record_document(a_record(job=job))).job == job


def test_an_older_version_can_parse_a_job_with_limits_and_finds_no_node_for_it() -> None:
    document = stored(LIMITED)
    assert not UNKNOWN & document.keys()
    as_older = parse_job(document)
    assert as_older.require.keys() == {"gpu", codec.NEWER_KEYS}
    reason = unable(Member(a_report(labels={"gpu": "yes"}), timedelta(0), 0, 0), needs_of(as_older))
    assert reason is not None
    assert reason.startswith(f"no label {codec.NEWER_KEYS}")


def test_what_an_older_version_writes_back_keeps_the_limits() -> None:
    """For example when it pauses the job."""
    written = stored(parse_job(stored(LIMITED)))
    assert (
        codec.record({**codec.record_document(a_record()), "definition": orjson.dumps(written).decode()}).job == LIMITED
    )


def test_a_job_without_limits_is_stored_as_before() -> None:
    assert stored(a_job(require={"gpu": "yes"}))["require"] == {"gpu": "yes"}


def test_a_node_that_acquires_no_permits_is_never_given_a_run_with_limits() -> None:
    labels = {"gpu": "yes"}
    older, newer = a_report(labels=labels, version="0.9.0"), a_report(labels=labels, knows_newer_keys=True)
    needs = needs_of(LIMITED)
    reason = unable(Member(older, timedelta(0), 0, 0), needs)
    assert reason == "does not support all keys of this job (runs 0.9.0); upgrade it"
    assert unable(Member(newer, timedelta(0), 0, 0), needs) is None
    assert unable(Member(older, timedelta(0), 0, 0), needs_of(a_job())) is None


def test_a_wait_that_0_13_wrote_from_its_spool_is_read() -> None:
    """The times in it are texts."""
    waiting = Waiting(fire=T0, since=T0 + timedelta(seconds=5), reason="limit 3 of db", nodes=(("n1", "no slot"),))
    document = codec.run_document(a_run("job", T0, state=RunState.RETRYING, waiting=waiting))
    document["waiting"] |= {name: document["waiting"][name].isoformat() for name in ("fire", "since")}
    assert codec.run(document).waiting == waiting


async def test_nobody_may_write_the_reserved_label() -> None:
    clock = FakeClock()
    service = UseCases(memory_backends(clock), clock)
    with pytest.raises(InvalidInput, match=r"require\._sys:newer: labels that begin with _sys: are reserved"):
        await service.jobs.apply([a_job(require={codec.NEWER_KEYS: "{}"})])

"""The spool on a real disk: what is kept, in which order it comes back, and what crashes and damage leave of it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from structlog.testing import capture_logs

from cronflow.domain import transitions
from cronflow.domain.errors import BackendUnavailable, Conflict
from cronflow.domain.job import Delivery, Retry
from cronflow.domain.placement import Waiting
from cronflow.domain.run import AttemptResult, NodeTimes, Outcome, ResourceUse
from cronflow.domain.transitions import ClaimedRun
from cronflow.ports import LargeResult
from cronflow.testing.clock import FakeClock
from cronflow.worker.spool import INLINE_BYTES, Finish, Spool, from_text, late_result, to_text
from cronflow.worker.spool_segments import READ_BYTES, Segments
from tests.contracts.builders import T0
from tests.node.cluster import inline

SECOND = timedelta(seconds=1)


def a_finish(k: int, outcome: Outcome = Outcome.OK, **fields: Any) -> Finish:
    claimed = ClaimedRun(
        run=f"job@{k:04}", fence=1000 + k, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE
    )
    return Finish.of(claimed, AttemptResult(outcome, **fields), f"f{k}", T0, T0 + SECOND)


def a_spool(folder: Path, **limits: int) -> Spool:
    return Spool(folder, FakeClock(), offload=inline, **limits)


def crash(spool: Spool) -> None:
    """As kill -9 would: the lock is gone and nothing is tidied up."""
    fd = spool._segments._lock_fd
    assert fd is not None
    os.close(fd)


async def drained(spool: Spool, most: int = 200) -> list[Finish]:
    found: list[Finish] = []
    while spool.pending:
        found += await spool.read(most)
        await spool.acknowledge()
    return found


# -------------------------------------------------------------------------------------------------------- one record


def test_what_an_attempt_used_and_when_its_node_took_it_survive_the_disk() -> None:
    claimed = ClaimedRun(run="job@1", fence=1, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)
    used, times = ResourceUse(1.25, 4096), NodeTimes(T0, T0 + SECOND, T0 + 2 * SECOND)
    finish = Finish.of(claimed, AttemptResult(Outcome.OK, used=used), "f1", T0, T0, times=times)
    attempt = from_text(to_text(finish)).change.attempt
    assert attempt is not None
    assert (attempt.used, attempt.times) == (used, times)


@pytest.mark.parametrize(
    "finish",
    [
        a_finish(1, result={"$at": "not a time", "n": [1, 2.5, None, True]}),
        a_finish(2, Outcome.ERROR, error="no\nsuch thing é", delay=timedelta(seconds=7.5)),
        a_finish(3, Outcome.DEFERRED, error="circuit open", delay=30 * SECOND),
        a_finish(4, Outcome.DRAINED),
        a_finish(5, Outcome.PERMANENT, error="x" * 10_000),
        a_finish(6, result={"rows": ["é" * 1000] * 9}),
    ],
)
def test_a_finish_that_is_read_back_is_the_same_write(finish: Finish) -> None:
    text = to_text(finish)
    assert b"\n" not in text
    assert from_text(text) == finish


@pytest.mark.parametrize("nodes", [(), (("n1", "no slot"), ("n2", "no label gpu"))])
def test_a_run_that_waits_for_a_limit_is_given_back_with_the_same_wait(nodes: tuple[tuple[str, str], ...]) -> None:
    claimed = ClaimedRun(run="job@1", fence=1, node="n1#a", attempt=1, retry=Retry(), delivery=Delivery.AT_LEAST_ONCE)
    waiting = Waiting(fire=T0, since=T0 + SECOND, reason="limit 3 of billing", blocked_by="job@0", nodes=nodes, more=2)
    deferred = AttemptResult(Outcome.DEFERRED, error="limit 3 of billing", delay=SECOND)
    change = transitions.give_back(claimed, "f1", deferred, T0, waiting)
    finish = Finish(change, late_result(claimed, deferred, "f1", T0))
    assert from_text(to_text(finish)) == finish


def test_a_large_result_is_recorded_once_with_its_size_in_the_change() -> None:
    limit = INLINE_BYTES - len('""')
    inline, large = a_finish(1, result="x" * limit), a_finish(2, result="x" * (limit + 1))
    assert (inline.change.sets["result"], inline.result) == ("x" * limit, None)
    assert "result_size" not in inline.change.sets
    assert (large.change.sets["result"], large.change.sets["result_size"]) == (None, INLINE_BYTES + 1)
    assert large.result == LargeResult(id="f2", run="job@0002", text=f'"{"x" * (limit + 1)}"')
    assert to_text(large).count(b"x" * 100) == to_text(large).count(b"xxxxx") // 20 == limit // 100


@pytest.mark.parametrize(
    ("row", "outcome", "delivery"),
    [
        (6, Outcome.OK, Delivery.AT_LEAST_ONCE),
        (7, Outcome.ERROR, Delivery.AT_LEAST_ONCE),
        (8, Outcome.DECLINED, Delivery.AT_LEAST_ONCE),
        (11, Outcome.INTERRUPTED, Delivery.AT_MOST_ONCE),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_record_of_an_older_version_is_still_read(
    version: int, row: int, outcome: Outcome, delivery: Delivery
) -> None:
    """Before version 3 a record named its transition by a number."""
    claimed = ClaimedRun(run="job@1", fence=7, node="n1#a", attempt=1, retry=Retry(), delivery=delivery)
    finish = Finish.of(claimed, AttemptResult(outcome, error="no"), "f1", T0, T0)
    record = orjson.loads(to_text(finish))
    del record["transition"]
    if version == 1:
        del record["result"], record["late"]["result_size"]
    assert from_text(orjson.dumps({**record, "row": row, "v": version})) == finish


def test_a_retry_waits_from_the_end_of_its_attempt_and_not_from_the_end_of_the_outage() -> None:
    finish = a_finish(1, Outcome.ERROR)
    assert finish.change.check_in == 30 * SECOND
    assert finish.waited(T0 + 11 * SECOND).change.check_in == 20 * SECOND
    assert finish.waited(T0 + 600 * SECOND).change.check_in == timedelta(0)
    assert finish.waited(T0 - 600 * SECOND).change.check_in == 30 * SECOND


# ------------------------------------------------------------------------------------------------------ order, limits


async def test_what_comes_back_is_what_was_kept_in_its_order(tmp_path: Path) -> None:
    finishes = [a_finish(k) for k in range(50)]
    async with a_spool(tmp_path / "n1", segment_bytes=3000) as spool:
        await spool.append(finishes[:20])
        first = await spool.read(7)
        await spool.acknowledge()
        for finish in finishes[20:]:
            await spool.append([finish])
        assert spool.pending == 43
        assert first + await drained(spool, most=9) == finishes
        assert list((tmp_path / "n1").iterdir()) == [tmp_path / "n1" / "lock"]
    assert not (tmp_path / "n1").exists()


async def test_of_large_records_few_are_read_at_once(tmp_path: Path) -> None:
    async with a_spool(tmp_path / "n1") as spool:
        await spool.append([a_finish(k, result="x" * (READ_BYTES * 2 // 5)) for k in range(8)])
        sizes = []
        while spool.pending:
            sizes.append(len(await spool.read(200)))
            await spool.acknowledge()
    assert sizes == [3, 3, 2]


async def test_what_was_read_and_not_acknowledged_is_read_again(tmp_path: Path) -> None:
    async with a_spool(tmp_path / "n1") as spool:
        await spool.append([a_finish(k) for k in range(5)])
        assert await spool.read(3) == await spool.read(3) == [a_finish(k) for k in range(3)]
        assert spool.pending == 5


async def test_a_restarted_node_finds_what_its_predecessor_left_and_not_what_that_one_had_replayed(
    tmp_path: Path,
) -> None:
    first = a_spool(tmp_path / "n1", segment_bytes=1500)
    await first.__aenter__()
    await first.append([a_finish(k) for k in range(3)])
    await first.append([a_finish(k) for k in range(3, 6)])
    await first.read(2)
    await first.acknowledge()
    crash(first)
    async with a_spool(tmp_path / "n1") as second:
        assert second.pending == 4
        await second.append([a_finish(6)])
        assert await drained(second) == [a_finish(k) for k in range(2, 7)]


async def test_the_spool_of_a_neighbour_that_is_gone_is_taken_over_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    dead, alive = a_spool(tmp_path / "drawn-4f1a"), a_spool(tmp_path / "drawn-77ab")
    for spool in (dead, alive):
        await spool.__aenter__()
    await dead.append([a_finish(1), a_finish(2), a_finish(3)])
    await dead.read(1)
    await dead.acknowledge()
    await alive.append([a_finish(4)])
    crash(dead)
    async with alive, a_spool(tmp_path / "drawn-c001") as heir:
        assert await drained(heir) == [a_finish(2), a_finish(3)]
        assert not (tmp_path / "drawn-4f1a").exists()
        assert await drained(alive) == [a_finish(4)]


async def test_two_processes_cannot_share_a_spool(tmp_path: Path) -> None:
    async with a_spool(tmp_path / "n1"):
        clock = FakeClock()
        second = asyncio.ensure_future(Spool(tmp_path / "n1", clock, offload=inline).__aenter__())
        await clock.advance(9.0)
        assert not second.done()
        await clock.advance(2.0)
        with pytest.raises(Conflict, match="another process uses the spool"):
            await second


@pytest.mark.parametrize("limits", [{"most_records": 3}, {"most_bytes": 2000}])
async def test_it_is_full_by_records_or_by_bytes_and_still_takes_outcomes_of_running_jobs(
    tmp_path: Path, limits: dict[str, int]
) -> None:
    async with a_spool(tmp_path / "n1", **limits) as spool:
        seen = [spool.full]
        for k in range(4):
            await spool.append([a_finish(k)])
            seen.append(spool.full)
        await spool.read(2)
        await spool.acknowledge()
        assert [*seen, spool.full] == [False, False, False, True, True, False]


# ---------------------------------------------------------------------------------------------- crashes and damage


def left_by(folder: Path, finishes: list[Finish]) -> Path:
    """A segment as a killed process leaves it."""
    segments = Segments(folder)
    segments.open()
    segments.append([to_text(finish) for finish in finishes])
    segments.close()
    (file,) = folder.glob("*.spool")
    return file


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.prove)])
async def test_a_tail_torn_at_any_byte_is_cut_off_and_nothing_before_it_is_lost(every: int, tmp_path: Path) -> None:
    kept, torn = [a_finish(1), a_finish(2)], a_finish(3, error="the last one")
    whole = left_by(tmp_path / "whole", [*kept, torn]).read_bytes()
    begin = whole[:-1].rfind(b"\n") + 1
    for end in {*range(begin, len(whole), every), *range(len(whole) - 2, len(whole) + 1)}:
        folder = tmp_path / f"torn-at-{end}" / "n1"
        left_by(folder, kept).write_bytes(whole[:end])
        with capture_logs() as logs:
            async with a_spool(folder) as spool:
                # The newline alone is no loss: the checksum says that the record is whole.
                expected = [*kept, torn] if end >= len(whole) - 1 else kept
                await spool.append([a_finish(9)])
                assert await drained(spool) == [*expected, a_finish(9)], end
        cut = [entry["bytes"] for entry in logs if entry["event"] == "spool tail cut off"]
        assert cut == ([end - begin] if begin < end < len(whole) - 1 else []), end
        assert not list(folder.glob("*.bad"))


async def test_a_damaged_record_is_set_aside_logged_and_does_not_hide_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    file = left_by(folder, [a_finish(1), a_finish(2), a_finish(3)])
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"f2"', b'"fX"'))
    with capture_logs() as logs:
        async with a_spool(folder) as spool:
            assert await drained(spool, most=1) == [a_finish(1), a_finish(3)]
    (bad,) = folder.glob("*.bad")
    assert b"job@0002" in bad.read_bytes()
    entries = [entry for entry in logs if entry["event"] == "spool record set aside"]
    assert [(entry["file"], entry["log_level"]) for entry in entries] == [(str(bad), "error")]
    # It stays for people: the next start neither trips over it nor removes it.
    async with a_spool(folder) as spool:
        assert spool.pending == 0
    assert bad.exists()


async def test_a_record_of_an_unknown_version_is_set_aside(tmp_path: Path) -> None:
    segments = Segments(tmp_path / "n1")
    segments.open()
    segments.append([to_text(a_finish(1)), b'{"v":99}', to_text(a_finish(2))])
    segments.close()
    async with a_spool(tmp_path / "n1") as spool:
        assert await drained(spool) == [a_finish(1), a_finish(2)]
    (bad,) = (tmp_path / "n1").glob("*.bad")
    assert b'{"v":99}' in bad.read_bytes()


@pytest.mark.parametrize("mark", [b"", b"rubbish", b"00000000000000000007", b"00000000000009999999"])
async def test_a_mark_that_a_power_failure_left_wrong_hides_nothing(tmp_path: Path, mark: bytes) -> None:
    file = left_by(tmp_path / "n1", [a_finish(1), a_finish(2)])
    file.with_suffix(".ack").write_bytes(mark)
    async with a_spool(tmp_path / "n1") as spool:
        assert await drained(spool) == [a_finish(1), a_finish(2)]


@pytest.mark.parametrize("call", ["write", "fsync"])
async def test_a_full_disk_stores_all_or_nothing_of_a_group_and_is_reported_as_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    real: Callable[..., Any] = getattr(os, call)
    full = True

    def fails(fd: int, *block: Any) -> Any:
        if not full:
            return real(fd, *block)
        if block:
            real(fd, bytes(block[0])[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    async with a_spool(tmp_path / "n1") as spool:
        await spool.append([a_finish(1)])
        monkeypatch.setattr(os, call, fails)
        with pytest.raises(BackendUnavailable, match="No space left"):
            await spool.append([a_finish(2), a_finish(3)])
        assert spool.pending == 1
        full = False
        await spool.append([a_finish(4)])
    # Nor does a later process find what was refused: its worker keeps that, and writes it again.
    async with a_spool(tmp_path / "n1") as spool:
        assert await drained(spool) == [a_finish(1), a_finish(4)]


async def test_every_record_is_synced_before_it_counts_as_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def watched(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr(os, "fsync", watched)
    async with a_spool(tmp_path / "n1") as spool:
        await spool.append([a_finish(1), a_finish(2)])
        (file,) = (tmp_path / "n1").glob("*.spool")
        assert synced[-1] == file.stat().st_size
        await drained(spool)


async def test_an_unusable_folder_is_logged_at_the_start_and_tried_again_later(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with capture_logs() as logs:
        async with a_spool(tmp_path / "state" / "n1") as spool:
            with pytest.raises(BackendUnavailable, match="the spool"):
                await spool.append([a_finish(1)])
            (tmp_path / "state").unlink()
            await spool.append([a_finish(1)])
            assert await drained(spool) == [a_finish(1)]
    assert [entry["event"] for entry in logs].count("spool not usable") == 1

"""Python functions in handler processes, on real processes. `tests.executors.pooled` has the functions."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import PythonTarget
from cronflow.domain.run import Outcome
from cronflow.executors.handlers import MAX_RESULT_BYTES
from tests.executors import FENCE, RUN, Lines, assignment
from tests.executors.endings import CLASSES, ENDINGS
from tests.executors.pools import MODULE, opened, options, run, started, target, text_of

# ------------------------------------------------------------------------------------------------- what attempts get


async def test_a_function_runs_in_another_process_with_the_facts_of_its_run() -> None:
    async with opened() as pool:
        from_loop, _ = await run(pool, "tells_from_a_loop", region="us")
        from_thread, _ = await run(pool, "tells_from_a_thread")
        assert from_loop.result == {
            "pid": pool.pids[0],
            "run": RUN,
            "fence": FENCE,
            "node": "node-1#a1",
            "region": "us",
        }
        assert from_thread.result == {
            "pid": pool.pids[0],
            "attempt": 1,
            "fire_at": "2026-11-21T02:00:00+00:00",
            "key": RUN,
        }
        assert pool.pids[0] != os.getpid()
        assert pool.modules == (MODULE,)


async def test_the_arguments_of_the_run_win_over_those_of_the_job() -> None:
    async with opened() as pool:
        given = assignment(target("returns", value="job"), args={"value": "run"})
        assert (await pool.run(given, "node-1", Lines())).result == "run"


@pytest.mark.parametrize(("how", "outcome", "told"), ENDINGS)
async def test_its_error_is_carried_back(how: str, outcome: Outcome, told: str) -> None:
    async with opened() as pool:
        attempt_result, _ = await run(pool, "ends", how=how)
    assert attempt_result.outcome is outcome
    assert told in (attempt_result.error or "")
    assert attempt_result.delay == (timedelta(minutes=7) if how == "later" else None)


async def test_the_classes_of_its_error_are_carried_back_for_retry_rules() -> None:
    async with opened() as pool:
        for how, classes in CLASSES:
            attempt_result, _ = await run(pool, "ends", how=how)
            assert attempt_result.error_classes == classes


async def test_results_are_carried_back_up_to_the_limit() -> None:
    async with opened() as pool:
        largest, _ = await run(pool, "returns", size=MAX_RESULT_BYTES - 2)
        too_large, _ = await run(pool, "returns", size=MAX_RESULT_BYTES - 1)
        nested, _ = await run(pool, "returns", value={"a": [1, None, "ü"]})
        odd, _ = await run(pool, "returns_a_set")
    assert (largest.outcome, len(str(largest.result))) == (Outcome.OK, MAX_RESULT_BYTES - 2)
    assert too_large.outcome is Outcome.PERMANENT
    assert nested.result == {"a": [1, None, "ü"]}
    assert "not JSON" in (odd.error or "")


async def test_lines_and_prints_of_concurrent_attempts_stay_with_their_runs_and_in_order() -> None:
    async with opened(2) as pool:
        found = await asyncio.gather(*(run(pool, "chatters", word=f"n{k}", lines=50) for k in range(6)))
    for k, (attempt_result, lines) in enumerate(found):
        assert attempt_result.outcome is Outcome.OK
        assert lines.of("info") == [f"n{k} {n}" for n in range(50)]
        assert lines.of("warn") == [f"n{k} n={n}" for n in range(50)]
        assert lines.of("progress") == ["0/1", "1/1"]


async def test_a_flood_of_lines_arrives_whole() -> None:
    async with opened() as pool:
        attempt_result, lines = await run(pool, "floods", lines=20_000)
    assert attempt_result.outcome is Outcome.OK
    assert [int(text.split()[1].removeprefix("n=")) for text in lines.of("info")] == list(range(20_000))


async def test_text_that_is_not_unicode_does_not_harm_the_process() -> None:
    async with opened() as pool:
        pids = pool.pids
        attempt_result, lines = await run(pool, "writes_what_json_cannot")
        assert pool.pids == pids
    assert lines.of("info") == ["half a pair: ?"]
    assert "ValueError: ?" in (attempt_result.error or "")


async def test_libraries_log_as_in_a_node_and_with_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    async with opened() as pool:
        await run(pool, "logs")
    [line] = [line for line in capfd.readouterr().err.splitlines() if "sold out" in line]
    for word in ('"level":"warn"', '"role":"handlers"', '"node":"node-1"', f'"run":"{RUN}"'):
        assert word in line


async def test_a_process_hides_its_memory_and_lacks_the_settings_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONFLOW_SECRETS_KEY", "sealed")
    monkeypatch.setenv("SHOP_URL", "http://shop")
    async with opened() as pool:
        assert (await run(pool, "names_its_environment"))[0].result == ["SHOP_URL"]
        assert (await run(pool, "shows_its_memory"))[0].result is False
        assert (await run(pool, "passes_its_connection_on"))[0].result is False


async def test_attempts_go_to_the_process_that_runs_the_fewest(tmp_path: Path) -> None:
    async with opened(2) as pool:
        until = tmp_path / "until"
        waiting = [started(pool, "waits", note=str(tmp_path / f"{n}"), until=str(until)) for n in range(6)]
        pids = [int(await text_of(tmp_path / f"{n}")) for n in range(6)]
        assert sorted(pids) == sorted(pool.pids * 3)
        until.touch()
        assert [result.result for result in await asyncio.gather(*waiting)] == ["done"] * 6


# ------------------------------------------------------------------------------------------- what a node can run


async def test_a_node_declines_what_its_processes_do_not_allow(tmp_path: Path) -> None:
    (tmp_path / "further.py").write_text("def work(): return 7\n")
    (tmp_path / "broken.py").write_text("raise RuntimeError('no licence')\n")
    given = options(allow=("further", "broken"), path=(str(tmp_path),))
    async with opened(1, given) as pool:

        async def declines(ref: str) -> str | None:
            return await pool.declines(assignment(PythonTarget(ref)), "node-1")

        assert await declines(f"{MODULE}:waits") is None
        assert await declines("further:work") is None
        assert "not in ALLOW_PYTHON" in (await declines("os:getpid") or "")
        assert "no function nothing" in (await declines("further:nothing") or "")
        # The attempt reports what is wrong with a module.
        assert await declines("broken:work") is None
        broken = await pool.run(assignment(PythonTarget("broken:work")), "node-1", Lines())
        assert "no licence" in (broken.error or "")
        assert (await pool.run(assignment(PythonTarget("further:work")), "node-1", Lines())).result == 7
        refused = await pool.run(assignment(PythonTarget("os:getpid")), "node-1", Lines())
        assert refused.outcome is Outcome.PERMANENT
    assert not {"further", "broken"} & sys.modules.keys()


async def test_a_function_with_a_process_of_its_own_is_a_child_of_the_node() -> None:
    async with opened() as pool:
        own = PythonTarget(f"{MODULE}:tells_from_a_child", process=True)
        attempt_result = await pool.run(assignment(own), "node-1", Lines())
        assert isinstance(attempt_result.result, list)
        child, parent = attempt_result.result
        assert child not in pool.pids
        assert parent == os.getpid()
        refused = await pool.run(assignment(PythonTarget("os:getpid", process=True)), "node-1", Lines())
        assert refused.outcome is Outcome.PERMANENT
        assert "not in ALLOW_PYTHON" in (refused.error or "")


async def test_apps_that_cannot_be_loaded_end_the_start_with_all_problems(tmp_path: Path) -> None:
    (tmp_path / "incomplete.py").write_text("x = 1\n")
    given = options("incomplete:app", "nowhere_at_all:app", path=(str(tmp_path),))
    with pytest.raises(InvalidInput) as caught:
        async with opened(2, given):
            pass
    assert ["incomplete" in str(one) or "nowhere_at_all" in str(one) for one in caught.value.problems] == [True, True]


async def test_an_import_that_ends_the_process_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "ending.py").write_text("import os\nos._exit(9)\n")
    with pytest.raises(InvalidInput, match="exit code 9"):
        async with opened(2, options("ending:app", path=(str(tmp_path),))):
            pass

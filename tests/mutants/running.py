"""Applies one mutant to a copy of the package and runs its backend's tests on that copy.

The tests are not copied, but they import `cronflow` from the copy. They run in a process forked from one that has
loaded everything else, because loading it for each mutant would take most of the time.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import cache_from_source
from pathlib import Path

from tests.mutants.catalogue import PACKAGE, Mutant

ROOT = Path(__file__).resolve().parents[2]
LOADED_ONCE = ["pytest", "pymongo", "motor.motor_asyncio", "redis.asyncio", "fakeredis", "lupa", "structlog"]
TIME_LIMIT_S = 900.0

PASSED, FAILED = 100, 101
"""The exit codes of a process that ran its tests. Any other code means that they could not run."""


Tests = tuple[str, ...]
"""Words for pytest: files, and which of their variants."""

STORES = (
    "limits",
    "alerts",
    "backfills",
    "catch_up",
    "chains",
    "breakers",
    "stores",
    "transitions",
    "ledger",
    "admin",
    "control",
)
COORDINATION = ("coordination", "admin")
SWEEPS = ("tests/leader/test_sweep.py", "tests/leader/test_cleanup.py")

DOMAIN = ("planning", "placement")
NEAREST = {"stores": "transitions", "runs": "transitions", "control": "stores", "jobs": "stores"}
NEAREST |= {"database": "stores", "table": "stores", "admin": "admin"}
NEAREST |= dict.fromkeys(("feed_claim", "feed_release", "feed_tick", "lines_publish", "stream_read"), "events")
NEAREST |= {
    "limits": "limits",
    "alerts": "alerts",
    "backfills": "backfills",
    "catch_up": "catch_up",
    "chains": "chains",
    "breakers": "breakers",
    "calendars": "calendars",
}
NEAREST |= {"check_rights": "rights"}
NEAREST |= dict.fromkeys(("access", "indexes", "rate_attempt", "rate_take", "rate_take_back"), "access")
"""The contract tests that run first, by module. The default is coordination, for scripts and for memory."""

PERMITS = ("domain/test_concurrency", "worker/test_permits", "node/test_limits")
LATE_INSERTS = ("tests/node/test_late_inserts.py",)
PLACEMENT = ("tests/node/test_placement_rules.py",)
LOOK_AHEAD = ("tests/leader/test_look_ahead.py", "tests/node/test_look_ahead.py")
SHADOW = (
    "tests/node/test_shadow.py",
    "tests/domain/test_transitions.py",
    "tests/domain/test_shadow.py",
    "tests/usecases/test_backfills.py",
)
REFUSED = ("tests/leader/test_refused_writes.py",)
REFUSED_TO_PEOPLE = ("tests/usecases/test_refused_writes.py",)
UNIT_TESTS: Mapping[str, Tests] = (
    {
        "run_writer.py": ("tests/worker/test_run_writer.py",),
        "throughput.py": ("tests/worker/test_throughput.py",),
        "late_inserts.py": ("tests/leader/test_late_inserts.py", *LATE_INSERTS),
        "pending_runs.py": ("tests/leader/test_pending_runs.py", "tests/usecases/test_pending_runs.py"),
        "runs.py": LATE_INSERTS,
    }
    | dict.fromkeys(("planner.py", "reconciler.py"), (*REFUSED, *LATE_INSERTS, *LOOK_AHEAD, *PLACEMENT))
    | dict.fromkeys(
        ("planning.py", "placement.py"), (*LOOK_AHEAD, *(f"tests/domain/test_{name}.py" for name in DOMAIN))
    )
    | {"local_queue.py": (*LOOK_AHEAD, "tests/worker/test_local_queue.py")}
    | {"worker.py": (*LOOK_AHEAD, "tests/node/test_queue_ahead.py", "tests/node/test_limits.py")}
    | dict.fromkeys(
        ("cluster.py", "dispatcher.py", "look_ahead.py", "transitions.py", "cancellations.py", "returns.py"), LOOK_AHEAD
    )
    | {"admission.py": ("tests/node/test_limits.py",)}
    | {"permits.py": tuple(f"tests/{name}.py" for name in PERMITS)}
    | {"following.py": ("tests/domain/test_following.py",)}
    | {"chain_follower.py": (*REFUSED, "tests/leader/test_chain_follower.py", "tests/node/test_chains.py")}
    | {"plan_recovery.py": REFUSED}
    | {"threshold_monitor.py": ("tests/node/test_alert_watch.py",)}
    | {"cursor_corrector.py": (*REFUSED, "tests/node/test_zone_changes.py")}
    | {"elector.py": ("tests/leader/test_elector.py",)}
    | {"backfiller.py": (*REFUSED, "tests/node/test_backfill.py")}
    | {"recorder.py": ("tests/node/test_events.py", "tests/node/test_faults.py")}
    | dict.fromkeys(("accounts.py", "alerts.py", "calendars.py"), REFUSED_TO_PEOPLE)
    | {"job_breakers.py": ("tests/node/test_job_breakers.py",)}
    | {"upstream_values.py": ("tests/domain/test_upstream_values.py",)}
    | {"edit.py": (*LOOK_AHEAD, "tests/usecases/test_edit.py", "tests/usecases/test_pruning.py")}
    | dict.fromkeys(("pruning.py", "ownership.py"), ("tests/usecases/test_pruning.py",))
    | {"logins.py": ("tests/auth/test_sessions.py", "tests/auth/test_logins.py")}
    | {"people.py": (*REFUSED_TO_PEOPLE, "tests/auth/test_single_sign_on.py")}
    | {"notification_grouper.py": ("tests/leader/test_notification_grouper.py", "tests/node/test_alert_groups.py")}
    | dict.fromkeys(("recovery.py", "run.py", "chain.py", "splitting.py", "backfill.py", "backfills.py"), SHADOW)
    | {"splitter.py": (*REFUSED, *SHADOW)}
)
"""The tests of a module that is no backend."""


class CannotRun(Exception):
    """The tests could not run, so the mutant is neither killed nor alive."""


def suites_of(mutant: Mutant) -> list[Tests]:
    """In order: the nearest contract, the other contracts of the same backend, the sweep and the clean-up. For a module
    that is no backend, its unit tests; KeyError if `UNIT_TESTS` has none.
    """
    contracts: tuple[str, ...]
    match Path(mutant.file).parts[1]:
        case "mongo":
            contracts, variant, others = STORES, "mongodb or control", (*SWEEPS, "-k", "servers")
        case "memory":
            contracts, variant, others = (*STORES[:-1], "coordination"), "memory", (*SWEEPS, "-k", "not servers")
        case "redis":
            contracts, variant, others = COORDINATION, "redis and not fakeredis", (*SWEEPS, "-k", "servers")
        case module:
            return [UNIT_TESTS[module]]
    nearest = NEAREST.get(Path(mutant.file).stem, "coordination")
    rest = [contract for contract in contracts if contract != nearest]
    files = [[f"tests/contracts/test_{name}.py" for name in names] for names in ([nearest], rest)]
    return [*((*chosen, "-k", variant) for chosen in files), others]


def copy_package(folder: Path) -> None:
    """The package, without caches."""
    shutil.copytree(ROOT / "cronflow", folder / "cronflow", ignore=shutil.ignore_patterns("__pycache__"))


def passes(folder: Path, tests: Tests, servers: Mapping[str, str]) -> bool:
    """Whether these tests pass on the copy. Raises CannotRun."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED_ONCE)
    output = folder / "output"
    child = context.Process(target=_run, args=(folder, tests, dict(servers), output))
    child.start()
    child.join(TIME_LIMIT_S)
    if child.exitcode is None:
        # A test that hangs has detected the mutant.
        child.kill()
        child.join()
        return False
    if child.exitcode not in (PASSED, FAILED):
        raise CannotRun("\n".join(output.read_text("utf-8").splitlines()[-20:]))
    return child.exitcode == PASSED


def _run(folder: Path, tests: Tests, servers: dict[str, str], output: Path) -> None:
    import pytest

    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.update(servers)
    os.chdir(ROOT)
    assert "cronflow" not in sys.modules
    sys.path.insert(0, str(folder))
    # Before pytest puts the worktree first: the package is imported from the copy.
    import cronflow

    assert Path(cronflow.__file__).is_relative_to(folder)
    # The package has a plugin of pytest, which warns that it cannot change the package any more.
    quietly = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
    sys.exit(PASSED + pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--no-header", *quietly, *tests]))


def survives(mutant: Mutant, folder: Path, servers: Mapping[str, str], suites: Sequence[Tests]) -> bool:
    """Whether these tests pass with the mutant. The copy is restored afterwards."""
    file = folder / PACKAGE / mutant.file
    original = file.read_text("utf-8")
    _write(file, mutant.apply(original))
    try:
        return all(passes(folder, tests, servers) for tests in suites)
    finally:
        _write(file, original)


def _write(file: Path, source: str) -> None:
    """Also delete the cached bytecode, which is keyed by second and size alone, and both may be equal."""
    file.write_text(source, "utf-8")
    if file.suffix == ".py":
        Path(cache_from_source(str(file))).unlink(missing_ok=True)

"""The public Python API: App and its decorator, load_app, Context, and what importing cronflow costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import cronflow
from cronflow import App, Context, Cron, Every, Once, Retry
from cronflow.app import load_app
from cronflow.domain.concurrency import KeyedConcurrency, KeyedRate, Rate
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import Delivery, Job, Misfire, MisfirePolicy, Overlap, PythonTarget, StartGuard
from cronflow.domain.resources import ResourceAmount


async def nightly_report(ctx: Context, region: str = "eu") -> None:
    """Builds the report.

    It takes a while.
    """


def sync_tokens() -> int:
    return 7


async def needs(ctx: Context, region: str) -> None: ...


def defined(function: Callable[..., object] = nightly_report, **given: Any) -> Job:
    """The job that the decorator makes of a function of this module."""
    app = App("billing")
    app.job(**given)(function)
    (job,) = app.jobs
    return job


def test_a_job_takes_name_description_and_target_from_its_function() -> None:
    job = defined(cron="0 2 * * *", tz="Europe/Berlin")
    assert job.name == "nightly-report"
    assert job.description == "Builds the report."
    assert job.target == PythonTarget("tests.test_app:nightly_report", {})
    assert job.schedule == Cron("0 2 * * *", tz="Europe/Berlin")


def test_omitted_options_have_the_defaults_of_every_job() -> None:
    job = defined(sync_tokens)
    assert job == Job(name="sync-tokens", target=PythonTarget("tests.test_app:sync_tokens"))


def test_the_decorator_accepts_every_option() -> None:
    job = defined(
        every="30s",
        name="eu.report",
        description="by hand",
        args={"region": "us"},
        retry=Retry(max=1, initial="1s"),
        timeout="10m",
        overlap="allow",
        misfire="skip",
        start_guard="mongo",
        priority=9,
        require={"region": "us"},
        prefer={"zone": "a"},
        spread=True,
        apart_from=["import"],
        resources={"cpu": 0.5, "memory": "256MiB"},
        labels={"team": "billing"},
        enabled=False,
    )
    assert job == Job(
        name="eu.report",
        target=PythonTarget("tests.test_app:nightly_report", {"region": "us"}),
        schedule=Every("30s"),
        description="by hand",
        retry=Retry(max=1, initial="1s"),
        timeout=timedelta(minutes=10),
        overlap=Overlap.ALLOW,
        misfire=Misfire(MisfirePolicy.SKIP),
        start_guard=StartGuard.MONGO,
        priority=9,
        require={"region": "us"},
        prefer={"zone": "a"},
        spread=True,
        apart_from=("import",),
        resources=ResourceAmount(0.5, 256 << 20),
        labels={"team": "billing"},
        enabled=False,
    )


@pytest.mark.parametrize("resources", [{"cpus": 1}, {"cpu": "1"}, {"memory": 256}])
def test_resources_that_are_no_amount_are_refused_with_an_example(resources: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="is not an amount of CPU and memory"):
        defined(resources=resources)


def test_a_misfire_can_be_given_whole() -> None:
    misfire = Misfire(MisfirePolicy.CATCH_UP, max_catch_up=3)
    assert defined(misfire=misfire).misfire == misfire


def test_at_is_a_datetime_or_text_with_an_offset() -> None:
    once = Once(datetime(2026, 12, 24, 17, tzinfo=UTC))
    assert defined(at="2026-12-24T18:00:00+01:00").schedule == once
    assert defined(at=once.at).schedule == once


def test_a_schedule_can_be_given_whole() -> None:
    schedule = Every("1d", tz="Europe/Berlin", time="02:00")
    assert defined(schedule=schedule).schedule == schedule


def test_at_most_once_means_no_retry_unless_requested() -> None:
    job = defined(delivery="at_most_once")
    assert (job.delivery, job.retry.max) == (Delivery.AT_MOST_ONCE, 0)
    with pytest.raises(InvalidInput, match=r"retry\.max must be 0"):
        defined(delivery="at_most_once", retry=Retry(max=2))


def test_the_decorated_function_is_unchanged_and_registered() -> None:
    app = App("billing")
    assert app.job(every="30s")(sync_tokens) is sync_tokens
    assert sync_tokens() == 7
    assert app.functions == {"tests.test_app:sync_tokens": sync_tokens}


def test_jobs_keep_the_order_of_their_definition() -> None:
    app = App("billing")
    app.job()(sync_tokens)
    app.job()(nightly_report)
    app.job(name="again")(sync_tokens)
    assert [job.name for job in app.jobs] == ["sync-tokens", "nightly-report", "again"]


def test_a_name_that_is_taken_is_refused_and_both_functions_are_named() -> None:
    app = App("billing")
    app.job(name="report")(sync_tokens)
    with pytest.raises(InvalidInput) as refused:
        app.job(name="report")(nightly_report)
    assert "tests.test_app:nightly_report" in str(refused.value)
    assert "tests.test_app:sync_tokens is already the job 'report'" in str(refused.value)
    assert len(app.jobs) == 1


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"cron": "61 * * * *"}, "61"),
        ({"cron": "* * * * *", "every": "30s"}, "schedule: cron and every are given"),
        ({"tz": "Europe/Berlin"}, "tz: a time zone belongs to cron or every"),
        ({"cron": "* * * * *", "tz": "Europe/Bern"}, "Europe/Bern"),
        ({"every": "soon"}, "'soon' is not a duration"),
        ({"at": "tomorrow"}, "at: 'tomorrow' is not an instant"),
        ({"schedule": "* * * * *"}, "is not a schedule"),
        ({"overlap": "maybe"}, r"overlap: 'maybe' is not valid \(choose forbid, queue, allow, replace\)"),
        ({"misfire": "maybe"}, "misfire: 'maybe' is not valid"),
        ({"timeout": "forever"}, "'forever' is not a duration"),
        ({"name": "Nightly Report"}, "is not a job name"),
        ({"args": {"regoin": "eu"}}, r"args: nightly_report\(\) cannot be called.*'regoin'.*it takes region"),
    ],
)
def test_errors_are_raised_at_the_definition_with_the_functions_name(given: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInput, match=what) as refused:
        defined(**given)
    assert str(refused.value).startswith("tests.test_app:nightly_report: ")


def test_an_argument_may_be_missing_only_where_a_run_can_add_it() -> None:
    assert defined(needs).schedule is None
    assert defined(needs, every="30s", args={"region": "eu"}).schedule is not None
    with pytest.raises(InvalidInput, match="missing a required argument: 'region'"):
        defined(needs, every="30s")


def test_functions_that_no_node_could_find_or_call_are_refused() -> None:
    def inner() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    generator.__qualname__ = "generator"
    with pytest.raises(InvalidInput, match="move it to the module"):
        defined(inner)
    with pytest.raises(InvalidInput, match="move it to the module"):
        defined(lambda: None)
    with pytest.raises(InvalidInput, match="a generator is not a job"):
        defined(generator)
    with pytest.raises(InvalidInput, match="cannot be a job"):
        defined(print)


# ------------------------------------------------------------------------------------------------------------ load_app


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_an_app_is_found_in_the_working_directory(project: Path) -> None:
    (project / "shop").mkdir()
    (project / "shop" / "__init__.py").write_text("")
    (project / "shop" / "jobs.py").write_text(
        "from cronflow import App, Context\n"
        "app = App('shop')\n"
        "@app.job(every='30s')\n"
        "async def poll(ctx: Context): ...\n"
    )
    app = load_app("shop.jobs:app")
    assert [job.target for job in app.jobs] == [PythonTarget("shop.jobs:poll", {})]


@pytest.mark.parametrize(
    ("module", "address", "what"),
    [
        ("", "jobs", "'jobs' is not the address of an App; write package.module:app"),
        ("", "jobs:a b", "is not the address of an App"),
        ("", "absent:app", "there is no module 'absent' in "),
        ("", "jobs.absent:app", "there is no module 'jobs.absent'"),
        ("from cronflow import App\napp = App('shop')\n", "jobs:ap", r"there is no 'ap'.*did you mean jobs:app\?"),
        ("app = 3\n", "jobs:app", "'app' is not an App but 3"),
        ("import absent_library\n", "jobs:app", r"jobs\.py:1: ModuleNotFoundError: .*absent_library"),
        ("x = 1\n\nx / 0\n", "jobs:app", r"jobs\.py:3: ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')\n", "jobs:app", r"jobs\.py:2: JSONDecodeError"),
        ("x = 1\nif x\n", "jobs:app", r"jobs\.py:2: SyntaxError"),
        ("raise SystemExit(2)\n", "jobs:app", r"jobs\.py:1: SystemExit: 2"),
        (
            "from cronflow import App\napp = App('shop')\n@app.job(every='soon')\ndef poll(): ...\n",
            "jobs:app",
            r"jobs\.py:3: InvalidInput: jobs:poll: 'soon' is not a duration",
        ),
    ],
)
def test_an_app_that_cannot_be_loaded_reports_why_and_where(
    project: Path, module: str, address: str, what: str
) -> None:
    (project / "jobs.py").write_text(module)
    with pytest.raises(InvalidInput, match=what):
        load_app(address)


# ------------------------------------------------------------------------------------------------------------- Context


class Told:
    """A Context whose lines are kept and whose clock is moved by hand."""

    def __init__(self, **args: object) -> None:
        self.lines: list[tuple[str, str]] = []
        self.now = 0.0
        self.stopping = False
        self.context = Context(
            run_id="demo@20261121T020000Z",
            job="demo",
            fire_at=datetime(2026, 11, 21, 2, tzinfo=UTC),
            attempt=1,
            fence=5,
            node="node-1",
            args=args,
            sink=lambda level, text: self.lines.append((level, text)),
            cancelled=lambda: self.stopping,
            monotonic=lambda: self.now,
        )


def test_log_lines_have_their_level_and_fields_as_words() -> None:
    told = Told()
    log = told.context.log
    log.debug("a")
    log.info("building report", region="eu", rows=3, note="two words", text="", sum="1=1", quote='"')
    log.success("b")
    log.warn("c", when=None)  # noqa: G010  it is no logger of the standard library
    log.warning("d")
    log.error("first\nsecond", code=7)
    log.info("")
    assert told.lines == [
        ("debug", "a"),
        ("info", 'building report region=eu rows=3 note="two words" text="" sum="1=1" quote="\\""'),
        ("success", "b"),
        ("warn", "c when=None"),
        ("warn", "d"),
        ("error", "first"),
        ("error", "second code=7"),
        ("info", ""),
    ]


def test_the_args_of_a_context_cannot_be_changed() -> None:
    context = Told(region="eu").context
    with pytest.raises(TypeError):
        context.args["region"] = "us"  # type: ignore[index]


def test_cancelled_is_asked_each_time() -> None:
    told = Told()
    answers = []
    for told.stopping in (False, True):
        answers.append(told.context.cancelled)
    assert answers == [False, True]


def test_progress_in_a_plain_loop_is_logged_at_most_twice_a_second() -> None:
    told = Told()
    for part in told.context.progress(range(10)):
        told.now = part * 0.2
    assert told.lines == [("progress", line) for line in ("0/10", "4/10", "7/10", "10/10")]


def test_progress_counts_what_has_no_length_and_takes_a_total() -> None:
    told = Told()
    assert list(told.context.progress(part for part in "ab")) == ["a", "b"]
    assert list(told.context.progress((part for part in "ab"), total=2)) == ["a", "b"]
    assert told.lines == [("progress", line) for line in ("0", "2", "0/2", "2/2")]


async def test_progress_in_an_async_loop_takes_both_kinds_of_iterables() -> None:
    async def parts() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    told = Told()
    assert [part async for part in told.context.progress(parts(), total=2)] == ["a", "b"]
    assert [part async for part in told.context.progress(["c"])] == ["c"]
    assert told.lines == [("progress", line) for line in ("0/2", "2/2", "0/1", "1/1")]
    with pytest.raises(TypeError, match="async for"):
        list(told.context.progress(parts()))


def test_progress_that_is_broken_off_does_not_claim_its_end() -> None:
    told = Told()
    for part in told.context.progress(count(), total=5):
        if part == 2:
            break
    assert told.lines == [("progress", "0/5")]


def test_a_heartbeat_ends_the_silence_and_so_does_progress() -> None:
    told = Told()
    silences = [told.context.silent_s]
    told.context.heartbeat()
    told.now = 3.0
    silences.append(told.context.silent_s)
    silences.extend(told.context.silent_s for _ in told.context.progress([1]))
    assert silences == [None, 3.0, 0.0]


# ----------------------------------------------------------------------------------------------------------- the import


def test_importing_cronflow_loads_no_driver_and_no_server() -> None:
    script = (
        "import sys, cronflow; alone = [name for name in sys.modules if name.startswith('cronflow.')];"
        "[getattr(cronflow, name) for name in cronflow.__all__ if 'Client' not in name and name != 'ApiError'];"
        "print(*alone, *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20).stdout
    heavy = {"redis", "motor", "pymongo", "bson", "fastapi", "httpx2", "pydantic", "structlog", "orjson", "asyncio"}
    assert "cronsim" in out.split()
    assert not [name for name in out.split() if name.startswith("cronflow.")]
    assert heavy.isdisjoint(out.split())


def test_the_public_names_are_these_and_all_exist() -> None:
    assert {*cronflow.__all__} == {
        *("App", "Breaker", "Context", "Cron", "Every", "Once", "AnyOf", "Retry", "RetryRule", "Shard"),
        *("Dst", "GapPolicy", "RepeatPolicy", "Period", "WeeklyHours"),
        *("ApiError", "AsyncClient", "Client"),
        *("CronFlowError", "PermanentError", "RetryLater", "Skip", "__version__"),
    }
    assert cronflow.__version__ == version("cronflow")
    assert all(getattr(cronflow, name) for name in cronflow.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Task'"):
        _ = cronflow.Task


def limited(region: str) -> None: ...


def test_limits_are_given_as_in_a_document_and_refused_with_their_place() -> None:
    app = App("billing")

    app.job(concurrency=["db", {"key": "{args.region}", "limit": 2}], rate="100/m", args={"region": "eu"})(limited)
    (job,) = app.jobs
    assert job.concurrency == ("db", KeyedConcurrency("{args.region}", 2))
    assert job.rate == KeyedRate(Rate(100, timedelta(minutes=1)))
    with pytest.raises(InvalidInput, match=r"concurrency\.key: \{region\} is not available in a key"):
        app.job(concurrency={"key": "{region}"})(limited)
    with pytest.raises(InvalidInput, match="rate: 'often' is not a rate"):
        app.job(rate="often")(limited)

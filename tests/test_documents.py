"""The job as a document: a written document is read back equal, and every problem has its path."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cronflow.documents import job_document, parse_job
from cronflow.documents.fingerprint import fingerprint
from cronflow.domain.amqp_target import AmqpReply, AmqpTarget
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import (
    Breaker,
    CommandTarget,
    Delivery,
    HttpTarget,
    Job,
    Misfire,
    MisfirePolicy,
    Overlap,
    PythonTarget,
    Retry,
    StartGuard,
)
from cronflow.domain.limits import Limits
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.retry import RetryRule
from cronflow.domain.schedule.calendar import Period, WeeklyHours
from cronflow.domain.schedule.dst import Dst, GapPolicy, RepeatPolicy
from cronflow.domain.schedule.kinds import AnyOf, Cron, Every, Once
from cronflow.domain.shadow import JobMode, ReplacedLine
from cronflow.domain.split import RunOn
from tests.drawing import examples

NO_LIMITS = {"cpu": None, "memory": None, "file_size": None, "files": None, "processes": None}
MINIMAL: dict[str, Any] = {"name": "backup", "run": {"shell": "true"}}


def problems_of(**parts: object) -> list[str]:
    """What is wrong with the minimal job when it has these parts too."""
    with pytest.raises(InvalidInput) as caught:
        parse_job({**MINIMAL, **parts}, "jobs[0]")
    return [str(problem) for problem in caught.value.problems]


def problems_of_document(document: object) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        parse_job(document, "jobs[0]")
    return [str(problem) for problem in caught.value.problems]


# --------------------------------------------------------------------------------------------------------- round trip

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
texts = st.dictionaries(words, words, max_size=2)
durations = st.timedeltas(timedelta(0), timedelta(days=400)) | st.integers(0, 10**6).map(lambda s: timedelta(seconds=s))
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])
instants = st.datetimes(
    datetime(1901, 1, 1),  # noqa: DTZ001  the strategy adds the zone
    datetime(2900, 1, 1),  # noqa: DTZ001
    timezones=zones,
).map(lambda at: at.replace(microsecond=0))
starts = st.none() | instants.map(lambda at: at.replace(year=1990, day=2))
ends = st.none() | instants.map(lambda at: at.replace(year=2090, day=2))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
crons = st.builds(
    Cron,
    st.sampled_from(["0 2 * * *", "*/5 * * * * *", "0 9 * * MON#2", "30 1 L * *", "@daily"]),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    starts,
    ends,
)
everies = st.builds(
    Every, st.integers(1, 10**6), st.none() | instants, time=st.none(), start=starts, end=ends
) | st.builds(
    Every,
    st.sampled_from(["1d", "2w"]),
    st.none() | instants,
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from(["02:00", "12:30:05"]),
)
users = st.none() | st.just("backup")
limits = st.builds(
    Limits,
    cpu=st.none() | st.integers(1, 10**6).map(lambda s: timedelta(seconds=s)),
    memory=st.none() | st.integers(1 << 20, 1 << 50),
    file_size=st.none() | st.integers(1 << 10, 1 << 50),
    files=st.none() | st.integers(10, 10**6),
    processes=st.none() | st.integers(1, 10**6),
)
targets = (
    st.builds(
        PythonTarget,
        st.just("billing.jobs:report"),
        st.dictionaries(words, json_values, max_size=3),
        st.booleans(),
    )
    | st.builds(
        CommandTarget,
        words.filter(str.strip),
        st.none() | words,
        texts,
        users,
        limits,
        st.none() | st.just("/usr/bin/x"),
    )
    | st.builds(
        CommandTarget, st.lists(words, min_size=1, max_size=3).map(tuple), st.none() | words, texts, users, limits
    )
    | st.builds(
        HttpTarget,
        st.just("https://example.com/x"),
        st.sampled_from(["GET", "POST"]),
        texts,
        st.none() | words,
        st.lists(st.integers(100, 599), max_size=2).map(tuple),
    )
    | st.builds(
        AmqpTarget,
        st.sampled_from(["amqp://broker", "${secret:rabbit}"]),
        st.sampled_from(["", "cron_dlx"]),
        st.sampled_from(["", "reports"]),
        st.none() | words,
        headers=texts,
        persistent=st.booleans(),
        mandatory=st.booleans(),
        expiration=st.none() | st.just(timedelta(seconds=90)),
        reply=st.none() | st.builds(AmqpReply, st.none() | st.just("billing.replies")),
    )
)
rules = st.lists(
    st.builds(RetryRule, st.sampled_from(["OSError", "shop.errors.SoldOut", "exit:64-78", "http:5xx"]), st.booleans()),
    max_size=3,
)
deadlines = st.none() | durations.map(lambda length: length + timedelta(milliseconds=10))
retries = st.builds(
    Retry,
    st.integers(0, 100),
    durations,
    st.floats(1, 100),
    durations,
    st.booleans(),
    rules=rules,
    deadline=deadlines,
) | st.builds(
    Retry,
    delays=st.lists(durations, min_size=1, max_size=4),
    jitter=st.booleans(),
    rules=rules,
    deadline=deadlines,
)
breakers = st.builds(Breaker, st.floats(0, 1, exclude_max=True), st.integers(1, 100), durations)
jobs = st.builds(
    Job,
    name=st.from_regex(r"(_sys:)?[a-z0-9][a-z0-9._-]{0,99}", fullmatch=True),
    target=targets,
    schedule=st.none() | crons | everies | instants.map(Once),
    description=words,
    retry=retries,
    timeout=durations.map(lambda length: length + timedelta(milliseconds=10)),
    overlap=st.sampled_from(Overlap),
    misfire=st.builds(
        Misfire,
        st.sampled_from(MisfirePolicy),
        durations.map(lambda length: length + timedelta(seconds=1)),
        st.none() | durations,
        st.integers(1, 1000),
    ),
    start_guard=st.sampled_from(StartGuard),
    priority=st.integers(0, 9),
    require=texts,
    breaker=st.none() | breakers,
    pause_after=st.none() | st.integers(1, 100),
    success_exit_codes=st.lists(st.integers(0, 255), min_size=1, max_size=3).map(tuple),
    prefer=texts,
    spread=st.booleans(),
    apart_from=st.lists(st.sampled_from(["import", "a.b-c"]), max_size=2).map(tuple),
    resources=st.builds(
        ResourceAmount,
        st.just(0.0) | st.integers(1, 10**6).map(lambda thousandths: thousandths / 1000),
        st.just(0) | st.integers(1 << 20, 1 << 50),
    ),
    shards=st.none() | st.integers(2, 1000),
    mode=st.sampled_from(JobMode),
    replaces=st.none()
    | st.builds(ReplacedLine, command=words.filter(str.strip), user=st.none() | words, host=st.none() | words),
    labels=texts,
    enabled=st.booleans(),
) | st.builds(
    Job,
    name=st.just("once"),
    target=targets,
    retry=st.just(Retry(max=0)),
    delivery=st.just(Delivery.AT_MOST_ONCE),
    run_on=st.sampled_from(RunOn),
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs)
def test_reading_back_what_was_written_gives_an_equal_job(job: Job) -> None:
    for compact in (False, True):
        written = json.dumps(job_document(job, compact=compact), allow_nan=False)
        assert parse_job(json.loads(written)) == job


def test_the_canonical_document_has_every_default_and_keeps_the_order_of_the_interface() -> None:
    document = parse_job({**MINIMAL, "schedule": {"every": 90}})
    assert list(job_document(document).items()) == [
        ("name", "backup"),
        ("description", ""),
        (
            "schedule",
            {
                "every": "90s",
                "anchor": None,
                "time": None,
                "tz": "UTC",
                "dst": {"gap": "next_valid", "overlap": "first"},
                "after_completion": False,
                "start": None,
                "end": None,
                "jitter": "0s",
                "max_runs": None,
                "calendars": [],
                "blackout": [],
                "only_in": [],
            },
        ),
        ("run", {"shell": "true", "cwd": None, "env": {}, "run_as": None, "when_present": None, "limits": NO_LIMITS}),
        (
            "retry",
            {
                "max": 3,
                "initial": "30s",
                "multiplier": 2.0,
                "cap": "15m",
                "jitter": False,
                "rules": [],
                "deadline": None,
            },
        ),
        ("timeout", "1h"),
        ("overlap", "forbid"),
        ("misfire", {"policy": "fire_once", "late_after": "1m", "grace": None, "max_catch_up": 100}),
        ("delivery", "at_least_once"),
        ("start_guard", "redis"),
        ("priority", 5),
        ("require", {}),
        ("concurrency", []),
        ("rate", None),
        ("breaker", None),
        ("pause_after", None),
        ("success_exit_codes", [0]),
        ("prefer", {}),
        ("spread", False),
        ("apart_from", []),
        ("resources", {"cpu": 0.0, "memory": None}),
        ("after", []),
        ("join", "all"),
        ("shards", None),
        ("run_on", "one_node"),
        ("mode", "active"),
        ("replaces", None),
        ("labels", {}),
        ("enabled", True),
    ]


def test_the_compact_document_leaves_every_default_out() -> None:
    assert job_document(parse_job(MINIMAL), compact=True) == MINIMAL


def test_the_compact_document_keeps_a_part_that_differs_and_nothing_beside_it() -> None:
    document = {
        **MINIMAL,
        "schedule": {"cron": "0 2 * * *", "tz": "Europe/Berlin"},
        "run": {"http": {"url": "https://example.com", "expect": [200, 409]}},
        "retry": {"cap": "1h"},
        "misfire": {"policy": "skip"},
    }
    assert job_document(parse_job(document), compact=True) == document


def test_equal_jobs_written_differently_have_one_document() -> None:
    one = {**MINIMAL, "timeout": "90m", "misfire": "skip", "schedule": {"at": "2026-12-24T18:00:00+01:00"}}
    other = {**MINIMAL, "timeout": 5400, "misfire": {"policy": "skip"}, "schedule": {"at": "2026-12-24T17:00:00Z"}}
    assert job_document(parse_job(one)) == job_document(parse_job(other))


def test_an_argument_that_is_not_json_is_refused_when_it_is_written() -> None:
    job = Job(name="a", target=PythonTarget("m:f", {"when": {"day": datetime(2026, 1, 1, tzinfo=UTC)}}))
    with pytest.raises(InvalidInput) as caught:
        job_document(job)
    assert str(caught.value) == ("run.args.when.day: expected a JSON value, got a date with a time (put it in quotes)")


# ------------------------------------------------------------------------------------------------------ what is taken


def test_the_documented_example_is_read() -> None:
    job = parse_job(
        {
            "name": "nightly-report",
            "description": "Builds the report",
            "schedule": {"cron": "0 2 * * *", "tz": "Europe/Berlin", "start": "2026-01-01T00:00:00Z"},
            "run": {"python": "billing.jobs:nightly_report", "args": {"region": "eu"}},
            "retry": {"max": 3, "initial": "30s", "multiplier": 2.0, "cap": "15m", "jitter": False},
            "timeout": "10m",
            "overlap": "forbid",
            "misfire": {"policy": "fire_once", "late_after": "60s", "grace": "1h"},
            "delivery": "at_least_once",
            "start_guard": "redis",
            "priority": 5,
            "require": {"region": "eu"},
            "prefer": {"zone": "a"},
            "spread": True,
            "apart_from": ["import"],
            "resources": {"cpu": 0.5, "memory": "256MiB"},
            "labels": {"team": "billing"},
            "enabled": True,
        }
    )
    assert job == Job(
        name="nightly-report",
        description="Builds the report",
        target=PythonTarget("billing.jobs:nightly_report", {"region": "eu"}),
        schedule=Cron("0 2 * * *", "Europe/Berlin", start=datetime(2026, 1, 1, tzinfo=UTC)),
        timeout=timedelta(minutes=10),
        misfire=Misfire(grace=timedelta(hours=1)),
        require={"region": "eu"},
        prefer={"zone": "a"},
        spread=True,
        apart_from=("import",),
        resources=ResourceAmount(0.5, 256 << 20),
        labels={"team": "billing"},
    )


def test_datetimes_that_a_yaml_loader_made_are_taken() -> None:
    at = datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=1)))
    schedule = parse_job({**MINIMAL, "schedule": {"every": "1h", "anchor": at, "start": at}}).schedule
    assert schedule == Every("1h", anchor=datetime(2026, 12, 24, 17, tzinfo=UTC), start=at)


def test_every_rule_of_a_schedule_is_read() -> None:
    document = {
        "cron": "H 18 * * *",
        "tz": "Europe/Berlin",
        "dst": {"gap": "skip", "overlap": "both"},
        "business_day": ["last", 1],
        "end": "2030-01-01T00:00:00Z",
        "jitter": "30s",
        "max_runs": 12,
        "calendars": ["de-holidays"],
        "blackout": ["freeze", {"start": "2026-12-20", "end": "2027-01-04T06:00:00", "name": "year-end"}],
        "only_in": [{"start": "08:00", "end": "20:00", "days": "mon-fri"}],
    }
    job = parse_job({**MINIMAL, "schedule": document})
    assert job.schedule == Cron(
        "H 18 * * *",
        "Europe/Berlin",
        end=datetime(2030, 1, 1, tzinfo=UTC),
        dst=Dst(GapPolicy.SKIP, RepeatPolicy.BOTH),
        business_day=(1, -1),
        jitter=timedelta(seconds=30),
        max_runs=12,
        calendars=("de-holidays",),
        blackout=("freeze", Period(datetime(2026, 12, 20), datetime(2027, 1, 4, 6), "year-end")),  # noqa: DTZ001
        only_in=(WeeklyHours((1, 2, 3, 4, 5), time(8), time(20)),),
        seed="backup",
    )
    assert parse_job(job_document(job)) == job
    assert parse_job(job_document(job, compact=True)) == job


def test_schedules_of_any_take_the_zone_of_the_whole() -> None:
    members = [{"cron": "0 9 * * *"}, {"cron": "0 12 * * *", "tz": "UTC"}, {"at": "2026-01-01T00:00:00Z"}]
    schedule = parse_job({**MINIMAL, "schedule": {"any": members, "tz": "Europe/Berlin"}}).schedule
    assert isinstance(schedule, AnyOf)
    assert [getattr(one, "tz", None) for one in schedule.schedules] == ["Europe/Berlin", "UTC", None]
    job = parse_job({**MINIMAL, "schedule": {"any": members, "tz": "Europe/Berlin"}})
    assert parse_job(job_document(job)) == job
    assert parse_job(job_document(job, compact=True)) == job


def test_a_single_expected_status_needs_no_list() -> None:
    job = parse_job({**MINIMAL, "run": {"http": {"url": "https://example.com", "expect": 204}}})
    assert job.target == HttpTarget("https://example.com", expect=(204,))


def test_the_retry_of_the_settings_stands_in_for_what_a_job_leaves_out() -> None:
    cluster = Retry(max=5, initial="10s", multiplier=1.5)
    assert parse_job(MINIMAL, retry=cluster).retry == cluster
    assert parse_job(MINIMAL, retry=Retry(delays=["1s"])).retry == Retry(delays=["1s"])
    assert parse_job({**MINIMAL, "retry": {"max": 1}}, retry=cluster).retry == Retry(1, "10s", 1.5)
    assert parse_job({**MINIMAL, "retry": {"delays": ["1s"]}}, retry=cluster).retry == Retry(delays=["1s"])


def test_a_profile_is_stored_as_its_values_so_that_every_version_can_read_it() -> None:
    document = {**MINIMAL, "retry": {"profile": "fast", "max": 4}}
    assert job_document(parse_job(document), compact=True) == {**MINIMAL, "retry": {"max": 4, "initial": "10s"}}
    assert parse_job(document, retry=Retry(max=9, initial="1h", cap="20s")).retry == Retry(4, "10s", 2.0, "20s")
    fibonacci = parse_job({**MINIMAL, "retry": {"profile": "fibonacci", "jitter": True}})
    assert fibonacci.retry == Retry(delays=["30s", "30s", "60s", "90s", "150s"], jitter=True)


def test_rules_and_a_deadline_go_with_every_form_of_a_retry() -> None:
    extra = {"rules": [{"match": "exit:75", "retry": True}, {"match": "OSError", "retry": False}], "deadline": "2h"}
    for form in ({"max": 5}, {"delays": ["1s"]}):
        document = {**MINIMAL, "retry": {**form, **extra}}
        job = parse_job(document)
        assert job.retry.rules == (RetryRule("exit:75", retry=True), RetryRule("OSError", retry=False))
        assert job.retry.deadline == timedelta(hours=2)
        assert job_document(job, compact=True) == document


def test_a_breaker_without_values_has_the_defaults_and_is_stored_with_them() -> None:
    job = parse_job({**MINIMAL, "breaker": {}, "pause_after": 5, "success_exit_codes": [0, 1]})
    assert (job.breaker, job.pause_after, job.success_exit_codes) == (Breaker(), 5, (0, 1))
    assert job_document(job, compact=True) == {
        **MINIMAL,
        "breaker": {"threshold": 0.5, "window": 20, "cooldown": "10m"},
        "pause_after": 5,
        "success_exit_codes": [0, 1],
    }


def test_arguments_may_be_whole_numbers_of_64_bits() -> None:
    args = {"most": 2**63 - 1, "least": -(2**63), "large": 1e300}
    assert parse_job({"name": "a", "run": {"python": "m:f", "args": args}}).target == PythonTarget("m:f", args)


def test_at_most_once_has_no_retries_whatever_the_settings_say() -> None:
    job = parse_job({**MINIMAL, "delivery": "at_most_once", "retry": {"initial": "1s"}}, retry=Retry(max=5))
    assert (job.retry.max, job.start_guard) == (0, StartGuard.MONGO)


# ---------------------------------------------------------------------------------------------------- what is refused


def test_every_problem_is_reported_at_once_in_the_order_of_the_document() -> None:
    document = {
        "nmae": "x",
        "timeout": "1ms",
        "schedule": {"tz": "Europe/Berln", "cron": "61 * * * *", "start": "yesterday"},
        "name": "Backup",
        "priority": 11,
    }
    problems = problems_of_document(document)
    assert [problem.split(": ")[0].removeprefix("jobs[0].") for problem in problems] == [
        "nmae",
        "timeout",
        "schedule.tz",
        "schedule.cron",
        "schedule.start",
        "name",
        "priority",
        "run",
    ]
    assert problems[1] == "jobs[0].timeout: timeout is 1ms; it must be 10ms to a hundred years"
    assert problems[6] == "jobs[0].priority: priority is 11; it must be 0 (lowest) to 9"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "jobs[0]: expected a mapping, got a list"),
        (
            {"run": {"shell": "x"}},
            "jobs[0].name: missing (give the job a name, such as nightly-report)",
        ),
        ({"name": "a"}, "jobs[0].run: missing (add what to run: python, shell, argv, http or amqp)"),
        (
            {**MINIMAL, "tiemout": "5s"},
            "jobs[0].tiemout: unknown key (did you mean timeout?)",
        ),
        (
            {**MINIMAL, "xyz": 1},
            (
                "jobs[0].xyz: unknown key (known keys: name, description, schedule, run, retry, timeout, overlap,"
                " misfire, delivery, start_guard, priority, require, concurrency, rate, breaker, pause_after,"
                " success_exit_codes, prefer, spread, apart_from, resources, after, join, shards, run_on, mode,"
                " replaces, labels, enabled)"
            ),
        ),
        (
            dict([*MINIMAL.items(), (7, 1)]),
            "jobs[0].7: expected text as a key, got the number 7 (put the key in quotes)",
        ),
        (
            {**MINIMAL, "after": [{"job": "import", "on": "done"}]},
            "jobs[0].after[0].on: expected succeeded, failed or ended, got the text 'done'",
        ),
        ({**MINIMAL, "after": ["a", "a"]}, "jobs[0].after: after has 'a' more than once; remove one of them"),
        (
            {**MINIMAL, "after": "backup"},
            "jobs[0]: a job cannot follow itself; give it a schedule, or let it raise RetryLater",
        ),
        ({**MINIMAL, "after": {"on": "failed"}}, "jobs[0].after.job: missing (name the job that is followed)"),
        (
            {**MINIMAL, "after": {"job": "a", "within": "0s"}},
            "jobs[0].after.within: within is 0s; it must be 1s to a hundred years",
        ),
        (
            {**MINIMAL, "resources": {"memory": 256}},
            "jobs[0].resources.memory: expected text, got the number 256 (put it in quotes)",
        ),
        (
            {**MINIMAL, "resources": {"memory": "1KiB"}},
            "jobs[0].resources: resources.memory is 1 KiB; it must be 1MiB to 1024TiB",
        ),
        (
            {**MINIMAL, "shards": 1},
            "jobs[0].shards: shards is 1; it must be 2 to 1,000",
        ),
        (
            {**MINIMAL, "shards": 2, "run_on": "every_node"},
            (
                "jobs[0].run_on: a run is split into shards, or executes on every node, not both"
                " (remove shards, or run_on: every_node)"
            ),
        ),
        (
            {**MINIMAL, "resources": {"cpu": -1}},
            "jobs[0].resources: resources.cpu is -1; it must be 0.001 to 10,000 CPUs",
        ),
        ({**MINIMAL, "resources": {"cpus": 1}}, "jobs[0].resources.cpus: unknown key (did you mean cpu?)"),
        ({**MINIMAL, "apart_from": "a"}, "jobs[0].apart_from: expected a list of names of jobs, got the text 'a'"),
        ({**MINIMAL, "spread": "yes"}, "jobs[0].spread: expected true or false, got the text 'yes'"),
        ({**MINIMAL, "name": 5}, "jobs[0].name: expected text, got the number 5 (put it in quotes)"),
        (
            {**MINIMAL, "name": "A b"},
            (
                "jobs[0].name: 'A b' is not a job name; use 1 to 100 of a-z, 0-9, '.', '_', '-', beginning with a"
                " letter or digit"
            ),
        ),
    ],
)
def test_a_job_that_is_no_job_is_refused(document: object, problem: str) -> None:
    assert problems_of_document(document) == [problem]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"timeout": ["30s"]}, "timeout: expected a duration such as 30s, got a list"),
        ({"timeout": None}, "timeout: expected a duration such as 30s, got nothing"),
        ({"timeout": True}, "timeout: expected a duration such as 30s, got true"),
        ({"timeout": 10**400}, "timeout: expected a duration such as 30s, got a number that is too large"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration; write 500ms, 30s, 5m, 2h or 1d"),
        ({"priority": "high"}, "priority: expected a whole number, got the text 'high'"),
        ({"priority": 10**400}, "priority: expected a whole number, got a number that is too large"),
        ({"description": []}, "description: expected text, got a list"),
        ({"enabled": "x" * 40}, f"enabled: expected true or false, got the text '{'x' * 40}'"),
        ({"enabled": "x" * 41}, f"enabled: expected true or false, got the text '{'x' * 37}'…"),
        ({"enabled": "yes"}, "enabled: expected true or false, got the text 'yes'"),
        ({"description": "\ud83d"}, "description: is not valid Unicode: it contains half of a surrogate pair"),
        ({"labels": ["a"]}, "labels: expected a mapping, got a list"),
        ({"labels": {"port": 8080}}, "labels.port: expected text, got the number 8080 (put it in quotes)"),
        ({"require": {"spot": False}}, "require.spot: expected text, got false (put it in quotes)"),
        ({"labels": {"a\0": "b"}}, "labels.a\0: a key contains a NUL character"),
        (
            {"overlap": "queued"},
            "overlap: expected forbid, queue, allow or replace, got the text 'queued' (did you mean queue?)",
        ),
        ({"overlap": []}, "overlap: expected forbid, queue, allow or replace, got a list"),
        ({"misfire": []}, "misfire: expected fire_once, catch_up, skip, or a mapping with policy, got a list"),
        (
            {"misfire": {"late_after": "500ms"}},
            "misfire.late_after: misfire.late_after must be at least 1s and at most a hundred years",
        ),
        ({"retry": {"jitter": 1}}, "retry.jitter: expected true or false, got the number 1"),
        ({"retry": {"multiplier": "2"}}, "retry.multiplier: expected a number, got the text '2'"),
        ({"retry": {"max": 101}}, "retry.max: retry.max is 101; it must be 0 to 100"),
        ({"retry": {"delays": "30s"}}, "retry.delays: expected a list of durations, got the text '30s'"),
        (
            {"retry": {"delays": ["30s", "x"]}},
            "retry.delays[1]: 'x' is not a duration; write 500ms, 30s, 5m, 2h or 1d",
        ),
        (
            {"retry": {"delays": []}},
            "retry.delays: expected at least one duration (for no retries write max: 0)",
        ),
        (
            {"retry": {"delays": ["1s", "2s"], "cap": "1h"}},
            "retry.cap: has no effect with delays (remove one of the two)",
        ),
        (
            {"retry": {"delays": ["1s", "2s"], "max": 3}},
            "retry: retry.max is 3 but retry.delays has 2 entries; leave retry.max out",
        ),
        (
            {"retry": {"delays": ["1s"], "profile": "fast"}},
            "retry.profile: has no effect with delays (remove one of the two)",
        ),
        (
            {"retry": {"profile": "fibonacci", "multiplier": 2}},
            "retry.multiplier: has no effect with the profile fibonacci (remove one of the two)",
        ),
        (
            {"retry": {"profile": "fats"}},
            (
                "retry.profile: expected default, fast, slow, linear or fibonacci, got the text 'fats'"
                " (did you mean fast?)"
            ),
        ),
        (
            {"retry": {"rules": [{"match": "exit:1", "retry": True}, {"match": "exit:300", "retry": True}]}},
            (
                "retry.rules[1].match: 'exit:300' is not an exit code from 0 to 255, or a range of them"
                " (write ConnectionError, exit:75, exit:64-78, http:503 or http:5xx)"
            ),
        ),
        ({"retry": {"rules": [{"match": "OSError"}]}}, "retry.rules[0].retry: missing (write true or false)"),
        ({"retry": {"deadline": "0s"}}, "retry.deadline: retry.deadline is 0s; for no retries write retry.max: 0"),
        ({"breaker": {"threshold": 2}}, "breaker.threshold: breaker.threshold is 2; it must be 0 to less than 1"),
        ({"breaker": {"limit": 3}}, "breaker.limit: unknown key (known keys: threshold, window, cooldown)"),
        ({"breaker": True}, "breaker: expected a mapping, got true"),
        ({"pause_after": 0}, "pause_after: pause_after is 0; it must be 1 to 100"),
        (
            {"success_exit_codes": [0, 256]},
            "success_exit_codes: success_exit_codes is [0, 256]; it must have exit codes from 0 to 255",
        ),
        (
            {"retry": {"rules": [{"match": "exit:1", "retry": True}]}, "delivery": "at_most_once"},
            (
                "retry.rules: delivery at_most_once never starts a run twice, so there is no retry (remove it, or"
                " choose delivery at_least_once)"
            ),
        ),
        (
            {"retry": {"max": 2}, "delivery": "at_most_once"},
            (
                "retry.max: delivery at_most_once never starts a run twice, so there is no retry (remove it, or choose"
                " delivery at_least_once)"
            ),
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(part: dict[str, object], problem: str) -> None:
    assert problems_of(**part) == [f"jobs[0].{problem}"]


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("0 2 * * *", ": expected a mapping, got the text '0 2 * * *'"),
        (
            {"tz": "UTC"},
            (
                ": has none of cron, every, at and any; exactly one of them is required (leave schedule out for a job"
                " that runs only on request)"
            ),
        ),
        (
            {"cron": "* * * * *", "every": "1h", "at": "2026-01-01T00:00:00Z"},
            ": has cron, every and at; exactly one of cron, every, at and any is allowed (remove the others)",
        ),
        ({"any": []}, ".any: any has 0 schedules; it must have 1 to 20 (divide the job)"),
        (
            {"any": [{"cron": "0 2 * * *", "jitter": "5s"}]},
            ".any[0].jitter: belongs to the whole schedule (move it next to any)",
        ),
        (
            {"any": [{"every": "1h", "after_completion": True}]},
            ".any[0].after_completion: cannot be a part of any (make it the only schedule of a job)",
        ),
        (
            {"any": [{"any": [{"at": "2026-01-01T00:00:00Z"}]}]},
            ".any[0].any: a schedule of any has any itself (list all schedules in one any)",
        ),
        (
            {"any": [{"cron": "0 25 * * *"}]},
            ".any[0].cron: '25' is not allowed in the hour field of cron '0 25 * * *' (write 0 to 23)",
        ),
        (
            {"cron": "* * * * *", "dst": {"gap": "shift"}},
            (
                ": dst has no effect on cron '* * * * *': its minute or hour field begins with *, so it is an interval"
                " (remove dst, or write the hours and minutes as lists or ranges)"
            ),
        ),
        (
            {"cron": "0 2 * * *", "dst": {"gap": "shft"}},
            ".dst.gap: expected next_valid, skip or shift, got the text 'shft' (did you mean shift?)",
        ),
        (
            {"every": "1h", "dst": {"gap": "skip"}},
            ": dst has no effect without a time (remove dst, or add a time of day)",
        ),
        (
            {"cron": "0 18 1 * *", "business_day": "last"},
            (
                ": business_day chooses the days, so the day fields of cron '0 18 1 * *' must be *"
                ' (write for example cron: "0 18 * * *")'
            ),
        ),
        (
            {"cron": "0 18 * * *", "business_day": 24},
            (
                ".business_day: business_day is 24; it must be 1 to 23, or negative"
                " (write 1 for the first business day of the month, -1 for the last)"
            ),
        ),
        (
            {"cron": "0 18 * * *", "business_day": "first"},
            (
                ".business_day: expected a business day, got the text 'first'"
                " (write 1 for the first of the month, last or -1 for the last)"
            ),
        ),
        (
            {"cron": "H(40-70) 2 * * *"},
            (
                ".cron: 'H(40-70)' is not allowed in the minute field of cron 'H(40-70) 2 * * *'"
                " (write a range from 0 to 59, such as H(0-59))"
            ),
        ),
        (
            {"every": "1h", "jitter": "2d"},
            ".jitter: a jitter of 2d is not allowed (write a whole number of seconds, at most 1d)",
        ),
        (
            {"every": "1h", "max_runs": 0},
            ".max_runs: max_runs is 0; it must be at least 1 (remove it for a job without a limit)",
        ),
        (
            {"every": "1h", "after_completion": True, "anchor": "2026-01-01T00:00:00Z"},
            (
                ": after_completion counts from the end of the last run, so there is no anchor, time or jitter"
                " (remove them, or after_completion)"
            ),
        ),
        (
            {"cron": "0 2 * * *", "blackout": [{"start": "22:00", "end": "2026-12-24"}]},
            (".blackout[0]: one end is a time of day, the other a date (write both in the same way)"),
        ),
        (
            {"cron": "0 2 * * *", "only_in": [{"start": "09:00", "end": "17:00", "days": "mon-fry"}]},
            (
                ".only_in[0].days: 'mon-fry' is not a weekday"
                " (write mon, tue, wed, thu, fri, sat, sun, or a range such as mon-fri)"
            ),
        ),
        ({"cron": "* * * * *", "tzz": "UTC"}, ".tzz: unknown key (did you mean tz?)"),
        (
            {"cron": "* * * * *", "anchor": "2026-01-01T00:00:00Z"},
            ".anchor: has no effect with cron (remove it; it belongs to every)",
        ),
        (
            {"at": "2026-01-01T00:00:00Z", "start": None},
            ".start: has no effect with at (remove it; it belongs to cron, every and any)",
        ),
        ({"cron": 5}, ".cron: expected text, got the number 5 (put it in quotes)"),
        (
            {"cron": "* * * * *", "tz": "Europe/Berln"},
            ".tz: there is no time zone 'Europe/Berln' (did you mean Europe/Berlin?)",
        ),
        ({"every": "0s"}, ".every: an interval of '0s' is not allowed (write a whole number of seconds, at least 1s)"),
        ({"every": "1d", "time": 750}, ".time: expected text, got the number 750 (put it in quotes)"),
        (
            {"every": "1d", "time": "2:00"},
            ".time: '2:00' is not a time (write HH:MM or HH:MM:SS in quotes, such as \"02:00\")",
        ),
        (
            {"every": "30s", "time": "02:00"},
            ": a time needs whole days or weeks, not '30s' (write 1d or 1w, or remove the time)",
        ),
        (
            {"at": "2026-12-24T18:00:00"},
            (".at: 2026-12-24T18:00:00 has no time zone (add Z for UTC, or an offset such as +01:00)"),
        ),
        (
            {"at": datetime(2026, 12, 24, 18)},  # noqa: DTZ001  that it is naive is the point
            (".at: 2026-12-24T18:00:00 has no time zone (add Z for UTC, or an offset such as +01:00)"),
        ),
        (
            {"at": datetime(2026, 12, 24, tzinfo=UTC).date()},
            ".at: expected a date with a time, got a date (write it like 2026-12-24T18:00:00Z)",
        ),
        (
            {"at": "Christmas"},
            (
                ".at: 'Christmas' is not a date with a time (write it like 2026-12-24T18:00:00Z or"
                " 2026-12-24T18:00:00+01:00)"
            ),
        ),
        ({"at": "0001-01-01T00:00:00+14:00"}, ".at: 0001-01-01T00:00:00+14:00 is outside the years 1 to 9999 in UTC"),
    ],
)
def test_a_wrong_schedule_is_refused_with_its_key(schedule: object, problem: str) -> None:
    assert problems_of(schedule=schedule) == [f"jobs[0].schedule{problem}"]


def test_a_bad_interval_does_not_make_its_sound_companions_suspicious() -> None:
    schedule = {"every": [], "time": "02:00", "tz": "Europe/Berlin"}
    assert problems_of(schedule=schedule) == ["jobs[0].schedule.every: expected a duration such as 30s, got a list"]


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({}, ": has none of python, shell, argv, http and amqp; exactly one of them is required (add what to run)"),
        (
            {"shell": "a", "argv": ["a"]},
            ": has shell and argv; exactly one of python, shell, argv, http and amqp is allowed (remove the others)",
        ),
        (5, ": expected a mapping, got the number 5"),
        ({"shell": " "}, ".shell: the command is empty"),
        ({"argv": []}, ".argv: the command is empty"),
        ({"argv": ["sleep", 5]}, ".argv[1]: expected text, got the number 5 (put it in quotes)"),
        ({"shell": "x", "args": {}}, ".args: has no effect with shell (remove it; it belongs to python)"),
        ({"shell": "x", "env": {"DEBUG": True}}, ".env.DEBUG: expected text, got true (put it in quotes)"),
        (
            {"shell": "x", "run_as": "0"},
            ".run_as: '0' is not the name of a user (write a name such as backup, not a number)",
        ),
        (
            {"shell": "x", "when_present": "usr/bin/x"},
            ".when_present: when_present is 'usr/bin/x'; it must be a path that begins with /",
        ),
        (
            {"argv": ["x"], "when_present": "/" + 5000 * "x"},
            ".when_present: when_present has 5,001 characters; at most 4,000 are allowed",
        ),
        (
            {"shell": "x", "limits": {"memory": "9 megs"}},
            ".limits.memory: '9 megs' is not a size (write a size such as 512MiB; units are B, KiB, MiB, GiB, TiB)",
        ),
        (
            {"shell": "x", "limits": {"memory": "1KiB"}},
            ".limits.memory: limits.memory is 1KiB; it must be 1MiB to 1024TiB",
        ),
        ({"argv": ["x"], "limits": {"files": 2}}, ".limits.files: limits.files is 2; it must be 10 to 1000000"),
        (
            {"shell": "x", "limits": {"cpu": "500ms"}},
            ".limits.cpu: limits.cpu is 500ms; it must be whole seconds, at least 1s",
        ),
        (
            {"shell": "x", "limits": {"disk": "1GiB"}},
            ".limits.disk: unknown key (known keys: cpu, memory, file_size, files, processes)",
        ),
        (
            {"http": {"url": "http://x"}, "run_as": "backup"},
            ".run_as: has no effect with http (remove it; it belongs to shell and argv)",
        ),
        ({"python": "billing"}, ".python: 'billing' is not a Python target; write package.module:function"),
        ({"python": "m:f", "args": [1]}, ".args: expected a mapping, got a list"),
        (
            {"python": "m:f", "args": {"x": [{1: 2}]}},
            ".args.x[0].1: expected text as a key, got the number 1 (put the key in quotes)",
        ),
        ({"python": "m:f", "args": {"x": 2**63}}, ".args.x: expected a whole number, got a number that is too large"),
        ({"python": "m:f", "args": {"x": float("inf")}}, ".args.x: expected a finite number, got inf"),
        ({"python": "m:f", "args": {"x": {1, 2}}}, ".args.x: expected a JSON value, got a value of the type set"),
        ({"http": {}}, ".http.url: missing (add the address that the request goes to)"),
        ({"http": {"url": "ftp://x"}}, ".http.url: 'ftp://x' is not an http:// or https:// address"),
        (
            {"http": {"url": "http://x", "expect": "2xx"}},
            ".http.expect[0]: expected a whole number, got the text '2xx'",
        ),
        (
            {"http": {"url": "http://x", "method": "post"}},
            ".http.method: 'post' is not an HTTP method; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
        ),
        ({"amqp": {}}, ".amqp.url: missing (add the address of the broker)"),
        ({"amqp": {"url": "http://x"}}, ".amqp.url: it is not an amqp:// or amqps:// address"),
        (
            {"amqp": {"url": "amqp://u:p@x?certfile=/etc/x"}},
            ".amqp.url: it has options; remove everything from '?' or '#' on",
        ),
        ({"amqp": {"url": "amqp://x", "expiration": 0}}, ".amqp.expiration: it must be 1ms to 49d"),
        ({"amqp": {"url": "amqp://x", "reply": {"queue": ""}}}, ".amqp.reply.queue: it must have 1 to 100 bytes"),
    ],
)
def test_a_wrong_target_is_refused_with_its_key(run: object, problem: str) -> None:
    assert problems_of(run=run) == [f"jobs[0].run{problem}"]


def test_arguments_that_are_nested_without_end_are_refused() -> None:
    value: object = 1
    for _ in range(1000):
        value = [value]
    [problem] = problems_of(run={"python": "m:f", "args": {"x": value}})
    assert problem == f"jobs[0].run.args.x{'[0]' * 49}: nested more than 50 levels deep"
    for _ in range(1000):
        value = {"y": value}
    [problem] = problems_of(run={"python": "m:f", "args": {"x": value}})
    assert problem == f"jobs[0].run.args.x{'.y' * 49}: nested more than 50 levels deep"


def test_unknown_keys_are_reported_with_a_schedule_of_two_kinds() -> None:
    assert problems_of(schedule={"cron": "* * * * *", "evry": "1h", "every": "1h"}) == [
        "jobs[0].schedule: has cron and every; exactly one of cron, every, at and any is allowed (remove the others)",
        "jobs[0].schedule.evry: unknown key (did you mean every?)",
    ]


def test_without_a_place_the_paths_begin_with_the_key() -> None:
    with pytest.raises(InvalidInput, match=r"^labels: expected a mapping, got a list$"):
        parse_job({**MINIMAL, "labels": []}, "")


# ------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("part", "concurrency", "rate"),
    [
        ({"concurrency": "db"}, ["db"], None),
        ({"concurrency": ["db", {"key": "{job}"}]}, ["db", {"key": "{job}", "limit": 1, "on_full": "queue"}], None),
        ({"rate": "100/m"}, [], "100/m"),
        ({"rate": {"rate": "100 / m"}}, [], "100/m"),
        ({"rate": {"rate": "1/s", "burst": 2}}, [], {"rate": "1/s", "key": None, "burst": 2}),
        ({"rate": {"rate": "1/s", "key": "{job}"}}, [], {"rate": "1/s", "key": "{job}", "burst": 1}),
    ],
)
def test_limits_have_short_forms_and_one_canonical_form(
    part: dict[str, object], concurrency: list[object], rate: object
) -> None:
    job = parse_job({**MINIMAL, **part})
    document = job_document(job)
    assert (document["concurrency"], document["rate"], document["start_guard"]) == (concurrency, rate, "mongo")
    assert parse_job(document) == parse_job(job_document(job, compact=True)) == job


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"concurrency": 3}, "concurrency: expected a mapping, got the number 3"),
        ({"concurrency": "A b"}, "concurrency: 'A b' is not a limit name; use 1 to 100 of"),
        ({"concurrency": [{"limit": 2}]}, "concurrency[0].key: missing (add the key, such as"),
        ({"concurrency": {"key": "{x}"}}, "concurrency.key: {x} is not available in a key (use {job}, {args.NAME}"),
        ({"concurrency": {"key": "a", "limit": 0}}, "concurrency.limit: limit is 0; it must be 1 to 100000"),
        ({"concurrency": {"key": "a", "on_full": "wait"}}, "concurrency.on_full: expected queue, skip or replace"),
        ({"concurrency": ["db", "db"]}, "concurrency: concurrency has 'db' more than once"),
        ({"rate": 5}, "rate: expected a mapping, got the number 5"),
        ({"rate": "5"}, "rate: '5' is not a rate (write 100/m"),
        ({"rate": {"key": "a"}}, "rate.rate: missing (add the rate"),
        ({"rate": {"rate": "1/s", "burst": 0}}, "rate.burst: burst is 0; it must be 1 to"),
    ],
)
def test_a_wrong_limit_is_refused_with_its_key(part: dict[str, object], problem: str) -> None:
    (found,) = problems_of_document({**MINIMAL, **part})
    assert found.startswith(f"jobs[0].{problem}")


def test_a_fingerprint_is_that_of_the_jobs_in_any_order() -> None:
    first, second = (parse_job({"name": name, "run": {"shell": "true"}}) for name in ("a", "b"))
    assert fingerprint([first, second]) == fingerprint([second, first])
    assert fingerprint([first]) != fingerprint([second])
    assert fingerprint([first]) != fingerprint([replace(first, priority=first.priority + 1)])

"""What is rehearsed and what is left out, the nodes that are assumed, and the comparison of two rehearsals."""

from __future__ import annotations

from datetime import timedelta

from cronflow.domain.chain import Upstream
from cronflow.domain.job import CommandTarget, HttpTarget, Overlap, PythonTarget
from cronflow.domain.schedule.kinds import Cron, Every
from cronflow.rehearsal.comparison import compare
from cronflow.rehearsal.scenario import RehearsedJob, RehearsedNode
from cronflow.rehearsal.selection import NOWHERE, merged, nodes_for, select
from tests.rehearsal.scenes import HOUR, MIDNIGHT, MINUTE, a_job, every, hourly, rehearsed


def test_the_most_frequent_jobs_are_left_out_until_the_rest_is_few_enough() -> None:
    jobs = [RehearsedJob(job) for job in (a_job("beat", Every(timedelta(seconds=1))), every(1), hourly("report"))]
    kept, left_out = select(jobs, MIDNIGHT, MIDNIGHT + 24 * HOUR, most=1500)
    assert [one.job.name for one in kept] == ["sync", "report"]
    assert [(one.job, one.fires, one.reason) for one in left_out] == [("beat", 86_400, "fires too often")]


def test_jobs_that_would_not_run_are_left_out_with_the_reason() -> None:
    jobs = [
        RehearsedJob(a_job("off", Cron("0 * * * *"), enabled=False)),
        RehearsedJob(hourly("paused"), paused=True),
        RehearsedJob(hourly("paused-for-now"), paused=True, paused_until=MIDNIGHT),
        RehearsedJob(a_job("follower", after=(Upstream("paused"),))),
        RehearsedJob(a_job("last", after=(Upstream("follower"),))),
    ]
    kept, left_out = select(jobs, MIDNIGHT, MIDNIGHT + HOUR)
    assert [one.job.name for one in kept] == ["paused-for-now"]
    assert {one.job: one.reason for one in left_out} == {
        "off": "is disabled",
        "paused": "is paused",
        "follower": "follows a job that is not rehearsed",
        "last": "follows a job that is not rehearsed",
    }


def test_commands_and_requests_do_not_enter_the_rehearsal() -> None:
    jobs = [
        RehearsedJob(hourly("command", target=CommandTarget("rm -rf /", env={"A": "b"}))),
        RehearsedJob(hourly("request", target=HttpTarget("https://pay.example.com/", "POST"))),
        RehearsedJob(hourly("function", target=PythonTarget("billing:report", {"region": "eu"}))),
    ]
    kept, _ = select(jobs, MIDNIGHT, MIDNIGHT + HOUR)
    assert [one.job.target for one in kept] == [
        CommandTarget("true"),
        HttpTarget(NOWHERE),
        PythonTarget("billing:report", {"region": "eu"}),
    ]


def test_assumed_nodes_have_the_labels_that_jobs_require() -> None:
    jobs = [hourly("eu", require={"region": "eu"}), hourly("us", require={"region": "us"}), hourly("any")]
    assert [dict(node.labels) for node in nodes_for(jobs, 3, 16)] == [
        {"region": "eu"},
        {"region": "us"},
        {"region": "eu"},
    ]
    assert len(nodes_for(jobs, 1, 16)) == 2


def test_many_nodes_are_merged_into_fewer_with_the_same_slots() -> None:
    nodes = [RehearsedNode(f"node-{n}", slots=8, labels={"zone": "ab"[n % 2]}) for n in range(40)]
    fewer = merged(nodes, 12)
    assert (len(fewer), sum(node.slots for node in fewer)) == (12, 320)
    assert merged(fewer, 12) == fewer


def test_a_comparison_names_the_jobs_that_do_something_else() -> None:
    before = rehearsed(hourly("report"), hourly("same"), length=2 * HOUR, duration=MINUTE)
    after = rehearsed(
        hourly("report"),
        hourly("same"),
        length=2 * HOUR,
        duration=MINUTE,
        changes=[a_job("report", Cron("30 * * * *"), overlap=Overlap.FORBID), hourly("new")],
    )
    new, report = compare(before, after)
    assert (new.job, new.known_before, len(new.added)) == ("new", False, 2)
    assert [f"{fire:%H:%M}" for fire in report.gone] == ["00:00", "01:00"]
    assert [f"{fire:%H:%M}" for fire in report.added] == ["00:30", "01:30"]
    assert compare(before, before) == []

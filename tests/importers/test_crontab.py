"""Crontabs of Debian packages, and what the lines mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

from cronflow.domain.job import CommandTarget, Job, MisfirePolicy, Overlap
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Cron
from cronflow.importers.crontab import read_crontab, read_crontabs
from cronflow.testing.cron_matcher import CronMatcher
from tests.importers.debian import CRONTABS
from tests.importers.reading import jobs_of, text_of

START = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
ENTRY = re.compile(r"(@\w+|(?:[\d*][^\s=]*\s+){4}\S+)\s+(\S+)\s+(.*)")


def instants(expression: str) -> Iterator[datetime]:
    """Minute by minute within the days that match: cron's own rule. Until 2060."""
    matcher = CronMatcher(expression)
    day = START.replace(hour=0, minute=0)
    while day.year < 2060:
        if matcher.matches_day(day.date()):
            for hour in matcher.hours:
                for minute in matcher.minutes:
                    at = day.replace(hour=hour, minute=minute)
                    if at > START:
                        yield at
        day += timedelta(days=1)


def lines_of(entries: list[str]) -> list[tuple[str, str, str]]:
    """Expression, user and command of each line."""
    return [found.groups() for line in entries if (found := ENTRY.fullmatch(line.strip()))]  # type: ignore[misc]


def one(line: str, folder: Path, *, tz: str | None = None) -> Job:
    [job] = jobs_of(read_crontab(line + "\n", "-", tz=tz), folder).values()
    return job


def command_of(job: Job) -> CommandTarget:
    assert isinstance(job.target, CommandTarget)
    return job.target


def test_the_facts_are_of_forty_packages() -> None:
    assert len({package for package, _ in CRONTABS}) >= 40


def test_every_line_of_forty_packages_fires_at_the_1000_instants_of_cron_as_its_user(tmp_path: Path) -> None:
    """All files together, because they are imported together. Without jitter, which cron did not know."""
    file = read_crontabs({path: "\n".join(lines) + "\n" for (_, path), lines in CRONTABS.items()}, tz="UTC")
    wanted = [line for lines in CRONTABS.values() for line in lines_of(lines)]
    at_boot = [line for line in wanted if line[0] == "@reboot"]
    assert [one.reason for one in file.refusals] == ["a cluster does not boot, so @reboot has no time"] * len(at_boot)
    jobs = list(jobs_of(file, tmp_path).values())
    wanted = [line for line in wanted if line[0] != "@reboot"]
    assert len(jobs) == len(wanted) > 55
    known: dict[str, str] = {}
    for job, (expression, user, _) in zip(jobs, wanted, strict=True):
        assert isinstance(job.schedule, Cron)
        assert (command_of(job).run_as, job.schedule.tz) == (user, "UTC")
        if known.get(expression) == job.schedule.expr:
            continue
        known[expression] = job.schedule.expr
        at, plain = START, Cron(expr=job.schedule.expr)
        for instant in islice(instants(expression), 1000):
            at = next_after(plain, at) or START
            assert at == instant, (expression, job.schedule.expr)


def test_debian_guards_become_when_present(tmp_path: Path) -> None:
    file = read_crontabs({path: "\n".join(lines) + "\n" for (_, path), lines in CRONTABS.items()})
    guarded = [job for job in jobs_of(file, tmp_path).values() if command_of(job).when_present]
    tests = [job for job in guarded if re.match(r"\[|test ", str(command_of(job).command))]
    assert len(guarded) >= 40
    # They read a file of settings if it exists.
    assert [job.name for job in tests] == ["fetch-crl", "tiger"]


def test_names_do_not_depend_on_the_order_of_the_lines(tmp_path: Path) -> None:
    lines = ["1 1 * * * backup /srv", "2 2 * * * backup /srv", "3 3 * * * other.sh", "1 1 * * * backup /srv"]
    names = list(jobs_of(read_crontab("\n".join(lines), "-"), tmp_path))
    again = list(jobs_of(read_crontab("\n".join(reversed(lines)), "-"), tmp_path))
    assert sorted(names) == sorted(again)
    assert len(set(names)) == 4
    assert "other" in names


def test_defaults_are_those_of_cron(tmp_path: Path) -> None:
    job = one("0 5 * * * /usr/bin/backup", tmp_path, tz="Europe/Berlin")
    assert job.retry.max == 0
    assert (job.overlap, job.misfire.policy) == (Overlap.ALLOW, MisfirePolicy.SKIP)
    assert job.timeout == timedelta(days=1)
    assert isinstance(job.schedule, Cron)
    assert job.schedule.tz == "Europe/Berlin"


def test_environment_lines_hold_for_the_lines_below(tmp_path: Path) -> None:
    text = (
        'PATH = "/opt/bin"\n1 * * * * one\nSHELL=/bin/bash\nHOME=/srv\nMAILTO=ops@example.com\nTZ=UTC\n2 * * * * two\n'
    )
    file = read_crontab(text, "-")
    first, second = map(command_of, jobs_of(file, tmp_path).values())
    assert (first.command, first.cwd, first.env) == ("one", None, {"PATH": "/opt/bin"})
    assert second.command == ("/bin/bash", "-c", "two")
    assert (second.cwd, second.env["TZ"], "MAILTO" in second.env) == ("/srv", "UTC", False)
    printed = text_of(file)
    assert "cron mails what a command prints to ops@example.com" in printed
    assert "an alert by e-mail replaces MAILTO" in printed
    assert "import with --tz ZONE" in printed


def test_cron_tz_is_the_zone_of_the_lines_below_unless_one_is_given(tmp_path: Path) -> None:
    line = "CRON_TZ=Asia/Tokyo\n1 9 * * * x"
    for tz, zone in ((None, "Asia/Tokyo"), ("Europe/Berlin", "Europe/Berlin")):
        schedule = one(line, tmp_path, tz=tz).schedule
        assert isinstance(schedule, Cron)
        assert schedule.tz == zone


@pytest.mark.parametrize(
    ("source", "line", "user", "command"),
    [
        ("/etc/crontab", "1 1 * * * backup x", "backup", "x"),
        ("/etc/cron.d/app", "1 1 * * * backup x", "backup", "x"),
        ("/var/spool/cron/crontabs/eve", "1 1 * * * backup x", "eve", "backup x"),
        ("-", "1 1 * * * root x", "root", "x"),
        ("-", "1 1 * * * backup x\n2 2 * * * /bin/y z", None, "backup x"),
    ],
)
def test_the_user_column_is_detected(source: str, line: str, user: str | None, command: str, tmp_path: Path) -> None:
    target = command_of(next(iter(jobs_of(read_crontab(line, source), tmp_path).values())))
    assert (target.run_as, target.command) == (user, command)


def test_percent_signs_begin_the_input(tmp_path: Path) -> None:
    job = one(r"1 1 * * * mail -s 50\% bob%Hello%It's me", tmp_path)
    assert command_of(job).command == "{ mail -s 50% bob\n} <<'END_OF_INPUT'\nHello\nIt's me\nEND_OF_INPUT"


def test_a_lock_that_several_lines_share_is_a_limit(tmp_path: Path) -> None:
    text = (
        "1 * * * * flock -n /run/a.lock one\n2 * * * * flock -n /run/a.lock two\n3 * * * * flock -n /run/b.lock three"
    )
    first, second, third = jobs_of(read_crontab(text, "-"), tmp_path).values()
    assert first.concurrency == second.concurrency != ()
    assert (first.overlap, third.overlap, third.concurrency) == (Overlap.FORBID, Overlap.FORBID, ())


def test_what_cron_would_not_run_is_refused_with_the_line() -> None:
    file = read_crontab(
        "1 1 * * *\n@reboot root x\n61 1 * * * root x\n0 0 31 2 * root x\n1 1 * * * root ok", "/etc/crontab"
    )
    printed = text_of(file)
    assert "name: ok" in printed
    for line in ("1 1 * * *", "@reboot root x", "61 1 * * * root x", "0 0 31 2 * root x"):
        assert line in printed
    assert printed.count("Not imported") == 4
    assert "'61' is not allowed" in printed
    assert "never fires" in printed


def test_lines_of_anacron_are_refused_with_what_to_write() -> None:
    text = (
        "SHELL=/bin/sh\n1\t5\tcron.daily\trun-parts --report /etc/cron.daily\n@monthly\t15\tcron.monthly\trun-parts x\n"
    )
    file = read_crontab(text, "/etc/anacrontab")
    assert (file.jobs, len(file.refusals)) == ((), 2)
    assert all("misfire: fire_once" in refusal.remedy for refusal in file.refusals)


def test_a_tilde_is_a_value_that_the_name_chooses(tmp_path: Path) -> None:
    schedule = one("~ 3~5 * * * x", tmp_path).schedule
    assert isinstance(schedule, Cron)
    assert schedule.expr == "H H(3-5) * * *"

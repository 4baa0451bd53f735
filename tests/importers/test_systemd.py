"""Timers of Debian packages, compared with systemd itself, and what their services become."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cronflow.documents.schedules import parse_schedule
from cronflow.domain.errors import InvalidInput
from cronflow.domain.job import CommandTarget, Job, MisfirePolicy, Overlap
from cronflow.domain.schedule.fires import next_after
from cronflow.domain.schedule.kinds import Every, Rules
from cronflow.importers.calendar_event import cron_schedules
from cronflow.importers.imported import ImportedFile
from cronflow.importers.systemd import read_systemd
from cronflow.importers.unit_file import parse_span, units_in
from tests.deploy.files import tool
from tests.importers.debian import TIMERS
from tests.importers.reading import jobs_of, text_of

START = datetime(2026, 1, 1, 12, 0, 7, tzinfo=UTC)
ZONE = "Europe/Berlin"
SERVICE = "[Service]\nType=oneshot\nExecStart=/usr/bin/true\n"
EVENTS = sorted(
    {
        line.removeprefix("OnCalendar=").strip()
        for lines in TIMERS.values()
        for line in lines
        if line.startswith("OnCalendar=")
    }
    | {
        "Mon..Fri *-*-* 09:00",
        "Sat,Sun 12:30 America/New_York",
        "Sat..Sun,Tuesday 03:15:20",
        "*-*~01 23:00",
        "Mon *-05~07/1 10:00",
        "quarterly",
        "semiannually",
        "2027-*-* 04:00",
        "2026,2028-06-01 04:00",
        "Sun,Fri *-*-13 08:00",
        "Fri *-*-1,13 08:00",
        "Mon *-*-8..14,22..28 3:00",
        "Mon-Wed *-*-* 02:30",
        "02:30",
        "*-*-* 0/2:00",
        "*-02-29 00:00",
        "12..14:10,20,30",
        "*:*:0/20",
    }
)

SHORT = (
    "*-*-* *:09,39:00",
    "*-*-* 0/2:00",
    "02:30",
    "Mon-Wed *-*-* 03:00",
    "Sat,Sun 12:30 America/New_York",
    "Sun *-*-1..7 1:00:00",
    "Fri *-*-1,13 08:00",
    "*-*~01 23:00",
    "2026,2028-06-01 04:00",
)


def read(timer: str, service: str = SERVICE, *, tz: str | None = None) -> ImportedFile:
    units = {"app.timer": f"[Timer]\n{timer}\n", "app.service": service}
    return read_systemd(["app.timer"], units.get, "-", tz=tz)


def job_of(file: ImportedFile, folder: Path) -> Job:
    assert file.refusals == ()
    [job] = jobs_of(file, folder).values()
    return job


def command_of(job: Job) -> CommandTarget:
    assert isinstance(job.target, CommandTarget)
    return job.target


def elapses(program: str, event: str) -> list[datetime]:
    """1,000 instants of systemd, or all until its last year."""
    command = [program, "calendar", "--iterations=1000", f"--base-time={START:%Y-%m-%d %H:%M:%S} UTC", event]
    environment = {"TZ": ZONE, "LC_ALL": "C", "PATH": "/usr/bin"}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    lines = [line.partition("(in UTC): ")[2] for line in printed.splitlines() if "(in UTC)" in line]
    return [datetime.strptime(f"{line[4:23]}Z", "%Y-%m-%d %H:%M:%S%z") for line in lines]


def test_calendar_events_have_the_1000_instants_of_systemd_across_clock_changes() -> None:
    """One event of each kind; `make prove` compares all of them."""
    compare(SHORT)


@pytest.mark.prove
def test_all_calendar_events_have_the_1000_instants_of_systemd() -> None:
    compare(EVENTS)


def compare(events: Iterable[str]) -> None:
    program = tool("systemd-analyze", package="systemd")
    for event in events:
        members = [{"tz": ZONE, **one} for one in cron_schedules(event, ZONE)]
        schedule = parse_schedule(members[0] if len(members) == 1 else {"any": members})
        at: datetime | None = START
        wanted = elapses(program, event)
        assert wanted
        for instant in wanted:
            assert at is not None
            at = next_after(schedule, at)
            assert at == instant, (event, members)
        assert len(wanted) == 1000 or at is not None


def test_the_timers_of_twenty_packages_are_imported(tmp_path: Path) -> None:
    units = {name: "[Timer]\n" + "\n".join(lines) for (_, name), lines in TIMERS.items()}
    units |= {f"{name.removesuffix('.timer')}.service": SERVICE for name in units}
    file = read_systemd([name for name in units if name.endswith(".timer")], units.get, "-", tz=ZONE)
    jobs = jobs_of(file, tmp_path)
    assert len({package for package, _ in TIMERS}) >= 20
    # Timers of targets, and those that only count from the start of the machine.
    assert {refusal.place.partition("-")[0] for refusal in file.refusals} == {"cron", "mdadm", "snapper"}
    assert len(jobs) + len(file.refusals) == len(TIMERS)
    for (_, name), lines in TIMERS.items():
        job = jobs.get(name.removesuffix(".timer").rstrip("@").replace("@", "-"))
        if job is None:
            continue
        assert job.overlap is Overlap.FORBID
        persistent = "Persistent=true" in lines or "Persistent=yes" in lines
        assert job.misfire.policy is (MisfirePolicy.FIRE_ONCE if persistent else MisfirePolicy.SKIP)
        delays = [line.partition("=")[2] for line in lines if line.startswith("RandomizedDelaySec=")]
        assert isinstance(job.schedule, Rules)
        assert job.schedule.jitter == (parse_span(delays[-1]) if delays else timedelta(0))


@pytest.mark.parametrize(
    ("event", "what"),
    [
        ("Fri *-*-13 08:00", "no day that must be one of these dates and one of these weekdays"),
        ("*-02~03 08:00", "counts from the end of the month"),
        ("Sat..Mon 08:00", "run backwards"),
        ("*:*:0.5", "is not a value that cron supports"),
        ("25:00", "is out of range"),
        ("@1700000000", "an instant since 1970"),
        ("tomorrow", "is not a weekday"),
        ("Mon b c d 5", "it is not a calendar event"),
        ("9" * 5000, "is not a date"),
    ],
)
def test_an_event_that_cron_cannot_have_is_refused(event: str, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        cron_schedules(event, None)


def test_intervals(tmp_path: Path) -> None:
    schedule = job_of(read("OnBootSec=5min\nOnUnitActiveSec=1h 30min"), tmp_path).schedule
    assert isinstance(schedule, Every)
    assert (schedule.interval, schedule.after_completion) == (timedelta(minutes=90), False)
    schedule = job_of(read("OnUnitInactiveSec=2d"), tmp_path).schedule
    assert isinstance(schedule, Every)
    assert (schedule.interval, schedule.after_completion) == (timedelta(days=2), True)
    assert "OnBootSec=5min has no equivalent" in text_of(read("OnBootSec=5min\nOnUnitActiveSec=1h"))


@pytest.mark.parametrize(
    ("timer", "service", "reason"),
    [
        ("OnBootSec=5min", SERVICE, "counts from the start of a machine"),
        ("OnCalendar=daily\nOnUnitInactiveSec=1h", SERVICE, "cannot be combined"),
        ("OnCalendar=daily\nUnit=other.service", SERVICE, "there is no other.service"),
        ("OnCalendar=daily\nUnit=a.target", SERVICE, "is not a service"),
        ("OnCalendar=daily", "[Service]\nType=oneshot", "no ExecStart"),
        ("OnCalendar=daily", "[Service]\nExecStart=/bin/x %h", "specifier %h"),
        ("OnCalendar=daily", "[Service]\nExecStart=/bin/x 'y", "a quote is not closed"),
        ("Persistent", SERVICE, "is not a line of a unit file"),
    ],
)
def test_a_timer_without_equivalent_is_refused(timer: str, service: str, reason: str) -> None:
    file = read(timer, service)
    assert file.jobs == ()
    [refusal] = file.refusals
    assert reason in refusal.reason
    assert refusal.remedy


def test_a_service_becomes_a_target(tmp_path: Path) -> None:
    service = """[Unit]
Description=Back up the shop
ConditionPathExists=/usr/bin/backup
ConditionACPower=true
[Service]
Type=oneshot
User=backup
WorkingDirectory=-/srv
Environment="A=1 2" B=3
ExecStart=/usr/bin/backup --name 'a b' \\
  --rate 50%%
TimeoutStartSec=1h 30min
SuccessExitStatus=3 TEMPFAIL
LimitNOFILE=1024:2048
MemoryMax=512M
CPUQuota=50%
PrivateTmp=yes
"""
    file = read("OnCalendar=daily\nPersistent=yes\nWakeSystem=true\nAccuracySec=1h", service)
    job = job_of(file, tmp_path)
    target = command_of(job)
    assert job.description == "Back up the shop"
    assert target.command == ("/usr/bin/backup", "--name", "a b", "--rate", "50%")
    assert (target.cwd, target.run_as, target.env) == ("/srv", "backup", {"A": "1 2", "B": "3"})
    assert (target.when_present, target.limits.files) == ("/usr/bin/backup", 1024)
    assert (job.timeout, job.success_exit_codes) == (timedelta(minutes=90), (0, 3, 75))
    assert (job.resources.cpu, job.resources.memory) == (0.5, 512 << 20)
    printed = text_of(file)
    for left in ("ConditionACPower=true", "PrivateTmp=yes", "WakeSystem=true", "AccuracySec=1h"):
        assert left in printed


def test_several_commands_do_the_same_in_a_real_shell(tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("NAME='from the file'\n")
    service = f"""[Service]
EnvironmentFile=-/does/not/exist
EnvironmentFile={tmp_path}/settings
ExecStartPre=-/bin/false
ExecStart=/bin/echo "${{NAME}}" 'it''s' $$5
ExecStart=/bin/sh -c 'exit 3'
ExecStart=/bin/echo never
"""
    target = command_of(job_of(read("OnCalendar=daily", service), tmp_path))
    assert isinstance(target.command, str)
    ran = subprocess.run(["/bin/sh", "-c", target.command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (3, "from the file its $5\n")


def test_a_restart_becomes_retries(tmp_path: Path) -> None:
    service = SERVICE + "Restart=on-failure\nRestartSec=30\n[Unit]\nStartLimitBurst=3\n"
    assert job_of(read("OnCalendar=daily"), tmp_path).retry.max == 0
    retry = job_of(read("OnCalendar=daily", service), tmp_path).retry
    assert (retry.max, retry.initial) == (2, timedelta(seconds=30))


def test_an_empty_value_resets_a_key_and_drop_ins_come_later(tmp_path: Path) -> None:
    text = """# /lib/systemd/system/app.timer
[Timer]
OnCalendar=daily

# /etc/systemd/system/app.timer.d/override.conf
[Timer]
OnCalendar=
OnCalendar=*-*-* 05:00

# /lib/systemd/system/app.service
[Service]
ExecStart=/bin/true
"""
    units = units_in(text)
    job = job_of(read_systemd(["app.timer"], units.get, "-", tz="UTC"), tmp_path)
    assert job.schedule is not None
    assert next_after(job.schedule, START) == datetime(2026, 1, 2, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5min", 300), ("1h 30m", 5400), ("90", 90), ("1.5h", 5400), ("2w", 1209600)]
)
def test_time_spans(text: str, seconds: int) -> None:
    assert parse_span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "1 parsec", "-1", "9" * 90, "1" * 5000])
def test_what_is_no_time_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_span(text)

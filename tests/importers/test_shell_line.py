"""What is taken out of a command, and what stays."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from cronflow.importers.command_names import command_name
from cronflow.importers.shell_line import read_shell_line


@pytest.mark.parametrize(
    ("command", "left", "path"),
    [
        ("[ -x /a/b ] && /a/b -q", "/a/b -q", "/a/b"),
        ("test -e '/a/b' && x | y", "x | y", "/a/b"),
        ("/usr/bin/test -f /a/b && x", "x", "/a/b"),
        ("test -x /a/b || exit 0; x; y", "x; y", "/a/b"),
        ("[ ! -x /a/b ] || x", "x", "/a/b"),
        ("if [ -x /a/b ]; then x; y; fi", "x; y", "/a/b"),
        ("if [ $z ] && [ -x /a/b ] ; then x ; fi", "if [ $z ]; then x; fi", "/a/b"),
        ("[ -x /a/b ] && { x; y; }", "x; y", "/a/b"),
        ("[ -x /a/b ] && (x; y)", "x; y", "/a/b"),
        ("test -x /a/b -a -r /c && x", "if test -r /c; then x; fi", "/a/b"),
        ("command -v x >/dev/null && x", "if command -v x >/dev/null; then x; fi", None),
        # The rest runs without the file, too.
        ("[ -x /a/b ] && x || y", "[ -x /a/b ] && x || y", None),
        ("[ -x /a/b ] && x; y", "[ -x /a/b ] && x; y", None),
        ("[ -x /a/b ] && x & y", "[ -x /a/b ] && x & y", None),
        ("if [ -x /a/b ]; then x; else y; fi", "if [ -x /a/b ]; then x; else y; fi", None),
        ("[ -x $B ] && x", "if [ -x $B ]; then x; fi", None),
        ("test -d /run/systemd/system || x", "test -d /run/systemd/system || x", None),
        ("echo '[ -x /a/b ] && x'", "echo '[ -x /a/b ] && x'", None),
        ("[ -x /a/b ] && x 2>&1", "x 2>&1", "/a/b"),
    ],
)
def test_a_guard_is_taken_out_where_nothing_else_changes(command: str, left: str, path: str | None) -> None:
    found = read_shell_line(command)
    assert (found.command, found.when_present) == (left, path)


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("x &", "x"),
        ("[ -x /a ] && x&", "x"),
        ("a; nohup b &", "a; nohup b"),
        ("x 2>&1", "x 2>&1"),
        (r"echo \&", r"echo \&"),
    ],
)
def test_a_command_does_not_go_to_the_background(command: str, left: str) -> None:
    assert read_shell_line(command).command == left


@pytest.mark.parametrize(
    ("sleep", "seconds"),
    [
        ("sleep $((RANDOM % 3600))", 3600),
        ("sleep $(( $RANDOM % 90000 ))", 32768),
        ("sleep $[RANDOM % 60]", 60),
        ("sleep `expr $RANDOM % 90`", 90),
        ("perl -e 'sleep int(rand(43200))'", 43200),
        ('perl -e "sleep int rand 200000"', 86400),
        ("sleep $(shuf -i 0-300 -n 1)", 300),
        ("python3 -c 'import random; import time; time.sleep(random.random() * 3600)'", 3600),
        ("sleep `od -An -N1 -tu1 /dev/urandom`", 255),
    ],
)
def test_a_random_sleep_becomes_jitter(sleep: str, seconds: int) -> None:
    for joint in (" && ", "; "):
        found = read_shell_line(f"{sleep}{joint}x -q")
        assert (found.command, found.jitter) == ("x -q", timedelta(seconds=seconds))
    behind = read_shell_line(f"[ -x /a ] && {sleep} && flock -n /run/l x")
    assert (behind.command, behind.when_present, behind.lock) == ("x", "/a", "/run/l")
    assert behind.jitter == timedelta(seconds=seconds)


@pytest.mark.parametrize("command", ["sleep 30; x", "x; sleep $((RANDOM % 9))", "sleep $((RANDOM % 9)) || x"])
def test_another_sleep_stays(command: str) -> None:
    assert read_shell_line(command).command == command


@pytest.mark.parametrize(
    ("command", "left", "lock", "waits"),
    [
        ("flock -n /run/a x -y", "x -y", "/run/a", False),
        ("/usr/bin/flock -xn /run/a -c 'x; y'", "x; y", "/run/a", False),
        ("flock --nonblock /run/a x | y", "x | y", "/run/a", False),
        ("flock /run/a x", "x", "/run/a", True),
        ("flock -n /run/a x; y", "flock -n /run/a x; y", None, False),
        ("flock -w 10 /run/a x", "flock -w 10 /run/a x", None, False),
        ("flock -n 9 x", "flock -n 9 x", None, False),
    ],
)
def test_flock_is_taken_out_when_it_guards_the_whole_command(
    command: str, left: str, lock: str | None, waits: bool
) -> None:
    found = read_shell_line(command)
    assert (found.command, found.lock, found.waits_for_lock) == (left, lock, waits)


def test_a_rewritten_command_does_the_same_in_a_real_shell(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    for command in (
        f"[ -e {there} ] && {{ echo a; echo b; }}",
        f"test -e {there} || exit 0; echo a; echo b",
        f"if [ -e {there} ] && [ 1 = 1 ]; then echo a && echo b; fi",
        f"test -e {there} -a 1 = 1 && echo a | cat && echo b",
        f"[ -f {there} ] && (echo a; echo b)",
        "[ 1 = 2 ] && echo a || true",
    ):
        found = read_shell_line(command).command
        before, after = (
            subprocess.run(["/bin/sh", "-c", one], capture_output=True, check=False) for one in (command, found)
        )
        assert (after.returncode, after.stdout) == (0, before.stdout), command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/usr/local/bin/backup.sh --all >/dev/null 2>&1", "backup"),
        ("cd /srv/app && nice -n10 ./manage.py clearsessions", "manage-clearsessions"),
        ("FOO=1 python3 /opt/job.py nightly", "job-nightly"),
        ("if [ -x /a ]; then /a/Report; fi", "report"),
        ("'unclosed", "unclosed"),
        ("*", "job"),
    ],
)
def test_the_name_is_what_the_command_runs(command: str, name: str) -> None:
    assert command_name(command) == name


def test_lines_on_which_an_expression_would_backtrack_stay_as_they_are() -> None:
    """Each of them took minutes, or did not end."""
    spaces = " " * 300
    for command in (
        f"if x; then {spaces}x",
        f"if x{spaces}; then {spaces}y",
        "if " + "; then" * 100 + " x",
        "[ -x /a -a " + "\\!" * 200 + "&",
        "flock " + "-w 1 " * 150 + "x",
    ):
        assert read_shell_line(command).when_present is None


def test_the_word_fi_ends_a_block_only_as_a_word() -> None:
    assert read_shell_line("if [ -x /a ]; then wifi").when_present is None
    assert read_shell_line("if [ -x /a ]; then /a; fi").when_present == "/a"

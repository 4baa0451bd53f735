"""A strange expression anywhere in Python source is a refusal, and never an exception."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from textwrap import dedent

import pytest
import yaml

from cronflow.domain.errors import InvalidInput
from cronflow.importers.apscheduler import read_apscheduler
from cronflow.importers.celery_beat import read_celery
from cronflow.importers.imported import ImportedFile
from tests.importers.as_written import written

CELERY = """
from shop import tasks
timezone = "Europe/Berlin"
task_time_limit = 60 * 60
beat_schedule = {
    "a": {"task": "b.c", "schedule": crontab(minute="*/5", hour=2, day_of_week="mon"), "args": (), "kwargs": {"d": 1}},
    "e": {"task": "f.g", "schedule": timedelta(minutes=5), "options": {"expires": 60, "queue": "h"}, "relative": True},
}
def setup(sender):
    sender.add_periodic_task(10.0, tasks.i.s("j", k=1), args=(2,), name="l", expires=5)
"""
APSCHEDULER = """
from shop import work
s = BackgroundScheduler(timezone="Europe/Berlin", job_defaults={"coalesce": True, "max_instances": 2})
s.add_job(work.a, "cron", day="last", hour=3, start_date="2027-01-01", jitter=5, misfire_grace_time=60, args=[1])
s.add_job(work.b, IntervalTrigger(hours=5, end_date=datetime(2028, 1, 1), timezone="UTC"), next_run_time=None)
s.add_job("work:c", OrTrigger([CronTrigger(hour=9), CronTrigger.from_crontab("0 9 * * 1")]), kwargs={"d": 1}, id="e")
s.add_job(work.d, "date", run_date="2027-01-01 00:00:00", name="f")
"""
WRONG = (
    "None",
    "-1",
    "1e300",
    "''",
    "'x'",
    "[]",
    "[None]",
    "{}",
    "x",
    "x.y",
    "x()",
    "x[0]",
    "lambda: 1",
    "b'x'",
    "...",
)


def changed(text: str) -> Iterator[str]:
    """The source with each expression replaced by each wrong one."""
    count = sum(isinstance(node, ast.expr) for node in ast.walk(ast.parse(text)))
    for place in range(count):
        for wrong in WRONG:
            tree = ast.parse(text)
            target = [node for node in ast.walk(tree) if isinstance(node, ast.expr)][place]
            if not isinstance(getattr(target, "ctx", ast.Load()), ast.Load):
                break
            yield ast.unparse(_Replacement(target, ast.parse(wrong, mode="eval").body).visit(tree))


class _Replacement(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else super().visit(node)


@pytest.mark.prove
@pytest.mark.parametrize(("read", "text"), [(read_celery, CELERY), (read_apscheduler, APSCHEDULER)])
def test_a_strange_expression_is_no_exception(read: Callable[[str, str], ImportedFile], text: str) -> None:
    for one in changed(dedent(text)):
        try:
            file = read(one, "file.py")
        except InvalidInput:
            continue
        yaml.compose(written(file), yaml.CSafeLoader)

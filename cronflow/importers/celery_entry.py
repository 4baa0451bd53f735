"""One periodic task of Celery as a job, for the readers of Python source and of a database dump.

Beat only sends a message; the task runs in a worker. A job calls the function of the task itself, so it needs the
function's module, and arguments by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from cronflow.domain.durations import LONGEST, format_duration
from cronflow.importers.celery_crontab import NAMES, crontab_schedule
from cronflow.importers.imported import NO_RETRIES, ImportNote
from cronflow.importers.job_draft import LONG_TIMEOUT, JobDraft, Refused
from cronflow.importers.python_source import DottedName, NotConstant, SourceCall, plain

DEFAULTS: Mapping[str, Any] = {"retry": NO_RETRIES, "overlap": "allow", "misfire": "fire_once", "timeout": LONG_TIMEOUT}
"""What beat does with all tasks, as the defaults of the job file."""
DEFAULT_NOTES = (
    ImportNote(
        (), "Each function is called directly, without a worker of Celery. The nodes must be able to import it."
    ),
    ImportNote((), "If it needs a Django or Celery app, its module must set that up when it is imported."),
    ImportNote(("defaults", "retry"), "Beat does not retry. Retries that a task declares itself are not imported."),
    ImportNote(("defaults", "overlap"), "Beat sends a task however many of it still run."),
    ImportNote(("defaults", "misfire"), "After a stop, beat sends each task that was due once."),
    ImportNote(("defaults", "timeout"), "Celery has no limit by default. CronFlow needs one: how long may a run take?"),
)


def celery_schedule(value: Any, tz: str | None) -> tuple[dict[str, Any], list[str]]:
    """The keys of a schedule, and notes, of the `schedule` of an entry. Raises Refused and NotConstant."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= LONGEST.total_seconds():
            raise Refused(f"its interval is {value} seconds", "write at most a hundred years")
        return _interval(timedelta(seconds=value))
    if isinstance(value, timedelta):
        return _interval(value)
    if isinstance(value, SourceCall):
        if value.function.endswith("crontab.from_string") and value.args:
            parts = str(value.args[0]).split()
            if len(parts) != len(NAMES):
                raise Refused(f"crontab.from_string has {len(parts)} fields", "write five")
            minute, hour, day, month, weekday = parts
            return crontab_schedule(dict(zip(NAMES, (minute, hour, weekday, day, month), strict=True)), tz)
        if value.short == "crontab":
            given = {**dict(zip(NAMES, value.args, strict=False)), **value.kwargs}
            given = {key: one if key in ("app", "nowfun") else plain(one) for key, one in given.items()}
            others = [key for key in given if key not in (*NAMES, "app", "nowfun", "tz")]
            if others:
                raise Refused(f"crontab has the argument {others[0]!r}", "correct the schedule")
            zone = given.get("tz")
            return crontab_schedule(given, zone if isinstance(zone, str) else tz)
        if value.short in ("schedule", "interval"):
            first = value.kwargs.get("run_every", value.args[0] if value.args else None)
            return celery_schedule(first, tz)
        if value.short == "solar":
            raise Refused("it follows the sun, and CronFlow has no such schedule", "choose a time of day")
    if isinstance(value, DottedName):
        raise NotConstant(value.text)
    written = value.function if isinstance(value, SourceCall) else repr(value)
    raise Refused(
        f"its schedule is {written}, which CronFlow does not support", "write the schedule of the job yourself"
    )


def _interval(length: timedelta) -> tuple[dict[str, Any], list[str]]:
    if length <= timedelta(0):
        raise Refused(f"its interval is {length.total_seconds():g} seconds", "write an interval of at least a second")
    note = "Beat counts from the last time that it sent the task; CronFlow from a fixed time, the same on every node."
    return {"every": format_duration(length)}, [note]


def task_path(name: str) -> str:
    """`module:function` of a task that has its default name. Raises Refused."""
    module, _, function = name.rpartition(".")
    if name.startswith("celery."):
        raise Refused(f"{name} is a part of Celery", "leave it out, unless Celery stays in use")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        remedy = "write run: {python: module:function} with the function of this task"
        raise Refused(f"the name of the task, {name!r}, does not tell its function", remedy)
    return f"{module}:{function}"


def set_options(draft: JobDraft, options: Mapping[str, Any]) -> None:
    """The options with which beat sends the task."""
    rest = {key: value for key, value in options.items() if value not in (None, "", {}, [], "{}")}
    expires = rest.pop("expires", rest.pop("expire_seconds", None))
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if isinstance(expires, int | float) and 0 < expires <= LONGEST.total_seconds():
        grace = timedelta(seconds=expires)
        late = min(timedelta(seconds=60), max(timedelta(seconds=1), grace))
        misfire = {"policy": "fire_once", "late_after": format_duration(late), "grace": format_duration(grace)}
        draft.set("misfire", misfire, f"expires: {expires:g}. A run that is later than this is skipped.")
    elif expires is not None:
        rest["expires"] = expires
    queue = rest.pop("queue", None)
    if queue is not None:
        draft.note(f"It was sent to the queue {queue}. To choose nodes for it, add require: {{queue: {queue}}}.")
    draft.left_out("Options of the message that were left out", map(str, rest))

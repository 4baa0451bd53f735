"""Reads `manage.py dumpdata django_celery_beat`: the periodic tasks of Celery that Django keeps in its database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.celery_crontab import crontab_schedule
from cronflow.importers.celery_entry import DEFAULT_NOTES, DEFAULTS, celery_schedule, set_options, task_path
from cronflow.importers.imported import ImportedFile, ImportedJob, ImportRefusal
from cronflow.importers.job_draft import JobDraft, Refused, refused

_APP = "django_celery_beat."
_MODELS = ("crontabschedule", "intervalschedule", "clockedschedule", "solarschedule")
_KEYS = ("crontab", "interval", "clocked", "solar")
_OPTIONS = ("queue", "exchange", "routing_key", "headers", "priority", "expire_seconds")
_READ = ("name", "task", "args", "kwargs", "one_off", "start_time", "expires", "enabled", "description")
_STATE = ("last_run_at", "total_run_count", "date_changed")


def read_dump(text: str, source: str, *, tz: str | None = None) -> ImportedFile:
    """The periodic tasks of a dump. Raises InvalidInput."""
    try:
        dump = json.loads(text)
    except RecursionError:
        raise InvalidInput(Problem(source, "its values are nested too deeply", "correct the file")) from None
    except json.JSONDecodeError as error:
        raise InvalidInput(Problem(f"{source}:{error.lineno}", f"not JSON: {error.msg}", _EXPORT)) from None
    rows = [one for one in (dump if isinstance(dump, list) else [dump]) if isinstance(one, Mapping)]
    models: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        name = str(row.get("model", ""))
        if name.startswith(_APP):
            fields = row.get("fields")
            rows_of = models.setdefault(name.removeprefix(_APP), {})
            rows_of[str(row.get("pk"))] = fields if isinstance(fields, Mapping) else {}
    if "periodictask" not in models:
        raise InvalidInput(Problem(source, "it has no periodic tasks of django_celery_beat", _EXPORT))
    jobs: list[ImportedJob] = []
    refusals: list[ImportRefusal] = []
    for task in models["periodictask"].values():
        place = f"task {task.get('name', '')}".strip()
        original = json.dumps(task, ensure_ascii=False, indent=2)
        try:
            draft = _job(task, models, place, tz)
            jobs.append(draft.imported(str(task.get("name") or "job")))
        except Refused as error:
            refusals.append(error.refusal(place, original))
        except InvalidInput as error:
            refusals.append(refused(error).refusal(place, original))
    notes = DEFAULT_NOTES if jobs else ()
    return ImportedFile(f"celery {source}", tuple(jobs), tuple(refusals), dict(DEFAULTS), notes)


_EXPORT = "export them with: manage.py dumpdata django_celery_beat"


def _job(
    task: Mapping[str, Any], models: Mapping[str, Mapping[str, Mapping[str, Any]]], place: str, tz: str | None
) -> JobDraft:
    draft = JobDraft(place, f"task: {task.get('task')}", json.dumps(task, ensure_ascii=False, indent=2))
    if task.get("description"):
        draft.set("description", str(task["description"]))
    schedule, notes = _schedule(task, models, tz)
    for ours, key in (("start", "start_time"), ("end", "expires")):
        if task.get(key):
            schedule[ours] = task[key]
    if task.get("one_off") and "at" not in schedule:
        schedule["max_runs"] = 1
    draft.set("schedule", schedule, *notes)
    run: dict[str, Any] = {"python": task_path(str(task.get("task")))}
    args, kwargs = _json(task, "args", []), _json(task, "kwargs", {})
    if args:
        remedy = "give the arguments by name: kwargs in the database, or args: in the job"
        raise Refused("its arguments have no names, and CronFlow passes them by name", remedy)
    if kwargs:
        run["args"] = kwargs
    draft.set("run", run)
    set_options(draft, {key: task.get(key) for key in _OPTIONS})
    if task.get("enabled") is False:
        draft.set("enabled", False, "Disabled in the database.")
    known = (*_READ, *_OPTIONS, *_KEYS, *_STATE)
    draft.left_out("Keys that were left out", [key for key, value in task.items() if key not in known and value])
    return draft


def _schedule(
    task: Mapping[str, Any], models: Mapping[str, Mapping[str, Mapping[str, Any]]], tz: str | None
) -> tuple[dict[str, Any], list[str]]:
    found = [(key, model) for key, model in zip(_KEYS, _MODELS, strict=True) if task.get(key) is not None]
    if len(found) != 1:
        raise Refused("it has no schedule", "choose one in the database")
    key, model = found[0]
    row = models.get(model, {}).get(str(task[key]))
    if row is None:
        raise Refused(f"its {model} {task[key]} is not in this dump", _EXPORT)
    match key:
        case "crontab":
            return crontab_schedule(row, str(row.get("timezone") or tz or "UTC"))
        case "interval":
            if row.get("period") not in ("days", "hours", "minutes", "seconds", "microseconds"):
                raise Refused(f"its interval has the period {row.get('period')!r}", "write the schedule yourself")
            try:
                length = timedelta(**{row["period"]: row.get("every", 0)})
            except (TypeError, OverflowError):
                raise Refused(f"its interval is {row.get('every')!r}", "correct it in the database") from None
            return celery_schedule(length, tz)
        case "clocked":
            return {"at": row.get("clocked_time")}, []
    raise Refused("it follows the sun, and CronFlow has no such schedule", "choose a time of day")


def _json(task: Mapping[str, Any], key: str, empty: Any) -> Any:
    value = task.get(key) or empty
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        raise Refused(f"{key} is not JSON", "correct it in the database") from None
    if not isinstance(value, type(empty)):
        raise Refused(f"{key} is {value!r}", "correct it in the database")
    return value

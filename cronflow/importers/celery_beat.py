"""Reads periodic tasks of Celery from Python source, without executing it: beat schedules and `add_periodic_task`.

A dump of django-celery-beat is JSON, and `django_celery_beat` reads it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.schedule.zones import find_zone
from cronflow.importers.celery_entry import DEFAULT_NOTES, DEFAULTS, celery_schedule, set_options, task_path
from cronflow.importers.django_celery_beat import read_dump
from cronflow.importers.imported import ImportedFile, ImportedJob, ImportNote, ImportRefusal
from cronflow.importers.job_draft import JobDraft, Refused, refused
from cronflow.importers.python_source import DottedName, FunctionPath, NotConstant, PythonSource, SourceCall

_SCHEDULES = ("beat_schedule", "BEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES = ("timezone", "CELERY_TIMEZONE", "TIME_ZONE")
_UTC = ("enable_utc", "CELERY_ENABLE_UTC")
_LIMITS = ("task_time_limit", "CELERY_TASK_TIME_LIMIT", "CELERYD_TASK_TIME_LIMIT")
_ENTRY = ("task", "schedule", "args", "kwargs", "options", "relative")
_PERIODIC = ("schedule", "sig", "args", "kwargs", "name")


def read_celery(text: str, source: str, *, tz: str | None = None, module: str | None = None) -> ImportedFile:
    """The periodic tasks of a file. Raises InvalidInput for text that is neither Python nor JSON."""
    if text.lstrip().startswith(("[", "{")):
        return read_dump(text, source, tz=tz)
    return _TaskReader(PythonSource(text, source, module), source, tz).file()


class _TaskReader:
    def __init__(self, code: PythonSource, source: str, tz: str | None) -> None:
        self._code, self._source = code, source
        self._notes: list[ImportNote] = []
        self._tz = self._zone(tz)
        self._jobs: list[ImportedJob] = []
        self._refusals: list[ImportRefusal] = []

    def file(self) -> ImportedFile:
        entries = list(self._entries())
        for name, place, node in entries:
            original = f"{self._code.text(name)}: {self._code.text(node)}"
            self._add(original, place, partial(self._entry, name, original, place, node))
        calls = [
            node
            for node in ast.walk(self._code.tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_periodic_task"
        ]
        for call in sorted(calls, key=lambda call: call.lineno):
            self._add(self._code.text(call), call, partial(self._periodic, call))
        if not entries and not calls and not self._refusals:
            remedy = "name the file with beat_schedule or add_periodic_task, or a dump of django_celery_beat"
            raise InvalidInput(Problem(self._source, "no periodic tasks of Celery were found", remedy))
        defaults = dict(DEFAULTS)
        limit = self._setting(_LIMITS)
        notes = [*self._notes, *DEFAULT_NOTES]
        if isinstance(limit, int | float) and limit > 0:
            defaults["timeout"] = f"{limit:g}s"
            notes = [note for note in notes if note.path != ("defaults", "timeout")]
            notes.append(ImportNote(("defaults", "timeout"), "The task_time_limit of this file."))
        return ImportedFile(
            f"celery {self._source}",
            tuple(self._jobs),
            tuple(self._refusals),
            defaults if self._jobs else {},
            tuple(notes) if self._jobs else (),
        )

    def _add(self, original: str, place: ast.AST, read: Callable[[], tuple[str, JobDraft]]) -> None:
        """Add the job that `read` returns, or a refusal."""
        self._code.environment.clear()
        try:
            name, draft = read()
        except Refused as error:
            self._refusals.append(error.refusal(self._code.place(place), original))
        except InvalidInput as error:
            self._refusals.append(refused(error).refusal(self._code.place(place), original))
        except NotConstant as error:
            what = f"the value of {error} is not in this file"
            remedy = "write the value in its place, or write the job yourself"
            self._refusals.append(ImportRefusal(self._code.place(place), original, what, remedy))
        else:
            for variable, value in self._code.environment.items():
                draft.note(f"{value!r} is the default of the environment variable {variable}.")
            self._jobs.append(draft.imported(name))

    # ------------------------------------------------------------------------------------------------------- settings

    def _setting(self, names: tuple[str, ...]) -> Any:
        """The value of the first of these settings that this file has; None if it has none."""
        for name in names:
            for _, node in self._code.assignments(name):
                try:
                    return self._code.value(node)
                except NotConstant:
                    continue
        return None

    def _zone(self, tz: str | None) -> str | None:
        zone = self._setting(_ZONES)
        if isinstance(zone, str):
            try:
                find_zone(zone)
            except InvalidInput as error:
                raise InvalidInput(
                    [Problem(f"{self._source}: timezone", one.what, one.remedy) for one in error.problems]
                ) from None
            return zone
        if self._setting(_UTC) is False and tz is None:
            text = (
                "enable_utc is off, and no timezone is set: Celery uses the zone of its machine, here UTC (see --tz)."
            )
            self._notes.append(ImportNote((), text))
        elif tz is None:
            self._notes.append(ImportNote((), "No timezone is set in this file: Celery uses UTC."))
        return tz or "UTC"

    # -------------------------------------------------------------------------------------------------------- entries

    def _entries(self) -> Iterator[tuple[ast.expr, ast.AST, ast.expr]]:
        """The name, place and value of each entry of a beat schedule."""
        for place, value in self._code.assignments(*_SCHEDULES):
            yield from self._pairs(place, value)
        for node in ast.walk(self._code.tree):
            match node:
                case ast.Assign(targets=[ast.Subscript(value=target, slice=name)], value=value) if self._is_schedule(
                    target
                ):
                    yield name, node, value
                case ast.Call(func=ast.Attribute(value=target, attr="update"), args=[value]) if self._is_schedule(
                    target
                ):
                    yield from self._pairs(node, value)

    def _is_schedule(self, node: ast.expr) -> bool:
        return (self._code.dotted(node) or "").rpartition(".")[2] in _SCHEDULES

    def _pairs(self, place: ast.AST, value: ast.expr) -> Iterator[tuple[ast.expr, ast.AST, ast.expr]]:
        if isinstance(value, ast.Name):
            found = [one for _, one in self._code.assignments(value.id)]
            if len(found) == 1 and value.id not in _SCHEDULES:
                yield from self._pairs(found[0], found[0])
                return
            if value.id in _SCHEDULES:
                return
        if not isinstance(value, ast.Dict):
            remedy = "write the entries as a dict in this file, or import them from where they are"
            what = "the beat schedule is computed, so its entries are not in this file"
            self._refusals.append(ImportRefusal(self._code.place(place), self._code.text(place), what, remedy))
            return
        for key, one in zip(value.keys, value.values, strict=True):
            if key is None:
                what = f"the entries of {self._code.text(one)} are not in this file"
                self._refusals.append(
                    ImportRefusal(
                        self._code.place(one), f"**{self._code.text(one)}", what, "import them from where they are"
                    )
                )
            else:
                yield key, key, one

    def _entry(self, name: ast.expr, original: str, place: ast.AST, node: ast.expr) -> tuple[str, JobDraft]:
        draft = JobDraft(self._code.place(place), original)
        fields = self._code.value(node)
        if isinstance(fields, DottedName | SourceCall) or not isinstance(fields, Mapping):
            raise NotConstant(self._code.text(node))
        if "task" not in fields or "schedule" not in fields:
            raise Refused("it has no task or no schedule", "add it")
        schedule, notes = celery_schedule(fields["schedule"], self._tz)
        draft.set("schedule", schedule, *notes)
        self._code.set_run(draft, self._task(fields["task"]), fields.get("args"), fields.get("kwargs"))
        options = fields.get("options") or {}
        set_options(draft, options if isinstance(options, Mapping) else {"options": options})
        if fields.get("relative"):
            draft.note("relative: Celery rounds to whole units of the interval, as CronFlow does.", "schedule")
        draft.left_out("Keys that were left out", [str(key) for key in fields if key not in _ENTRY])
        return str(self._code.value(name)), draft

    def _task(self, task: Any) -> FunctionPath:
        if isinstance(task, DottedName):
            task = task.text.removesuffix(".name")
            if task in self._code.functions:
                return self._code.function(ast.Name(task))
        named = self._named(str(task))
        return named if named is not None else FunctionPath(task_path(str(task)))

    def _named(self, task: str) -> FunctionPath | None:
        """The function of this file that declares this name as its task."""
        for function, definition in self._code.functions.items():
            for decorator in definition.decorator_list:
                if any(
                    isinstance(one, ast.keyword)
                    and one.arg == "name"
                    and isinstance(one.value, ast.Constant)
                    and one.value.value == task
                    for one in ast.walk(decorator)
                ):
                    return self._code.function(ast.Name(function))
        return None

    def _periodic(self, call: ast.Call) -> tuple[str, JobDraft]:
        draft = JobDraft(self._code.place(call), self._code.text(call))
        if any(one.arg is None for one in call.keywords):
            raise NotConstant(self._code.text(call))
        given = {**dict(zip(_PERIODIC, call.args, strict=False)), **{str(one.arg): one.value for one in call.keywords}}
        if "schedule" not in given or "sig" not in given:
            raise Refused("it has no schedule or no task", "add it")
        schedule, notes = celery_schedule(self._code.value(given["schedule"]), self._tz)
        draft.set("schedule", schedule, *notes)
        function, args, kwargs = self._signature(given["sig"])
        more, named = _arguments(
            *(self._code.value(given[key]) if key in given else None for key in ("args", "kwargs"))
        )
        self._code.set_run(draft, function, args + more, kwargs | named)
        set_options(draft, {key: self._code.value(node) for key, node in given.items() if key not in _PERIODIC})
        name = self._code.value(given["name"]) if "name" in given else function.path.partition(":")[2]
        return str(name), draft

    def _signature(self, node: ast.expr) -> tuple[FunctionPath, tuple[Any, ...], dict[str, Any]]:
        """The function and the arguments of `task`, `task.s(…)`, `task.si(…)` or `signature(name, …)`."""
        if not isinstance(node, ast.Call):
            return self._code.function(node), (), {}
        args = tuple(self._code.value(one) for one in node.args)
        kwargs = {str(one.arg): self._code.value(one.value) for one in node.keywords}
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("s", "si"):
            return self._code.function(node.func.value), args, kwargs
        if (self._code.dotted(node.func) or "").endswith("signature") and args and isinstance(args[0], str):
            return self._task(args[0]), *_arguments(kwargs.get("args"), kwargs.get("kwargs"))
        raise Refused(
            f"{self._code.text(node)} is not a single task", "make a job of each task, and join them with after"
        )


def _arguments(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a signature; None for no arguments. Raises Refused."""
    args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise Refused("its arguments are not a list and a mapping", "correct args and kwargs")
    return tuple(args), kwargs

"""Reads jobs of APScheduler 3 from Python source, without executing it: `add_job`, `scheduled_job`, and the JOBS of
Flask-APScheduler.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from cronflow.domain.durations import format_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.importers.apscheduler_triggers import Trigger, find_trigger, trigger_schedule
from cronflow.importers.imported import NO_RETRIES, ImportedFile, ImportedJob, ImportNote, ImportRefusal
from cronflow.importers.job_draft import LONG_TIMEOUT, JobDraft, Refused, refused
from cronflow.importers.python_source import FunctionPath, NotConstant, PythonSource, SourceCall

_ADD_JOB = ("func", "trigger", "args", "kwargs", "id", "name")
_DECORATOR = ("trigger", "args", "kwargs", "id", "name")
_LATE_RUNS = ("misfire_grace_time", "coalesce", "max_instances")
_OTHERS = ("next_run_time", "jobstore", "executor", "replace_existing")
_UNSET = object()


class _LateRuns:
    """How a job, or by default all of a file, run late and at once."""

    def __init__(self, values: Mapping[str, Any], base: Mapping[str, Any] | None = None) -> None:
        self.given = {**(base or {}), **values}
        self.grace = self.given.get("misfire_grace_time", _UNSET)
        self.coalesce = bool(self.given.get("coalesce", False))
        instances = self.given.get("max_instances", 1)
        if not isinstance(instances, int) or instances < 1:
            raise Refused(f"max_instances is {instances!r}", "write a number")
        self.instances = instances

    def keys(self) -> dict[str, tuple[Any, str]]:
        """Keys of a job, each with a note."""
        found = {"overlap": self._overlap(), "misfire": self._misfire()}
        if self.instances > 1:
            what = "A run above max_instances is skipped."
            found["concurrency"] = [{"key": "{job}", "limit": self.instances, "on_full": "skip"}], what
        return found

    def _overlap(self) -> tuple[Any, str]:
        return ("allow" if self.instances > 1 else "forbid"), f"max_instances: {self.instances}."

    def _misfire(self) -> tuple[Any, str]:
        policy = "fire_once" if self.coalesce else "catch_up"
        given = f"coalesce: {self.coalesce}"
        if self.grace is _UNSET:
            return "skip", "APScheduler skips a run that is more than 1 s late; CronFlow if it is more than 60 s late."
        if self.grace is None:
            return policy, f"misfire_grace_time: None, {given}."
        if not isinstance(self.grace, int) or self.grace < 1:
            raise Refused(f"misfire_grace_time is {self.grace!r}", "write seconds")
        grace, late = timedelta(seconds=self.grace), timedelta(seconds=min(self.grace, 60))
        misfire = {"policy": policy, "late_after": format_duration(late), "grace": format_duration(grace)}
        return misfire, f"misfire_grace_time: {self.grace}, {given}."


def read_apscheduler(text: str, source: str, *, tz: str | None = None, module: str | None = None) -> ImportedFile:
    """The jobs of a file. Raises InvalidInput for text that is not Python."""
    return _JobReader(PythonSource(text, source, module), source, tz).file()


class _JobReader:
    def __init__(self, code: PythonSource, source: str, tz: str | None) -> None:
        self._code, self._source = code, source
        self._given_tz = tz
        settings = self._scheduler_settings()
        self._tz = settings.get("timezone") if isinstance(settings.get("timezone"), str) else None
        defaults = settings.get("job_defaults")
        given = (
            {key: one for key, one in defaults.items() if key in _LATE_RUNS} if isinstance(defaults, Mapping) else {}
        )
        try:
            self._defaults = _LateRuns(given)
            self._defaults.keys()
        except Refused as error:
            raise InvalidInput(Problem(f"{source}: job_defaults", error.reason, error.remedy)) from None
        self._jobs: list[ImportedJob] = []
        self._refusals: list[ImportRefusal] = []

    def file(self) -> ImportedFile:
        found = 0
        for node in ast.walk(self._code.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_job":
                found += 1
                self._add(self._code.text(node), node, partial(self._added, node))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    if self._is_scheduled(decorator):
                        found += 1
                        original = f"@{self._code.text(decorator)}\ndef {node.name}"
                        self._add(original, decorator, partial(self._decorated, node, decorator))
        for _, value in self._code.assignments("JOBS", "SCHEDULER_JOBS"):
            for one in value.elts if isinstance(value, ast.List | ast.Tuple) else []:
                found += 1
                self._add(self._code.text(one), one, partial(self._listed, one))
        if not found:
            remedy = "name the file with add_job, scheduled_job or JOBS"
            raise InvalidInput(Problem(self._source, "no jobs of APScheduler were found", remedy))
        defaults: dict[str, Any] = {"retry": NO_RETRIES, "timeout": LONG_TIMEOUT}
        notes = [
            ImportNote((), "The nodes call these functions, so they must be able to import their modules."),
            ImportNote(("defaults", "retry"), "APScheduler does not retry."),
            ImportNote(
                ("defaults", "timeout"), "APScheduler sets no limit. CronFlow needs one: how long may a run take?"
            ),
        ]
        for key, (value, note) in self._defaults.keys().items():
            defaults[key] = value
            notes.append(ImportNote(("defaults", key), note))
        self._jobs.sort(key=lambda job: int(job.place.split()[1]))
        return ImportedFile(
            f"apscheduler {self._source}",
            tuple(self._jobs),
            tuple(self._refusals),
            defaults if self._jobs else {},
            tuple(notes) if self._jobs else (),
        )

    def _add(self, original: str, node: ast.AST, read: Callable[[JobDraft], str]) -> None:
        """Add the job that `read` drafts, or a refusal."""
        self._code.environment.clear()
        draft = JobDraft(self._code.place(node), original)
        try:
            name = read(draft)
        except Refused as error:
            self._refusals.append(error.refusal(draft.place, original))
        except InvalidInput as error:
            self._refusals.append(refused(error).refusal(draft.place, original))
        except NotConstant as error:
            remedy = "write the value in its place, or write the job yourself"
            self._refusals.append(
                ImportRefusal(draft.place, original, f"the value of {error} is not in this file", remedy)
            )
        else:
            for variable, value in self._code.environment.items():
                draft.note(f"{value!r} is the default of the environment variable {variable}.")
            self._jobs.append(draft.imported(name))

    def _scheduler_settings(self) -> dict[str, Any]:
        """`timezone` and `job_defaults` of the scheduler, or of Flask's configuration."""
        found: dict[str, Any] = {}
        for node in ast.walk(self._code.tree):
            if isinstance(node, ast.Call):
                name = (self._code.dotted(node.func) or "").rpartition(".")[2]
                if name.endswith("Scheduler") or name == "configure":
                    for keyword in node.keywords:
                        if keyword.arg in ("timezone", "job_defaults"):
                            found.setdefault(keyword.arg, self._constant(keyword.value))
        for key, setting in (("timezone", "SCHEDULER_TIMEZONE"), ("job_defaults", "SCHEDULER_JOB_DEFAULTS")):
            for _, value in self._code.assignments(setting):
                found.setdefault(key, self._constant(value))
        return found

    def _constant(self, node: ast.AST) -> Any:
        try:
            return self._code.value(node)
        except NotConstant:
            return None

    def _is_scheduled(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        # `scheduler.task("cron", …)` is the decorator of Flask-APScheduler.
        return node.func.attr == "scheduled_job" or (
            node.func.attr == "task" and "scheduler" in (self._code.dotted(node.func.value) or "").lower()
        )

    # ----------------------------------------------------------------------------------------------------------- jobs

    def _added(self, call: ast.Call, draft: JobDraft) -> str:
        given = self._arguments(call, _ADD_JOB)
        if "func" not in given:
            raise Refused("it has no function", "add it")
        node = given.pop("func")
        if isinstance(node, ast.Constant):
            return self._complete(draft, self._path(str(node.value)), self._values(given))
        return self._complete(draft, self._code.function(node), self._values(given))

    def _decorated(self, function: ast.FunctionDef | ast.AsyncFunctionDef, decorator: ast.expr, draft: JobDraft) -> str:
        assert isinstance(decorator, ast.Call)
        if self._code.functions.get(function.name) is not function:
            remedy = "move it to a function of a module, and write run: {python: module:function}"
            raise Refused(f"{function.name} is defined inside another function or a class", remedy)
        path = self._code.function(ast.Name(function.name))
        return self._complete(draft, path, self._values(self._arguments(decorator, _DECORATOR)))

    def _listed(self, node: ast.expr, draft: JobDraft) -> str:
        values = self._code.value(node)
        if not isinstance(values, dict) or not isinstance(values.get("func"), str):
            raise NotConstant(self._code.text(node))
        return self._complete(draft, self._path(values.pop("func")), values)

    def _arguments(self, call: ast.Call, names: tuple[str, ...]) -> dict[str, ast.expr]:
        if any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
            raise NotConstant(self._code.text(call))
        return {**dict(zip(names, call.args, strict=False)), **{str(one.arg): one.value for one in call.keywords}}

    def _values(self, nodes: Mapping[str, ast.expr]) -> dict[str, Any]:
        return {key: self._code.value(node) for key, node in nodes.items()}

    def _path(self, text: str) -> FunctionPath:
        """A function that is named as text, such as `module:function`."""
        module, _, name = text.partition(":")
        if module in ("__main__", self._code.module) and name in self._code.functions:
            return self._code.function(ast.Name(name))
        return FunctionPath(text)

    def _complete(self, draft: JobDraft, function: FunctionPath, values: dict[str, Any]) -> str:
        args, kwargs = values.pop("args", None), values.pop("kwargs", None)
        options = {key: values.pop(key) for key in _LATE_RUNS if key in values}
        others = {key: values.pop(key) for key in _OTHERS if key in values}
        title, name = values.pop("name", None), values.pop("id", None)
        value = values.pop("trigger", None)
        trigger = find_trigger(value, values)
        if title:
            draft.set("description", str(title))
        self._schedule(draft, trigger, is_object=isinstance(value, SourceCall))
        self._code.set_run(draft, function, args, kwargs)
        own = _LateRuns(options, self._defaults.given).keys()
        for key, (found, note) in own.items():
            if found != self._defaults.keys().get(key, (None, ""))[0]:
                draft.set(key, found, note)
        if "next_run_time" in others and others.pop("next_run_time") is None:
            draft.set("enabled", False, "next_run_time: None adds it paused.")
        others.pop("replace_existing", None)
        draft.left_out("Arguments that were left out", others)
        if isinstance(value, SourceCall):
            draft.left_out("APScheduler ignores arguments next to a trigger object", values)
        return str(name or title or function.path.partition(":")[2])

    def _schedule(self, draft: JobDraft, trigger: Trigger, *, is_object: bool) -> None:
        # An object without a zone has the one of the machine; the scheduler's is for aliases.
        scheduler = None if is_object else self._tz
        zone = scheduler or self._given_tz or "UTC"
        schedule, notes = trigger_schedule(trigger, zone)
        draft.set("schedule", schedule, *notes)
        if trigger.values.get("timezone") is None and scheduler is None and schedule.keys() != {"every"}:
            given = f"{zone}, from --tz" if self._given_tz else "UTC; name another one with --tz"
            draft.note(f"No timezone is given: APScheduler uses that of its machine. Here: {given}.", "schedule")

"""Jobs in Python: an `App` collects functions decorated with `@app.job`; `load_app` imports an App by its address.

Errors in a job are raised when its module is imported, with the function's name, not at the first fire. The decorated
function stays unchanged. An App does not depend on a cluster; it is a list of `Job` values and their functions.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TypeVar

from cronflow.context import misfit
from cronflow.documents.jobs import read_after, read_concurrency, read_job_rate
from cronflow.documents.values import nearest, under
from cronflow.domain.chain import Join
from cronflow.domain.durations import Duration, parse_duration
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import (
    Breaker,
    Delivery,
    Job,
    Misfire,
    MisfirePolicy,
    Overlap,
    PythonTarget,
    Retry,
    StartGuard,
    check_name,
)
from cronflow.domain.limits import parse_size
from cronflow.domain.resources import ResourceAmount
from cronflow.domain.schedule.kinds import Cron, Every, Once, Schedule
from cronflow.domain.shadow import JobMode
from cronflow.domain.split import RunOn

Function = TypeVar("Function", bound=Callable[..., object])
Choice = TypeVar("Choice", bound=StrEnum)
Read = TypeVar("Read")


class App:
    """A named collection of jobs, usually one per package."""

    def __init__(self, name: str) -> None:
        """Raises InvalidInput unless the name is valid for a job."""
        self.name = check_name(name, "app")
        self._jobs: dict[str, Job] = {}
        self._plain: set[str] = set()
        self._zoneless: set[str] = set()
        self._implicit_misfires: dict[str, str] = {}
        self._functions: dict[str, Callable[..., object]] = {}

    def __repr__(self) -> str:
        return f"<App {self.name}, {len(self._jobs)} jobs>"

    def __getitem__(self, name: str) -> Job:
        """The job of this name. Raises InvalidInput with the nearest name."""
        if name in self._jobs:
            return self._jobs[name]
        near = nearest(name, self._jobs)
        names = ", ".join(self._jobs) or "no jobs"
        raise InvalidInput(
            Problem(
                "job",
                f"the app {self.name} has no job {name!r}",
                f"did you mean {near}?" if near else f"it has {names}",
            )
        )

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs in order of definition."""
        return tuple(self._jobs.values())

    def jobs_with(self, retry: Retry, tz: str = "UTC") -> tuple[Job, ...]:
        """The jobs, with this default for jobs that do not configure retries but allow them, and this time zone for a
        `cron` without `tz`.
        """
        return tuple(self._completed(job, retry, tz) for job in self.jobs)

    def _completed(self, job: Job, retry: Retry, tz: str) -> Job:
        if job.name in self._plain:
            job = replace(job, retry=retry)
        if job.name in self._zoneless and isinstance(job.schedule, Cron):
            job = replace(job, schedule=replace(job.schedule, tz=tz))
        return job

    @property
    def implicit_misfires(self) -> Mapping[str, str]:
        """The place of `at` by the name of the job, for jobs that give `at` without `misfire`."""
        return MappingProxyType(self._implicit_misfires)

    @property
    def functions(self) -> Mapping[str, Callable[..., object]]:
        """The functions of the jobs by `module:qualname`."""
        return MappingProxyType(self._functions)

    def job(
        self,
        *,
        cron: str | None = None,
        tz: str | None = None,
        every: Duration | None = None,
        at: datetime | str | None = None,
        schedule: Schedule | None = None,
        retry: Retry | None = None,
        timeout: Duration = "1h",
        overlap: Overlap | str = Overlap.FORBID,
        misfire: Misfire | MisfirePolicy | str | None = None,
        delivery: Delivery | str = Delivery.AT_LEAST_ONCE,
        start_guard: StartGuard | str = StartGuard.REDIS,
        priority: int = 5,
        require: Mapping[str, str] | None = None,
        concurrency: str | Mapping[str, object] | Sequence[str | Mapping[str, object]] | None = None,
        rate: str | Mapping[str, object] | None = None,
        breaker: Breaker | None = None,
        pause_after: int | None = None,
        prefer: Mapping[str, str] | None = None,
        spread: bool = False,
        apart_from: Sequence[str] = (),
        resources: Mapping[str, float | str] | None = None,
        after: str | Mapping[str, object] | Sequence[str | Mapping[str, object]] = (),
        join: Join | str = Join.ALL,
        shards: int | None = None,
        run_on: RunOn | str = RunOn.ONE_NODE,
        mode: JobMode | str = JobMode.ACTIVE,
        labels: Mapping[str, str] | None = None,
        description: str | None = None,
        name: str | None = None,
        args: Mapping[str, object] | None = None,
        process: bool = False,
        enabled: bool = True,
    ) -> Callable[[Function], Function]:
        """Make the function a job. A coroutine function runs in the event loop, a plain function in a thread; with
        `process`, either runs in a child process, which can be killed at its timeout.

        Give at most one of `cron` (with `tz`, by default the setting TIMEZONE), `every`, `at` (a datetime or text with
        an offset) and `schedule` (for anything else); without any, the job runs only on request. `name` defaults to the
        function's name with `-` for `_`, `description` to the first line of its docstring, and `retry` to the settings
        (`Retry()` without settings), or to no retries if the delivery allows none. `concurrency` is the name of a
        limit, a mapping such as `{"key": "{args.region}", "limit": 2}`, or a list of those; `rate` is text such as
        `100/m`, or a mapping with a `key`. `after` is the name of a job to follow, a mapping such as `{"job": "import",
        "on": "failed", "within": "6h"}`, or a list of those, of which all must have ended, or with `join="any"` one.
        `resources` is what each run reserves of its node, such as `{"cpu": 0.5, "memory": "256MiB"}`. With `shards=8`
        each run is split into eight parts, which read `ctx.shard`; with `run_on="every_node"` it executes once on every
        node that can run it. With `mode="shadow"` its fires are recorded and not executed. `misfire` defaults to
        `fire_once`, but `jobs apply` refuses an `at` in the past unless `misfire` is given. The function is called with
        `args`; a first parameter named `ctx` or annotated `Context` receives the context. Raises InvalidInput, also if
        the function does not accept `args` or the name is taken.
        """

        def decorate(function: Function) -> Function:
            ref = _ref(function)
            try:
                certain = _choice(Delivery, delivery, "delivery")
                job = Job(
                    name=name if name is not None else function.__name__.replace("_", "-"),
                    target=PythonTarget(ref, dict(args or {}), process),
                    schedule=_schedule(cron, tz, every, at, schedule),
                    description=(inspect.getdoc(function) or "").partition("\n")[0]
                    if description is None
                    else description,
                    retry=(Retry(max=0) if certain is Delivery.AT_MOST_ONCE else Retry()) if retry is None else retry,
                    timeout=parse_duration(timeout),
                    overlap=_choice(Overlap, overlap, "overlap"),
                    misfire=misfire
                    if isinstance(misfire, Misfire)
                    else Misfire(_choice(MisfirePolicy, misfire or MisfirePolicy.FIRE_ONCE, "misfire")),
                    delivery=certain,
                    start_guard=_choice(StartGuard, start_guard, "start_guard"),
                    priority=priority,
                    require=dict(require or {}),
                    concurrency=_read("concurrency", read_concurrency, concurrency),
                    rate=_read("rate", read_job_rate, rate),
                    breaker=breaker,
                    pause_after=pause_after,
                    prefer=dict(prefer or {}),
                    spread=spread,
                    apart_from=tuple(apart_from),
                    resources=_resources(resources or {}),
                    after=_read("after", read_after, after),
                    join=_choice(Join, join, "join"),
                    shards=shards,
                    run_on=_choice(RunOn, run_on, "run_on"),
                    mode=_choice(JobMode, mode, "mode"),
                    labels=dict(labels or {}),
                    enabled=enabled,
                )
                _check_call(function, job)
            except InvalidInput as refused:
                raise InvalidInput(_placed(ref, refused)) from None
            self._add(job, ref, function)
            if retry is None and certain is not Delivery.AT_MOST_ONCE:
                self._plain.add(job.name)
            if cron is not None and tz is None:
                self._zoneless.add(job.name)
            if misfire is None and isinstance(job.schedule, Once):
                self._implicit_misfires[job.name] = f"{ref}: at"
            return function

        return decorate

    def _add(self, job: Job, ref: str, function: Callable[..., object]) -> None:
        taken = self._jobs.get(job.name)
        if taken is not None:
            assert isinstance(taken.target, PythonTarget)
            remedy = "rename one of them, or give it another name=..."
            raise InvalidInput(Problem(ref, f"{taken.target.ref} is already the job {job.name!r}", remedy))
        if self._functions.setdefault(ref, function) is not function:
            raise InvalidInput(Problem(ref, "two functions of this module have the same name", "rename one of them"))
        self._jobs[job.name] = job


def _check_call(function: Callable[..., object], job: Job) -> None:
    assert isinstance(job.target, PythonTarget)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(Problem("", "a generator is not a job", "return instead of yield"))
    # A job without a schedule can get further arguments with each run.
    refused = misfit(function, job.target.args, complete=job.schedule is not None)
    if refused:
        raise InvalidInput(Problem("args", refused))


def _ref(function: Callable[..., object]) -> str:
    if not inspect.isfunction(function):
        raise InvalidInput(f"{function!r} cannot be a job; write @app.job(...) above a function")
    if "<" in function.__qualname__:
        what = "a node could not find a function that is defined inside another one, or a lambda"
        raise InvalidInput(Problem(f"{function.__module__}:{function.__qualname__}", what, "move it to the module"))
    return f"{function.__module__}:{function.__qualname__}"


_KINDS = "give a Cron, an Every, a Once or an AnyOf"


def _schedule(
    cron: str | None, tz: str | None, every: Duration | None, at: datetime | str | None, schedule: Schedule | None
) -> Schedule | None:
    ways = {"cron": cron, "every": every, "at": at, "schedule": schedule}
    given = [way for way, value in ways.items() if value is not None]
    if len(given) > 1:
        raise InvalidInput(Problem("schedule", f"{' and '.join(given)} are given", "choose one"))
    if tz is not None and cron is None and every is None:
        raise InvalidInput(Problem("tz", "a time zone belongs to cron or every", "remove it"))
    if schedule is not None and not isinstance(schedule, Schedule):
        raise InvalidInput(Problem("schedule", f"{schedule!r} is not a schedule", _KINDS))
    if cron is not None:
        return Cron(cron, tz=tz or "UTC")
    if every is not None:
        return Every(every, tz=tz or "UTC")
    if at is None:
        return schedule
    try:
        return Once(datetime.fromisoformat(at) if isinstance(at, str) else at)
    except ValueError:
        raise InvalidInput(Problem("at", f"{at!r} is not an instant", "write 2026-12-24T18:00:00+01:00")) from None


def _read(name: str, read: Callable[[object], Read], value: object) -> Read:
    try:
        return read(value)
    except InvalidInput as error:
        raise InvalidInput(under(name, error.problems)) from None


def _choice(choices: type[Choice], value: str, name: str) -> Choice:
    try:
        return choices(value)
    except ValueError:
        raise InvalidInput(Problem(name, f"{value!r} is not valid", f"choose {', '.join(choices)}")) from None


def _resources(given: Mapping[str, float | str]) -> ResourceAmount:
    cpu, memory = given.get("cpu", 0.0), given.get("memory", "0B")
    if given.keys() - {"cpu", "memory"} or not isinstance(cpu, int | float) or not isinstance(memory, str):
        remedy = 'write {"cpu": 0.5, "memory": "256MiB"}'
        raise InvalidInput(Problem("resources", f"{dict(given)!r} is not an amount of CPU and memory", remedy))
    return ResourceAmount(float(cpu), parse_size(memory))


def _placed(ref: str, refused: InvalidInput) -> list[Problem]:
    return [
        Problem(f"{ref}: {problem.place}" if problem.place else ref, problem.what, problem.remedy)
        for problem in refused.problems
    ]


def load_app(address: str) -> App:
    """Import `package.module:app` and return the App. The working directory comes first on the import path.

    Raises InvalidInput if the module or the App does not exist, or, with the exception and line, if the import fails.
    """
    module_name, _, attribute = address.partition(":")
    if not attribute.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise InvalidInput(f"{address!r} is not the address of an App; write package.module:app")
    import_from_working_directory()
    module = load_module(module_name)
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    apps = [f"{module_name}:{name}" for name, value in vars(module).items() if isinstance(value, App)]
    remedy = f"did you mean {' or '.join(apps)}?" if apps else "make one: app = App('name')"
    what = f"{attribute!r} is not an App but {found!r}" if hasattr(module, attribute) else f"there is no {attribute!r}"
    raise InvalidInput(Problem(address, f"{what} in the module {module_name}", remedy))


def import_from_working_directory() -> None:
    """Put the working directory first on the import path, unless it is there."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)


def load_module(name: str) -> ModuleType:
    """Import a user module. Raises InvalidInput with the exception and line if that fails."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            what = f"there is no module {error.name!r} in {Path.cwd()} or among the installed packages"
            raise InvalidInput(Problem(name, what, "run it where the module is, or install it")) from None
        what = f"importing it failed at {_line_of(error)}: {type(error).__name__}: {error}"
        raise InvalidInput(Problem(name, what)) from error


def _line_of(error: BaseException) -> str:
    """The innermost file and line of the project, skipping libraries that it called."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename not in (__file__, importlib.__file__)
    ]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    frame = next(iter(reversed(own or frames)), None)
    return f"{frame.filename}:{frame.lineno}" if frame else "an unknown line"

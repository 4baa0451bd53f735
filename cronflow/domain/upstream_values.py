"""References to what upstream runs left: `${upstream:JOB.FIELD}` in a job's target.

`${upstream:import.result}` is the result of the run of `import` that the run follows, and
`${upstream:import.result.rows}` a part of it: keys of mappings and positions of lists, separated by dots. The other
fields are `error`, `state`, `run` and `fire_at`. References are allowed where references to secrets are: in the
arguments of a Python function, in the environment of a command, and in the headers and body of a request or message. A
text that is one reference stands for the value itself; within other text, and where only text is possible, a value
other than text is written as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from cronflow.domain.amqp_target import AmqpTarget
from cronflow.domain.errors import InvalidInput, Problem
from cronflow.domain.job import CommandTarget, HttpTarget, Job, PythonTarget, Target
from cronflow.domain.run import Run

FIELDS = ("result", "error", "state", "run", "fire_at")
BEGIN = "${upstream:"
_REFERENCE = re.compile(r"\$\{upstream:([^}]*)\}?")


class Reference(NamedTuple):
    """A field of an upstream run. `path` leads to a part of its result."""

    text: str
    job: str
    field: str
    path: tuple[str, ...]


def upstream_problems(job: Job) -> list[Problem]:
    """What is wrong with the references of a job. They are refused when the job is defined."""
    problems = []
    match job.target:
        case CommandTarget():
            hidden: list[tuple[str, object]] = [
                ("run.shell", job.target.command),
                ("run.cwd", job.target.cwd),
                ("run.when_present", job.target.when_present),
            ]
            remedy = 'write env: {ROWS: "${upstream:JOB.result}"}, and $ROWS in the command'
        case HttpTarget():
            hidden = [("run.http.url", job.target.url)]
            remedy = "write it into a header or the body"
        case AmqpTarget():
            target = job.target
            hidden = [(f"run.amqp.{name}", getattr(target, name)) for name in ("url", "exchange", "routing_key")]
            remedy = "write it into a header or the body"
        case _:
            hidden, remedy = [], ""
    for place, value in hidden:
        if any(BEGIN in text for text in _texts(value)):
            problems.append(Problem(place, "cannot refer to upstream runs", remedy))
    for place, value in _places(job.target):
        for text in _texts(value):
            for found in _REFERENCE.finditer(text):
                try:
                    _parse(found[0], job)
                except InvalidInput as error:
                    problems += [Problem(place, one.what, one.remedy) for one in error.problems]
    return problems


def refers_to_upstream(target: Target) -> bool:
    """Whether an attempt needs the runs that its run follows."""
    return any(BEGIN in text for _, value in _places(target) for text in _texts(value))


def with_upstream_values(job: Job, own_args: Iterable[str], runs: Mapping[str, Run]) -> Target:
    """The target of the job with each reference replaced. `runs` are the upstream runs by job, with whole results;
    arguments in `own_args` are replaced by those of the run and keep their references.

    Raises InvalidInput if a run or a part of its result is missing.
    """

    def value(text: str) -> Any:
        whole = _REFERENCE.fullmatch(text)
        if whole is not None and text.endswith("}"):
            return _value(_parse(text, job), runs)
        return _REFERENCE.sub(lambda found: _as_text(_value(_parse(found[0], job), runs)), text)

    def words(text: str) -> str:
        return _as_text(value(text)) if BEGIN in text else text

    match job.target:
        case PythonTarget() as target:
            own = set(own_args)
            args = {name: one if name in own else _mapped(one, value) for name, one in target.args.items()}
            return replace(target, args=args)
        case CommandTarget() as target:
            return replace(target, env={name: words(text) for name, text in target.env.items()})
        case HttpTarget() | AmqpTarget() as target:
            headers = {name: words(text) for name, text in target.headers.items()}
            return replace(target, headers=headers, body=None if target.body is None else words(target.body))
        case target:
            return target


def _parse(text: str, job: Job) -> Reference:
    """Raises InvalidInput. Job names contain dots, so the longest one that fits counts."""
    remedy = f"write ${{upstream:JOB.FIELD}}, where FIELD is {', '.join(FIELDS[:-1])} or {FIELDS[-1]}"
    inner = text.removeprefix(BEGIN).removesuffix("}")
    if not text.endswith("}"):
        raise InvalidInput(Problem("", f"{text[:60]!r} is not a reference to an upstream run", remedy))
    names = sorted((one.job for one in job.after), key=len, reverse=True)
    name = next((one for one in names if inner == one or inner.startswith(one + ".")), None)
    if name is None:
        known = f"after names {', '.join(sorted(names))}" if names else "name the job in after"
        raise InvalidInput(Problem("", f"{text[:60]!r} refers to a job that is not in after", known))
    field, _, path = inner[len(name) + 1 :].partition(".")
    if field not in FIELDS or (path and field != "result"):
        raise InvalidInput(Problem("", f"{text[:60]!r} is not a reference to an upstream run", remedy))
    return Reference(text, name, field, tuple(path.split(".")) if path else ())


def _value(reference: Reference, runs: Mapping[str, Run]) -> Any:
    run = runs.get(reference.job)
    if run is None:
        remedy = f"a run has one if it begins when {reference.job} has ended; run {reference.job}, or give arguments"
        raise InvalidInput(
            Problem("", f"{reference.text} has no value: this run follows no run of {reference.job}", remedy)
        )
    match reference.field:
        case "error":
            return run.error
        case "state":
            return run.state.value
        case "run":
            return run.id
        case "fire_at":
            return f"{run.fire_at:%Y-%m-%dT%H:%M:%SZ}"
    value = run.result
    for n, key in enumerate(reference.path):
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError, ValueError):
            place = ".".join(("result", *reference.path[:n]))
            what = f"{reference.text} has no value: the {place} of {run.id} has no {key!r}"
            raise InvalidInput(Problem("", what, f"return it from {reference.job}")) from None
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else orjson.dumps(value).decode()


def _places(target: Target) -> list[tuple[str, object]]:
    match target:
        case PythonTarget():
            return [("run.args", target.args)]
        case CommandTarget():
            return [("run.env", target.env)]
        case HttpTarget():
            return [("run.http.headers", target.headers), ("run.http.body", target.body)]
        case AmqpTarget():
            return [("run.amqp.headers", target.headers), ("run.amqp.body", target.body)]
    return []


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _mapped(value: Any, change: Callable[[str], Any]) -> Any:
    match value:
        case str():
            return change(value) if BEGIN in value else value
        case Mapping():
            return {key: _mapped(item, change) for key, item in value.items()}
        case list() | tuple():
            return [_mapped(item, change) for item in value]
    return value

"""Jobs for people: the table, the page of a job, fires, versions, and the result of `jobs apply`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from rich.text import Text

from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.output import console, yaml_text
from cronflow.cli.terminal.tables import BlockTable, Cell, Column, facts, table_of
from cronflow.domain.chain import after_words

if TYPE_CHECKING:
    from cronflow.schemas.job_health import JobConditionSchema
    from cronflow.schemas.jobs import AppliedSchema, JobSchema, PauseSchema, VersionSchema
    from cronflow.schemas.runs import RunSchema


class JobTable:
    """A table of jobs, printed in blocks. `conditions` are those of the jobs that need attention, by name; a `filtered`
    table has these jobs alone, with the reasons.
    """

    def __init__(
        self, now: datetime, conditions: Mapping[str, Sequence[JobConditionSchema]], *, filtered: bool = False
    ) -> None:
        self._filtered = filtered
        self._columns: list[tuple[Column, Callable[[JobSchema], Cell]]] = [
            (Column("STATE"), lambda job: state_text(job, conditions.get(job["name"], ()))),
            (Column("NAME"), lambda job: job["name"]),
        ]
        if filtered:
            self._columns += [
                (Column("SINCE", drop=1), lambda job: _since(conditions.get(job["name"], ()), now)),
                (
                    Column("WHY", least=18),
                    lambda job: _why(conditions.get(job["name"], ())),
                ),
            ]
        else:
            self._columns += [
                (Column("SCHEDULE", least=18), _schedule),
                (Column("NEXT", drop=1), lambda job: next_text(job, now)),
                (Column("NEXT FIRE (UTC)", drop=2, style="dim"), next_utc),
            ]
        self._table = BlockTable([column for column, _ in self._columns])

    def print(self, jobs: Sequence[JobSchema]) -> None:
        """Print more jobs; without any, how to define some."""
        if jobs:
            self._table.print([[cell(job) for _, cell in self._columns] for job in jobs])
        elif self._filtered:
            console().print("No jobs match.")
        else:
            console().print("No jobs yet. Define some: cronflow jobs apply -f jobs.yaml")


def job_table(jobs: Sequence[JobSchema], now: datetime) -> None:
    JobTable(now, {}).print(jobs)


def conditions_of(
    found: Sequence[JobConditionSchema], wanted: Sequence[str] = ()
) -> dict[str, list[JobConditionSchema]]:
    """By job, the most urgent first; with `wanted`, those of these kinds before the others."""
    by_job: dict[str, list[JobConditionSchema]] = {}
    for one in sorted(found, key=lambda one: one["health"] not in wanted):
        by_job.setdefault(one["job"], []).append(one)
    return by_job


def _why(conditions: Sequence[JobConditionSchema]) -> str:
    return why_text(conditions[0]) if conditions else ""


def _since(conditions: Sequence[JobConditionSchema], now: datetime) -> str:
    return times.relative(conditions[0]["since"], now) if conditions else ""


def _urgent(condition: JobConditionSchema) -> bool:
    """Whether the state of the job does not show it anyway."""
    return condition["health"] in ("stuck", "overdue", "failing")


def why_text(condition: JobConditionSchema) -> str:
    """The reason, with those of the nodes."""
    nodes = "; ".join(f"{one['node'].partition('#')[0]}: {one['reason']}" for one in condition["nodes"])
    more = f" and {condition['more']} more" if condition["more"] else ""
    return formatting.one_line(f"{condition['reason']} ({nodes}{more})" if nodes else condition["reason"])


def job_page(
    job: JobSchema,
    latest: Sequence[RunSchema],
    now: datetime,
    differing: Mapping[str, str] | None = None,
    conditions: Sequence[JobConditionSchema] = (),
) -> None:
    """`differing` has the nodes whose code of the job is not what is stored, with the keys that differ."""
    from cronflow.cli.views.chains import follows_text
    from cronflow.cli.views.runs import run_table
    from cronflow.cli.views.targets import target_text

    out = console()
    out.print(Text.assemble(state_text(job, conditions), "  ", (job["name"], "bold")))
    if job["description"]:
        out.print(Text(formatting.clean(job["description"])))
    out.print()
    next_fire = None
    if job["next_fire"] is not None:
        next_fire = Text.assemble(times.absolute(job["next_fire"]), "  ", _distance(job["next_fire"], now))
        if interval := _interval_after_completion(job):
            next_fire.append(f", or {interval} after the last run has ended if that is later")
        if job["state"] != "active":
            next_fire = Text(f"{times.absolute(job['next_fire'])}  not planned while the job is {job['state']}")
    facts(
        [
            *(
                (one["health"], f"{times.both(one['since'], now)}: {why_text(one)}")
                for one in conditions
                if _urgent(one)
            ),
            ("paused", _pause(job, now)),
            ("target", formatting.one_line(target_text(job["run"])) or None),
            (
                "schedule",
                _schedule(job)
                or (None if follows_text(job) else f"no schedule; run it manually: cronflow jobs run {job['name']}"),
            ),
            ("follows", follows_text(job)),
            # An API of 0.9 has no chains.
            ("followers", ", ".join(job.get("followers") or ()) or None),
            ("next fire", next_fire),
            ("runs", _runs(job)),
            ("breaker", _breaker(job, now)),
            ("code differs", "; ".join(f"{keys} on {node}" for node, keys in (differing or {}).items()) or None),
            ("last planned", _last_planned(job, now)),
            ("version", f"{job['version']}, written {times.both(job['updated_at'], now)}"),
            ("created", times.both(job["created_at"], now)),
        ]
    )
    if latest:
        out.print()
        out.print(Text("Latest runs", style="bold"))
        run_table(latest, now, of_one_job=True)
    out.print()
    out.print(Text("Definition, with all defaults", style="bold"))
    out.print(Text(formatting.clean(yaml_text(definition(job))).rstrip("\n")))


def definition(job: JobSchema) -> Mapping[str, object]:
    """The document of the job, without its state; `jobs apply` reads it."""
    from cronflow.documents import JobForm

    return {name: value for name, value in job.items() if name in JobForm.__annotations__}


def version_table(versions: Sequence[VersionSchema], now: datetime) -> None:
    table_of(
        versions[::-1],
        [
            (Column("VERSION", align="right"), lambda version: str(version["version"])),
            (Column("AT (UTC)"), lambda version: times.absolute(version["at"])),
            (Column("AGO", drop=3), lambda version: times.relative(version["at"], now)),
            (Column("BY", drop=2), lambda version: formatting.one_line(version["by"] or "")),
            (Column("STATE", drop=1), lambda version: version["state"]),
            (Column("SCHEDULE", least=18), lambda version: _schedule(version["job"])),
        ],
    )


def state_text(job: JobSchema | AppliedSchema, conditions: Sequence[JobConditionSchema] = ()) -> Text:
    state = formatting.word(job["state"].replace("_", " "))
    for one in conditions:
        if _urgent(one):
            state.append(f", {one['health']}", style=formatting.RED)
    if job.get("open_breaker"):
        state.append(", breaker open", style=formatting.RED)
    return state


def _breaker(job: JobSchema, now: datetime) -> str | None:
    """An API of 0.9 has none."""
    breaker = job.get("open_breaker")
    if breaker is None:
        return None
    rate = f"{breaker['failed']} of {breaker['attempts']} attempts had failed"
    opened = f"open since {times.both(breaker['opened_at'], now)}, when {rate}: failing runs are not retried"
    closes = "the next run that succeeds closes it"
    if times.parsed(breaker["probe_at"]) > now:
        closes = f"a run that starts {times.relative(breaker['probe_at'], now)} or later and succeeds closes it"
    return f"{opened}; {closes}, or: cronflow jobs close-breaker {job['name']}"


def _schedule(job: Mapping[str, Any]) -> str:
    """The schedule in words, with its time zone unless that is UTC, or what the job follows."""
    from cronflow.documents import parse_schedule
    from cronflow.domain.schedule.describe import describe

    # An API of 0.9 has no chains.
    if job["schedule"] is None and job.get("after"):
        names = [one if isinstance(one, str) else one["job"] for one in job["after"]]
        return after_words(names, job["join"])
    return "" if job["schedule"] is None else describe(parse_schedule(job["schedule"])).removesuffix(" (UTC)")


def next_text(job: JobSchema | AppliedSchema, now: datetime) -> Cell:
    # A planned change has no pause, and an API of 0.9 does not know it.
    pause = cast("PauseSchema | None", job.get("pause"))
    if pause is not None and pause["until"] is not None:
        return Text(f"resumes {times.relative(pause['until'], now)}", style="dim")
    return "" if job["next_fire"] is None or job["state"] != "active" else _distance(job["next_fire"], now)


def next_utc(job: JobSchema | AppliedSchema) -> str:
    return "" if job["next_fire"] is None or job["state"] != "active" else times.absolute(job["next_fire"])


def _interval_after_completion(job: JobSchema) -> str | None:
    schedule: Mapping[str, Any] = job["schedule"] or {}
    return str(schedule["every"]) if schedule.get("after_completion") else None


def _runs(job: JobSchema) -> str | None:
    """How many of the runs that `max_runs` allows there were."""
    schedule: Mapping[str, Any] = job["schedule"] or {}
    most = schedule.get("max_runs")
    # An API of 0.10 counts none.
    return None if most is None else f"{job.get('fired', 0)} of {most} (max_runs)"


def _pause(job: JobSchema, now: datetime) -> str | None:
    # An API of 0.9 does not know it.
    pause = job.get("pause")
    if pause is None:
        return None
    by = f" by {formatting.clean(pause['by'])}" if pause["by"] else ""
    until = f", until {times.both(pause['until'], now)}" if pause["until"] else ""
    note = f": {formatting.clean(pause['note'])}" if pause["note"] else ""
    return f"{times.relative(pause['at'], now)}{by}{until}{note}"


def _distance(fire: str, now: datetime) -> Text:
    if times.parsed(fire) <= now:
        return Text(f"due {times.relative(fire, now)}", style=formatting.ORANGE)
    return Text(times.relative(fire, now))


def _last_planned(job: JobSchema, now: datetime) -> str | None:
    pending_run = job["pending_run"]
    if pending_run is None:
        return None
    shown = f"{times.both(pending_run['fire'], now)}, {pending_run['state']}"
    if pending_run["reason"]:
        shown += f" ({formatting.one_line(pending_run['reason'])})"
    if pending_run["covers"] is not None:
        count = "many" if pending_run["covers"]["count"] is None else str(pending_run["covers"]["count"])
        shown += f", for {count} fires until {times.absolute(pending_run['covers']['last'])}"
    return shown

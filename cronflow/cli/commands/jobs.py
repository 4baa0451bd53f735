"""`cronflow jobs …`: define jobs from files and apps; list, run, pause, resume and delete them.

The rules: files and apps are checked completely before anything is requested, and applying twice changes nothing the
second time. `jobs run` prints the run's id as soon as the run exists; waiting does not affect it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from cronflow.cli import activating, code, connect, spreading
from cronflow.cli.completion import job_names
from cronflow.cli.errors import RUN_FAILED
from cronflow.cli.main import new_group
from cronflow.cli.selection import Everything, Labels, Selected, Selection, Yes, change_selected
from cronflow.cli.terminal import times
from cronflow.cli.terminal.output import (
    Format,
    LineFormat,
    Output,
    confirm,
    may_ask,
    note,
    show,
    show_list,
    warn,
    write_json,
)
from cronflow.cli.views import jobs as views
from cronflow.cli.views.chains import NO_GRAPH, GraphFormat, print_graph
from cronflow.cli.views.lines import follow_run, wait_for_end
from cronflow.cli.views.preview import fire_table, in_zones, usual_zones, zone_of
from cronflow.cli.views.runs import end_of_run, run_page, went_well, without_late
from cronflow.cli.views.why import waits_for_node
from cronflow.domain.backfill import BackfillScope, parse_rate
from cronflow.domain.errors import BackendUnavailable, InvalidInput, NotFound, Problem
from cronflow.domain.job import SYSTEM_PREFIX

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.backfills import BackfillSchema
    from cronflow.schemas.job_health import JobConditionSchema
    from cronflow.schemas.jobs import FiresSchema, JobSchema
    from cronflow.schemas.runs import RunDetailSchema, RunSchema

LATEST = 5
MOST_UNASKED = 100
"""In a terminal, a backfill of more runs than this needs a confirmation."""

jobs = new_group("Define, list, run, pause and delete jobs.")
jobs.command()(spreading.load)
jobs.command()(spreading.spread)
jobs.command()(code.apply)
jobs.command()(code.check)
jobs.command()(code.diff)
jobs.command()(code.export)
jobs.command()(code.schema)
jobs.command()(activating.activate)

Answer = TypeVar("Answer")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the job.", autocompletion=job_names)]
Names = Annotated[
    list[str], typer.Argument(metavar="NAME", help="The names of one or more jobs.", autocompletion=job_names)
]
AnyName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the job, which may be deleted.", autocompletion=job_names)
]
# A time such as -2h looks like an option, and -h like the one for help.
TIMES_LIKE_OPTIONS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}


@jobs.command("list")
def list_jobs(
    everything: Annotated[bool, typer.Option("--all", help="Include system jobs.")] = False,
    stuck: Annotated[
        bool, typer.Option("--stuck", help="Jobs with a run that no node can execute or that takes longer than usual.")
    ] = False,
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Jobs that were due more than a minute ago and are not planned.")
    ] = False,
    failing: Annotated[bool, typer.Option("--failing", help="Jobs whose latest run failed or was lost.")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="Paused jobs.")] = False,
    never_ran: Annotated[bool, typer.Option("--never-ran", help="Jobs that have no run.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """List all jobs with their state, schedule and next fire, or those that need attention, with the reason. With
    several of these options, a job has to match one of them.
    """
    flags = {"stuck": stuck, "overdue": overdue, "failing": failing, "paused": paused, "never_ran": never_ran}
    wanted = [health for health, chosen in flags.items() if chosen]

    async def print_all(cluster: Cluster) -> None:
        conditions = views.conditions_of(await _health(cluster, required=bool(wanted)), wanted)
        listed = _of_health(cluster, wanted) if wanted else cluster.jobs.list()
        found = (job async for job in listed if everything or not job["name"].startswith(SYSTEM_PREFIX))
        table = views.JobTable(times.now(), conditions, filtered=bool(wanted))
        await show_list(output, found, lambda job: job["name"], table.print)

    connect.call(print_all)


async def _health(cluster: Cluster, job: str | None = None, *, required: bool = False) -> list[JobConditionSchema]:
    try:
        return (await cluster.jobs.health(job))["items"]
    except NotFound:
        # An API of 0.12 does not know it.
        if required:
            raise InvalidInput(Problem("", "this API cannot filter jobs by their health", "upgrade it")) from None
        return []


async def _of_health(cluster: Cluster, wanted: Sequence[str]) -> AsyncIterator[JobSchema]:
    """The jobs in one of these conditions, each once."""
    seen = set()
    for health in wanted:
        async for job in cluster.jobs.list(health=health):
            if job["name"] not in seen:
                seen.add(job["name"])
                yield job


@jobs.command("show")
def show_job(name: Name, output: Output = Format.TABLE) -> None:
    """Show a job: its state, its latest runs, and its definition with all defaults. `-o yaml` prints the definition
    alone, as `jobs export` does.
    """

    async def read(
        cluster: Cluster,
    ) -> tuple[JobSchema, list[RunSchema], Mapping[str, str], Sequence[JobConditionSchema]]:
        job, latest = await cluster.jobs.get(name), await connect.runs_of(cluster, name, LATEST)
        if output is not Format.TABLE:
            return job, latest, {}, ()
        return job, latest, await _differing(cluster, job), await _health(cluster, name)

    job, latest, differing, conditions = connect.call(read)
    if output is Format.YAML:
        from cronflow.files.export import file_text, job_of

        typer.echo(file_text([job_of(job, may_be_masked=connect.api_in_use is not None)]), nl=False)
        return
    show(output, job, [job["name"]], lambda: views.job_page(job, latest, times.now(), differing, conditions))


async def _differing(cluster: Cluster, job: JobSchema) -> Mapping[str, str]:
    """The nodes whose code of the job is not what is stored, with the keys that differ."""
    if "python" not in job["run"]:
        return {}
    from cronflow.client.authenticated import NotPermitted

    try:
        # An API of 0.11 does not know it.
        nodes = {node["name"]: node.get("differing", {}) async for node in cluster.nodes.list()}
    except (NotPermitted, BackendUnavailable):
        return {}
    return {node: found[job["name"]] for node, found in nodes.items() if job["name"] in found}


@jobs.command()
def graph(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Only what leads to this job or follows it.", autocompletion=job_names),
    ] = None,
    output: Annotated[
        GraphFormat, typer.Option("--output", "-o", help="A tree for people, Graphviz DOT, Mermaid, or JSON.")
    ] = GraphFormat.TEXT,
) -> None:
    """Show which jobs follow which: a tree, or a graph for Graphviz (dot) or Mermaid."""
    found = connect.call(lambda cluster: cluster.jobs.graph(name))
    if output is GraphFormat.JSON:
        write_json(found)
        return
    print_graph(found, output)
    if not found["edges"]:
        note(NO_GRAPH if name is None else f"{name} follows no job, and no job follows it")


@jobs.command("next")
def next_fires(
    name: Name,
    count: Annotated[int, typer.Option("-n", metavar="COUNT", min=1, max=1000, help="The number of fires.")] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Show the fires of the schedule from this time on; without an offset, it is in the time zone of the "
            "schedule.  [the next fire]",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Show fires before this time, which is read as --from.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show when a job is due next, or when its schedule fires in another span of time."""
    first = None if start is None else times.wall_clock(start, "--from")
    last = None if until is None else times.wall_clock(until, "--until")

    async def read(cluster: Cluster) -> tuple[JobSchema, FiresSchema]:
        job = await cluster.jobs.get(name)
        tz = zone_of(job)
        between = {"first": times.in_zone(first, tz), "until": times.in_zone(last, tz)}
        return job, await cluster.jobs.next(name, count, **between)

    job, found = connect.call(read)
    fires, zones = found["fires"], usual_zones(zone_of(job))
    show(output, found, fires, lambda: fire_table(in_zones(found, zones), times.now()))
    if job["schedule"] is None and job.get("after"):
        note(f"{name} has no schedule; it runs after the jobs that it follows: cronflow jobs why {name}")
    elif job["schedule"] is None:
        note(f"{name} has no schedule; run it manually: cronflow jobs run {name}")
    elif not fires:
        note(f"{name} has no {'fires in this span of time' if start or until else 'further fires'}")
    elif not job["enabled"]:
        note(f"{name} is disabled: it does not run until its definition has enabled: true")
    elif job["paused"]:
        note(f"{name} is paused: it does not run until you resume it: cronflow jobs resume {name}")


@jobs.command(context_settings=TIMES_LIKE_OPTIONS)
def why(
    name: AnyName,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="TIME",
            help="An instant such as 2026-11-21T02:00:00Z; or `now` or `-2h` for the last fire before. Default: the "
            "latest fire or manual run.",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Explain why a job ran, did not run or is waiting: each step from the schedule to the outcome."""
    at, exact = (None, True) if time is None else times.instant_of(time, "TIME")
    found = connect.call(lambda cluster: cluster.jobs.why(name, at, exact=exact))
    from cronflow.cli.views.why import why_page

    names = [found["run"]] if found["run"] is not None else []
    show(output, found, names, lambda: why_page(found, times.now()))


@jobs.command()
def history(name: AnyName, output: Output = Format.TABLE) -> None:
    """List every version of a job: when it was written, its author, and its definition."""
    found = connect.call(lambda cluster: connect.collect(cluster.jobs.history(name)))
    names = [str(version["version"]) for version in found]
    show(output, found, names, lambda: views.version_table(found, times.now()))


@jobs.command()
def run(
    name: Name,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Add or replace an argument of a Python job. Parsed as JSON if possible, else text.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the run has ended; exit code 4 if it failed.")
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="30s", help="With --wait: stop waiting after this time, with exit code 1; the run continues."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait, and print log lines and progress.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Run a job now, in addition to its schedule."""
    args = parse_args(arg or ()) or None
    if timeout is not None and (follow or not wait):
        raise InvalidInput(Problem("--timeout", "it only limits --wait", "add --wait, or remove --timeout"))
    limit = None if timeout is None else times.length_of(timeout, "--timeout")
    if follow:
        _follow(name, args, output)
        return

    async def act(cluster: Cluster) -> RunDetailSchema:
        run = await cluster.runs.get(await _request(cluster, name, args))
        if not wait:
            note(f"watch it: cronflow runs show {run['id']}")
            return run
        run = await wait_for_end(cluster, run, limit)
        return await cluster.runs.get(run["id"], whole=True) if output.has_all else run

    run = connect.change(act)

    requested = Text.assemble(("requested ", "dim"), run["id"])
    show(output, without_late(run), [run["id"]], (lambda: run_page(run, times.now())) if wait else requested)
    if wait and not went_well(run):
        raise typer.Exit(RUN_FAILED)


async def _request(cluster: Cluster, name: str, args: Mapping[str, object] | None) -> str:
    """Request a run. Returns its id. Raises InvalidInput for arguments that would have no effect."""
    job = await cluster.jobs.get(name)
    if args:
        check_takes_args(job)
    run_id = (await cluster.jobs.run(name, args))["id"]
    if not await _may_have_nodes(cluster):
        warn("no nodes are up: the run waits for one; start one: cronflow node")
    elif waits := waits_for_node(await cluster.runs.why(run_id)):
        warn(f"the run waits for a node: {waits}")
    return run_id


async def _may_have_nodes(cluster: Cluster) -> bool:
    from cronflow.client.authenticated import NotPermitted

    try:
        return bool([node async for node in cluster.nodes.list()])
    except NotPermitted:
        # A key that is limited to some jobs cannot list nodes, but its run is requested.
        return True


def parse_args(pairs: Sequence[str]) -> dict[str, object]:
    """`key=value` pairs; a value that is not JSON is text. Raises InvalidInput with every invalid pair."""
    import orjson

    args: dict[str, object] = {}
    problems = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            problems.append(Problem("--arg", f"{pair!r} is not KEY=VALUE", "write --arg region=eu"))
        elif key in args:
            problems.append(Problem("--arg", f"{key} is given twice", "remove one of the two"))
        try:
            args[key] = orjson.loads(value)
        except orjson.JSONDecodeError:
            args[key] = value
    if problems:
        raise InvalidInput(problems)
    return args


def check_takes_args(job: JobSchema) -> None:
    """Raises InvalidInput for a job that ignores arguments."""
    if "python" not in job["run"]:
        what = f"{job['name']} is not a Python job, so arguments would have no effect"
        raise InvalidInput(Problem("--arg", what, "remove it"))


def _follow(name: str, args: Mapping[str, object] | None, output: Format) -> None:
    """Request a run and print its lines until it has ended; JSON: a message per line, the last one is its end."""

    async def use(cluster: Cluster) -> RunDetailSchema:
        run_id = await _request(cluster, name, args)
        note(f"requested {run_id}; it continues if you interrupt this command")
        if output is Format.TABLE:
            return (await follow_run(cluster, run_id, LineFormat.TABLE, states=True))[0]
        async with aclosing(cluster.runs.follow(run_id)) as messages:
            async for message in messages:
                if output is Format.JSON:
                    write_json(message, lines=True)
                if message["t"] == "state":
                    run = message["run"]
        return run

    run = connect.following(use, awaited=True, changes=True)
    assert run is not None
    if output is not Format.JSON:
        show(output, run, [run["id"]], lambda: end_of_run(run))
    if not went_well(run):
        raise typer.Exit(RUN_FAILED)


@jobs.command(context_settings=TIMES_LIKE_OPTIONS)
def backfill(
    name: Name,
    first: Annotated[
        str, typer.Option("--from", metavar="7d|INSTANT", help="Instants from this time ago or this instant on.")
    ],
    last: Annotated[
        str, typer.Option("--to", metavar="1h|INSTANT", help="Instants until this time ago or this instant.")
    ] = "0s",
    only: Annotated[
        BackfillScope,
        typer.Option(
            metavar="SCOPE",
            help="missing: instants without a run that succeeded or is open; failed: those of them whose run failed or "
            "was lost; all.",
        ),
    ] = BackfillScope.MISSING,
    rate: Annotated[
        str | None, typer.Option(metavar="10/m", help="Start at most this many runs per second, minute, hour or day.")
    ] = None,
    excluded: Annotated[
        bool, typer.Option("--excluded", help="Also the instants that calendars or windows of the schedule exclude.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be started.")] = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Run a job for instants that have passed, in order, and after everything that the schedule runs. In a terminal,
    more than 100 runs need a confirmation.
    """
    from cronflow.cli.views.backfills import backfill_page

    begin, end = times.instant_or_ago(first, "--from"), times.instant_or_ago(last, "--to")
    if rate is not None:
        check_rate(rate)

    asks = not dry_run and may_ask(output, yes=yes)

    async def act(cluster: Cluster) -> BackfillSchema:
        def send(*, dry_run: bool) -> Awaitable[BackfillSchema]:
            return cluster.jobs.backfill(
                name, begin, end, only=only.value, rate=rate, excluded=excluded, dry_run=dry_run
            )

        if asks and (count := (await send(dry_run=True))["total"]) > MOST_UNASKED:
            confirm(count, "insert", yes=False)
        return await send(dry_run=dry_run)

    found = connect.call(act) if dry_run else connect.change(act)
    show(output, found, [] if found["id"] is None else [found["id"]], lambda: backfill_page(found, times.now()))
    if found["id"] is not None:
        note(f"follow it: cronflow backfills show {found['id']}")


def check_rate(rate: str) -> None:
    """Raises InvalidInput that names the flag."""
    try:
        parse_rate(rate)
    except InvalidInput as error:
        raise InvalidInput(Problem("--rate", error.problems[0].what, error.problems[0].remedy)) from None


@jobs.command()
def pause(
    names: Selected = None,
    label: Labels = None,
    everything: Everything = False,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="2h|INSTANT", help="Resume them after this time or at this instant, with no further command."
        ),
    ] = None,
    text: Annotated[str, typer.Option("--note", metavar="TEXT", help="A note to store with the jobs.")] = "",
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Pause jobs: they get no new runs until you resume them. Running jobs continue."""
    end = None if until is None else times.instant_or_in(until, "--until")
    selection = Selection(names or (), label or (), everything=everything)

    def act(cluster: Cluster, name: str) -> Awaitable[JobSchema]:
        return cluster.jobs.pause(name, note=text, until=end)

    _show_changed(connect.change(lambda cluster: change_selected(cluster, selection, "pause", act, yes=yes)), output)


@jobs.command()
def resume(
    names: Selected = None,
    label: Labels = None,
    everything: Everything = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Resume paused jobs at their next fire. Fires that were due during the pause are recorded as skipped."""
    selection = Selection(names or (), label or (), everything=everything)

    def act(cluster: Cluster, name: str) -> Awaitable[JobSchema]:
        return cluster.jobs.resume(name)

    _show_changed(connect.change(lambda cluster: change_selected(cluster, selection, "resume", act, yes=yes)), output)


@jobs.command()
def close_breaker(names: Names, output: Output = Format.TABLE) -> None:
    """Close the circuit breakers of jobs: failing runs are retried again."""
    _show_changed(_each(names, lambda cluster, name: cluster.jobs.close_breaker(name)), output)


@jobs.command()
def delete(names: Names, output: Output = Format.TABLE) -> None:
    """Delete jobs. Their runs and logs are kept for the retention period."""
    deleted = _each(names, lambda cluster, name: cluster.jobs.delete(name))

    lines = [Text.assemble(("- ", "bright_black"), f"{job['name']} deleted; its history is kept") for job in deleted]
    show(output, deleted, [job["name"] for job in deleted], Text("\n").join(lines))


def _each(names: Sequence[str], change: Callable[[Cluster, str], Awaitable[Answer]]) -> list[Answer]:
    """All jobs must exist before the first is changed."""

    async def change_all(cluster: Cluster) -> list[Answer]:
        for name in names:
            await cluster.jobs.get(name)
        return [await change(cluster, name) for name in dict.fromkeys(names)]

    return connect.change(change_all)


def _show_changed(changed: Sequence[JobSchema], output: Format) -> None:
    show(output, changed, [job["name"] for job in changed], lambda: views.job_table(changed, times.now()))

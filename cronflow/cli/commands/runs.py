"""`cronflow runs …`: list and show runs, their logs and failures; cancel, replay and acknowledge them.

The rules: a command that selects runs by a filter prints their number and asks first. A failed or lost run is a dead
letter until it is replayed or acknowledged; both are recorded with author and time, and neither changes its outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.text import Text

from cronflow.cli.completion import job_names, run_ids
from cronflow.cli.connect import call, change, following, runs_of
from cronflow.cli.errors import FAILED
from cronflow.cli.main import new_group
from cronflow.cli.terminal import formatting, times
from cronflow.cli.terminal.drawing import counted, draw, drawn
from cronflow.cli.terminal.output import (
    Format,
    LineFormat,
    LineOutput,
    LiveOutput,
    Output,
    confirm,
    console,
    note,
    show,
    warn,
    write_json,
)
from cronflow.cli.views.lines import LinePrinter, follow_run
from cronflow.cli.views.runs import is_open, report_page, run_page, run_table, without_late
from cronflow.domain.errors import Conflict, InvalidInput, NotFound, Problem
from cronflow.domain.run import DEAD, OPEN, Kind, RunState, Settled

if TYPE_CHECKING:
    from cronflow.cli.connect import Cluster
    from cronflow.schemas.runs import ReplaySchema, ReportSchema, RunDetailSchema, RunSchema

Answer = TypeVar("Answer")

POLL_S = 0.5
AT_ONCE = 10
MOST_REASONS = 500
MOST_OF_CHAIN = 1000
NO_OUTPUT = "no output, or its log lines have expired"
NO_DEAD_LETTERS = "No dead letters match these filters."
ALL_RESOLVED = "No dead letters: every failure has been replayed or acknowledged."

runs = new_group("List and show runs, their logs and failures; cancel and replay them.")

RunId = Annotated[
    str, typer.Argument(metavar="ID", help="The id of the run, from `cronflow runs list`.", autocompletion=run_ids)
]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of runs, from `cronflow runs list`.", autocompletion=run_ids),
]
OfJob = Annotated[
    str | None, typer.Option("--job", metavar="NAME", help="Only runs of this job.", autocompletion=job_names)
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="1h|INSTANT", help="Only runs due within this time or since this instant."),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="1h|INSTANT", help="Only runs due before this time ago or this instant."),
]
Search = Annotated[
    str,
    typer.Option(
        "--search",
        metavar="TEXT",
        help="Only runs of jobs whose name contains this, or matches a pattern like 'etl-*'.",
    ),
]
OfLabel = Annotated[
    list[str] | None,
    typer.Option(
        "--label", metavar="KEY[=VALUE]", help="Only runs of jobs with this label; repeatable, all must match."
    ),
]
OfKind = Annotated[list[Kind] | None, typer.Option("--kind", metavar="KIND", help=f"{', '.join(Kind)}; repeatable.")]
OnNode = Annotated[str | None, typer.Option("--node", metavar="NAME", help="Only runs on this node.")]
DeadState = Annotated[
    list[RunState] | None, typer.Option("--state", metavar="STATE", help="Only failed or only lost runs.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="A note to store with the run.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@runs.command("list")
def list_runs(
    job: OfJob = None,
    state: Annotated[
        list[RunState] | None, typer.Option(metavar="STATE", help=f"{', '.join(RunState)}; repeatable.")
    ] = None,
    search: Search = "",
    label: OfLabel = None,
    kind: OfKind = None,
    node: OnNode = None,
    since: Since = None,
    until: Until = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="List the oldest runs first.")] = False,
    backfill: Annotated[
        str | None, typer.Option(metavar="ID", help="Only runs of this backfill, from `cronflow backfills list`.")
    ] = None,
    parent: Annotated[
        str | None, typer.Option(metavar="RUN", help="Only the parts of this run.", autocompletion=run_ids)
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Only runs of the chain that this run belongs to.", autocompletion=run_ids),
    ] = None,
    dead: Annotated[
        bool,
        typer.Option("--dead", help="Only dead letters: failed or lost runs that nobody replayed or acknowledged."),
    ] = False,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, help="The maximum number of runs.")] = 20,
    output: Output = Format.TABLE,
) -> None:
    """List runs, newest first."""
    conditions = _conditions(search, label, kind, node, since, until)

    async def read(cluster: Cluster) -> list[RunSchema]:
        of = None if chain is None else await _chain_of(cluster, chain)
        return await _matching(
            cluster,
            job,
            state or (),
            conditions,
            backfill=backfill,
            parent=parent,
            chain=of,
            dead=dead,
            oldest_first=oldest_first,
            limit=limit + 1,
        )

    found = call(read)
    shown = found[:limit]

    filtered = job or state or conditions or backfill or parent or chain
    if dead:
        empty = NO_DEAD_LETTERS if filtered else ALL_RESOLVED
    elif filtered:
        empty = "No runs match these filters. Leave out some of them to see more."
    else:
        empty = "No runs yet. See what is due next: cronflow jobs list; run a job: cronflow jobs run NAME"
    show(output, shown, [run["id"] for run in shown], lambda: run_table(shown, times.now(), empty=empty))
    if len(found) > limit:
        note(f"{'newer' if oldest_first else 'older'} runs are not shown; --limit {limit * 5} shows more")


def _conditions(
    search: str,
    labels: Sequence[str] | None,
    kinds: Sequence[Kind] | None,
    node: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, object]:
    """The options as arguments of `AsyncClient.runs.list`, without those that are not given. Raises InvalidInput."""
    given: dict[str, object] = {
        "q": search,
        "label": labels,
        "kind": kinds,
        "node": node,
        "since": None if since is None else times.instant_or_ago(since, "--since"),
        "until": None if until is None else times.instant_or_ago(until, "--until"),
    }
    return {name: value for name, value in given.items() if value}


async def _matching(
    cluster: Cluster,
    job: str | None,
    states: Collection[RunState],
    conditions: Mapping[str, object],
    *,
    limit: int | None = None,
    **others: object,
) -> list[RunSchema]:
    """The latest runs that match. Raises NotFound for a job that does not exist and has no runs."""
    found = await runs_of(cluster, job, limit, states=states, **conditions, **others)
    if not found and job is not None and not await runs_of(cluster, job, 1):
        await cluster.jobs.get(job)
    return found


async def _chain_of(cluster: Cluster, run_id: str) -> str:
    """The chain of a run. A chain is found by its id also if the run in which it began was deleted."""
    try:
        return (await cluster.runs.get(run_id)).get("chain", run_id)
    except NotFound:
        return run_id


@runs.command("show")
def show_run(run_id: RunId, output: Output = Format.TABLE) -> None:
    """Show a run: its times, node, result or error, attempts, outcomes that arrived too late, and its chain."""

    async def read(cluster: Cluster) -> tuple[RunDetailSchema, list[RunSchema]]:
        run = await cluster.runs.get(run_id, whole=output.has_all)
        return run, [] if output is not Format.TABLE else await _neighbours(cluster, run)

    run, neighbours = call(read)
    show(output, run, [run["id"]], lambda: run_page(run, times.now(), neighbours))


async def _neighbours(cluster: Cluster, run: RunDetailSchema) -> list[RunSchema]:
    """The run with those of its chain that it follows and that follow it; empty if there are no others."""
    from cronflow.client.authenticated import NotPermitted

    # An API of 0.9 has no chains.
    if not (chain := run.get("chain", "")):
        return []
    try:
        found = await runs_of(cluster, None, MOST_OF_CHAIN, chain=chain)
    except NotPermitted:
        # A key that is limited to some jobs cannot list the runs of others.
        return []
    upstream = {one["run"] for one in run["follows"]}
    near = [
        one
        for one in found
        if one["id"] in {run["id"], *upstream} or any(of["run"] == run["id"] for of in one["follows"])
    ]
    return near if len(near) > 1 else []


@runs.command()
def chain(run_id: RunId, output: Output = Format.TABLE) -> None:
    """List the runs of a chain in the order in which they follow each other. ID is any run of the chain."""
    from cronflow.cli.views.chains import chain_table, in_order

    async def read(cluster: Cluster) -> list[RunSchema]:
        of = await _chain_of(cluster, run_id)
        found = await runs_of(cluster, None, MOST_OF_CHAIN + 1, chain=of)
        if not found:
            raise NotFound("run", run_id)
        return found

    found = call(read)
    shown = in_order(found[:MOST_OF_CHAIN])
    show(output, shown, [run["id"] for run in shown], lambda: chain_table(shown, times.now(), marked=run_id))
    if len(found) > MOST_OF_CHAIN:
        note(f"the chain has more than {MOST_OF_CHAIN:,} runs; cronflow runs list --chain {run_id} --limit lists more")


@runs.command()
def why(run_id: RunId, output: Output = Format.TABLE) -> None:
    """Explain why a run ran, ended or is waiting: each step, and the reason of each node that cannot take it."""
    from cronflow.cli.views.why import why_page

    found = call(lambda cluster: cluster.runs.why(run_id))
    show(output, found, [run_id], lambda: why_page(found, times.now()))


@runs.command()
def report(
    since: Annotated[
        str, typer.Option(metavar="7d|INSTANT", help="Only runs due within this time or since this instant.")
    ] = "7d",
    job: OfJob = None,
    limit: Annotated[int, typer.Option(metavar="COUNT", min=1, help="The maximum number of reasons.")] = 100,
    output: Output = Format.TABLE,
) -> None:
    """Group failures by reason: how often, when, which jobs, and an example run."""
    begin = times.instant_or_ago(since, "--since")

    async def read(cluster: Cluster) -> ReportSchema:
        found = await cluster.runs.report(begin, job, limit=MOST_REASONS)
        if not found["failures"] and job is not None:
            await cluster.jobs.get(job)
        return found

    found = call(read)
    hidden = len(found["failures"]) - limit
    answer: ReportSchema = {**found, "failures": found["failures"][:limit], "more": found["more"] or hidden > 0}
    names = [failure["example"] for failure in answer["failures"]]
    show(output, answer, names, lambda: report_page(answer, since))
    if found["more"]:
        note("only the newest runs were analysed; use a shorter --since")
    elif hidden > 0:
        note(f"{formatting.plural(hidden, 'more reason')}; --limit {len(found['failures'])} shows all")


@runs.command()
def retry(
    run_ids: Ids = None,
    arg: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Replace all original arguments.")] = None,
    job: OfJob = None,
    state: DeadState = None,
    search: Search = "",
    label: OfLabel = None,
    kind: OfKind = None,
    node: OnNode = None,
    since: Since = None,
    until: Until = None,
    followers: Annotated[
        bool, typer.Option("--followers", help="Also run the jobs that follow them again, in the same chains.")
    ] = False,
    text: Note = "",
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Replay ended runs: create new runs for the same instants with the current job definitions.

    Without run ids, it replays the dead letters that match the filters.
    """
    from cronflow.cli.commands.jobs import check_takes_args, parse_args

    conditions = _conditions(search, label, kind, node, since, until)
    _check_selection(run_ids, job, state, conditions)
    args = parse_args(arg) if arg else None

    async def act(cluster: Cluster) -> list[ReplaySchema]:
        if run_ids:
            found: Sequence[RunSchema] = [await cluster.runs.get(run) for run in dict.fromkeys(run_ids)]
        else:
            found = await _matching(cluster, job, state or (), conditions, dead=True)
        if args is not None:
            for name in sorted({run["job"] for run in found}):
                check_takes_args(await cluster.jobs.get(name))
        if not run_ids and found:
            confirm(len(found), "replay", yes=yes)
        return await _replay(cluster, found, args, text, only_dead=not run_ids, followers=followers)

    replayed = change(act)

    lines = [
        Text.assemble(("↻ ", formatting.BLUE), one["id"], (f"  replays {one['replay_of']}", "dim")) for one in replayed
    ]
    show(output, replayed, [one["id"] for one in replayed], Text("\n").join(lines) or NO_DEAD_LETTERS)


async def _replay(
    cluster: Cluster,
    found: Sequence[RunSchema],
    args: Mapping[str, object] | None,
    text: str,
    *,
    only_dead: bool,
    followers: bool,
) -> list[ReplaySchema]:
    replayed: list[ReplaySchema] = []
    with counted(len(found), "replaying") as done:
        for run in found:
            try:
                replayed.append(
                    await cluster.runs.retry(run["id"], args, text, only_dead=only_dead, followers=followers)
                )
            except Conflict as error:
                if not only_dead:
                    raise
                warn(str(error))
            finally:
                done(1)
    return replayed


@runs.command()
def ack(
    run_ids: Ids = None,
    text: Note = "",
    job: OfJob = None,
    state: DeadState = None,
    search: Search = "",
    label: OfLabel = None,
    kind: OfKind = None,
    node: OnNode = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Acknowledge dead letters: mark failures that need no further action.

    Without run ids, it acknowledges the dead letters that match the filters.
    """
    conditions = _conditions(search, label, kind, node, since, until)
    _check_selection(run_ids, job, state, conditions)

    async def act(cluster: Cluster) -> list[str]:
        found: Sequence[RunSchema]
        if run_ids:
            found = [run for run in [await cluster.runs.get(run) for run in dict.fromkeys(run_ids)] if _unresolved(run)]
        else:
            found = await _matching(cluster, job, state or (), conditions, dead=True)
            if found:
                confirm(len(found), "acknowledge", yes=yes)
        done = await _each(found, "acknowledging", lambda run: _acknowledge(cluster, run, text))
        return [run["id"] for run, acknowledged in zip(found, done, strict=True) if acknowledged]

    done = change(act)

    def view() -> None:
        for run in done:
            console().print(Text.assemble(("✓ ", formatting.GREEN), f"{run} acknowledged"))
        if not done and not run_ids:
            console().print(NO_DEAD_LETTERS)

    show(output, [{"id": run} for run in done], done, view)


async def _acknowledge(cluster: Cluster, run: RunSchema, text: str) -> bool:
    """Whether it is acknowledged now; not if it was replayed in the meantime."""
    try:
        found = (await cluster.runs.ack(run["id"], text))["resolution"]
    except (Conflict, NotFound):
        return False
    return found is not None and found["how"] == Settled.ACKNOWLEDGED


def _unresolved(run: RunDetailSchema) -> bool:
    """Whether it is an unresolved dead letter; prints a note if not. Raises Conflict for a run that did not fail."""
    found = run["resolution"]
    if found is not None:
        by = f" by {found['by']}" if found["by"] else ""
        note(f"{run['id']} was already {found['how']}{by}, {times.relative(found['at'], times.now())}")
    elif run["state"] not in DEAD:
        raise Conflict(f"run {run['id']} has state {run['state']}; only failed or lost runs can be acknowledged")
    return found is None


def _check_selection(
    ids: Sequence[str] | None,
    job: str | None,
    states: Collection[RunState] | None,
    conditions: Mapping[str, object],
) -> None:
    """Raises InvalidInput unless there are either ids or a filter of dead letters."""
    if bool(ids) == (job is not None or bool(states) or bool(conditions)):
        raise _no_selection(both=bool(ids))
    for state in states or ():
        if state not in DEAD:
            what = f"{state} runs are not dead letters"
            raise InvalidInput(Problem("--state", what, "use failed or lost, or give run ids"))


def _no_selection(*, both: bool) -> InvalidInput:
    what = "run ids cannot be combined with filters" if both else "no runs selected"
    return InvalidInput(Problem("", what, "give run ids, or select runs with filters such as --job or --since"))


async def _each(
    found: Sequence[RunSchema], what: str, act: Callable[[RunSchema], Awaitable[Answer]]
) -> Sequence[Answer]:
    """Act on each run, some at a time: an API key for certain jobs may not act on several in one request."""
    answers: list[Answer] = []
    with counted(len(found), what) as done:
        for at in range(0, len(found), AT_ONCE):
            part = found[at : at + AT_ONCE]
            answers += await asyncio.gather(*map(act, part))
            done(len(part))
    return answers


@runs.command()
def cancel(
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The id of the run, from `cronflow runs list`.", autocompletion=run_ids),
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only open runs of this job.", autocompletion=job_names)
    ] = None,
    state: Annotated[
        list[RunState] | None,
        typer.Option(metavar="STATE", help="Only runs in this state: dispatched, running or retrying."),
    ] = None,
    search: Search = "",
    label: OfLabel = None,
    kind: OfKind = None,
    node: OnNode = None,
    since: Since = None,
    until: Until = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="A reason to store with the run.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the runs have ended; exit code 1 if one was not cancelled.")
    ] = False,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Cancel a run, or all open runs that match. Processes that do not stop within ten seconds are killed."""
    conditions = _conditions(search, label, kind, node, since, until)
    _check_open_selection(run_id, job, state or (), conditions)

    async def act(cluster: Cluster) -> Sequence[RunSchema]:
        if run_id is not None:
            found: Sequence[RunSchema] = [await cluster.runs.cancel(run_id, reason)]
        else:
            if job is not None:
                await cluster.jobs.get(job)
            chosen = await runs_of(cluster, job, None, states=state or sorted(OPEN), **conditions)
            if not chosen:
                return []
            _confirm_cancel(len(chosen), yes=yes)
            found = await _each(chosen, "cancelling", lambda run: _cancel(cluster, run, reason))
        while wait and any(is_open(run) for run in found):
            await times.sleep(POLL_S)
            found = [without_late(await cluster.runs.get(run["id"])) for run in found]
        return found

    found = change(act)

    empty = "No open runs match; nothing was cancelled."
    show(output, found, [run["id"] for run in found], lambda: run_table(found, times.now(), empty=empty))
    if any(is_open(run) for run in found):
        note("running processes are being stopped; use --wait to wait for them")
    others = [run for run in found if not is_open(run) and run["state"] != RunState.CANCELLED]
    for run in others:
        warn(f"{run['id']} {run['state']} before it could be stopped")
    if others:
        raise typer.Exit(FAILED)


def _check_open_selection(
    run_id: str | None, job: str | None, states: Collection[RunState], conditions: Mapping[str, object]
) -> None:
    """`_check_selection` for one run or all open runs that match."""
    if bool(job or states or conditions) == (run_id is not None):
        raise _no_selection(both=run_id is not None)
    ended = sorted(set(states) - OPEN)
    if ended:
        raise InvalidInput(Problem("--state", f"{ended[0]} runs have ended", "use dispatched, running or retrying"))


async def _cancel(cluster: Cluster, run: RunSchema, reason: str) -> RunSchema:
    try:
        return await cluster.runs.cancel(run["id"], reason)
    except Conflict:
        # It has ended in the meantime.
        return without_late(await cluster.runs.get(run["id"]))


def _confirm_cancel(count: int, *, yes: bool) -> None:
    open_runs = formatting.plural(count, "open run")
    if yes:
        note(f"cancelling {open_runs}")
    elif not typer.confirm(f"Cancel {open_runs}?", err=True):
        raise typer.Exit(FAILED)


@runs.command()
def watch(job: OfJob = None, output: LiveOutput = Format.TABLE) -> None:
    """Watch open runs, their progress, and recently ended runs until Ctrl-C."""
    output.check_live()
    from cronflow.cli.views.watch import RunsView, changed_text
    from cronflow.client.following import lines_topic
    from cronflow.domain.run import PROGRESS

    async def use(cluster: Cluster) -> None:
        view = RunsView(cluster, job)
        if output is Format.TABLE and drawn():
            await draw(cluster.follow(lines_topic(PROGRESS, job), tail=1000), view)
            return
        async with aclosing(cluster.follow()) as messages:
            async for message in messages:
                await view.take(message)
                for run in view.changed:
                    if output is Format.JSON:
                        write_json(run, lines=True)
                    else:
                        console().print(changed_text(run))

    following(use)


@runs.command()
def logs(
    run_id: RunId,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new lines until the run has ended.")] = False,
    output: LineOutput = LineFormat.TABLE,
) -> None:
    """Print the log lines of all attempts of a run."""
    if follow:
        followed = following(lambda cluster: follow_run(cluster, run_id, output, states=False))
        if followed is not None:
            last, printer = followed
            if not printer.end():
                note(NO_OUTPUT)
            note(f"{run_id} {last['state']}")
        return
    printer = LinePrinter(output)

    async def read(cluster: Cluster) -> RunDetailSchema:
        # Read the state first, so that an ended run's lines are complete.
        run = await cluster.runs.get(run_id)
        async for line in cluster.runs.logs(run_id):
            printer.write([line])
        return run

    run = call(read)
    if not printer.end():
        note(f"no output yet; the run is {run['state']}, wait for lines with -f" if is_open(run) else NO_OUTPUT)

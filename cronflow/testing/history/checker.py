"""The checker of histories: the rules H1 to H23, each a function that yields what contradicts the protocol. Those from
H16 on are in `operator_rules`.

It shares with the code that it judges the values, the table of transitions and nothing that plans, places or recovers:
instants come from the oracle, by way of the audit. A rule that faults may bend says by which, and looks for one whose
window fits; no rule asks how late something was, but H9.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from cronflow.domain.chain import On
from cronflow.domain.concurrency import LimitUse, uses_of
from cronflow.domain.job import Delivery, StartGuard
from cronflow.domain.run import ENDED, SCHEDULED, Attempt, Kind, Outcome, Run, RunState, run_id
from cronflow.domain.schedule.exclusions import exclusion
from cronflow.domain.schedule.fires import is_dynamic, last_before
from cronflow.domain.schedule.kinds import Once
from cronflow.domain.split import Split
from cronflow.domain.transitions import TRANSITIONS
from cronflow.domain.version import Version, version_due
from cronflow.testing.audit import audit, expectations
from cronflow.testing.history import operator_rules
from cronflow.testing.history.double_starts import OLD_MAY_START, double_starts
from cronflow.testing.history.history import END, START, History, Step
from cronflow.testing.schedule_oracle import fires_between

SECOND = timedelta(seconds=1)
BY_WINDOW = ("calendar ", "blackout", "outside of ")
"""How the reasons of excluded instants begin."""
UNWRITTEN = timedelta(seconds=10)
"""For how long an outcome may exist in the memory of its node alone: a call to MongoDB that fails, and one more."""

ANOTHER_FOLLOWS = {
    Outcome.ERROR,
    Outcome.TIMEOUT,
    Outcome.DRAINED,
    Outcome.DEFERRED,
    Outcome.DECLINED,
    Outcome.LOST,
}
"""How an attempt may end that was not the last of its run."""
BY_HANDLER = {Outcome.OK, Outcome.ERROR}
"""Only a handler that came to its end makes these."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What no correct history contains."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule} {self.where}: {self.what}"


Breaches = Iterator[tuple[str, str]]


def check(history: History) -> list[Violation]:
    """All violations, rule by rule."""
    return [Violation(name, where, what) for name, rule in RULES.items() for where, what in rule(history)]


def each_instant_lies_in_one_run(history: History) -> Breaches:
    """H1, and what would break it later: a `pending_run` without its run, a plan intent that is left behind."""
    versions = {record.name: history.versions(record.name) for record in history.jobs}
    found = audit({job: expectations(known) for job, known in versions.items()}, history.runs, history.until)
    for job, fire in found.lost:
        yield run_id(job, fire), "no run covers this instant"
    for job, fire in found.doubled:
        yield run_id(job, fire), "more than one run covers this instant"
    for run in history.runs:
        if run.kind in SCHEDULED and run.job in versions and not _has_instant(versions[run.job], run):
            yield run.id, "no version of its job has this instant"
    known = {run.id for run in history.runs}
    for record in history.jobs:
        if record.pending_run is not None and run_id(record.name, record.pending_run.fire) not in known:
            yield record.name, "the run of its pending run does not exist"
    for intent in history.intents:
        yield intent, "a plan intent is left"


def _has_instant(versions: Sequence[Version], run: Run) -> bool:
    """An edit may come between the planning of a run, which may be early, and its instant. Then the schedule had it."""
    if version_due(versions, run.fire_at) is not None:
        return True
    schedules = [version.job.schedule for version in versions if version.job.schedule is not None]
    return run.created_at < run.fire_at and any(
        last_before(schedule, run.fire_at, not_before=run.fire_at) == run.fire_at for schedule in schedules
    )


def one_outcome_is_accepted_and_the_sink_has_it(history: History) -> Breaches:
    """H2."""
    for name, steps in _steps(history).items():
        ends = {(step.state, step.finish_id) for step in steps if step.state in ENDED}
        if len(ends) > 1:
            yield name, f"it ended {len(ends)} times"
    recorded = {run.id for run in history.runs}
    for line in history.sink:
        if line.run not in recorded:
            yield line.run, "the sink has a run that is not recorded"
    ended = {(line.run, line.fence, line.ok) for line in history.sink if line.word == END}
    for run in _judged(history):
        accepted = [attempt for attempt in run.attempts if attempt.outcome is Outcome.OK]
        if len(accepted) > (run.state is RunState.SUCCEEDED):
            yield run.id, f"{len(accepted)} attempts succeeded, and it is {run.state}"
        if run.state is RunState.SUCCEEDED and [run.fence] != [attempt.fence for attempt in accepted]:
            yield run.id, "it succeeded by no attempt under its fence"
        for attempt in run.attempts:
            ok = attempt.outcome is Outcome.OK
            if attempt.outcome in BY_HANDLER and (run.id, attempt.fence, ok) not in ended:
                yield run.id, f"the sink has no end of the attempt {attempt.fence}, recorded as {attempt.outcome}"


def fences_increase(history: History) -> Breaches:
    """H3: over the dispatches of a run, the cursor moves of a job and the terms; and no token is given out twice."""
    given: dict[int, str] = {}
    again: list[Step] = []
    for run, steps in _steps(history).items():
        for before, after in _with_before(steps):
            if before is not None and after.fence < before.fence:
                yield run, f"its fence fell from {before.fence} to {after.fence}"
            if after.state is not RunState.DISPATCHED or (before is not None and _same_dispatch(before, after)):
                continue
            if before is not None and after.fence == before.fence:
                yield run, f"dispatched again under the fence {after.fence}"
            elif given.setdefault(after.fence, run) != run:
                yield run, f"the fence {after.fence} was given to {given[after.fence]} too"
            if before is not None:
                again.append(after)
    for one in history.runs:
        fences = [attempt.fence for attempt in one.attempts]
        if any(later <= earlier for earlier, later in pairwise(fences)) or any(fence > one.fence for fence in fences):
            yield one.id, f"its attempts have the fences {fences}, and it has {one.fence}"
    yield from _moves_increase(history)
    # A run may be inserted by a later term than that of its pending run; a repeated dispatch may not.
    for step in again:
        later = [other for other in again if other.term > step.term and other.fence <= step.fence]
        if later:
            yield step.run, f"term {step.term} gave {step.fence}, and the later term {later[0].term} {later[0].fence}"


def _moves_increase(history: History) -> Breaches:
    first = {run: steps[0] for run, steps in _steps(history).items()}
    moves: dict[str, list[tuple[Run, Step]]] = defaultdict(list)
    for run in sorted(history.runs, key=lambda run: run.fire_at):
        if run.kind in SCHEDULED and run.id in first and first[run.id].state is RunState.DISPATCHED:
            moves[run.job].append((run, first[run.id]))
    for made in moves.values():
        for (_, before), (run, after) in pairwise(made):
            if after.fence <= before.fence:
                yield run.id, f"made with the fence {after.fence}, after {before.fence} of the instant before"


def one_node_leads_a_term(history: History) -> Breaches:
    """H4."""
    nodes: dict[int, set[str]] = defaultdict(set)
    for elected in history.terms:
        nodes[elected.term].add(elected.node)
    for term, leaders in nodes.items():
        if len(leaders) > 1:
            yield f"term {term}", f"led by {' and '.join(sorted(leaders))}"


def only_transitions_of_the_table(history: History) -> Breaches:
    """H5: each write, and the documents as they are in the end."""
    runs = {run.id: run for run in history.runs}
    for name, steps in _steps(history).items():
        for before, after in _with_before(steps):
            if not _in_table(before, after):
                yield name, f"from {'nothing' if before is None else before.state} to {after.state}"
        last = runs.get(name)
        if last is not None and (last.state, last.fence) != (steps[-1].state, steps[-1].fence):
            yield name, f"the last write left it {steps[-1].state}, and it is {last.state}"
    for run in history.runs:
        if run.is_open != (run.check_at is not None) or run.is_open != (run.ended_at is None):
            yield run.id, f"{run.state}, to be looked at {run.check_at}, ended {run.ended_at}"
        before_last = [attempt.outcome for attempt in (run.attempts if run.is_open else run.attempts[:-1])]
        if any(outcome not in ANOTHER_FOLLOWS for outcome in before_last):
            yield run.id, f"an attempt followed one that ended {', '.join(before_last)}"
        job = history.job_of(run)
        if run.state is RunState.LOST and job is not None and job.delivery is not Delivery.AT_MOST_ONCE:
            yield run.id, "lost, although it may run again"


def at_most_once_starts_once(history: History) -> Breaches:
    """H6, whatever goes wrong."""
    starts = Counter(line.run for line in history.sink if line.word == START)
    for run in _judged(history):
        if _delivery(history, run) is Delivery.AT_MOST_ONCE and starts[run.id] > 1:
            yield run.id, f"its handler was started {starts[run.id]} times"


def double_starts_only_under_a_fault(history: History) -> Breaches:
    """H7: a second start follows from the job's policy, from an edit or from a fault (see `double_starts`). A job that
    runs at most once has H6.
    """
    runs = {run.id: run for run in history.runs}
    for double in double_starts(history):
        if double.cause is None and _delivery(history, runs[double.run]) is not Delivery.AT_MOST_ONCE:
            times = f"{double.first.at:%T.%f} and {double.second.at:%T.%f}"
            yield double.run, f"started at {times}, and nothing went wrong before"


def no_old_version_starts_after_an_edit(history: History) -> Breaches:
    """H8. A recorded start at once; a handler, which may start before that (`start_guard: redis`), after five seconds,
    unless its node was held up.
    """
    jobs = {run.id: run.job for run in history.runs}
    dispatched: dict[tuple[str, int], int] = {}
    for name, steps in _steps(history).items():
        acks = [ack for ack in history.acks if ack.job == jobs.get(name)]
        for before, step in _with_before(steps):
            if step.state is RunState.DISPATCHED:
                dispatched.setdefault((name, step.fence), step.job_ver)
            began = step.state is RunState.RUNNING and before is not None and before.state is RunState.DISPATCHED
            for ack in acks:
                if began and step.at > ack.at and step.job_ver < ack.ver:
                    yield name, f"started under version {step.job_ver}, {step.at - ack.at} after {ack.ver} was in force"
    for line in history.sink:
        ver = dispatched.get((line.run, line.fence))
        for ack in history.acks if line.word == START and ver is not None else ():
            if ack.job != jobs.get(line.run) or ver is None or ver >= ack.ver or line.at <= ack.at + OLD_MAY_START:
                continue
            if not any(fault.touches(ack.at, line.at) for fault in history.faults):
                yield line.run, f"its handler started under version {ver}, {line.at - ack.at} after {ack.ver}"


def all_ended_after_healing(history: History) -> Breaches:
    """H9."""
    limit = history.healed + history.ends_within
    for run in history.runs:
        if run.is_open and run.created_at <= history.healed:
            yield run.id, f"still {run.state}"
        elif run.ended_at is not None and run.created_at <= history.healed and run.ended_at > limit:
            yield run.id, f"ended only {run.ended_at - history.healed} after healing"


def nothing_is_missing_in_late(history: History) -> Breaches:
    """H10: every end in the sink was accepted as the end of an attempt, or is kept; only a kill may take it along. That
    an attempt is recorded as lost is no record of how it ended.
    """
    ends = ((run.id, attempt) for run in history.runs for attempt in run.attempts)
    recorded = {(run, attempt.fence) for run, attempt in ends if attempt.outcome is not Outcome.LOST}
    recorded |= {(late.run, late.fence) for late in history.late}
    killed = [(fault.killed, fault.since) for fault in history.faults if fault.killed is not None]
    for line in history.sink:
        if line.word == START or (line.run, line.fence) in recorded:
            continue
        # As long as a fault lasts, a call to MongoDB may.
        held_up = [fault.until for fault in history.faults if fault.touches(line.at, line.at + UNWRITTEN)]
        limit = max([line.at, *held_up]) + UNWRITTEN
        if not any(node == line.node and line.at <= at <= limit for node, at in killed):
            yield line.run, f"the attempt {line.fence} ended on {line.node}, and nobody recorded it"


def without_faults_starts_are_runs(history: History) -> Breaches:
    """H11: each attempt that is recorded started once, and nothing else did."""
    if history.faults:
        return
    starts = Counter((line.run, line.fence) for line in history.sink if line.word == START)
    for run in _judged(history):
        attempts = {attempt.fence: attempt for attempt in run.attempts if attempt.started_at is not None}
        for fence, attempt in attempts.items():
            if not _started_as_recorded(starts[run.id, fence], attempt):
                yield run.id, f"its attempt {fence} started {starts[run.id, fence]} times"
        unknown = [
            fence
            for name, fence in starts
            if name == run.id and fence not in attempts and not _cancelled_on_its_way(history, run, fence)
        ]
        if unknown and not run.is_open:
            yield run.id, f"started under {unknown}, which no attempt has"


def no_limit_is_exceeded(history: History) -> Breaches:
    """H12: no more runs are recorded as running than a key of their job allows. Their handlers start after that record,
    and end before its successor.
    """
    runs = {run.id: run for run in history.runs}
    running: dict[str, set[str]] = defaultdict(set)
    for step in sorted(history.steps, key=lambda step: step.at):
        run = runs.get(step.run)
        for use in () if run is None else _limits(history, run, step.job_ver):
            if step.state is not RunState.RUNNING:
                running[use.id].discard(step.run)
                continue
            running[use.id].add(step.run)
            if use.limit is not None and len(running[use.id]) > use.limit:
                yield step.run, f"{len(running[use.id])} runs of {use} run at once, and {use.limit} may"


def each_end_is_answered_once(history: History) -> Breaches:
    """H13: the end of each run of a job that is followed led to one run of each job that follows it alone, and to at
    most one of a job that follows several.
    """
    runs = [run for run in history.runs if run.kind is not Kind.PART]
    # A replay has the chain of the run that it repeats, and is no further answer.
    following = [run for run in runs if run.kind is Kind.AFTER and run.chain is not None]
    answers = Counter((run.job, one.run) for run in following if run.chain is not None for one in run.chain.of)
    for run in runs:
        if run.followed and not run.is_open and run.created_at <= history.healed:
            yield run.id, "no job has followed its end"
        if run.is_open or run.followed or run.kind in (Kind.REPLAY, Kind.BACKFILL):
            continue
        for record in history.jobs:
            upstream = {one.job: one for one in record.job.after}
            if run.job not in upstream:
                continue
            count = answers[record.name, run.id]
            if count > 1:
                yield run.id, f"{record.name} has followed its end {count} times"
            # A job that was created later, or deleted, need not follow the run.
            must = record.deleted_at is None and record.created_at <= run.created_at
            must = must and not _was_deleted(history, record.name, run)
            if must and count == 0 and len(upstream) == 1 and upstream[run.job].on is On.ENDED:
                yield run.id, f"{record.name} has not followed its end"


def _was_deleted(history: History, job: str, run: Run) -> bool:
    """Whether the job was deleted when the run ended; somebody may have created it again since."""
    before = [version for version in history.versions(job) if run.ended_at is not None and version.at <= run.ended_at]
    return bool(before) and before[-1].deleted


def a_parent_follows_from_its_parts(history: History) -> Breaches:
    """H14: a run that was split has exactly its parts, each once. It ends after they have, and its state follows from
    theirs. One that never began has none.
    """
    written: dict[str, int] = {}
    for place, step in enumerate(history.steps):
        if step.state in ENDED:
            written.setdefault(step.run, place)
    yield from flaws_of_parents(history.runs, written)


def excluded_instants_are_skipped(history: History) -> Breaches:
    """H15: an instant that a window or calendar excludes does not run by the schedule, and the skipped run that has
    such a reason covers no other one.
    """
    for run in history.runs:
        versions = [version for version in history.versions(run.job) if version.ver == run.job_ver]
        schedule = versions[0].job.schedule if versions else None
        if run.kind not in SCHEDULED or schedule is None or isinstance(schedule, Once) or not schedule.has_exclusions:
            continue
        skipped = run.state is RunState.SKIPPED and not run.attempts
        by_window = skipped and (run.reason or "").startswith(BY_WINDOW)
        last = run.fire_at if run.covers is None else run.covers.last
        instants = [run.fire_at] if is_dynamic(schedule) else fires_between(schedule, run.fire_at, last + SECOND)
        for instant in instants:
            excluded = exclusion(schedule, instant)
            if by_window and excluded is None:
                yield run.id, f"skipped as {run.reason}, and {instant:%T} is allowed"
            if excluded is not None and not skipped:
                yield run.id, f"it ran, and {instant:%T} is excluded: {excluded.reason}"


def flaws_of_parents(runs: Sequence[Run], written: Mapping[str, int] | None = None) -> Breaches:
    """What contradicts H14 among these runs. `written` is the order in which the store wrote their ends; without it,
    what the nodes took the time to be decides.
    """
    split = {run.id: run for run in runs if run.split is not None}
    parts: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.kind is Kind.PART:
            parts[run.id.rpartition("~")[0]].append(run)
    for parent in parts.keys() - split.keys():
        yield parent, "it has parts, and does not exist or was not split"
    for run in split.values():
        assert run.split is not None
        wanted = _labels(run.split) if run.split.begun else []
        labels = [part.id.rpartition("~")[2] for part in parts[run.id]]
        if strange := sorted(set(labels) - set(wanted)):
            yield run.id, f"it was not split into {strange[0]}"
        if not run.is_open:
            if len(labels) != len(wanted):
                yield run.id, f"it has {len(labels)} parts, and was split into {len(wanted)}"
            yield from _flaws_of_end(run, parts[run.id], written or {})


def _flaws_of_end(run: Run, parts: Sequence[Run], written: Mapping[str, int]) -> Breaches:
    def is_later(part: Run) -> bool:
        if part.id in written and run.id in written:
            return written[part.id] > written[run.id]
        return part.ended_at is None or (run.ended_at is not None and part.ended_at > run.ended_at)

    if any(map(is_later, parts)):
        yield run.id, "it ended before a part of it"
    states = {part.state for part in parts}
    if (run.state is RunState.SUCCEEDED) != (states == {RunState.SUCCEEDED}):
        yield run.id, f"it is {run.state}, and its parts are {', '.join(sorted(states)) or 'none'}"


def _labels(split: Split) -> list[str]:
    names = [f"n-{node}" for node in split.nodes] if split.nodes else [f"s{n}" for n in range(split.total)]
    return names if split.only is None else [names[n] for n in split.only]


def nothing_unexpected_happens(history: History) -> Breaches:
    """H23: whatever is done to it, no part of the cluster meets an error that it does not expect."""
    yield from history.failures


RULES: Mapping[str, Callable[[History], Breaches]] = {
    "H1": each_instant_lies_in_one_run,
    "H2": one_outcome_is_accepted_and_the_sink_has_it,
    "H3": fences_increase,
    "H4": one_node_leads_a_term,
    "H5": only_transitions_of_the_table,
    "H6": at_most_once_starts_once,
    "H7": double_starts_only_under_a_fault,
    "H8": no_old_version_starts_after_an_edit,
    "H9": all_ended_after_healing,
    "H10": nothing_is_missing_in_late,
    "H11": without_faults_starts_are_runs,
    "H12": no_limit_is_exceeded,
    "H13": each_end_is_answered_once,
    "H14": a_parent_follows_from_its_parts,
    "H15": excluded_instants_are_skipped,
    "H16": operator_rules.each_instant_of_a_backfill_has_one_run,
    "H17": operator_rules.no_rate_is_exceeded,
    "H18": operator_rules.no_node_is_overbooked,
    "H19": operator_rules.nothing_starts_on_a_drained_node,
    "H20": operator_rules.nothing_cancelled_starts,
    "H21": operator_rules.no_fire_of_a_held_job_runs,
    "H22": operator_rules.nothing_is_dispatched_in_maintenance,
    "H23": nothing_unexpected_happens,
}


def _limits(history: History, run: Run, ver: int) -> Sequence[LimitUse]:
    """With the limits of named ones, whose rates are not judged."""
    version = next((version for version in history.versions(run.job) if version.ver == ver), None)
    named = {one.id: one.limit for one in history.limits}
    uses = () if version is None else uses_of(version.job, run.args)
    return [replace(use, limit=named.get(use.id, use.limit)) for use in uses]


def _steps(history: History) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = defaultdict(list)
    for step in history.steps:
        found[step.run].append(step)
    return found


def _with_before(steps: Sequence[Step]) -> Iterable[tuple[Step | None, Step]]:
    return zip([None, *steps], steps, strict=False)


def _judged(history: History) -> Iterator[Run]:
    """Those whose handlers write the sink: a run that was split has none."""
    jobs = {record.name for record in history.jobs}
    return (run for run in history.runs if run.job in jobs and run.split is None)


def _delivery(history: History, run: Run) -> Delivery | None:
    job = history.job_of(run)
    return None if job is None else job.delivery


def _same_dispatch(before: Step, after: Step) -> bool:
    """It was only looked at, or kept."""
    return before.state is RunState.DISPATCHED and before.fence == after.fence


def _in_table(before: Step | None, after: Step) -> bool:
    if before is None:
        return any(not row.sources and after.state in row.targets for row in TRANSITIONS.values())
    if before.state in ENDED:
        # Somebody may settle a dead letter; that is no step of the run.
        return before.state is after.state
    return any(
        before.state in row.sources
        and after.state in row.targets
        # A row that leads back to where it may come from leaves a run as it is: looked at, renewed, kept.
        and (row.sources != row.targets or before.state is after.state)
        for row in TRANSITIONS.values()
    )


def _cancelled_on_its_way(history: History, run: Run, fence: int) -> bool:
    """It was cancelled before its start was recorded, and its handler may start before that (`start_guard: redis`)."""
    job = history.job_of(run)
    guarded = job is not None and job.start_guard is not StartGuard.REDIS
    return run.state is RunState.CANCELLED and run.fence == fence and not guarded


def _started_as_recorded(count: int, attempt: Attempt) -> bool:
    """One that was cancelled may have been cancelled before its handler could record it."""
    return count == 1 or (count == 0 and attempt.outcome is Outcome.CANCELLED)

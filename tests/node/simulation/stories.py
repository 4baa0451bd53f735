"""The stories: which jobs and nodes there are, and what happens in which order. Hypothesis draws and shrinks them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import structlog
from hypothesis import strategies as st

from cronflow.domain.backfill import BackfillScope, parse_rate
from cronflow.domain.cluster import node_name
from cronflow.domain.maintenance_mode import MaintenanceMode
from cronflow.node.node import Node
from cronflow.testing.history.checker import check
from cronflow.testing.history.history import CancelAck, History
from tests.node.cluster import inline
from tests.node.simulation.jobs import EDITS, JOBS, LONG, edited, with_upstream
from tests.node.simulation.loop import StoppableLoop
from tests.node.simulation.world import World, a_world

SECOND = timedelta(seconds=1)
MAINTENANCE = "maintenance"
SERVERS = (("MongoDB",), ("Redis",), ("MongoDB", "Redis"))
VERBS = (
    *("jobs.due_in_turn", "jobs.move", "jobs.replace", "plans.write", "plans.remove", "versions.keep"),
    *("runs.insert", "runs.insert_changed", "runs.apply", "runs.overdue", "runs.open_of", "runs.get"),
    *("control.begin_term", "control.extend", "control.maintenance", "election.acquire", "election.renew"),
    *("election.resign", "membership.report", "membership.members", "membership.drain", "bus.notify"),
    *("queue.dispatch", "queue.take", "queue.release", "queue.renew_locks", "queue.give_back", "queue.cancel"),
    *("chains.ended", "chains.marked", "chains.write_join", "chains.answered"),
    *("limits.get", "limits.acquire", "limits.release", "limits.held", "runs.standings", "runs.reserving"),
    *("backfills.watched", "backfills.advance", "backfills.close", "backfills.cancel"),
    *("runs.parents", "runs.part_counts", "runs.existing", "runs.taken_of"),
)

RACED = (
    *("jobs.due_in_turn", "runs.open_of", "plans.write", "jobs.move", "runs.insert", "queue.dispatch", "queue.take"),
    *("runs.overdue", "runs.taken_of", "runs.apply", "limits.acquire", "chains.ended", "backfills.watched"),
)
"""Where a person may come in between what a node has read and what it writes."""


@dataclass(frozen=True)
class Step:
    """Something that happens, and how long it is until the next step. `pick` selects a node, job or run of those that
    there are then, counted around.
    """

    what: str
    pick: int = 0
    name: str = ""
    seconds: float = 0.0
    count: int = 1
    flag: bool = False
    then: float = 0.0

    def __repr__(self) -> str:
        """Without what is as usual."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "what"}
        usual = {field.name: field.default for field in fields(self)}
        said = [f"{name}={value!r}" for name, value in values.items() if value != usual[name]]
        return f"Step({', '.join([repr(self.what), *said])})"


@dataclass(frozen=True)
class Story:
    """The jobs of these names and those that they follow, the nodes, and what happens."""

    jobs: Sequence[str]
    steps: Sequence[Step]
    nodes: int = 3
    slots: int = 16
    look_ahead: float = 0.0
    ahead: bool = True
    seed: int = 0


def _step(*what: str, **others: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    pick = st.integers(0, 5) if "pick" not in others else others.pop("pick")
    then = st.sampled_from([0.0, 0.3, 1.0, 2.5, 5.0])
    return st.builds(Step, st.sampled_from(what), pick, then=then, **others)


def _among(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


FLAG, VERB = st.booleans(), st.sampled_from(VERBS)
FAULTS = st.one_of(
    _step("kill", flag=FLAG),
    _step("sigstop", flag=FLAG, seconds=_among(1.0, 4.0, 8.0, 15.0)),
    _step("fail before", "fail after", name=VERB, count=st.integers(1, 4)),
    _step("hang before", "hang after", name=VERB, seconds=_among(1.5, 5.0, 12.0)),
    _step("kill in", name=VERB, flag=FLAG),
    _step("race", name=st.sampled_from(RACED), flag=FLAG, count=st.integers(0, 5)),
    _step("server away", name=_among("MongoDB", "Redis"), seconds=_among(2.0, 6.0, 12.0)),
    _step("cut off", count=st.integers(0, 2), seconds=_among(4.0, 12.0)),
    _step("flush Redis"),
    _step("roll Redis back", count=st.integers(1, 3)),
    _step("lose an item", "double an item"),
    _step("step a clock", seconds=_among(-3600.0, -3.0, 3.0, 3600.0)),
    _step("step all clocks", seconds=_among(3.0, 20.0, 75.0)),
    _step("lose signals", seconds=_among(5.0, 15.0)),
    _step("lose the API"),
)
ACTS = st.one_of(
    _step("edit", count=st.integers(0, len(EDITS) - 1)),
    _step("edit", count=st.integers(0, len(EDITS) - 1)),
    _step("pause", "resume", "delete", "create"),
    _step("trigger", "cancel", "cancel", "replay"),
    _step("backfill", count=st.integers(1, 5), name=_among("", "1/s", "3/s")),
    _step("cancel backfill"),
    _step("drain", seconds=_among(0.0, 0.0, 4.0)),
    _step("undrain", "stop gracefully", "step down"),
    _step("begin maintenance", seconds=_among(0.0, 4.0, 8.0)),
    _step("end maintenance"),
    _step("accept more", count=st.integers(1, 4)),
)


def _stories(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[Story]:
    return st.builds(
        Story,
        st.lists(st.sampled_from(list(JOBS)), min_size=2, max_size=5, unique=True),
        st.lists(steps, min_size=4, max_size=12),
        nodes=st.sampled_from([3, 2]),
        slots=st.sampled_from([16, 4]),
        look_ahead=st.sampled_from([0.0, 2.0]),
        ahead=st.booleans(),
        seed=st.integers(0, 1000),
    )


STORIES, PEACEFUL = _stories(st.one_of(FAULTS, ACTS)), _stories(ACTS)


class Teller:
    """Makes the steps of a story happen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cluster, self.service = world.cluster, world.cluster.service
        self.faults, self.memory = world.faults, world.memory

    async def tell(self, step: Step) -> None:
        """Let it happen, and the time pass. Where there is nothing to do it to, it does not."""
        act = getattr(self, "do_" + step.what.lower().replace(" ", "_"))
        done = act(step)
        if asyncio.iscoroutine(done):
            await done
        self.world.earlier.append(self.memory.copy())
        await self.world.elapse(step.then)

    def _node(self, step: Step) -> Node | None:
        """One that runs: with the flag, one that leads if there is one."""
        nodes = (step.flag and self.world.nodes(leading=True)) or self.world.nodes()
        return nodes[step.pick % len(nodes)] if nodes else None

    def _job(self, step: Step) -> str:
        return self.world.jobs[step.pick % len(self.world.jobs)].name

    # -------------------------------------------------------------------------------------------- what goes wrong

    async def do_kill(self, step: Step) -> None:
        if (node := self._node(step)) is not None:
            await self.world.kill(node)

    def do_sigstop(self, step: Step) -> None:
        if (node := self._node(step)) is not None:
            loop, name = self.world.loop, node_name(node.id)
            loop.stop_node(name)
            self.world.later(step.seconds, lambda: loop.continue_node(name), f"{name} stopped")

    def do_fail_before(self, step: Step) -> None:
        self.faults.fail_before(step.name, step.count)
        self.world.fault(f"{step.name} fails before x{step.count}", 10.0)

    def do_fail_after(self, step: Step) -> None:
        self.faults.fail_after(step.name, step.count)
        self.world.fault(f"{step.name} fails after x{step.count}", 10.0)

    def do_hang_before(self, step: Step) -> None:
        self._hang(step.name, step.seconds, acted=False)

    def do_hang_after(self, step: Step) -> None:
        self._hang(step.name, step.seconds, acted=True)

    def _hang(self, verb: str, seconds: float, *, acted: bool) -> None:
        self.faults.stall(verb, acted=acted)
        self.world.later(seconds, lambda: self._release(verb, acted), f"{verb} hangs, acted={acted}")

    def _release(self, verb: str, acted: bool) -> None:
        stall = self.faults._stalls.pop((verb, acted), None)
        if stall is not None:
            stall.release()

    async def do_kill_in(self, step: Step) -> None:
        """Between two steps of the protocol: the leader hangs in this call, and never comes back from it."""
        stall = self.faults.stall(step.name, acted=step.flag)
        for _ in range(8):
            if stall.reached.is_set():
                break
            await self.world.elapse(0.5)
        for node in list(self.world.nodes(leading=True)):
            await self.world.kill(node)
        self._release(step.name, step.flag)
        self.world.fault(f"{step.name} hung, acted={step.flag}")

    def do_server_away(self, step: Step) -> None:
        self.faults.fail_before(step.name, 10**9)
        self.world.later(step.seconds, lambda: self.faults._before.pop(step.name, None), f"{step.name} away")

    def do_cut_off(self, step: Step) -> None:
        if (node := self._node(step)) is not None:
            name = node_name(node.id)
            cut = {(name, service) for service in SERVERS[step.count]}
            self.world.cut |= cut
            what = f"{name} cut from {' and '.join(SERVERS[step.count])}"
            self.world.later(step.seconds, lambda: self.world.cut.difference_update(cut), what)

    def do_flush_redis(self, _: Step) -> None:
        self.memory.flush()
        self.world.fault("Redis flushed")

    def do_roll_redis_back(self, step: Step) -> None:
        self.memory.restore(self.world.earlier[-min(step.count, len(self.world.earlier))])
        self.world.fault(f"Redis rolled back {step.count} steps")

    async def _lists(self) -> list[str]:
        """The nodes whose lists have items. For a moment nobody takes, so that there are some."""
        self.faults.stall("queue.take")
        for _ in range(5):
            if full := [node for node, items in self.memory.lists.items() if items]:
                break
            await self.world.elapse(0.5)
        self._release("queue.take", acted=False)
        return full

    async def do_lose_an_item(self, step: Step) -> None:
        if lists := await self._lists():
            _, item = self.memory.lists[lists[step.pick % len(lists)]].pop()
            self.world.fault(f"item {item.run} lost")

    async def do_double_an_item(self, step: Step) -> None:
        lists = await self._lists()
        if lists and self.memory.reports:
            item = self.memory.lists[lists[step.pick % len(lists)]][-1]
            nodes = sorted(self.memory.reports)
            self.memory.lists.setdefault(nodes[step.pick % len(nodes)], []).append(item)
            self.world.fault(f"item {item[1].run} doubled", 5.0)

    def do_step_a_clock(self, step: Step) -> None:
        if (node := self._node(step)) is not None:
            self.world.step_clock(node_name(node.id), step.seconds * SECOND)
            self.world.fault(f"the clock of {node.id} is off by {step.seconds:g} s")

    def do_step_all_clocks(self, step: Step) -> None:
        self.world.fault(f"all clocks step by {step.seconds:g} s", step.seconds)
        self.cluster.clock.step(step.seconds * SECOND)

    def do_lose_signals(self, step: Step) -> None:
        self.memory.notify = lambda _: None  # type: ignore[assignment,method-assign]
        self.world.later(step.seconds, lambda: vars(self.memory).pop("notify", None), "signals lost")

    def do_lose_the_api(self, _: Step) -> None:
        """That of the API, with all that people do there."""
        for task in self.world.people:
            task.cancel()

    # ----------------------------------------------------------------------------------------------- what people do

    async def do_race(self, step: Step) -> None:
        """Somebody changes a job or a run while a node is between two calls."""
        acts = (self.do_edit, self.do_pause, self.do_resume, self.do_delete, self.do_create, self.do_cancel)
        stall = self.faults.stall(step.name, acted=step.flag)
        for _ in range(8):
            if stall.reached.is_set():
                break
            await self.world.elapse(0.5)
        acts[step.count % len(acts)](step)
        await self.world.elapse(0.5)
        self._release(step.name, step.flag)
        self.world.fault(f"{step.name} raced, acted={step.flag}")

    def do_edit(self, step: Step) -> None:
        name = self._job(step)
        self.world.edit(lambda by: self.service.jobs.apply([edited(name, step.count)], by=by), name)

    def do_create(self, step: Step) -> None:
        name = self._job(step)
        self.world.edit(lambda by: self.service.jobs.apply([JOBS[name]], by=by), name)

    def do_pause(self, step: Step) -> None:
        name = self._job(step)
        self.world.edit(lambda by: self.service.jobs.pause(name, by=by), name)

    def do_resume(self, step: Step) -> None:
        name = self._job(step)
        self.world.edit(lambda by: self.service.jobs.resume(name, by=by), name)

    def do_delete(self, step: Step) -> None:
        name = self._job(step)
        self.world.edit(lambda by: self.service.jobs.delete(name, by=by), name)

    def do_trigger(self, step: Step) -> None:
        self.world.person(self.service.jobs.trigger(self._job(step)))

    def do_cancel(self, step: Step) -> None:
        """The newest open run, or one of the next."""
        found = [run for run in reversed(self.cluster.runs) if run.is_open]
        if found:
            self.world.person(
                self.service.runs.cancel(found[step.pick % len(found)].id),
                lambda run: self.world.cancels.append(CancelAck(run.id, run.fence, self.world.now)),
            )

    def do_replay(self, step: Step) -> None:
        found = [run for run in reversed(self.cluster.runs) if not run.is_open]
        if found:
            run = found[step.pick % len(found)].id
            self.world.person(self.service.runs.replay(run, followers=step.pick % 2 == 0))

    def do_backfill(self, step: Step) -> None:
        """Of the latest instants."""
        job = JOBS[self._job(step)]
        if job.schedule is not None and job.name not in LONG:
            last = self.world.now
            first = last - step.count * (60 if job.name == "past" else 4) * SECOND
            rate = parse_rate(step.name) if step.name else None
            self.world.person(self.service.backfills.request(job.name, first, last, BackfillScope.ALL, rate))

    def do_cancel_backfill(self, step: Step) -> None:
        found = list(self.cluster.backends.documents.backfills)
        if found:
            self.world.person(self.service.backfills.cancel(found[step.pick % len(found)]))

    def do_drain(self, step: Step) -> None:
        name = self.world.names[step.pick % len(self.world.names)]
        until = self.world.now + step.seconds * SECOND if step.seconds else None
        ends = self.world.asked_to_end[name]

        def acknowledged(_: object) -> None:
            if self.world.asked_to_end[name] == ends:
                self.world.drains.setdefault(name, self.world.now)

        self.world.person(self.service.cluster.drain(name, until=until), acknowledged)

    def do_undrain(self, step: Step) -> None:
        name = self.world.names[step.pick % len(self.world.names)]
        self.world.end_drain(name)
        self.world.asked_to_end[name] += 1
        self.world.person(self.service.cluster.undrain(name))

    def do_stop_gracefully(self, step: Step) -> None:
        if (node := self._node(step)) is not None:
            node.stop()

    def do_step_down(self, _: Step) -> None:
        self.world.person(self.service.cluster.stepdown())

    def do_begin_maintenance(self, step: Step) -> None:
        until = self.world.now + step.seconds * SECOND if step.seconds else None
        ends = self.world.asked_to_end[MAINTENANCE]

        def acknowledged(mode: MaintenanceMode) -> None:
            self.world.end_maintenance()
            # Somebody may have ended it before this answer came.
            if self.world.asked_to_end[MAINTENANCE] == ends:
                self.world.in_maintenance, self.world.maintenance_until = self.world.now, mode.until

        self.world.person(self.service.cluster.begin_maintenance(until=until), acknowledged)

    def do_end_maintenance(self, _: Step) -> None:
        self.world.end_maintenance()
        self.world.asked_to_end[MAINTENANCE] += 1
        self.world.person(self.service.cluster.end_maintenance())

    def do_accept_more(self, step: Step) -> None:
        """A node announces that it accepts more runs than it has slots."""
        if (node := self._node(step)) is not None:
            self.memory.ahead[node.id] = (step.count, self.cluster.clock.monotonic() + 30)


async def _told(story: Story, spools: Path) -> History:
    """Tell the story, heal, and return the history."""
    async with a_world(
        with_upstream(story.jobs),
        spools,
        nodes=story.nodes,
        slots=story.slots,
        look_ahead=story.look_ahead,
        ahead=story.ahead,
        seed=story.seed,
    ) as world:
        teller = Teller(world)
        for step in story.steps:
            await teller.tell(step)
        return await world.heal()


def told(story: Story, spools: Path, *, log: bool = False) -> History:
    """The history of the story, always the same one: what nodes choose at random follows from the story's seed. The
    logs of hundreds of lives are not worth their time.
    """
    rng = random.Random(story.seed)
    with (
        TemporaryDirectory(dir=spools) as folder,
        mock.patch.object(secrets, "token_hex", lambda length=16: rng.randbytes(length).hex()),
        mock.patch.object(asyncio, "to_thread", inline),
        contextlib.nullcontext() if log else quiet(),
        asyncio.Runner(loop_factory=StoppableLoop) as runner,
    ):
        random.seed(story.seed)
        return runner.run(_told(story, Path(folder)))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without logs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        yield
    finally:
        structlog.reset_defaults()


def report(story: Story, history: History) -> str:
    """What broke, when what went wrong, and how to see it again."""
    start = history.steps[0].at if history.steps else history.healed
    faults = "\n".join(
        f"  {(fault.since - start).total_seconds():7.1f} to {(fault.until - start).total_seconds():.1f} s  {fault.what}"
        for fault in sorted(history.faults, key=lambda fault: fault.since)
    )
    found = "\n".join(f"  {violation}" for violation in check(history))
    times = f"from {start:%T.%f}, healed at {history.healed:%T.%f}"
    again = f'PYTHONHASHSEED=0 .venv/bin/python -m tests.node.simulation "{story!r}"'
    return f"\n{found or '  no rule is broken'}\nfaults, {times}:\n{faults}\nto tell this story again:\n{again}"

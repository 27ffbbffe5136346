"""OAuth 2.1 with MCP servers: the login of a person, and the tokens on every request (SPEC P6, S5).

The SDK does the login: discovery, registration, PKCE, the checks of issuer and resource. Every request of it passes the
network guard, and our own checks here. It is loaded with the first server at an address.
"""

import asyncio
import logging
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from msgspec.structs import replace
from pydantic import AnyUrl, BaseModel, ValidationError

from handspan.core.values import JsonObject, strip_invisible
from handspan.net.guard import NetGuard
from handspan.sources.mcp.login_files import LoginFailed, Redirected, StoredLogin

_LARGEST: Final = 256 * 1024
"""Bytes of an answer about a login."""
_SECONDS: Final = 20.0
"""For one silence of a server of logins."""
_EARLY: Final = 60.0
"""Seconds before its end at which a token is refreshed; a shorter token: at half of its time."""
_PING: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

# The SDK logs what servers of logins answer, and that may hold a token (SPEC S5). Our errors say what went wrong.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

ShowAddress = Callable[[str, str], Awaitable[Redirected]]
"""Gets the address that a person opens and the `state` in it. Returns what came back to us."""
SaveLogin = Callable[[StoredLogin | None], Awaitable[None]]
"""Stores the login of one server; None: forgets it."""


class LoginAuth(httpx2.Auth):
    """Sends the access token of a login with each request, and refreshes it in time."""

    def __init__(self, url: str, login: StoredLogin | None, save: SaveLogin) -> None:
        self.is_refused = False
        """Whether the server wants a login that we do not have."""
        self.problem = ""
        """Why the token can't be refreshed now, though a new login may not be needed."""
        self._url = url
        self._login = login
        self._save = save
        self._refreshing = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token. A token that is refused before its end is refreshed once."""
        if self._is_stale():
            async with self._refreshing:
                if self._is_stale():
                    await self._take((yield self._refresh()))
        token = self._add_token(request)
        response = yield request
        if response.status_code == 401 and token:
            async with self._refreshing:
                if self._token() == token and self._can_refresh():
                    await self._take((yield self._refresh()))
            if self._token() not in ("", token):
                self._add_token(request)
                response = yield request
        self.is_refused = response.status_code == 401 and not self.problem

    def _token(self) -> str:
        tokens = self._login and self._login.tokens
        return str(tokens["access_token"]) if tokens else ""

    def _add_token(self, request: httpx2.Request) -> str:
        token = self._token()
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return token

    def _can_refresh(self) -> bool:
        return bool(self._login and self._login.tokens and self._login.tokens.get("refresh_token"))

    def _is_stale(self) -> bool:
        login = self._login
        return (
            login is not None
            and login.refresh_at is not None
            and login.refresh_at <= time.time()
            and (self._can_refresh())
        )

    def _refresh(self) -> httpx2.Request:
        login = self._login
        assert login is not None and login.tokens is not None  # `_can_refresh`
        data = {"grant_type": "refresh_token", "refresh_token": str(login.tokens["refresh_token"])}
        if login.resource:
            data["resource"] = login.resource
        headers = _authenticate(login.client, data)
        return _checked(httpx2.Request("POST", login.token_address, data=data, headers=headers), self._url)

    async def _take(self, response: httpx2.Response) -> None:
        """Keep the new tokens. A refusal ends the login with its registration; every other failure is temporary."""
        assert self._login is not None and self._login.tokens is not None
        tokens, self.problem = self._login.tokens, ""
        if response.status_code in (400, 401):
            self._login = None
            await self._save(None)
            return
        fresh = await _read_tokens(response)
        if fresh is None:
            self.problem = f"its login can't be refreshed now: HTTP {response.status_code} from {response.url.host!r}"
            return
        kept = {key: value for key, value in tokens.items() if key in ("refresh_token", "scope")}
        self._login = _with_tokens(self._login, kept, fresh)
        await self._save(self._login)


async def _read_tokens(response: httpx2.Response) -> OAuthToken | None:
    if response.status_code != 200:
        return None
    response.stream = _Bounded(response)
    try:
        return OAuthToken.model_validate_json(await response.aread())
    except ValidationError:
        return None


def _authenticate(client: JsonObject, data: dict[str, str]) -> dict[str, str]:
    """Add our registration to a request for tokens, in the way that it was made for. Return the headers."""
    name, secret = str(client["client_id"]), client.get("client_secret")
    headers = {"Accept": "application/json"}
    match client.get("token_endpoint_auth_method"):
        case "client_secret_basic" if secret:
            pair = f"{quote(name, safe='')}:{quote(str(secret), safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        case "client_secret_post" if secret:
            data["client_secret"] = str(secret)
    data["client_id"] = name
    return headers


async def log_in(
    url: str, guard: NetGuard, redirect: str, known: StoredLogin | None, show: ShowAddress, save: SaveLogin
) -> StoredLogin:
    """Let a person log in at this server, and return the login. Raises `LoginFailed` when that can't be done.

    `save` gets the registration as soon as it is made, so that the next try needs no other one.
    """
    flow = _Flow(url, redirect, known, show, save)
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION}
    try:
        async with (
            guard.trust(url).client(auth=_CheckedFlow(flow.provider, url), timeout=_SECONDS) as http,
            http.stream("POST", url, json=_PING, headers=headers) as response,
        ):
            return flow.login(response.status_code)
    except (OAuthFlowError, httpx2.HTTPError, ValidationError) as error:
        raise LoginFailed(_describe(error)) from error


class _Flow:
    """One login: the provider of the SDK, and the TokenStorage that it uses."""

    def __init__(self, url: str, redirect: str, known: StoredLogin | None, show: ShowAddress, save: SaveLogin) -> None:
        is_web = redirect.startswith("https://")
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect)], client_name="Handspan", application_type="web" if is_web else "native"
        )
        self.provider = OAuthClientProvider(url, metadata, self, self._show, self._wait)
        self._url = url
        self._redirect = redirect
        self._known = known
        self._show_address = show
        self._save = save
        self._tokens: OAuthToken | None = None
        self._came_back: Redirected | None = None

    def login(self, status: int) -> StoredLogin:
        """Return the login, after the flow. `status` is the server's last answer."""
        if self._tokens is None:
            if status < 400:
                raise LoginFailed("it needs no login")
            raise LoginFailed(f"it does not ask for a login, but answers with HTTP {status}")
        return _with_tokens(self._stored(), {}, self._tokens)

    def _stored(self) -> StoredLogin:
        context = self.provider.context
        if context.client_info is None or context.oauth_metadata is None:  # without it, its issuer can't be checked
            raise LoginFailed("it does not say where to log in: it has no metadata of OAuth")
        has_resource = context.should_include_resource_param(LATEST_HANDSHAKE_VERSION)
        resource = context.get_resource_url() if has_resource else ""
        return StoredLogin(self._url, _dump(context.client_info), str(context.oauth_metadata.token_endpoint), resource)

    async def _show(self, address: str) -> None:
        parts = urlsplit(address)
        states = parse_qs(parts.query).get("state", [])
        if len(states) != 1 or parts.fragment or parts.username is not None:
            raise LoginFailed("the address of its login page can't be used")
        _check_address(address, self._url)
        self._came_back = await self._show_address(address, states[0])

    async def _wait(self) -> AuthorizationCodeResult:
        assert self._came_back is not None  # `_show` comes first
        came = self._came_back
        return AuthorizationCodeResult(code=came.code, state=came.state, iss=came.iss)

    # The SDK's TokenStorage.

    async def get_tokens(self) -> OAuthToken | None:
        """Return None: a login begins without a token."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the tokens of this login."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our registration, if it is for the address to which this login returns."""
        if self._known is None:
            return None
        client = OAuthClientInformationFull.model_validate(self._known.client)
        return client if self._redirect in map(str, client.redirect_uris or ()) else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store our registration, unless the one that is stored still has its tokens."""
        if self._known is None or self._known.tokens is None:
            await self._save(self._stored())


class _CheckedFlow(httpx2.Auth):
    """The SDK's flow, with a limit on the size and time of each answer, and https for every other host."""

    def __init__(self, provider: OAuthClientProvider, url: str) -> None:
        self._provider = provider
        self._url = url

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Pass requests and answers on."""
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing if outgoing is request else _checked(outgoing, self._url)
                response.stream = _Bounded(response)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, refused when it is too large."""

    def __init__(self, response: httpx2.Response) -> None:
        self._host = response.url.host
        self._is_packed = response.headers.get("content-encoding", "identity") != "identity"
        self._body = response.stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _LARGEST
        assert isinstance(self._body, httpx2.AsyncByteStream)  # an async client has no other
        async for piece in self._body:
            left -= len(piece)
            if left < 0 or self._is_packed:  # we ask for plain bytes: packed ones could grow without a limit
                raise LoginFailed(f"the answer of {self._host!r} about its login is too large, or compressed")
            yield piece

    async def aclose(self) -> None:
        """End the body."""
        assert isinstance(self._body, httpx2.AsyncByteStream)
        await self._body.aclose()


def _checked(request: httpx2.Request, server: str) -> httpx2.Request:
    """Return this request of a login, with a time limit. Raises `LoginFailed` if it would show a secret on its way."""
    _check_address(str(request.url), server)
    request.headers["Accept-Encoding"] = "identity"
    request.extensions["timeout"] = httpx2.Timeout(_SECONDS).as_dict()
    return request


def _check_address(address: str, server: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == urlsplit(server).hostname):
        raise LoginFailed(f"its login is at {parts.hostname!r} without https")


def _with_tokens(login: StoredLogin, kept: Mapping[str, Any], fresh: OAuthToken) -> StoredLogin:
    lasts = fresh.expires_in
    refresh_at = None if lasts is None else time.time() + max(lasts - _EARLY, lasts / 2)
    return replace(login, tokens={**kept, **_dump(fresh)}, refresh_at=refresh_at)


def _dump(model: BaseModel) -> JsonObject:
    return model.model_dump(mode="json", exclude_none=True)


def _describe(error: Exception) -> str:
    """Return in one line why a login failed. What a token endpoint said stays out of it."""
    text = str(error)
    if isinstance(error, OAuthTokenError):
        text = text.partition(":")[0]
    if isinstance(error, ValidationError):
        text = "its answer about the login breaks the protocol"
    return strip_invisible(text.partition("\n")[0])[:300] or type(error).__name__

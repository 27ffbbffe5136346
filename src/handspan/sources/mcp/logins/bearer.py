"""The tokens of a login on every request to an MCP server, refreshed before they end (SPEC S6).

What holds for every request and answer of a login stands here, too: https, a time limit, a largest size.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from mcp.shared.auth import OAuthToken
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from handspan.core.values import JsonObject
from handspan.sources.mcp.http_limits import PLAIN_BYTES, BoundedBody
from handspan.sources.mcp.logins.files import StoredLogin
from handspan.sources.mcp.logins.login import LoginFailed

_EARLY: Final = 60.0
"""Seconds before its end at which a token is refreshed. A token of less than twice that: at half of its time."""
_LARGEST: Final = 256 * 1024
"""Bytes of an answer about a login."""
SILENCE_SECONDS: Final = 20.0
"""How long a server of logins may be silent."""
SaveLogin: TypeAlias = Callable[[StoredLogin | None], Awaitable[None]]
"""Stores the login of one server; None: forgets it."""


class RequestRefusal:
    """Why the server refused one request."""

    scope = ""
    """The scope that the token lacks; empty: the server named none."""


request_refusal: ContextVar[RequestRefusal | None] = ContextVar("request_refusal", default=None)
"""Where the refusal of a request is noted, for the call that made it."""


class LoginAuth(httpx2.Auth):
    """Sends the access token of a login with each request, and refreshes it in time."""

    def __init__(self, url: str, login: StoredLogin | None, save: SaveLogin) -> None:
        self.is_refused = False
        """Whether the server wants a token that we do not have."""
        self.missing_scope = ""
        """The scope that the server wants for a request outside of calls, and that our token lacks."""
        self.problem = ""
        """Why the token can't be refreshed now; a refused request needs no new login then."""
        self._url = url
        self._login = login
        self._save = save
        self._refreshing = asyncio.Lock()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token. A token that is refused before its end is refreshed once."""
        if self._is_stale():
            async with self._refreshing:
                if self._is_stale():
                    await self._take_tokens((yield self._refresh_request()))
        token = self._add_token(request)
        response = yield request
        if response.status_code == 401 and token:
            async with self._refreshing:
                if self._token() == token and self._can_refresh():
                    await self._take_tokens((yield self._refresh_request()))
            if self._token() not in ("", token):
                self._add_token(request)
                response = yield request
        self._note(response)

    def take(self, login: StoredLogin) -> None:
        """Use this login from now on."""
        self._login = login

    def _note(self, response: httpx2.Response) -> None:
        """Note whether the server refused the request, and why."""
        scope = ""  # the one that the token lacks (RFC 6750)
        if response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope":
            scope = extract_scope_from_www_auth(response) or ""
        if response.status_code == 401:
            self.is_refused = True
        elif scope and (refusal := request_refusal.get()) is not None:
            refusal.scope = scope
        elif scope:
            self.is_refused, self.missing_scope = True, scope
        elif response.status_code < 400:  # after a 401 the SDK tries the older era, whose error says nothing
            self.is_refused = False

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
        refresh_at = None if self._login is None else self._login.refresh_at
        return refresh_at is not None and refresh_at <= time.time() and self._can_refresh()

    def _refresh_request(self) -> httpx2.Request:
        login = self._login
        assert login is not None and login.tokens is not None  # `_can_refresh`
        data = {"grant_type": "refresh_token", "refresh_token": str(login.tokens["refresh_token"])}
        if login.resource:
            data["resource"] = login.resource
        headers = _authenticate(login.client, data)
        return check_request(httpx2.Request("POST", login.token_address, data=data, headers=headers), self._url)

    async def _take_tokens(self, response: httpx2.Response) -> None:
        """Keep the new tokens. A refusal ends the login with its registration; every other failure is temporary."""
        assert self._login is not None and self._login.tokens is not None
        tokens, self.problem = self._login.tokens, ""
        if response.status_code in (400, 401):
            self._login = None
            await self._save(None)
            return
        fresh: OAuthToken | None = None
        if response.status_code == 200:
            response.stream = bound_body(response)
            with suppress(ValidationError):
                fresh = OAuthToken.model_validate_json(await response.aread())
        if fresh is None:
            self.problem = f"its login can't be refreshed now: HTTP {response.status_code} from {response.url.host!r}"
            return
        kept = {key: value for key, value in tokens.items() if key in ("refresh_token", "scope")}
        self._login = with_tokens(self._login, kept, fresh)
        await self._save(self._login)


def bound_body(response: httpx2.Response) -> BoundedBody:
    """Return the body of this answer. Reading it raises `LoginFailed` when it is too large, or compressed."""
    text = f"the answer of {response.url.host!r} about its login is too large, or compressed"
    return BoundedBody(response, _LARGEST, LoginFailed(text))


def check_request(request: httpx2.Request, server: str) -> httpx2.Request:
    """Return this request of a login, with a time limit. Raises `LoginFailed` as `check_address` does."""
    check_address(str(request.url), server)
    request.headers.update(PLAIN_BYTES)
    request.extensions["timeout"] = httpx2.Timeout(SILENCE_SECONDS).as_dict()
    return request


def check_address(address: str, server: str) -> None:
    """Raise `LoginFailed` if this address has no https, which hides secrets, unless it is on the host of the server."""
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == urlsplit(server).hostname):
        raise LoginFailed(f"its login is at {parts.hostname!r} without https")


def _authenticate(client: JsonObject, data: dict[str, str]) -> dict[str, str]:
    """Add our client to the data of a request for tokens, by the method that was registered. Return the headers."""
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


def with_tokens(login: StoredLogin, kept: Mapping[str, Any], fresh: OAuthToken) -> StoredLogin:
    """Return the login with these tokens, and what is kept of the old ones."""
    lasts = fresh.expires_in
    refresh_at = None if lasts is None else time.time() + max(lasts - _EARLY, lasts / 2)
    return replace(login, tokens={**kept, **dump_model(fresh)}, refresh_at=refresh_at)


def dump_model(model: BaseModel) -> JsonObject:
    """Return a model of the SDK as JSON."""
    return model.model_dump(mode="json", exclude_none=True)

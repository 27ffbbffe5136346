"""The login of a person at an MCP server with OAuth 2.1 (SPEC P6, S5).

The SDK does the login: discovery, registration, PKCE, the checks of issuer and resource. Every request of a login
passes the network guard and the checks of this module, which is loaded with the first server at an address.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import (
    extract_resource_metadata_from_www_auth,
    extract_scope_from_www_auth,
    is_valid_client_metadata_url,
    union_scopes,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import AnyUrl, ValidationError

from handspan.config.tool_settings import McpOauth
from handspan.core.values import strip_invisible
from handspan.net.guard import NetGuard
from handspan.sources.mcp.logins.bearer import (
    SILENCE_SECONDS,
    LoginAuth,
    SaveLogin,
    bound_body,
    check_address,
    check_request,
    dump_model,
    with_tokens,
)
from handspan.sources.mcp.logins.files import StoredLogin
from handspan.sources.mcp.logins.login import LoginFailed, Redirected

_PING: Final = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

__all__ = ["LoginAuth", "LoginFlow"]

# The SDK logs what servers of logins answer, and that may hold a token (SPEC S5). Our errors say what went wrong.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)

ShowAddress: TypeAlias = Callable[[str, str], Awaitable[Redirected]]
"""Gets the address that a person opens and the `state` in it. Returns what came back to us."""


class LoginFlow(httpx2.Auth):
    """One login of a person at a server. It checks each request of the SDK's provider, and is its TokenStorage."""

    def __init__(
        self,
        url: str,
        redirect: str,
        client: McpOauth,
        known: StoredLogin | None,
        *,
        show: ShowAddress,
        save: SaveLogin,
        scope: str,
    ) -> None:
        """`save` gets the registration as soon as it is made, so that the next try needs no new one.

        `client` is a registration that was made by hand. `scope`: what the tokens need beside the scope of `known`.
        """
        document = client.client_metadata_url or None
        if document is not None and not is_valid_client_metadata_url(document):
            raise LoginFailed("oauth.client_metadata_url in its settings has to be an https address with a path")
        is_web = redirect.startswith("https://")
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect)], client_name="Handspan", application_type="web" if is_web else "native"
        )
        self._provider = OAuthClientProvider(url, metadata, self, self._show, self._wait, document)
        granted = str((known and known.tokens and known.tokens.get("scope")) or "")
        self._scope = union_scopes(granted, scope) or "" if scope else ""
        """The whole scope that the tokens need; empty: what the server asks for."""
        self._client = client
        self._url = url
        self._redirect = redirect
        self._known = known
        self._show_address = show
        self._save = save
        self._tokens: OAuthToken | None = None
        self._redirected: Redirected | None = None

    async def run(self, guard: NetGuard) -> StoredLogin:
        """Let the person log in, and return the login. Raises `LoginFailed` when that can't be done."""
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": LATEST_HANDSHAKE_VERSION}
        try:
            async with (
                guard.trust(self._url).client(auth=self, timeout=SILENCE_SECONDS) as http,
                http.stream("POST", self._url, json=_PING, headers=headers) as response,
            ):
                return self._login(response.status_code)
        except OAuthRegistrationError as error:
            text = f"register this gateway there by hand, with the address {self._redirect}, and set its id as"
            text = f"it does not register us: {text} oauth.client_id in the settings of the server"
            raise LoginFailed(f"{text} ({_describe(error)})") from error
        except (OAuthFlowError, httpx2.HTTPError, ValidationError) as error:
            raise LoginFailed(_describe(error)) from error

    def _login(self, status: int) -> StoredLogin:
        """Return the login, after the flow. `status` is the server's last answer."""
        if self._tokens is None:
            if status < 400:
                raise LoginFailed("it needs no login")
            raise LoginFailed(f"it does not ask for a login, but answers with HTTP {status}")
        return with_tokens(self._login_without_tokens(), {}, self._tokens)

    def _login_without_tokens(self) -> StoredLogin:
        """Return our registration, and what later requests for tokens need. Raises `LoginFailed` without metadata.

        It is stored before the tokens come, so that a try after one that failed registers nothing anew.
        """
        client, metadata = self._require_metadata()
        context = self._provider.context
        # The SDK decides so for its own requests, by the version that `run` sends.
        has_resource = context.should_include_resource_param(LATEST_HANDSHAKE_VERSION)
        resource = context.get_resource_url() if has_resource else ""
        return StoredLogin(self._url, dump_model(client), str(metadata.token_endpoint), resource)

    def _require_metadata(self) -> tuple[OAuthClientInformationFull, OAuthMetadata]:
        """Return our registration and the server's metadata. Raises `LoginFailed` if one of them is missing."""
        client, metadata = self._provider.context.client_info, self._provider.context.oauth_metadata
        if client is None or metadata is None:  # then the issuer can't be checked
            raise LoginFailed("it does not say where to log in: it has no OAuth metadata")
        return client, metadata

    async def _show(self, address: str) -> None:
        """Send the person to the login page, and wait until the browser comes back."""
        self._require_metadata()  # no person is sent to a page that is only guessed
        self._complete_client()
        parts = urlsplit(address)
        states = parse_qs(parts.query).get("state", [])
        if len(states) != 1 or parts.fragment or parts.username is not None:
            raise LoginFailed("the address of its login page can't be used")
        check_address(address, self._url)
        self._redirected = await self._show_address(address, states[0])

    def _complete_client(self) -> None:
        """Complete a registration that the settings give: add its issuer and how it authenticates.

        Only the server's metadata says both. A registration that the server made has them already.
        """
        context = self._provider.context
        if not self._client.client_id or context.client_info is None or context.oauth_metadata is None:
            return
        known = context.oauth_metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        method = "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"
        more = {
            "token_endpoint_auth_method": method if self._client.client_secret else "none",
            "issuer": str(context.oauth_metadata.issuer),
        }
        context.client_info = context.client_info.model_copy(update=more)

    async def _wait(self) -> AuthorizationCodeResult:
        """Return what the browser brought back, as the SDK wants it."""
        assert self._redirected is not None  # `_show` comes first
        came = self._redirected
        return AuthorizationCodeResult(code=came.code, state=came.state, iss=came.iss)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Pass on the requests of the SDK's flow and the answers to them, with https, and limits of size and time."""
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    check_request(outgoing, self._url)
                    _check_pkce(self._provider.context.oauth_metadata)
                response = yield outgoing
                response.stream = bound_body(response)
                if outgoing is request and response.status_code == 401 and self._scope:
                    _widen(response, self._scope)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    # The SDK's TokenStorage.

    async def get_tokens(self) -> OAuthToken | None:
        """Return None: a login begins without a token."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the tokens of this login."""
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return our registration: that of the settings, or the stored one if its redirect and scope fit; else None."""
        known = None if self._known is None else OAuthClientInformationFull.model_validate(self._known.client)
        if self._client.client_id:
            return OAuthClientInformationFull(
                client_id=self._client.client_id,
                client_secret=self._client.client_secret or None,
                redirect_uris=[AnyUrl(self._redirect)],
                issuer=known.issuer if known is not None and known.client_id == self._client.client_id else None,
            )
        if known is None or self._redirect not in map(str, known.redirect_uris or ()):
            return None
        is_too_narrow = known.scope is not None and not set(self._scope.split()) <= set(known.scope.split())
        return None if is_too_narrow else known

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store our registration, unless the one that is stored still has its tokens.

        Raises `LoginFailed` if the settings have a registration: it is for another server of logins, and its secret
        goes to that server alone.
        """
        if self._client.client_id:
            raise LoginFailed("its login is at another server than before: log out first if you trust that one, too")
        if self._known is None or self._known.tokens is None:
            await self._save(self._login_without_tokens())


def _check_pkce(metadata: OAuthMetadata | None) -> None:
    """Raise `LoginFailed` when the server of logins does not say that it has PKCE with S256.

    MCP's authorization wants clients to refuse then: without it, a code that is stolen on its way gives a token.
    """
    if metadata is not None and "S256" not in (metadata.code_challenge_methods_supported or ()):
        text = "its login does not protect the code on its way to us (PKCE): its metadata lacks"
        raise LoginFailed(f"{text} code_challenge_methods_supported with 'S256'. Ask who runs it to add that")


def _widen(response: httpx2.Response, scope: str) -> None:
    """Add this scope to the scopes that the answer asks for: the SDK logs in with those."""
    metadata = extract_resource_metadata_from_www_auth(response)
    fields = {"resource_metadata": metadata, "scope": union_scopes(extract_scope_from_www_auth(response), scope)}
    given = ", ".join(f'{name}="{value}"' for name, value in fields.items() if value)
    response.headers["WWW-Authenticate"] = f"Bearer {given}"


def _describe(error: Exception) -> str:
    """Return in one line why a login failed. What a token endpoint said stays out of it."""
    text = str(error)
    if isinstance(error, OAuthTokenError):
        text = text.partition(":")[0]
    if isinstance(error, ValidationError):
        text = "its answer about the login breaks the protocol"
    return strip_invisible(text.partition("\n")[0])[:300] or type(error).__name__

"""The scenarios with OAuth: our own login, with a program in place of the browser, and our link to a server."""

import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from handspan.config.tool_settings import McpOauth, UrlPolicy
from handspan.core.calls import new_call_id
from handspan.core.context import ToolContext, no_progress
from handspan.core.principals import OPERATOR
from handspan.net.guard import NetGuard
from handspan.sources.mcp.logins.bearer import LoginAuth
from handspan.sources.mcp.logins.files import StoredLogin
from handspan.sources.mcp.logins.login import Redirected, ScopeMissing
from handspan.sources.mcp.logins.oauth import LoginFlow
from handspan.sources.mcp.sdk import open_http_link
from handspan.store.artifacts import FolderArtifacts

_REDIRECT: Final = AnyUrl("http://localhost:3030/oauth/callback")
_SECONDS: Final = 25.0
_MAX_LOGINS: Final = 3
_METADATA_URL: Final = "https://conformance-test.local/client-metadata.json"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


class MemoryTokens:
    """The tokens and the registration of one client."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._client = client
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class QuickBrowser:
    """Opens the login page. The suite's pages send the browser back at once."""

    def __init__(self) -> None:
        self._came_back: AuthorizationCodeResult

    async def open(self, url: str) -> None:
        """Open the page, and note where it leads."""
        async with httpx2.AsyncClient(timeout=60) as http:
            response = await http.get(url, follow_redirects=False)
        query = parse_qs(urlsplit(response.headers["location"]).query)
        state, issuer = query.get("state", [None]), query.get("iss", [None])
        self._came_back = AuthorizationCodeResult(code=query["code"][0], state=state[0], iss=issuer[0])

    async def come_back(self) -> AuthorizationCodeResult:
        """Return what the page sent."""
        return self._came_back


def _known_client(context: dict[str, Any]) -> OAuthClientInformationFull | None:
    if "client_id" not in context:
        return None
    return OAuthClientInformationFull(
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        redirect_uris=[_REDIRECT],
        token_endpoint_auth_method="client_secret_basic",
        issuer=context.get("issuer"),
    )


def _code_provider(url: str, context: dict[str, Any]) -> httpx2.Auth:
    browser = QuickBrowser()
    metadata = OAuthClientMetadata(redirect_uris=[_REDIRECT], client_name="Handspan")
    storage = MemoryTokens(_known_client(context))
    return OAuthClientProvider(url, metadata, storage, browser.open, browser.come_back, _METADATA_URL)


def _secret_provider(url: str, context: dict[str, Any]) -> httpx2.Auth:
    return ClientCredentialsOAuthProvider(url, MemoryTokens(), context["client_id"], context["client_secret"])


def _key_provider(url: str, context: dict[str, Any]) -> httpx2.Auth:
    name = context["client_id"]
    signing = SignedJWTParameters(
        issuer=name,
        subject=name,
        signing_key=context["private_key_pem"],
        signing_algorithm=context["signing_algorithm"],
    )
    return PrivateKeyJWTOAuthProvider(url, MemoryTokens(), name, signing.create_assertion_provider())


def _issuer(url: str) -> str:
    """Return the first authorization server that this MCP server names."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return str(httpx2.get(address).json()["authorization_servers"][0])


def _enterprise_provider(url: str, context: dict[str, Any]) -> httpx2.Auth:
    async def exchange(audience: str, resource: str) -> str:
        """Return an assertion of the identity provider for the person's own token."""
        data = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": _ID_JAG,
            "audience": audience,
            "resource": resource,
            "subject_token": context["idp_id_token"],
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "client_id": context["idp_client_id"],
        }
        async with httpx2.AsyncClient(timeout=60) as http:
            answer = await http.post(context["idp_token_endpoint"], data=data)
        return str(answer.json()["access_token"])

    return IdentityAssertionOAuthProvider(
        url,
        MemoryTokens(),
        context["client_id"],
        context["client_secret"],
        _issuer(url),
        exchange,
        token_endpoint_auth_method="client_secret_basic",
    )


_PROVIDERS: Final[dict[str, Callable[[str, dict[str, Any]], httpx2.Auth]]] = {
    "auth/2025-03-26-oauth-endpoint-fallback": _code_provider,
    "auth/client-credentials-basic": _secret_provider,
    "auth/client-credentials-jwt": _key_provider,
    "auth/enterprise-managed-authorization": _enterprise_provider,
    "auth/cross-app-access-complete-flow": _enterprise_provider,  # its name in the release 0.1 of the suite
}
"""Logins that the product does not offer: here our link runs with a provider of the SDK."""
BY_SDK: Final = tuple(_PROVIDERS)


async def log_in_and_call(scenario: str, url: str) -> None:
    """Connect with a login, and call each tool of the server twice."""
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    guard = NetGuard(UrlPolicy(allow_private=True))
    if scenario in _PROVIDERS:
        await _call_twice(url, guard, _PROVIDERS[scenario](url, context))
        return
    client = McpOauth(context.get("client_id", ""), context.get("client_secret", ""), _METADATA_URL)
    login: StoredLogin | None = None

    async def widen(missing: ScopeMissing) -> None:
        nonlocal login
        login = await _log_in(url, guard, client, login, missing.scope)
        auth.take(login)

    for _ in range(_MAX_LOGINS):
        auth = LoginAuth(url, login, _forget)
        try:
            return await _call_twice(url, guard, auth, widen)
        except Exception:  # whatever a refused link makes of it
            if not auth.is_refused:
                raise
        login = await _log_in(url, guard, client, login, auth.missing_scope)


async def _log_in(url: str, guard: NetGuard, client: McpOauth, known: StoredLogin | None, scope: str) -> StoredLogin:
    flow = LoginFlow(url, str(_REDIRECT), client, known, show=_show, save=_forget, scope=scope)
    return await flow.run(guard)


async def _show(address: str, state: str) -> Redirected:
    browser = QuickBrowser()
    await browser.open(address)
    came = await browser.come_back()
    return Redirected(came.state or "", came.code, came.iss)


async def _forget(_: StoredLogin | None) -> None:
    """Store nothing: the program ends soon."""


async def _give_up(missing: ScopeMissing) -> None:
    raise missing


async def _call_twice(
    url: str, guard: NetGuard, auth: httpx2.Auth, widen: Callable[[ScopeMissing], Awaitable[None]] = _give_up
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with open_http_link("suite", url, {}, guard, seconds=_SECONDS, auth=auth) as link:
            for _ in range(2):
                for tool in (await link.offer(1000)).tools:
                    try:
                        await link.call(tool.name, {}, _context(Path(folder)))
                    except ScopeMissing as missing:  # as a call of the product: one login, one more try
                        await widen(missing)
                        await link.call(tool.name, {}, _context(Path(folder)))


def _context(folder: Path) -> ToolContext:
    return ToolContext(new_call_id(), OPERATOR, "", None, no_progress, FolderArtifacts(folder), folder)

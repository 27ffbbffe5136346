"""The scenarios with OAuth: our link to a server, with a provider of the SDK that logs in where a browser would."""

import json
import os
import tempfile
from collections.abc import Callable
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

from handspan.config.settings import UrlPolicy
from handspan.core.calls import new_call_id
from handspan.core.context import ToolContext, no_progress
from handspan.core.principals import OPERATOR
from handspan.net.guard import NetGuard
from handspan.sources.mcp.sdk import open_http_link
from handspan.store.artifacts import FolderArtifacts

_REDIRECT: Final = AnyUrl("http://localhost:3030/oauth/callback")
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
        async with httpx2.AsyncClient() as http:
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
        async with httpx2.AsyncClient() as http:
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
    "auth/client-credentials-basic": _secret_provider,
    "auth/client-credentials-jwt": _key_provider,
    "auth/enterprise-managed-authorization": _enterprise_provider,
}


async def log_in_and_call(scenario: str, url: str) -> None:
    """Connect with a login, and call each tool of the server twice."""
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    auth = _PROVIDERS.get(scenario, _code_provider)(url, context)
    guard = NetGuard(UrlPolicy(allow_private=True))
    with tempfile.TemporaryDirectory() as folder:
        async with open_http_link("suite", url, {}, guard, 25.0, auth) as link:
            for _ in range(2):
                for tool in (await link.offer()).tools:
                    await link.call(tool.name, {}, _context(Path(folder)))


def _context(folder: Path) -> ToolContext:
    return ToolContext(new_call_id(), OPERATOR, "", None, no_progress, FolderArtifacts(folder), folder)

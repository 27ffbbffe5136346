"""A real MCP server with its own login page, on loopback: the SDK's server with the SDK's authorization server."""

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class OauthSite:
    """The server, and what it was asked. The person at its login page always agrees."""

    def __init__(self, url: str, *, registers: bool = True) -> None:
        """`registers`: programs can register themselves."""
        self.url = url
        self._registers = registers
        self.mcp_url = f"{url}/mcp"
        self.lasts = 3600
        """Seconds of an access token."""
        self.largest_scope = ["notes", "admin"]
        """What a token can reach, whatever was asked for."""
        self.iss: str | None = None
        """The issuer that the login page names, if it names one."""
        self.answers: dict[str, Any] = {}
        """Answers in place of the true ones, by path."""
        self.log: list[str] = []
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}

    # The SDK's OAuthAuthorizationServerProvider.

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(32)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=self.iss)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refreshes[refresh_token.token]
        return self._issue(client, scopes, self.mcp_url)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        raise NotImplementedError

    def _issue(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(16)}", f"refresh-{secrets.token_urlsafe(16)}"
        name, scopes = client.client_id, [scope for scope in scopes if scope in self.largest_scope]
        ends = int(time.time()) + self.lasts
        self.tokens[access] = AccessToken(
            token=access, client_id=name, scopes=scopes, expires_at=ends, resource=resource
        )
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=name, scopes=scopes)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=self.lasts, scope=" ".join(scopes))

    # The application.

    def app(self) -> ASGIApp:
        server = MCPServer(
            "notes",
            auth_server_provider=self,
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(self.url),
                resource_server_url=AnyHttpUrl(self.mcp_url),
                validate_token_resource=True,
                client_registration_options=ClientRegistrationOptions(
                    enabled=self._registers, valid_scopes=["notes", "admin"], default_scopes=["notes"]
                ),
                required_scopes=["notes"],
            ),
        )

        @server.tool()
        def hello(name: str) -> str:
            """Greet."""
            return f"Hello {name}"

        @server.tool()
        def erase() -> str:
            """Erase all notes. Needs the scope `admin`."""
            return "erased"

        inner = server.streamable_http_app()

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.log.append(f"{scope['method']} {scope['path']}")
                given = self.answers.get(scope["path"])
                if given is not None:
                    await _answer(send, *given)
                    return
                if self._is_refused(dict(scope["headers"])):
                    await _answer(send, 403, b"{}", b'Bearer error="insufficient_scope", scope="admin"')
                    return
            await inner(scope, receive, send)

        return answer

    def _is_refused(self, headers: dict[bytes, bytes]) -> bool:
        """Whether this is a call of `erase` with a token that does not reach so far."""
        token = self.tokens.get(headers.get(b"authorization", b"").decode().removeprefix("Bearer "))
        return headers.get(b"mcp-name") == b"erase" and token is not None and "admin" not in token.scopes


async def _answer(send: Send, status: int, body: bytes, challenge: bytes = b"Bearer") -> None:
    head: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", b"application/json"), (b"www-authenticate", challenge)],
    }
    await send(head)
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def oauth_site(*, registers: bool = True) -> AsyncIterator[OauthSite]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        site = OauthSite(f"http://127.0.0.1:{bound.getsockname()[1]}", registers=registers)
        config = uvicorn.Config(site.app(), lifespan="on", log_config=None, ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            yield site
        finally:
            server.should_exit = True
            await serving

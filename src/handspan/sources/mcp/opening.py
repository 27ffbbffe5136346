"""Opens links to one MCP server: starts its program, or asks its address with the tokens of a login (SPEC C)."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from handspan.config.tool_settings import McpOauth, McpServer
from handspan.core.errors import HandspanError
from handspan.core.late_imports import LATE_IMPORTS, httpx2
from handspan.net.exchange import describe_http_error
from handspan.net.guard import NetGuard
from handspan.sources.mcp.logins.logins import McpLogins
from handspan.sources.mcp.process import Cleaner, ServerLost, ServerProcess

if TYPE_CHECKING:
    from handspan.sources.mcp.sdk import McpLink

_NODE: Final = "install Node.js with npm (`apt-get install npm`, `brew install node`)"
_HOW_TO_INSTALL: Final = {
    "uvx": "install uv, which brings it (`pip install uv`)",
    "uv": "install it (`pip install uv`)",
    "pipx": "install it (`pip install pipx`)",
    "npx": _NODE,
    "npm": _NODE,
    "node": _NODE,
    "bunx": "install bun, which brings it (`npm install --global bun`)",
    "deno": "install it (`npm install --global deno`)",
}
"""For the programs with which most MCP servers are started."""
_UNKNOWN_CERTIFICATE: Final = re.compile(
    r"UnknownIssuer|CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|self.signed certificate|UNABLE_TO_(GET_ISSUER|VERIFY)"
    r"|unable to (get local issuer|verify the first) certificate"
)
"""What programs say that do not know who signed a certificate: those of uv, Python and Node."""
_TRUST_CERTIFICATE: Final = (
    "it does not know who signed a certificate, as behind a company's proxy: name the file of your certificates in its "
    "`env` (`--env SSL_CERT_FILE=/path/to/ca.pem`; for programs of Node NODE_EXTRA_CA_CERTS)"
)
_EXIT_SECONDS: Final = 0.5
"""How long the end of a process may lag behind the end of its output."""


class LinkOpener:
    """Opens links to one server."""

    def __init__(
        self,
        server_name: str,
        server: McpServer,
        guard: NetGuard,
        cleaner: Cleaner,
        secret: Callable[[str], str],
        folder: Path,
        logins: McpLogins,
    ) -> None:
        """`secret` resolves `env:NAME` and `file:PATH`; `folder`: where the server's program runs."""
        self._name = server_name
        self._server = server
        self._guard = guard
        self._cleaner = cleaner
        self._secret = secret
        self._folder = folder
        self._logins = logins

    @property
    def login_url(self) -> str:
        """The address at which a person can log in; empty for a program, and if the settings hold the key."""
        has_key = any(name.lower() == "authorization" for name in self._server.headers)
        return "" if self._server.command or has_key else self._server.url

    @property
    def login_client(self) -> McpOauth:
        """Our OAuth client at the server's login, with the secret itself. Raises `ConfigError` without the secret."""
        client = self._server.oauth
        return replace(client, client_secret=self._secret(client.client_secret)) if client.client_secret else client

    @asynccontextmanager
    async def open(self, ask_for_login: Callable[[], None]) -> AsyncGenerator["McpLink"]:
        """Yield a link, which is open during the block. Raises `ServerLost`, or what the link raises.

        `ask_for_login` is called when the server refuses us without a login.
        """
        server = self._server
        if server.command:
            async with self._process() as process:
                sdk = await load_sdk()
                async with sdk.open_process_link(self._name, process, server.start_timeout) as link:
                    yield link
        elif server.url:
            async with self._http_link(ask_for_login) as link:
                yield link
        else:
            raise ServerLost("it has neither `command` nor `url` in the settings")

    @asynccontextmanager
    async def _http_link(self, ask_for_login: Callable[[], None]) -> AsyncGenerator["McpLink"]:
        """Open a link to an address, with the tokens of a login."""
        server, sdk, url = self._server, await load_sdk(), self.login_url
        auth = await self._logins.make_auth(self._name, url, self.login_client) if url else None
        headers = self._resolve(server.headers)
        try:
            async with sdk.open_http_link(
                self._name, server.url, headers, self._guard, seconds=server.start_timeout, auth=auth
            ) as link:
                yield link
        except Exception as error:
            if auth is None or not auth.is_refused:
                raise
            if auth.problem:
                raise ServerLost(auth.problem) from error
            self._logins.add_scope(self._name, auth.missing_scope)
            ask_for_login()
            raise ServerLost(f"needs a login: handspan mcp login {self._name}") from error

    @asynccontextmanager
    async def _process(self) -> AsyncGenerator[ServerProcess]:
        """Yield the server's process, which runs during the block."""
        server = self._server
        try:
            program, env = [server.command, *server.args], self._resolve(server.env)
            process = await ServerProcess.start(self._name, program, env, self._cleaner, folder=self._folder)
        except FileNotFoundError:  # not every event loop says which file
            how = _HOW_TO_INSTALL.get(server.command, "install it")
            remedy = f"{how}, or give its full path in `command`"
            where = "" if os.sep in server.command else " on the gateway's PATH"
            raise ServerLost(f"there is no program {server.command!r}{where}: {remedy}") from None
        try:
            yield process
        except Exception as error:
            if process.fault or await process.ends_within(_EXIT_SECONDS):  # the true reason, whatever else went wrong
                last = await process.last_lines()
                remedy = f"; {_TRUST_CERTIFICATE}" if _UNKNOWN_CERTIFICATE.search(last) else ""
                raise ServerLost(f"{process.exit_reason}{remedy}", last) from error
            raise
        finally:
            await process.close()

    def _resolve(self, values: Mapping[str, str]) -> dict[str, str]:
        return {key: self._secret(value) for key, value in values.items()}


async def load_sdk() -> Any:
    """Return our module that uses the SDK. A thread loads it: it would block the event loop for most of a second."""

    def load() -> Any:
        with LATE_IMPORTS:
            from handspan.sources.mcp import sdk  # noqa: PLC0415 - a heavy library, loaded with the first server

        return sdk

    return await asyncio.to_thread(load)


def describe_failure(error: BaseException) -> str:
    """Return in one line why a server can't be used."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case TimeoutError():
            return "it did not answer in time"
        case HandspanError():
            return str(error)
        case httpx2.RequestError():
            return describe_http_error(error)
        case OSError(strerror=str(why)):
            return f"the operating system refuses it: {why}"
    # The name of a class says nothing to a person, unless there is nothing else.
    return f"it failed: {str(error).partition(chr(10))[0] or type(error).__name__}"

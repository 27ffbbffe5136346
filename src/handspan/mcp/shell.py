"""Serves tools to MCP clients: over standard input and output, or as an ASGI application (SPEC C3)."""

from collections.abc import Sequence
from types import ModuleType
from typing import Final

from handspan.core.errors import DefinitionError
from handspan.core.late_imports import LATE_IMPORTS
from handspan.core.version import VERSION
from handspan.mcp.asgi import AsgiApp
from handspan.mcp.offer import McpOffer, ProviderOffer
from handspan.mcp.provider import CompositeToolProvider, ToolProvider

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


class McpServerShell:
    """An MCP server around providers.

        shell = McpServerShell("weather")
        shell.register_provider(WeatherTools())
        asyncio.run(shell.serve_stdio())

    Tools are called `{namespace}__{tool}`. A provider without a namespace must be the only one; its names stay as they
    are.
    """

    def __init__(self, name: str = "handspan", version: str = VERSION, instructions: str = "") -> None:
        self.name = name
        self.version = version
        self.instructions = instructions
        self._composite = CompositeToolProvider()
        self._only: ToolProvider | None = None
        """The provider without a namespace, if there is one."""
        self._has_namespaces = False

    def register_provider(self, provider: ToolProvider) -> None:
        """Offer the tools of this provider. Raises `DefinitionError` when its namespace can't be used."""
        if self._only is not None or (self._has_namespaces and not provider.namespace()):
            raise DefinitionError("A provider without a namespace must be the only one: give each a namespace.")
        if provider.namespace():
            self._composite.add(provider)
            self._has_namespaces = True
        else:
            self._only = provider

    @property
    def offer(self) -> McpOffer:
        """What clients get."""
        return ProviderOffer(self._only or self._composite)

    async def serve_stdio(self) -> None:
        """Serve one client over standard input and output, until it closes them."""
        await _load_protocol().ProtocolServer(self.offer, self.name, self.version, self.instructions).serve_stdio()

    def asgi(self, path: str = "/mcp", hosts: Sequence[str] = LOCAL_HOSTS) -> AsgiApp:
        """Return an ASGI application with the server at this path (streamable HTTP).

        The application needs the lifespan events.
        `hosts` are the names under which clients may reach it, without a port. Requests and pages that name another
        host are refused: a hostile page could make its own name point to this computer.
        """
        protocol = _load_protocol()
        server = protocol.ProtocolServer(self.offer, self.name, self.version, self.instructions)
        application: AsgiApp = protocol.make_asgi(server, path, hosts)
        return application


def _load_protocol() -> ModuleType:
    """Return our module that uses the MCP SDK."""
    with LATE_IMPORTS:
        from handspan.mcp import protocol  # noqa: PLC0415 - a heavy library, loaded when needed

    return protocol

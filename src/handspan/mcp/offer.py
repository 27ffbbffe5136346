"""All that an MCP client may ask of us, in our own words."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.errors import ToolError
from handspan.core.questions import Answer
from handspan.core.results import Attachment, Failure, Success, ToolResult, succeed
from handspan.core.values import Arguments, Json, JsonObject
from handspan.mcp.provider import ProvidedTool, ToolProvider, resolve

Elicit: TypeAlias = Callable[[str, JsonObject], Awaitable[Answer]]
"""Asks the person at the client: a text and the schema of the answer."""
PromptContent: TypeAlias = str | tuple[str | Attachment, ...]
"""A text; or several messages of the person, each a text, an image, a sound or a file."""


class ClientRequest(Struct, frozen=True):
    """One request of a client, as far as an offer needs it."""

    scope: Mapping[str, Any] | None
    """The HTTP request (ASGI), with what the server's own code put into it; None over standard input and output."""
    progress: Callable[[Json], None]
    """Shows the progress of the call to the client. Never blocks."""
    elicit: Elicit | None
    """Asks the person at the client; None: the client can't."""


class ProvidedPrompt(Struct, frozen=True):
    """A prompt: a text that a person chooses, filled with arguments."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


class ProvidedResource(Struct, frozen=True):
    """Data that a client can read."""

    uri: str
    name: str
    media_type: str = ""
    size: int | None = None


class ResourceTemplate(Struct, frozen=True):
    """Many resources: an address with variables in braces (RFC 6570), which the client fills in."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""


class McpOffer(Protocol):
    """What clients get. The offer may differ with the request: by its token, by its address."""

    async def list_tools(self, request: ClientRequest) -> Sequence[ProvidedTool]: ...

    async def call_tool(self, name: str, arguments: Arguments, request: ClientRequest) -> ToolResult: ...

    async def list_prompts(self, request: ClientRequest) -> Sequence[ProvidedPrompt]: ...

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: ClientRequest) -> PromptContent: ...

    async def list_resources(self, request: ClientRequest) -> Sequence[ProvidedResource]: ...

    async def list_templates(self, request: ClientRequest) -> Sequence[ResourceTemplate]: ...

    async def read_resource(self, uri: str, request: ClientRequest) -> Attachment: ...


class ProviderOffer:
    """Implements `McpOffer` with the tools of a provider. There are no prompts and no resources."""

    def __init__(self, provider: ToolProvider) -> None:
        self._provider = provider

    async def list_tools(self, request: ClientRequest) -> Sequence[ProvidedTool]:
        """Return the provider's tools."""
        return await resolve(self._provider.list_tools())

    async def call_tool(self, name: str, arguments: Arguments, request: ClientRequest) -> ToolResult:
        """Run a tool of the provider. Whatever it raises is a failed call, never an error of the protocol."""
        try:
            result = await resolve(self._provider.call_tool(name, arguments))
            return result if isinstance(result, (Success, Failure)) else succeed(result)
        except ToolError as error:
            return Failure(error.code, error.message)
        except (Exception, SystemExit) as error:  # code of the provider: a tool that exits must not end the server
            return Failure("execution_failed", str(error) or type(error).__name__)

    async def list_prompts(self, request: ClientRequest) -> tuple[()]:
        """Return none: a provider has only tools."""
        return ()

    list_resources = list_templates = list_prompts

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: ClientRequest) -> str:
        """Raise `ToolError`: a provider has no prompts."""
        raise ToolError("tool_not_found", f"There is no prompt {name!r}.")

    async def read_resource(self, uri: str, request: ClientRequest) -> Attachment:
        """Raise `ToolError`: a provider has no resources."""
        raise ToolError("file_not_found", f"There is no resource {uri!r}.")

"""A program that one node of several runs, and that all of them use (SPEC K2): what its connection needs for that.

One node has the lease of a server and starts its program. The others have the same tools in their registries, and ask
that node. A gateway without other nodes has every server alone (`OwnServer`).
"""

import asyncio
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.context import ToolContext
from handspan.core.errors import HandspanError
from handspan.core.results import Success
from handspan.core.sources import Broken, SourceStatus
from handspan.core.tool import UNKNOWN_EFFECTS, ToolSpec
from handspan.core.values import Arguments
from handspan.registry.pins import DefinitionChange


class ServedTool(Struct, frozen=True):
    """A tool of a server, as the node that runs the server has it in its registry."""

    own_name: str
    spec: ToolSpec
    has_claims: bool
    """Whether the server says what effects the tool has."""
    change: DefinitionChange | None = None
    """How the tool differs from the definition that a person agreed to."""

    @property
    def definition(self) -> ToolSpec:
        """The spec; without claims, with the object `UNKNOWN_EFFECTS` itself: code checks for it with `is`."""
        return self.spec if self.has_claims else replace(self.spec, annotations=UNKNOWN_EFFECTS)


class ServerSnapshot(Struct, frozen=True):
    """What the node that runs a server tells the other nodes of the server."""

    status: SourceStatus = "opening"
    tools: tuple[ServedTool, ...] = ()
    reason: str = ""
    broken: tuple[Broken, ...] = ()
    internal_only: bool = True
    trusted: bool = False
    is_leaving: bool = False
    """The node stops: it takes no new calls, and gives the server to another node when the running ones have ended."""


class NotRun(HandspanError):
    """The node that was asked has not run this call, and never will: another node may run it."""


class ServerElsewhere(Protocol):
    """A server that another node runs. `changed` is set with each snapshot, `lost` when that node runs it no more."""

    changed: asyncio.Event
    lost: asyncio.Event
    snapshot: ServerSnapshot

    @property
    def id(self) -> str:
        """The id of the lease with which the other node runs the server."""

    async def call(self, own_name: str, arguments: Arguments, ctx: ToolContext) -> Success:
        """Run a tool on the other node. Raises `ToolError` when the tool fails, and `NotRun`."""
        ...


class ServerShare(Protocol):
    """The part that one node has in a server which several nodes use: it runs the server, or asks another node."""

    @property
    def node(self) -> str:
        """The name of the node that runs the server; empty while none does."""

    @property
    def is_held(self) -> bool:
        """Whether this node has the lease, and so runs the server."""

    async def claim(self) -> ServerElsewhere | None:
        """Return the server at the node that runs it; None: this node has the lease, and has to run the server.

        Waits while no node can be asked and this node can't run the server. Raises `ServerLost` after too long a wait.
        """

    async def release(self) -> None:
        """Give the lease up, if this node has it: its program has ended here."""

    async def close(self) -> None:
        """Give the lease up: the server is removed from this node."""

    async def trust(self) -> list[str]:
        """Let the node that runs the server accept its definitions as they are now. Return the names of the tools."""


class OwnServer:
    """Implements `ServerShare` for a server that this node uses alone."""

    node = ""
    is_held = True

    async def claim(self) -> None:
        """Return None: this node has to run the server."""

    async def release(self) -> None:
        """Do nothing: no other node needs the server."""

    close = release

    async def trust(self) -> list[str]:
        """Return no tools: the definitions are those of this node."""
        return []


OWN_SERVER: Final = OwnServer()

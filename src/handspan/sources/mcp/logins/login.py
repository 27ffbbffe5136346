"""One login of a person at an MCP server: what begins it, what comes back, how it ends."""

import asyncio
import time
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from handspan.core.context import ToolContext
from handspan.core.errors import HandspanError, ToolError

if TYPE_CHECKING:
    from handspan.sources.mcp.connection import McpConnection

LOGIN_SECONDS: Final = 600.0
"""How long a login may take. After that its `state` is not valid any more."""


class LoginFailed(HandspanError):
    """A login at an MCP server can't be begun, or did not succeed. The message is a reason, for people."""


class ScopeMissing(ToolError):
    """A server refused a call: the login lacks this scope."""

    def __init__(self, server: str, scope: str, ctx: ToolContext) -> None:
        text = f"The MCP server {server!r} wants a login with the scope {scope!r} for this call."
        super().__init__("permission_denied", f"{text} To log in with it: handspan mcp login {server}")
        self.scope = scope
        self.ctx = ctx


class Redirected(Struct, frozen=True):
    """What a browser brought back from a login page."""

    state: str
    code: str = ""
    iss: str | None = None
    """The issuer that answered, if it says so (RFC 9207)."""
    error: str = ""

    def __repr__(self) -> str:
        """Without the code and the state (SPEC S5)."""
        return f"Redirected(error={self.error!r})"


class McpLogin:
    """A login that has begun. It has an `address` for the person, and ends once."""

    def __init__(self, server: "McpConnection", owner: str, scope: str = "") -> None:
        self.server = server
        self.owner = owner
        self.scope = scope
        """The scope that the tokens need beside what they have now; empty: what the server asks for."""
        self.ends_at = time.monotonic() + LOGIN_SECONDS
        loop = asyncio.get_running_loop()
        self.address: asyncio.Future[str] = loop.create_future()
        """The address of the login page."""
        self.came_back: asyncio.Future[Redirected] = loop.create_future()
        """What the browser brought back from the login page."""
        self.ended: asyncio.Future[str] = loop.create_future()
        """Empty after a success, else the reason."""
        self.task: asyncio.Task[None] | None = None

    @property
    def seconds_left(self) -> float:
        """How long the person may still take."""
        return max(0.0, self.ends_at - time.monotonic())

    def end(self, reason: str) -> None:
        """Note how the login ended: `reason` is empty after a success. Only the first call counts."""
        if not self.ended.done():
            self.ended.set_result(reason)

"""TOOLS OVER MCP, for programs: offer tools of one's own to any MCP client (SPEC C3).

Holds:   `provider.py`: `ToolProvider`, and `CompositeToolProvider`, which joins several under prefixes (read it first);
         `offer.py`: all that a client may ask for; `shell.py`: `McpServerShell`, which serves an offer over standard
         input and output, or over HTTP; `asking_calls.py`: calls that ask the person at the client; `protocol.py`: an
         offer in the words of the SDK; `session_bounds.py`: how many sessions may be open. Only `protocol.py`,
         `answers.py`, `progress.py`, `change_notices.py`, `session_bounds.py` and `fast_calls.py` (plain calls of the
         newer era) import the SDK. `fast_response.py`: the response to a plain call.
         The newer era is MCP from version 2026-07-28 on: each request stands alone. In the older era a client opens a
         session first (`initialize`).
Imports: core.
To add:  another thing that clients can ask for: a method of `McpOffer`, and its function in `protocol.py`.
"""

from handspan.mcp.provider import CompositeToolProvider, ProvidedTool, ToolProvider
from handspan.mcp.shell import McpServerShell

__all__ = ["CompositeToolProvider", "McpServerShell", "ProvidedTool", "ToolProvider"]

"""Handspan gives an AI agent hands, wherever they are.

The words that a tool is written with. Everything else is imported from its room: `handspan.registry`,
`handspan.engine`, `handspan.gateway.app` and so on; ARCHITECTURE.md is the map.
"""

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.function_tool import tool
from handspan.core.results import Attachment, Failure, Pending, Success
from handspan.core.tool import READ_ONLY, Annotations, Handling, ToolSpec
from handspan.core.version import VERSION

__all__ = [
    "READ_ONLY",
    "Annotations",
    "Attachment",
    "Failure",
    "Handling",
    "Pending",
    "Success",
    "ToolContext",
    "ToolError",
    "ToolSpec",
    "tool",
]
__version__ = VERSION

"""Handspan gives an AI agent hands, wherever they are.

The words that a tool is written with, and `Handspan`, an agent with tools inside a program (`docs/embedding.md`).

Public are the names of `__all__` here and in `handspan.client`, `handspan.provider`, `handspan.mcp` and
`handspan.testing`, the protocols, REST and the settings. All other rooms are internal and may change at any time;
ARCHITECTURE.md is their map.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from handspan.core.version import VERSION

if TYPE_CHECKING:
    from handspan.config.load import load_settings
    from handspan.core.agents import Agent
    from handspan.core.context import ToolContext
    from handspan.core.errors import ConfigError, DefinitionError, HandspanError, ToolError
    from handspan.core.function_tool import tool
    from handspan.core.questions import Answer, Question
    from handspan.core.results import Attachment, Failure, Pending, Success
    from handspan.core.tool import READ_ONLY, Annotations, Handling, ToolSpec
    from handspan.front.answers import AgentAnswer, AnswerMismatch, AskFailed, CallMade, SessionBusy, UsageError
    from handspan.front.handspan import Handspan

# Loaded when a program first uses the name: a file with tools does not pay for the agent, a command for neither.
_LATE: Final = {
    "READ_ONLY": "handspan.core.tool",
    "Agent": "handspan.core.agents",
    "AgentAnswer": "handspan.front.answers",
    "Annotations": "handspan.core.tool",
    "Answer": "handspan.core.questions",
    "AnswerMismatch": "handspan.front.answers",
    "AskFailed": "handspan.front.answers",
    "Attachment": "handspan.core.results",
    "CallMade": "handspan.front.answers",
    "ConfigError": "handspan.core.errors",
    "DefinitionError": "handspan.core.errors",
    "Failure": "handspan.core.results",
    "Handling": "handspan.core.tool",
    "Handspan": "handspan.front.handspan",
    "HandspanError": "handspan.core.errors",
    "Pending": "handspan.core.results",
    "Question": "handspan.core.questions",
    "SessionBusy": "handspan.front.answers",
    "Success": "handspan.core.results",
    "ToolContext": "handspan.core.context",
    "ToolError": "handspan.core.errors",
    "ToolSpec": "handspan.core.tool",
    "UsageError": "handspan.front.answers",
    "load_settings": "handspan.config.load",
    "tool": "handspan.core.function_tool",
}

__all__ = [
    "READ_ONLY",
    "Agent",
    "AgentAnswer",
    "Annotations",
    "Answer",
    "AnswerMismatch",
    "AskFailed",
    "Attachment",
    "CallMade",
    "ConfigError",
    "DefinitionError",
    "Failure",
    "Handling",
    "Handspan",
    "HandspanError",
    "Pending",
    "Question",
    "SessionBusy",
    "Success",
    "ToolContext",
    "ToolError",
    "ToolSpec",
    "UsageError",
    "load_settings",
    "tool",
]
__version__ = VERSION


if not TYPE_CHECKING:  # type checkers have the imports above; with this they would take any name for a right one

    def __getattr__(name: str) -> Any:
        """A name of the table `_LATE`, from the module that defines it."""
        if name not in _LATE:
            raise AttributeError(f"module 'handspan' has no attribute {name!r}")
        try:
            module = importlib.import_module(_LATE[name])
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("handspan."):
                raise
            text = f"handspan.{name} is not part of the SDK alone. The whole package has it: pip install handspan"
            raise ImportError(text) from None
        value = globals()[name] = getattr(module, name)
        return value

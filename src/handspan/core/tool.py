"""What a tool is (SPEC T1): a spec that describes it, and `run`."""

import hashlib
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeGuard

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError
from handspan.core.values import Arguments, Json, JsonObject

if TYPE_CHECKING:  # worker processes load this file, but neither of these
    from handspan.core.questions import Questions, ToolQuestion
    from handspan.core.schema import Validator

DEFAULT_TIMEOUT: Final = 30.0
SEARCH_TOOLS: Final = "search_tools"
"""The name of the built-in tool that finds tools which are not sent to the model (SPEC R4)."""

Placement: TypeAlias = Literal["loop", "thread", "process"]
"""Where a tool's code runs: on the event loop, on a worker thread, or in a worker process of its own."""

AnsweredBy: TypeAlias = Literal["tool", "connection", "request", "agent"]
"""Where the outcome of a call comes from: the tool's own code; a client's connection, which may come back; another
request of the client that made the call, which may never come; or the turn of another agent, in its own session."""


class Annotations(Struct, frozen=True):
    """What a tool claims about its effects. All false: it changes things, but destroys none."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    """Whether the tool reaches something outside the gateway, such as the web."""
    serial: bool = False
    """Whether the calls of the tool run one after another (SPEC E3)."""
    group: str | UnsetType = UNSET
    """Names what the tool works on, such as "workspace". Inside one reply of the model, the calls of one group and one
    origin keep their order around each call that is not read-only (SPEC E3)."""

    @property
    def claims_destructive(self) -> bool:
        """Whether the tool itself says that it is destructive; where it says nothing, that is only assumed."""
        return self.destructive and self is not NO_CLAIMS and self is not UNKNOWN_EFFECTS


NO_CLAIMS: Final = Annotations(destructive=True)
"""For a tool of ours or of a program that says nothing of its effects: it may do anything, so careful modes ask. Only
this very object counts; `Annotations()` is a claim."""
READ_ONLY: Final = Annotations(read_only=True, idempotent=True)
READS_WORKSPACE: Final = Annotations(read_only=True, idempotent=True, group="workspace")
"""For built-in tools that only read files of the workspace."""
NO_EFFECTS: Final = Annotations(read_only=True, idempotent=True)
"""For built-in tools that only tell the model what it has: no mode asks before their calls. Only this very object
counts, so no tool from outside can claim it."""
UNKNOWN_EFFECTS: Final = Annotations(destructive=True, open_world=True)
"""The effects that count for a tool from outside without annotations (SPEC P4)."""


class ToolSpec(Struct, frozen=True, dict=True):
    """What a tool is, for the model, the person and the engine."""

    name: str
    description: str
    parameters: JsonObject
    permissions: tuple[str, ...] = ()
    timeout: float | None = DEFAULT_TIMEOUT
    """Seconds; None only by configuration (SPEC E5)."""
    version: str = "1.0.0"
    annotations: Annotations = NO_CLAIMS

    @cached_property
    def fingerprint(self) -> str:
        """The identity of this definition: it changes with everything that a person agreed to (SPEC T5)."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


class Handling(Struct, frozen=True):
    """How the calls of a tool are handled: facts that its source knows and a model does not need."""

    placement: Placement | None = None
    """None: an async `run` runs on the event loop, a plain one on a thread."""
    answered_by: AnsweredBy = "tool"
    suspends: bool = False
    """The tool only makes its calls wait: it touches nothing before the ledger has them as pending."""
    needs_turn: bool = False
    """Only the turn of a conversation may call it, no program by itself: such as one that asks for lasting rights."""
    outlives: bool = False
    """The outcome may still come when this process is gone, because the client can come back (ws.md 6.7 i)."""
    longest: float | UnsetType | None = UNSET
    """Seconds that the engine waits at most, if the tool has its own clock; unset: the timeout of its spec."""
    can_be_stopped: bool = True
    """Whether its work ends when its call is cancelled; False for a client that can't be told so."""
    asks_itself: bool = False
    """Its permissions are asked for where it runs, by the platform's own prompt, not by the gateway (SPEC P2)."""
    questions: "Questions | None" = None
    """What asks for the tool's permissions; None: the gateway's own questions."""
    validator: "Validator | None" = None
    """Its compiled parameters; None: they are compiled at registration."""
    internal: bool = False
    """Hidden from every agent until an active skill names it (SPEC C2)."""
    asks: "Callable[[Arguments], ToolQuestion | None] | None" = None
    """What the person is asked before a call with these arguments, or None; `run` finds the answer in `ctx.answer`.
    Such a call waits for its answer like one that needs approval: also across a restart of the gateway (SPEC P5)."""
    missing: str = ""
    """What the tool needs and does not have, such as a setting: no model sees the tool. Empty: it has all."""
    is_read_only: Callable[[Arguments], bool] | None = None
    """Whether a call with these arguments changes nothing; None: the annotations say it for all calls."""
    result_source: "Callable[[Arguments, Json], str] | None" = None
    """Where the words of a result come from, such as a file or a host: from the arguments and the value, which is None
    for a failure. None: the origin of the tool, if that is outside (SPEC S4)."""


PLAIN_HANDLING: Final = Handling()


class Tool(Protocol):
    """Something with a spec that can be run.

    An async `run` runs on the event loop, a plain one on a worker thread; a `HandledTool` can choose otherwise.
    It returns a JSON value (or a `Success` with attachments, or `Pending`), and raises `ToolError` for a failure
    with a code. Any other exception becomes `execution_failed`.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def run(self, arguments: Arguments, ctx: ToolContext) -> Awaitable[Any] | Any: ...


def is_tool(thing: object) -> TypeGuard[Tool]:
    """Whether this is a tool: an object with a spec that can be run, not a class of such objects."""
    return not isinstance(thing, type) and isinstance(getattr(thing, "spec", None), ToolSpec) and hasattr(thing, "run")


def check_timeout(name: str, timeout: object) -> None:
    """Raise `DefinitionError` when this can't be a tool's timeout."""
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        raise DefinitionError(f"Tool {name!r} is refused: its timeout must be a number of seconds, not {timeout!r}")
    if not timeout > 0:  # this form refuses NaN, too
        raise DefinitionError(f"Tool {name!r} is refused: its timeout must be above 0 seconds, not {timeout!r}")


class HandledTool(Tool, Protocol):
    """A tool that says how its calls are handled. If its source says so, too, the source wins."""

    @property
    def handling(self) -> Handling: ...


def handling_of(tool: Tool | HandledTool) -> Handling:
    """Return how the tool's calls are handled: what a `HandledTool` says, else the plain way."""
    handling: Handling = getattr(tool, "handling", PLAIN_HANDLING)  # to ask `isinstance` of a Protocol takes 0.1 ms
    return handling


# The parameters of a tool whose spec is written by hand


def parameters(*required: str, **properties: Json) -> JsonObject:
    """Return the JSON Schema of a tool that takes these arguments and no others."""
    needed: JsonObject = {"required": [*required]} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def string(description: str, **rules: Json) -> JsonObject:
    """Return the schema of a text. The rules are words of JSON Schema, such as `minLength`."""
    return {"type": "string", **rules, "description": description}


def integer(description: str, **rules: Json) -> JsonObject:
    """Return the schema of a whole number."""
    return {"type": "integer", **rules, "description": description}


def boolean(description: str) -> JsonObject:
    """Return the schema of a choice that is False by default."""
    return {"type": "boolean", "default": False, "description": description}

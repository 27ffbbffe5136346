"""What a tool is (SPEC T1): a spec that says what it does, and one verb that does it."""

import hashlib
from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handspan.core.context import ToolContext
from handspan.core.values import Arguments, JsonObject

if TYPE_CHECKING:  # worker processes load this file, and neither of these
    from handspan.core.questions import Questions
    from handspan.core.schema import Validator

DEFAULT_TIMEOUT: Final = 30.0

Placement: TypeAlias = Literal["loop", "thread", "process"]
"""Where a tool's code runs: on the event loop, on a worker thread, or in a worker process of its own."""

AnsweredBy: TypeAlias = Literal["tool", "connection", "request"]
"""Where the outcome of a call comes from: the tool's own code; a client over its connection, which may come back; or
another request of the client that asked, which may never come."""


class Annotations(Struct, frozen=True):
    """What a tool claims about its effects. All false: changes things, but nothing that hurts."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    serial: bool = False


NO_CLAIMS: Final = Annotations()
READ_ONLY: Final = Annotations(read_only=True, idempotent=True)
UNKNOWN_EFFECTS: Final = Annotations(destructive=True, open_world=True)
"""What counts for a foreign tool that says nothing about itself (SPEC P4)."""


class ToolSpec(Struct, frozen=True, dict=True):
    """What a tool is, for a model, a person and the engine alike."""

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
        """The identity of this definition: it changes when anything that a person agreed to changes (SPEC T5)."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


class Handling(Struct, frozen=True):
    """How the calls of a tool are handled: what its source knows of it, and a model need not know."""

    placement: Placement | None = None
    """None: an async `run` on the event loop, a plain one on a thread."""
    answered_by: AnsweredBy = "tool"
    suspends: bool = False
    """It does nothing but let its calls wait: nothing is touched before the ledger has them as pending."""
    outlives: bool = False
    """An outcome may still come when this process is gone: the client that was asked can come back (ws.md 6.7 i)."""
    longest: float | UnsetType | None = UNSET
    """Seconds that the engine waits at most, where the tool keeps its own time; unset: the timeout of its spec."""
    asks_itself: bool = False
    """Its permissions are asked for where it runs, by the platform's own prompt, and not by the gateway (SPEC P2)."""
    questions: "Questions | None" = None
    """Asks for its permissions in place of the gateway's own questions."""
    validator: "Validator | None" = None
    """Its parameters, compiled already; None: they are compiled when it is registered."""
    internal: bool = False
    """Hidden from every agent until a skill that is on names it (SPEC C2)."""


PLAIN_HANDLING: Final = Handling()


class Tool(Protocol):
    """Anything with a spec that can be run.

    An async `run` runs on the event loop, a plain one on a worker thread; a `HandledTool` can say otherwise.
    It returns a JSON value (or a `Success` with attachments, or `Pending`), and raises `ToolError` for a failure
    with a code of its own. Any other exception becomes `execution_failed`.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def run(self, arguments: Arguments, ctx: ToolContext) -> Awaitable[Any] | Any: ...


def is_tool(thing: object) -> TypeGuard[Tool]:
    """Whether this is a tool: an object with a spec that can be run, not a class of such objects."""
    return not isinstance(thing, type) and isinstance(getattr(thing, "spec", None), ToolSpec) and hasattr(thing, "run")


@runtime_checkable
class HandledTool(Tool, Protocol):
    """A tool that says itself how its calls are handled. Where the source says it instead, that counts."""

    @property
    def handling(self) -> Handling: ...

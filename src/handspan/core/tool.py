"""What a tool is (SPEC T1): a spec that says what it does, and one verb that does it."""

import hashlib
from collections.abc import Awaitable
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from handspan.core.context import ToolContext
from handspan.core.values import Arguments, JsonObject

DEFAULT_TIMEOUT: Final = 30.0

Placement: TypeAlias = Literal["loop", "thread", "process"]
"""Where a tool's code runs: on the event loop, on a worker thread, or in a worker process of its own."""


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


class Tool(Protocol):
    """Anything with a spec that can be run.

    An async `run` runs on the event loop, a plain one on a worker thread; an attribute `placement` says otherwise.
    It returns a JSON value (or a `Success` with attachments, or `Pending`), and raises `ToolError` for a failure
    with a code of its own. Any other exception becomes `execution_failed`.
    """

    @property
    def spec(self) -> ToolSpec: ...

    def run(self, arguments: Arguments, ctx: ToolContext) -> Awaitable[Any] | Any: ...

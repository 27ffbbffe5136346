"""What supplies tools, and how it does (SPEC R1, R8)."""

import time
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

SourceStatus: TypeAlias = Literal["closed", "opening", "ready", "failed"]


class Broken(Struct, frozen=True):
    """A part of a source that can't be used, such as a file or a tool, and why. The other parts work."""

    where: str
    problem: str


class SourceState(Struct, frozen=True):
    """How a source does."""

    status: SourceStatus = "closed"
    tools: int = 0
    """How many of its tools are registered."""
    reason: str = ""
    """Why it has failed."""
    next_try: float | None = None
    """When it tries again by itself, in seconds since 1970; None: it does not."""
    broken: tuple[Broken, ...] = ()

    def without_details(self) -> "SourceState":
        """The same for people who do not run this gateway."""
        return SourceState(self.status, self.tools, next_try=self.next_try)


class ToolSource(Protocol):
    """A living supplier: keeps its tools in the registry right while it is open.

    `open` does not wait for what may take long, such as a server that starts: a source that needs that goes on in a
    task of its own, registers its tools with `Registry.replace` once it has them, and tells by its state how far it is.
    What fails outside of this process is a state, never an exception; a source that tries again says when.
    """

    @property
    def name(self) -> str:
        """What people call it: `builtin`, `plugins`, or its origin, as in `mcp(git)`."""
        ...

    @property
    def state(self) -> SourceState: ...

    async def open(self) -> None:
        """Begin to supply."""
        ...

    async def close(self) -> None:
        """Take back every tool, and let go of everything."""
        ...


def describe_state(state: SourceState) -> str:
    """The state in one line, for people."""
    text = f"{state.status}, {state.tools} {'tool' if state.tools == 1 else 'tools'}"
    if state.reason:
        text += f": {state.reason.rstrip('.')}"
    return text if state.next_try is None else f"{text}; the next try is in {state.next_try - time.time():.0f} s"


def problem_lines(name: str, state: SourceState) -> list[str]:
    """What is wrong with the source of this name, a line each; nothing when all is well."""
    whole = [] if state.status == "ready" else [f"The source {name!r} is {describe_state(state)}."]
    parts = [f"The source {name!r} skips {broken.where}: {broken.problem.rstrip('.')}." for broken in state.broken]
    return whole + parts

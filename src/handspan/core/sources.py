"""The sources of tools, and their state (SPEC R1, R8)."""

import time
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

SourceStatus: TypeAlias = Literal["closed", "opening", "ready", "failed"]


class Broken(Struct, frozen=True):
    """A part of a source that can't be used, such as a file or a tool, and the reason. The other parts work."""

    where: str
    problem: str


class SourceState(Struct, frozen=True):
    """The state of a source."""

    status: SourceStatus = "closed"
    tools: int = 0
    """The number of its registered tools."""
    reason: str = ""
    """Why it has failed."""
    next_try: float | None = None
    """When it tries again, in seconds since 1970; None: it does not."""
    broken: tuple[Broken, ...] = ()

    def without_details(self) -> "SourceState":
        """Return the state for people who do not run this gateway."""
        return SourceState(self.status, self.tools, next_try=self.next_try)


class ToolSource(Protocol):
    """Supplies tools: while it is open, the registry holds the tools that it has.

    `open` does not wait for slow work, such as the start of a server. A source that needs such work does it in its own
    task, registers its tools with `Registry.replace` when it has them, and shows its progress in its state. A failure
    outside this process is a state, never an exception; a source that tries again says when.
    """

    @property
    def name(self) -> str:
        """Its name for people: `builtin`, `plugins`, or its origin, as in `mcp(git)`."""
        ...

    @property
    def state(self) -> SourceState: ...

    async def open(self) -> None:
        """Begin to supply tools."""
        ...

    async def close(self) -> None:
        """Remove every tool from the registry and free all resources."""
        ...


def describe_state(state: SourceState) -> str:
    """Return the state in one line, for people."""
    text = f"{state.status}, {state.tools} {'tool' if state.tools == 1 else 'tools'}"
    if state.reason:
        text += f": {state.reason.rstrip('.')}"
    return text if state.next_try is None else f"{text}; the next try is in {state.next_try - time.time():.0f} s"


def problem_lines(name: str, state: SourceState) -> list[str]:
    """Return what is wrong with the source of this name, one line each; nothing if all is well."""
    whole = [] if state.status == "ready" else [f"The source {name!r} is {describe_state(state)}."]
    parts = [f"The source {name!r} skips {broken.where}: {broken.problem.rstrip('.')}." for broken in state.broken]
    return whole + parts

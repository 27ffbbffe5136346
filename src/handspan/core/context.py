"""What one call may touch, and until when (SPEC E6). Each call gets its own; tools store nothing of a session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from handspan.core.artifacts import Artifacts
from handspan.core.errors import ToolError
from handspan.core.principals import Principal
from handspan.core.questions import Answer, QuestionAction, QuestionKind, ToolQuestion
from handspan.core.values import Json, JsonObject

if TYPE_CHECKING:  # that module needs this one
    from handspan.core.agents import Mode
    from handspan.core.tool import ToolSpec

Progress: TypeAlias = Callable[[Json], None]
"""Shows partial output or a state to the listeners of the call. Never blocks; any thread may call it."""


class Deadline(Struct, frozen=True, gc=False):
    """A moment on this process's monotonic clock. A wire carries the remaining milliseconds, the store a wall time."""

    at: float
    whose: str
    """Whose limit it is, in words for an error: "the tool's own limit", "the caller's deadline"."""

    def later(self, seconds: float) -> "Deadline":
        """Return this deadline moved by `seconds` that do not count, such as waiting for a person."""
        return Deadline(self.at + seconds, self.whose)


class Person(Protocol):
    """The person for whom a call runs. A tool can ask them while it runs."""

    async def ask(self, tool_question: ToolQuestion) -> tuple[Answer, float]:
        """Return the answer (`expired` if none came in time), and the seconds by which the deadline moved.

        Raises `ToolError` when no person can be asked.
        """
        ...


class NoPerson:
    """Stands in where no person can be asked, for example in a worker process."""

    async def ask(self, tool_question: ToolQuestion) -> tuple[Answer, float]:
        """Raise `ToolError`."""
        raise ToolError("execution_failed", f"The person can't be asked from here: {tool_question.subject}")


NO_PERSON: Final = NoPerson()


class CallerRights(Struct, frozen=True):
    """What the caller may do: for work that it leaves to a later turn (SPEC J2)."""

    agent: str = ""
    mode: "Mode" = "read_only"
    tools: tuple[str, ...] = ()
    """The names of its tools."""


class SearchableTools(Protocol):
    """The tools that the caller may use."""

    @property
    def rights(self) -> CallerRights:
        """What the caller may do now."""
        ...

    async def search(self, text: str, limit: int) -> "Sequence[ToolSpec]":
        """Return the tools that fit these words best, the best first."""
        ...


class NoTools:
    """Stands in where the caller's tools are not known, for example in a worker process."""

    rights: Final = CallerRights()

    async def search(self, text: str, limit: int) -> "Sequence[ToolSpec]":
        """Return none."""
        return ()


NO_TOOLS: Final = NoTools()


def not_elsewhere() -> bool:
    """Return False: for callers whose work no other process continues."""
    return False


class ToolContext(Struct, gc=False):
    """What one call may touch."""

    call_id: str
    who: Principal
    session: str
    deadline: Deadline | None
    """When the call will be stopped."""
    progress: Progress
    artifacts: Artifacts
    workspace: Path
    """The folder that file tools work in."""
    person: Person = NO_PERSON
    answer: Json = None
    """What the person answered before the call ran, for a tool that says by `Handling.asks` what to ask."""
    tools: SearchableTools = NO_TOOLS
    stays_open: Callable[[], bool] = not_elsewhere
    """Whether the call stays open when it is cancelled now: another process gets its outcome."""

    async def ask(
        self,
        kind: QuestionKind,
        subject: str,
        *,
        schema: JsonObject | None = None,
        action: QuestionAction | None = None,
        expires_in: float | None = None,
        for_admin: bool = False,
    ) -> Answer:
        """Ask the person for whom this call runs. The answer may be a no, or `expired` after `expires_in` seconds.

        `input` needs a schema, and the answer's `value` fits it; `login` and `trust` need an action. `for_admin`: only
        a client with the scope `admin` may answer. The deadline moves by the time that the person takes. Raises
        `ToolError` when no person can be asked.
        """
        answer, waited = await self.person.ask(
            ToolQuestion(kind, subject, schema, action, expires_in=expires_in, for_admin=for_admin)
        )
        if self.deadline is not None:
            self.deadline = self.deadline.later(waited)
        return answer


def no_progress(_: Json) -> None:
    """Drop the progress: for calls without a listener."""
